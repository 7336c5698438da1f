//! `shockwave top`: jobs and devices, again and again.

use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use shockwave_proto::v1::ClusterRequest;

use super::connect::{CliError, Client, CoordinatorArgs, run_async};
use super::{cluster, jobs, json, table};

/// Shows jobs and devices, again and again
#[derive(Debug, Args)]
pub struct TopArgs {
    /// Time between two looks, seconds
    #[arg(long, default_value_t = 2.0)]
    pub every_s: f64,
    /// How many looks [default: until interrupted]
    #[arg(long)]
    pub count: Option<u64>,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub coordinator: CoordinatorArgs,
}

/// Runs the command.
pub(super) fn run(args: &TopArgs) -> ExitCode {
    run_async(async {
        let pause = Duration::try_from_secs_f64(args.every_s)
            .map_err(|_| CliError::Usage(format!("--every-s is {}", args.every_s)))?;
        let mut client = args.coordinator.connect().await?;
        let mut left = args.count.unwrap_or(u64::MAX);
        while left > 0 {
            look(&mut client, &args.coordinator).await?;
            left -= 1;
            if left > 0 {
                tokio::time::sleep(pause.max(Duration::from_millis(100))).await;
            }
        }
        Ok(ExitCode::SUCCESS)
    })
}

async fn look(client: &mut Client, args: &CoordinatorArgs) -> Result<(), CliError> {
    let listed = jobs::fetch(client, false).await?;
    if args.json {
        return json::print("jobs", &listed);
    }
    let machines = client.cluster(ClusterRequest {}).await?.into_inner();
    // Clears the screen, where there is one.
    let clear = if std::io::stdout().is_terminal() { "\x1b[2J\x1b[H" } else { "" };
    let machines = cluster::table_of(machines);
    table::print(&format!("{clear}{}\n\n{machines}\n", jobs::render(&listed)))
}
