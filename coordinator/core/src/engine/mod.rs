//! The scheduler as a state machine: events in, actions out.
//!
//! The driver (the service's shell, or the simulator with its virtual clock) feeds every fact as an
//! [`Event`] and carries out every [`Action`]. All of it is serialisable, so that a log of events
//! with their times, replayed on the same settings, gives the same actions and plans (P6).

mod action;
mod clock;
mod cluster;
mod contention;
mod dispatch;
mod eta;
mod event;
mod exchange;
mod explain;
mod job;
mod lease;
mod on_job;
mod on_lease;
mod on_node;
mod on_worker;
mod prospects;
mod reactor;
mod reconfigure;
mod round;
mod select;
mod settings;
mod state;
mod status;
mod submission;
mod time;
mod track;
mod view;

pub use action::{Action, EndSummary, KillReason, Outcome, Refusal, YieldReason};
pub use eta::Eta;
pub use event::{Event, KeptWorker, ReleaseReason};
pub use exchange::{PlanAnswer, PlanRequest};
pub use explain::{Explanation, Progress, Standing};
pub use prospects::Prospects;
pub use reactor::{Engine, RestoreError, Snapshot};
pub use settings::{Planning, Settings, SettingsError};
pub use status::{Holding, LeaseStatus, NodeStatus};
pub use submission::{Declaration, Demand, Submission, Terms};
pub use time::NOW_MOST_S;

#[cfg(test)]
mod tests;
