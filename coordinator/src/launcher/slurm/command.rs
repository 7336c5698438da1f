//! Slurm's own commands, each with a time limit. What they say is an observation, and a failure of
//! theirs says nothing of the jobs.

use std::process::Stdio;
use std::time::Duration;

use shockwave_proto::env;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

use super::queue::{self, Queue};

/// Longest time that a command may take. A controller that is busy answers late.
const PATIENCE: Duration = Duration::from_secs(60);
/// Most bytes of a command's complaint that are repeated.
const COMPLAINT_BYTES_MAX: usize = 400;

/// A command that did not do what it should.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{program}: {what}")]
pub struct CommandError {
    /// Which.
    pub program: &'static str,
    /// What it said.
    pub what: String,
}

/// How jobs are listed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Form {
    /// Not tried yet.
    #[default]
    Unknown,
    /// `squeue --json`.
    Json,
    /// `squeue -o`, for a Slurm without the JSON plug-in.
    Table,
}

/// Slurm, by its commands.
#[derive(Debug, Default)]
pub struct Slurm {
    form: Form,
}

impl Slurm {
    /// This user's jobs, the ended ones that Slurm still knows included.
    ///
    /// # Errors
    /// Slurm does not answer; nothing follows from that.
    pub async fn queue(&mut self) -> Result<Queue, CommandError> {
        // SAFETY: plain system call without arguments.
        let user = format!("--user={}", unsafe { libc::getuid() });
        if self.form != Form::Table {
            let said = run("squeue", &["--json", "--states=all", &user], None).await;
            match said.map(|text| queue::parse_json(&text)) {
                Ok(Ok(queue)) => {
                    self.form = Form::Json;
                    return Ok(queue);
                }
                Err(error) if self.form == Form::Json => return Err(error),
                Ok(Err(_)) | Err(_) => {}
            }
        }
        let format = format!("--format={}", queue::FORMAT);
        let said = run("squeue", &["--noheader", "--states=all", &user, &format], None).await?;
        self.form = Form::Table;
        Ok(queue::parse_table(&said))
    }

    /// Hands a batch script in.
    ///
    /// # Errors
    /// What Slurm says. The job may be there all the same: only [`Self::queue`] tells.
    pub async fn submit(&self, options: &[String], script: &str) -> Result<(), CommandError> {
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        run("sbatch", &options, Some(script)).await.map(drop)
    }

    /// Ends a job by its name: a number may mean another job by now.
    ///
    /// # Errors
    /// What Slurm says.
    pub async fn cancel(&self, name: &str) -> Result<(), CommandError> {
        // SAFETY: plain system call without arguments.
        let user = format!("--user={}", unsafe { libc::getuid() });
        run("scancel", &[&user, &format!("--name={name}")], None).await.map(drop)
    }
}

async fn run(
    program: &'static str,
    arguments: &[&str],
    input: Option<&str>,
) -> Result<String, CommandError> {
    let wrong = |what: String| CommandError { program, what };
    let cannot = |error: std::io::Error| wrong(format!("cannot be run: {error}"));
    let mut child = Command::new(program)
        .args(arguments)
        .env_remove(env::TOKEN)
        .stdin(if input.is_some() { Stdio::piped() } else { Stdio::null() })
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(cannot)?;
    if let (Some(text), Some(mut stdin)) = (input, child.stdin.take()) {
        // A command that refuses at once does not read; its complaint says more than that.
        let _ = stdin.write_all(text.as_bytes()).await;
    }
    let ended = tokio::time::timeout(PATIENCE, child.wait_with_output()).await;
    let output = ended
        .map_err(|_| wrong(format!("no answer within {} s", PATIENCE.as_secs())))?
        .map_err(cannot)?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let mut said = String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; ");
    if said.len() > COMPLAINT_BYTES_MAX {
        let end = (0..=COMPLAINT_BYTES_MAX).rev().find(|end| said.is_char_boundary(*end));
        said.truncate(end.unwrap_or(0));
    }
    Err(wrong(format!("{}: {said}", output.status)))
}
