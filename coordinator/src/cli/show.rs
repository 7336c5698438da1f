//! `shockwave show`: everything about one job.

use std::process::ExitCode;

use clap::Args;
use shockwave_proto::v1::ShowJobRequest;

use super::connect::{CliError, CoordinatorArgs, run_async};
use super::json::{self, Job};
use super::table::{self, duration};

/// Shows everything about one job
#[derive(Debug, Args)]
pub struct ShowArgs {
    /// Number of the job
    pub id: u64,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub coordinator: CoordinatorArgs,
}

/// Runs the command.
pub(super) fn run(args: &ShowArgs) -> ExitCode {
    run_async(show(args))
}

async fn show(args: &ShowArgs) -> Result<ExitCode, CliError> {
    let mut client = args.coordinator.connect().await?;
    let info = client.show_job(ShowJobRequest { job_id: args.id }).await?.into_inner();
    let job = Job::from(info);
    if args.coordinator.json {
        json::print("job", &job)?;
    } else {
        table::print(&render(&job))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn render(job: &Job) -> String {
    let mut lines = vec![format!("job {} ({}) of {}", job.id, job.name, job.user)];
    let mut line = |name: &str, value: String| {
        lines.push(format!("  {name:<13}{}", table::one_line(&value)));
    };
    let reason = if job.reason.is_empty() { String::new() } else { format!(": {}", job.reason) };
    line("state", format!("{}{reason}", job.state));
    line("command", job.command.join(" "));
    line(
        "devices",
        match job.devices.as_slice() {
            [] => format!("none of {} now", job.gpus),
            devices => devices.join(", "),
        },
    );
    if let (Some(policy), Some(epochs)) = (job.policy, job.epochs) {
        line("policy", policy.to_owned());
        line("epochs", format!("{:.2} of {epochs}", job.epochs_done));
    }
    if !job.regimes.is_empty() {
        let regime = |it: &json::Regime| match it.epoch_s {
            Some(epoch_s) => format!("{} x {:.2} epochs of {epoch_s:.2} s", it.batch, it.epochs),
            None => format!("{} x {:.2} epochs", it.batch, it.epochs),
        };
        line("batch sizes", job.regimes.iter().map(regime).collect::<Vec<_>>().join(", "));
    }
    line("leases", format!("{}, preempted {} times", job.leases, job.preemptions));
    line("service", duration(job.attained_s));
    if let Some(rho) = job.rho {
        let said = match (rho <= 1.0, job.rho_says_little) {
            (true, _) => " (fair)",
            (false, true) => {
                " (says little: less than two rounds of service, waiting for a round weighs most)"
            }
            (false, false) => " (above 1: slower than with an equal share)",
        };
        line("rho", format!("{rho:.3}{said}"));
    }
    if let Some(jct_s) = job.jct_s {
        line("took", duration(jct_s));
    } else if let Some(eta) = &job.eta {
        let range = format!("{} to {}", duration(eta.low_s), duration(eta.high_s));
        line("ends in", format!("{} (four in five: {range})", duration(eta.mean_s)));
    }
    if let Some(checkpoint) = &job.checkpoint {
        line("checkpoint", format!("step {} in {}", checkpoint.step, checkpoint.uri));
    }
    for (name, value) in &job.metrics {
        line("metric", format!("{name} = {value}"));
    }
    if let Some(failure) = &job.last_failure {
        line("last trouble", failure.clone());
    }
    if let Some(code) = job.exit_code {
        line("exit code", code.to_string());
    }
    lines.join("\n")
}
