//! The simulator's shell: reads its files, runs it with a clock and a progress bar, writes results.

mod input;
mod json;
mod pictures;
mod run;
mod table;

pub use input::{SimulationError, Source, load_profiles, load_throughputs, read, write};
pub use json::report;
pub use pictures::{Picture, of_comparison, of_run, save};
pub use run::{Run, Semantics, Setup, Trail, run, run_policy, run_with};
pub use table::comparison;
