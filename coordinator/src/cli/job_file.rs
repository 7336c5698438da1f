//! What a job consists of, given as options, as a file, or both.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use serde::Deserialize;
use shockwave_proto::v1;
use shockwave_proto::v1::declaration::Policy;

use super::connect::CliError;

/// A job's terms: options of `submit`, and the keys of a job file.
#[derive(Clone, Debug, Default, Args, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobTerms {
    /// Program and arguments of a job file.
    #[arg(skip)]
    #[serde(default)]
    pub command: Vec<String>,
    /// Variables of a job file.
    #[arg(skip)]
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Name for people [default: the program and its first argument]
    #[arg(long)]
    pub name: Option<String>,
    /// Devices that it needs together [default: 1]
    #[arg(long)]
    pub gpus: Option<u32>,
    /// Processes to start; each gets its share of the devices and torchrun's variables [default: 1]
    #[arg(long)]
    pub workers: Option<u32>,
    /// Kind of device that it needs, as `shockwave cluster` names it
    #[arg(long, value_name = "KIND")]
    pub device_kind: Option<String>,
    /// Memory that each of its devices must have, bytes
    #[arg(long, value_name = "BYTES")]
    pub device_memory_bytes: Option<u64>,
    /// Market budget relative to other jobs [default: 1]
    #[arg(long)]
    pub weight: Option<f64>,
    /// Time between a request to yield and the kill, seconds [default: the coordinator's]
    #[arg(long, value_name = "SECONDS")]
    pub grace_s: Option<f64>,
    /// Longest service time before it is stopped, seconds
    #[arg(long, value_name = "SECONDS")]
    pub time_limit_s: Option<f64>,
    /// How often it is started again after a failure [default: 0]
    #[arg(long)]
    pub retries: Option<u32>,
    /// Job that must be finished first (repeatable); it ends with it when that one fails
    #[arg(long, value_name = "JOB")]
    #[serde(default)]
    pub after: Vec<u64>,
    /// Hand it in on hold, until `shockwave release`
    #[arg(long)]
    #[serde(default)]
    pub hold: bool,
    /// Folder to start in [default: the current one]
    #[arg(long, value_name = "DIR")]
    pub workdir: Option<PathBuf>,
    /// Folder for its checkpoints [default: one in the coordinator's state folder]
    #[arg(long, value_name = "DIR")]
    pub checkpoint_dir: Option<PathBuf>,
    /// Hand in one job for each index: COUNT or FIRST-LAST; each finds its own in
    /// SHOCKWAVE_ARRAY_INDEX
    #[arg(long, value_name = "RANGE")]
    pub array: Option<String>,
    /// What is declared beforehand; the SDK declares the rest when the job starts.
    #[command(flatten)]
    #[serde(default)]
    pub declaration: DeclarationTerms,
}

/// Batch size policies that can be declared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PolicyKind {
    /// The batch size never changes.
    Static,
    /// Between --batch and --batch-max, either way.
    Accordion,
    /// From --batch up to --batch-max.
    Gns,
}

/// What a user may declare beforehand: options, and the table `declaration` of a job file.
#[derive(Clone, Debug, Default, Args, Deserialize)]
#[command(next_help_heading = "Declared beforehand (the SDK declares it by itself)")]
#[serde(deny_unknown_fields)]
pub struct DeclarationTerms {
    /// How the batch size may change [default: static]
    #[arg(long, value_enum)]
    pub policy: Option<PolicyKind>,
    /// Epochs that it will train
    #[arg(long)]
    pub epochs: Option<u32>,
    /// Samples in an epoch
    #[arg(long)]
    pub samples_per_epoch: Option<u64>,
    /// Batch size of the first epoch, samples
    #[arg(long)]
    pub batch: Option<u32>,
    /// Largest batch size, samples
    #[arg(long)]
    pub batch_max: Option<u32>,
    /// Model and data set: jobs of one family share what was learnt
    #[arg(long)]
    pub family: Option<String>,
}

impl JobTerms {
    /// Reads a job file: TOML, or JSON when its name ends in `.json`.
    ///
    /// # Errors
    /// Names the file, the key and what would be right.
    pub fn read(path: &Path) -> Result<Self, CliError> {
        let name = |what: &dyn std::fmt::Display| {
            CliError::Usage(format!("--file {}: {what}", path.display()))
        };
        let text = std::fs::read_to_string(path).map_err(|error| name(&error))?;
        if path.extension().is_some_and(|it| it == "json") {
            let value = serde_json::from_str(&text);
            value.map_err(|error| name(&plain_words(&error.to_string())))
        } else {
            toml::from_str(&text).map_err(|error| name(&plain_words(&error.to_string())))
        }
    }

    /// These terms, and where they say nothing those of `file`.
    #[must_use]
    pub fn over(self, file: Self) -> Self {
        let declared = (self.declaration, file.declaration);
        Self {
            command: if self.command.is_empty() { file.command } else { self.command },
            env: file.env.into_iter().chain(self.env).collect(),
            name: self.name.or(file.name),
            gpus: self.gpus.or(file.gpus),
            workers: self.workers.or(file.workers),
            device_kind: self.device_kind.or(file.device_kind),
            device_memory_bytes: self.device_memory_bytes.or(file.device_memory_bytes),
            weight: self.weight.or(file.weight),
            grace_s: self.grace_s.or(file.grace_s),
            time_limit_s: self.time_limit_s.or(file.time_limit_s),
            retries: self.retries.or(file.retries),
            after: if self.after.is_empty() { file.after } else { self.after },
            hold: self.hold || file.hold,
            workdir: self.workdir.or(file.workdir),
            checkpoint_dir: self.checkpoint_dir.or(file.checkpoint_dir),
            array: self.array.or(file.array),
            declaration: DeclarationTerms {
                policy: declared.0.policy.or(declared.1.policy),
                epochs: declared.0.epochs.or(declared.1.epochs),
                samples_per_epoch: declared.0.samples_per_epoch.or(declared.1.samples_per_epoch),
                batch: declared.0.batch.or(declared.1.batch),
                batch_max: declared.0.batch_max.or(declared.1.batch_max),
                family: declared.0.family.or(declared.1.family),
            },
        }
    }

    /// The indices of an array; `None` for a single job.
    ///
    /// # Errors
    /// Names the range and what would be right.
    pub fn indices(&self) -> Result<Option<std::ops::RangeInclusive<u32>>, CliError> {
        let Some(text) = &self.array else { return Ok(None) };
        let wrong = || {
            CliError::Usage(format!(
                "--array is {text:?}, expected COUNT or FIRST-LAST with 1 to {ARRAY_MAX} jobs"
            ))
        };
        let number = |text: &str| text.parse::<u32>().map_err(|_| wrong());
        let (first, last) = match text.split_once('-') {
            Some((first, last)) => (number(first)?, number(last)?),
            None => (0, number(text)?.checked_sub(1).ok_or_else(wrong)?),
        };
        if last < first || last - first >= ARRAY_MAX {
            return Err(wrong());
        }
        Ok(Some(first..=last))
    }
}

/// A parser's message in the words of whoever wrote the file.
fn plain_words(message: &str) -> String {
    const WORDS: [(&str, &str); 22] = [
        ("invalid type: string ", "it is the text "),
        ("invalid type: integer ", "it is the number "),
        ("invalid type: floating point ", "it is the number "),
        ("invalid type: boolean ", "it is the truth value "),
        ("invalid type: sequence", "it is a list"),
        ("invalid type: map", "it is a table"),
        ("invalid type: null", "it is null"),
        ("invalid value: integer ", "it is the number "),
        ("invalid value: string ", "it is the text "),
        ("expected a sequence", "expected a list of texts, such as [\"python3\", \"train.py\"]"),
        ("expected a boolean", "expected true or false"),
        ("expected a string", "expected a text in quotes"),
        ("expected a map", "expected a table"),
        ("expected struct JobTerms", "expected a job's keys"),
        ("expected struct DeclarationTerms", "expected a declaration's keys"),
        ("expected path string", "expected a path in quotes"),
        ("expected string or map", "expected a text in quotes"),
        ("expected u32", "expected a whole number from 0 to 4294967295"),
        ("expected u64", "expected a whole number, 0 or more"),
        ("expected f64", "expected a number"),
        ("unknown field", "there is no key"),
        ("unknown variant", "there is no choice"),
    ];
    WORDS.iter().fold(message.trim_end().to_owned(), |text, (from, to)| text.replace(from, to))
}

/// Most jobs of one array.
const ARRAY_MAX: u32 = 1000;

impl DeclarationTerms {
    /// The declaration as the coordinator takes it; `None` where nothing is declared.
    ///
    /// # Errors
    /// Names what is missing or contradicts itself.
    pub fn declaration(&self) -> Result<Option<v1::Declaration>, CliError> {
        let Some(epochs_total) = self.epochs else {
            let said = [
                ("--policy", self.policy.is_some()),
                ("--samples-per-epoch", self.samples_per_epoch.is_some()),
                ("--batch", self.batch.is_some()),
                ("--batch-max", self.batch_max.is_some()),
                ("--family", self.family.is_some()),
            ];
            return match said.iter().find(|(_, is_said)| *is_said) {
                Some((option, _)) => Err(CliError::Usage(format!("{option} also needs --epochs"))),
                None => Ok(None),
            };
        };
        let need = |what: &str| CliError::Usage(format!("--epochs also needs {what}"));
        let samples_per_epoch =
            self.samples_per_epoch.ok_or_else(|| need("--samples-per-epoch"))?;
        let batch = self.batch.ok_or_else(|| need("--batch"))?;
        let max = self.batch_max.unwrap_or(batch);
        if max < batch {
            let sentence = format!("--batch-max {max} is below --batch {batch}");
            return Err(CliError::Usage(sentence));
        }
        let policy = match self.policy.unwrap_or(PolicyKind::Static) {
            PolicyKind::Static => Policy::Static(v1::Static {}),
            PolicyKind::Accordion => Policy::Accordion(v1::Accordion { small: batch, large: max }),
            PolicyKind::Gns => Policy::Gns(v1::Gns { initial: batch, max }),
        };
        Ok(Some(v1::Declaration {
            epochs_total,
            samples_per_epoch,
            initial_batch: batch,
            family: self.family.clone().unwrap_or_default(),
            policy: Some(policy),
        }))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn read(name: &str, text: &str) -> Result<JobTerms, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        JobTerms::read(&path).map_err(|error| error.to_string())
    }

    #[test]
    fn toml_and_json_say_the_same_and_options_win() {
        let toml = "command = [\"train\", \"--lr\", \"1\"]\ngpus = 2\nafter = [3]\n\
                    [env]\nA = \"b\"\n[declaration]\nepochs = 9\n";
        let json = r#"{"command": ["train", "--lr", "1"], "gpus": 2, "after": [3],
                       "env": {"A": "b"}, "declaration": {"epochs": 9}}"#;
        for (name, text) in [("job.toml", toml), ("job.json", json)] {
            let terms = read(name, text).unwrap();
            let asked = JobTerms { gpus: Some(4), ..JobTerms::default() };
            let merged = asked.over(terms);
            assert_eq!(merged.command, ["train", "--lr", "1"]);
            assert_eq!(merged.env["A"], "b");
            assert_eq!((merged.gpus, merged.after), (Some(4), vec![3]));
            assert_eq!(merged.declaration.epochs, Some(9));
        }
    }

    #[test]
    fn a_wrong_file_is_answered_with_the_key() {
        for (text, expected) in [
            ("command = [\"a\"]\ngpu = 2\n", "gpu"),
            ("command = [\"a\"]\ngpus = \"two\"\n", "gpus"),
            (
                "command = [\"a\"]\ngpus = \"two\"\n",
                "it is the text \"two\", expected a whole number from 0",
            ),
            ("command = [\"a\"]\ngpus = -1\n", "it is the number `-1`, expected a whole number"),
            ("command = [\"a\"]\nweight = []\n", "it is a list, expected a number"),
            ("command = [\"a\"]\nhold = 1\n", "expected true or false"),
            ("command = [\"a\"]\nname = 7\n", "expected a text in quotes"),
            ("command = \"a\"\n", "it is the text \"a\", expected a list of texts"),
            ("command = \"a\"\n", "command"),
            ("command = [\"a\"]\n[declaration]\nepoch = 1\n", "epoch"),
            ("command = [", "job.toml"),
        ] {
            let error = read("job.toml", text).unwrap_err();
            assert!(error.contains("job.toml") && error.contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn ranges_of_arrays() {
        let indices = |text: &str| {
            let terms = JobTerms { array: Some(text.into()), ..JobTerms::default() };
            terms.indices().map(|range| range.unwrap().collect::<Vec<_>>())
        };
        assert_eq!(indices("3").unwrap(), [0, 1, 2]);
        assert_eq!(indices("2-4").unwrap(), [2, 3, 4]);
        for wrong in ["0", "4-2", "a", "0-1000", "", "1-"] {
            assert!(indices(wrong).unwrap_err().to_string().contains("--array"), "{wrong}");
        }
    }
}
