//! What is handed to sbatch: options as words (no shell sees them) and a script of one line.

use std::path::{Path, PathBuf};

use super::settings::Pool;

/// What every Slurm job of this coordinator is told.
#[derive(Clone, Debug)]
pub struct Site {
    /// Address of the coordinator.
    pub address: String,
    /// Authority that signed its certificate, on the shared folder.
    pub authority: Option<PathBuf>,
    /// Folder of the jobs.
    pub jobs_dir: PathBuf,
    /// The program of the coordinator itself.
    pub program: PathBuf,
}

impl Site {
    /// Where Slurm jobs have their folders: `.slurm` in the jobs' folder.
    #[must_use]
    pub fn folder(&self) -> PathBuf {
        self.jobs_dir.join(".slurm")
    }

    fn program(&self, pool: &Pool) -> PathBuf {
        if pool.program.as_os_str().is_empty() {
            self.program.clone()
        } else {
            pool.program.clone()
        }
    }
}

/// One Slurm job to be asked for.
#[derive(Clone, Debug)]
pub struct Ask<'a> {
    /// Its pool.
    pub pool: &'a Pool,
    /// Its name.
    pub name: &'a str,
    /// Its folder.
    pub folder: &'a Path,
    /// Devices of one node.
    pub devices: u32,
    /// Hosts that it must not be on.
    pub exclude: &'a [String],
    /// Account; empty: the user's default.
    pub account: &'a str,
    /// What Slurm's accounting shows beside it; empty: nothing.
    pub comment: &'a str,
}

/// Options of sbatch.
#[must_use]
pub fn options(ask: &Ask<'_>) -> Vec<String> {
    let pool = ask.pool;
    let minutes = (pool.walltime_s / 60.0).ceil() as u64;
    let warning_s = pool.warning_s.ceil() as u64;
    let mut options = vec![
        format!("--job-name={}", ask.name),
        "--nodes=1".into(),
        "--ntasks=1".into(),
        // A round never ends by requeueing: what comes back would carry an old lease.
        "--no-requeue".into(),
        "--open-mode=append".into(),
        "--chdir=/".into(),
        "--input=/dev/null".into(),
        format!("--output={}", ask.folder.join("log").display()),
        format!("--time={minutes}"),
        // USR1 would collide with NCCL.
        format!("--signal=B:USR2@{warning_s}"),
    ];
    let gres = pool.gres_for(ask.devices);
    let cpus = match pool.cpus_for(ask.devices) {
        0 => String::new(),
        cpus => cpus.to_string(),
    };
    let memory = pool.memory_for(ask.devices).unwrap_or_default();
    let exclude = ask.exclude.join(",");
    let given = [
        ("partition", pool.partition.as_str()),
        ("account", ask.account),
        ("qos", &pool.qos),
        ("constraint", &pool.constraint),
        ("gres", &gres),
        ("cpus-per-task", &cpus),
        ("mem", &memory),
        ("comment", ask.comment),
        ("exclude", &exclude),
    ];
    let given = given.into_iter().filter(|(_, value)| !value.is_empty());
    options.extend(given.map(|(name, value)| format!("--{name}={value}")));
    options.extend(pool.options.iter().cloned());
    options
}

/// The script: the agent in its place.
#[must_use]
pub fn agent(site: &Site, ask: &Ask<'_>) -> String {
    let (pool, name, folder) = (ask.pool, ask.name, ask.folder);
    let scratch = match pool.scratch.as_os_str().is_empty() {
        true => folder.join("agent"),
        false => pool.scratch.join(name),
    };
    let devices = match pool.devices.as_str() {
        "slurm" => "\"gpu:${CUDA_VISIBLE_DEVICES:-$SLURM_JOB_GPUS}\"".to_owned(),
        // A lease's part of the slots, in the mode that asks for one.
        list if list.starts_with("cpu:") && ask.devices != pool.devices_per_node => {
            quote(&format!("cpu:{}", ask.devices))
        }
        list => quote(list),
    };
    let path = |path: &Path| quote(&path.display().to_string());
    let mut words = vec![
        path(&site.program(pool)),
        "agent --pilot".into(),
        format!("--warning-s {}", pool.warning_s),
        format!("--walltime-s {}", pool.walltime_s - pool.warning_s),
        format!("--coordinator {}", quote(&site.address)),
        format!("--token-file {}", path(&folder.join("token"))),
        format!("--node \"${{SLURMD_NODENAME:-$(hostname)}}.\"{}", quote(name)),
        format!("--devices {devices}"),
        format!("--jobs {}", path(&site.jobs_dir)),
        format!("--folder {}", path(&scratch)),
    ];
    if let Some(authority) = &site.authority {
        words.push(format!("--authority {}", path(authority)));
    }
    format!("#!/bin/sh\nexec {}\n", words.join(" "))
}

/// One word for a shell.
fn quote(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site() -> Site {
        Site {
            address: "https://head:7433".into(),
            authority: Some("/shared/jobs/.slurm/ca.pem".into()),
            jobs_dir: "/shared/it's jobs".into(),
            program: "/opt/shockwave".into(),
        }
    }

    fn ask<'a>(pool: &'a Pool, folder: &'a str, devices: u32) -> Ask<'a> {
        Ask {
            pool,
            name: "sw1-low-ab",
            folder: Path::new(folder),
            devices,
            exclude: &[],
            account: &pool.account,
            comment: "",
        }
    }

    #[test]
    fn the_script_quotes_what_it_is_given() {
        let pool = Pool { name: "low".into(), devices_per_node: 4, ..Pool::default() };
        let script = agent(&site(), &ask(&pool, "/f/sw1-low-ab", 4));
        let expected = "#!/bin/sh\nexec '/opt/shockwave' agent --pilot --warning-s 60 --walltime-s \
            14340 --coordinator 'https://head:7433' --token-file '/f/sw1-low-ab/token' --node \
            \"${SLURMD_NODENAME:-$(hostname)}.\"'sw1-low-ab' --devices \
            \"gpu:${CUDA_VISIBLE_DEVICES:-$SLURM_JOB_GPUS}\" --jobs '/shared/it'\\''s jobs' \
            --folder '/f/sw1-low-ab/agent' --authority '/shared/jobs/.slurm/ca.pem'\n";
        assert_eq!(script, expected);
    }

    #[test]
    fn options_are_words() {
        let pool = Pool {
            name: "low".into(),
            partition: "preempt".into(),
            devices_per_node: 4,
            account: "ml".into(),
            gres_type: "a100".into(),
            cpus_per_node: 32,
            memory: "200G".into(),
            options: vec!["--exclusive".into()],
            walltime_s: 100.0,
            warning_s: 30.5,
            ..Pool::default()
        };
        let exclude = ["n1".to_owned(), "n2".to_owned()];
        let given = options(&Ask { exclude: &exclude, ..ask(&pool, "/f", 4) });
        let expected = [
            "--job-name=sw1-low-ab",
            "--nodes=1",
            "--ntasks=1",
            "--no-requeue",
            "--open-mode=append",
            "--chdir=/",
            "--input=/dev/null",
            "--output=/f/log",
            "--time=2",
            "--signal=B:USR2@31",
            "--partition=preempt",
            "--account=ml",
            "--gres=gpu:a100:4",
            "--cpus-per-task=32",
            "--mem=200G",
            "--exclude=n1,n2",
            "--exclusive",
        ];
        assert_eq!(given, expected);
        let part = options(&Ask { account: "ada", comment: "job 7", ..ask(&pool, "/f", 1) });
        for word in [
            "--account=ada",
            "--gres=gpu:a100:1",
            "--cpus-per-task=8",
            "--mem=51200M",
            "--comment=job 7",
        ] {
            assert!(part.iter().any(|it| it == word), "{word}: {part:?}");
        }
    }
}
