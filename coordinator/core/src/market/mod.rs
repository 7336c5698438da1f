//! Utilities, fairness and the objectives that a plan maximises (paper sections 4, 6 and appendix
//! G).

mod buyer;
mod fairness;
mod instance;
mod objective;
mod utility;

pub use buyer::{Buyer, MicroJob, Trajectory, Window, run_time_s};
pub use fairness::{finish_time_utility, rho_hat};
pub use instance::{Instance, InstanceError, InstanceJob, JobKey};
pub use objective::Objective;
pub use utility::{PROGRESS_FLOOR, log_utility, progress_table};
