//! The scheduler as a state machine: events in, actions out.
//!
//! The driver (the service's shell, or the simulator with its virtual clock) feeds every fact as an
//! [`Event`] and carries out every [`Action`]. All of it is serialisable, so that a log of events
//! with their times, replayed on the same settings, gives the same actions and plans (P6).

mod action;
mod event;
mod exchange;
mod settings;
mod submission;

pub use action::{Action, EndSummary, KillReason, Outcome, Refusal, YieldReason};
pub use event::{Event, KeptWorker, ReleaseReason};
pub use exchange::{PlanAnswer, PlanRequest};
pub use settings::{Planning, Settings, SettingsError};
pub use submission::{Declaration, Demand, Submission, Terms};
