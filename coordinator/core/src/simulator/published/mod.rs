//! The published simulator's semantics, to the last quirk.
//!
//! Rounds of 120 s; jobs run whole optimiser steps; a start costs 20 s of steps. Everything in it
//! that a real cluster would not do is a named quirk, so that results can be compared with the
//! published ones and so that nothing else inherits it:
//!
//! * [`quirk::whole_steps`]: a round lasts as long as its slowest job's whole steps.
//! * [`quirk::RESTART_S`]: a start costs steps, not time, and only on a long round.
//! * [`quirk::rounded_up`]: a job that changes its batch size is credited the epoch it is in.
//! * [`quirk::ZOMBIE_ROUNDS`]: a job whose last epoch is credited that way stays for five rounds.
//! * one round of lag: a batch size that is due is noted at the end of a round, and changed when
//!   the job next ends a round in which it ran.
//! * shares are renewed at most every 1000 s, and a job that arrived since holds the GPUs it is
//!   picked for without running (`policies::mechanism`).
//! * Accordion is played by other epochs than it is profiled by
//!   ([`AccordionRule`](super::profiles::AccordionRule)).
//!
//! Two deviations, on traces that the published simulator does not finish: when no job is active,
//! time goes on to the next arrival (the published code stops there and loses the rest); and when
//! active jobs exist but none runs, a round passes.
//!
//! Known before a job first runs: the throughput at its first batch size, as in the published code,
//! which profiles jobs before they queue. Throughputs at later batch sizes are observed.

mod job;
pub mod quirk;
mod run;

pub use run::{Published, simulate};

pub(crate) use job::play_alone;
