//! The command line: one file per command.
//!
//! Exit codes: 0 done, 1 failed (or, for `wait`, a job did not finish), 2 wrong usage or bad input,
//! 3 the coordinator cannot be reached.

mod agent;
mod cancel;
mod certificate;
mod check_config;
pub(crate) mod cluster;
mod completions;
pub mod connect;
mod doctor;
mod events;
mod explain;
mod fairness;
mod follow;
mod govern;
mod job_file;
mod jobs;
pub mod json;
mod limits;
mod live_plan;
mod logs;
mod machine;
mod runner;
mod serve;
mod serve_settings;
mod show;
mod snapshot;
mod submit;
mod table;
mod timeline;
mod token;
mod top;
mod wait;
mod whatif;

mod compare;
mod plan;
mod playing;
mod reproduce;
mod simulate;
mod trace;

use std::process::ExitCode;

pub use job_file::JobTerms;
pub use limits::LimitSettings;
pub use serve_settings::ServeSettings;

use clap::{Parser, Subcommand};

/// Shares GPUs fairly and fast among training jobs that change their own batch size.
#[derive(Debug, Parser)]
#[command(name = "shockwave", version)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Plays a trace against a policy in virtual time.
    Simulate(simulate::SimulateArgs),
    /// Plays a trace against several policies and compares them.
    Compare(compare::CompareArgs),
    /// Runs the paper's evaluation and writes evaluation.md with its pictures.
    #[command(hide = true)]
    Reproduce(reproduce::ReproduceArgs),
    /// Generates and converts traces.
    Trace(trace::TraceArgs),
    /// Runs the coordinator, with an agent for this machine.
    Serve(Box<serve::ServeArgs>),
    /// Offers this machine's devices to a coordinator elsewhere.
    Agent(agent::AgentArgs),
    /// Hands a job in: a program that trains with the SDK, or any command.
    Submit(Box<submit::SubmitArgs>),
    /// Lists jobs.
    Jobs(jobs::JobsArgs),
    /// Shows everything about one job.
    Show(show::ShowArgs),
    /// Shows the plan that the coordinator is carrying out, or plans an instance of your own.
    Plan(plan::PlanArgs),
    /// Prints what a job printed.
    Logs(logs::LogsArgs),
    /// Ends jobs; their processes get their grace.
    Cancel(cancel::CancelArgs),
    /// Waits until jobs have ended; fails when one of them did not finish.
    Wait(wait::WaitArgs),
    /// Keeps jobs back until they are released.
    Hold(govern::HoldArgs),
    /// Lets jobs run that were kept back.
    Release(govern::HoldArgs),
    /// Changes a job's market budget.
    Weight(govern::WeightArgs),
    /// Says why a job runs or waits, and what would change that.
    Explain(explain::ExplainArgs),
    /// Says when a job ends, with an interval.
    Eta(explain::ExplainArgs),
    /// Plays the live state on in the simulator, as it is and with something different.
    Whatif(whatif::WhatIfArgs),
    /// Shows who got how much of the devices, and how fairly.
    Fairness(fairness::FairnessArgs),
    /// Shows the machines and what runs on them.
    Cluster(cluster::ClusterArgs),
    /// Starts nothing new on a machine; what runs there yields.
    Drain(cluster::DrainArgs),
    /// Uses a drained machine again.
    Resume(cluster::DrainArgs),
    /// Prints the durable log, one JSON object a line.
    Events(events::EventsArgs),
    /// Draws who ran when, and with which batch size.
    Timeline(timeline::TimelineArgs),
    /// Makes, lists and revokes tokens.
    Token(token::TokenArgs),
    /// Sets a user's budget and cap.
    User(token::UserArgs),
    /// Shows jobs and devices, again and again.
    Top(top::TopArgs),
    /// Looks for what is usually wrong.
    Doctor(doctor::DoctorArgs),
    /// Makes certificates for a coordinator that other machines reach.
    Certificate(certificate::CertificateArgs),
    /// Checks a settings file without starting anything.
    CheckConfig(check_config::CheckConfigArgs),
    /// Copies the store while the coordinator runs.
    Snapshot(snapshot::SnapshotArgs),
    /// Prints a shell's completions of this program's commands and options.
    Completions(completions::CompletionsArgs),
    /// Writes the manual pages of all commands.
    Man(completions::ManArgs),
    /// Keeps one lease's training processes; started by the agent, not by hand.
    #[command(hide = true)]
    Runner(runner::RunnerArgs),
}

/// Runs one command and maps its error to an exit code.
#[must_use]
pub fn run(cli: Cli) -> ExitCode {
    match cli.command {
        Command::Plan(args) => plan::run(&args),
        Command::Simulate(args) => simulate::run(&args),
        Command::Compare(args) => compare::run(&args),
        Command::Reproduce(args) => reproduce::run(&args),
        Command::Trace(args) => trace::run(&args),
        Command::Serve(args) => serve::run(&args),
        Command::Agent(args) => agent::run(&args),
        Command::Submit(args) => submit::run(&args),
        Command::Jobs(args) => jobs::run(&args),
        Command::Show(args) => show::run(&args),
        Command::Logs(args) => logs::run(&args),
        Command::Cancel(args) => cancel::run(&args),
        Command::Wait(args) => wait::run(&args),
        Command::Hold(args) => govern::hold(&args, true),
        Command::Release(args) => govern::hold(&args, false),
        Command::Weight(args) => govern::weight(&args),
        Command::Explain(args) => explain::run(&args),
        Command::Eta(args) => explain::eta(&args),
        Command::Whatif(args) => whatif::run(&args),
        Command::Fairness(args) => fairness::run(&args),
        Command::Cluster(args) => cluster::run(&args),
        Command::Drain(args) => cluster::drain(&args, true),
        Command::Resume(args) => cluster::drain(&args, false),
        Command::Events(args) => events::run(&args),
        Command::Timeline(args) => timeline::run(&args),
        Command::Token(args) => token::run(&args),
        Command::User(args) => token::user(&args),
        Command::Top(args) => top::run(&args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Certificate(args) => certificate::run(&args),
        Command::CheckConfig(args) => check_config::run(&args),
        Command::Snapshot(args) => snapshot::run(&args),
        Command::Completions(args) => completions::run(&args),
        Command::Man(args) => completions::man(&args),
        Command::Runner(args) => runner::run(&args),
    }
}
