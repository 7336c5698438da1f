//! Utilities, fairness and the objectives that a plan maximises (paper sections 4, 6 and appendix
//! G).

mod buyer;
mod equilibrium;
mod fairness;
mod fluid;
mod instance;
mod objective;
mod report;
mod utility;
mod view;

pub use buyer::{Buyer, MicroJob, Trajectory, Window, run_time_s};
pub use equilibrium::equilibrium;
pub use fairness::{finish_time_utility, rho_hat};
pub use fluid::{Equilibrium, FluidBuyer, FluidMarket};
pub use instance::{Instance, InstanceError, InstanceJob, JobKey};
pub use objective::Objective;
pub use report::{Account, MEANING, MarketReport, fluid_market, market_report};
pub use utility::{PROGRESS_FLOOR, log_utility, progress_table};
pub use view::Horizon;
