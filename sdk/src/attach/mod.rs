//! A program that is started by hand (in a terminal, tmux, an IDE) on a machine with an agent, and shares its devices
//! with everybody else's jobs.
//!
//! [`attach`] is the first line of `main`. It enters the program at the coordinator, waits for a lease and then executes
//! the program again with the lease in its environment, so that nothing is touched before. When the coordinator wants the
//! devices back, [`crate::Session::finish`] executes the program once more, without the lease: what it held of the device
//! is free then, whatever held it. It waits for the next lease in the same terminal, and goes on from its checkpoint.
//!
//! | variable | meaning |
//! |---|---|
//! | `SHOCKWAVE_ATTACH` | `wait` (after a yield, wait for the next lease) or `exit` (end with code 75); not set: attach only where `SHOCKWAVE_COORDINATOR` is set, and wait |
//! | `SHOCKWAVE_COORDINATOR` | the coordinator; not set: the one that this user runs on this machine |
//! | `SHOCKWAVE_TOKEN` | this user's token; not set: that of the coordinator that this user runs |
//! | `SHOCKWAVE_CA_FILE` | authority of an `https://` coordinator |
//! | `SHOCKWAVE_ATTACH_GPUS` | devices that it needs together (1) |
//! | `SHOCKWAVE_ATTACH_KEY` | its name: started again with it, it goes on with its job (made from machine, folder and arguments) |
//! | `SHOCKWAVE_NODE` | its machine, where several agents run on one |

pub(crate) mod execute;
mod settings;
mod wait;

use shockwave_proto::env;

use crate::Error;
use crate::client::YieldCause;
use settings::Settings;

/// Waits for a lease where the environment asks for it (see the [module](self)); the first line of `main`, before
/// anything touches a device. Returns at once when the program trains alone, and when an agent has started it.
///
/// # Errors
/// [`Error::Coordinator`]: no coordinator can be reached, it refuses, or the program's job has ended.
pub fn attach() -> Result<(), Error> {
    let set = |name: &'static str| std::env::var(name).ok().filter(|value| !value.is_empty());
    if set(env::JOB_ID).is_some() {
        // The lease is here: an agent has started the program, or it has executed itself.
        return Ok(());
    }
    if is_attached() {
        execute::hear_orders();
    }
    let Some(settings) = Settings::from_variables(set).map_err(Error::Coordinator)? else {
        return Ok(());
    };
    let grant = wait::for_lease(&settings).map_err(Error::Coordinator)?;
    let error = execute::with_lease(&settings, grant);
    Err(Error::Coordinator(format!("the program cannot execute itself again: {error}")))
}

/// Whether this process is an attached program with its lease.
pub(crate) fn is_attached() -> bool {
    std::env::var_os(env::ATTACHED_JOB).is_some_and(|job| !job.is_empty())
}

/// The end of an attached program's lease: executes it again without the lease, to wait for the next. Returns where it
/// is to end instead: it was not attached, wants to exit, or was stopped from here.
pub(crate) fn wait_again(cause: YieldCause) {
    let asked_here = cause == YieldCause::Signal;
    let exits = std::env::var(env::ATTACH).is_ok_and(|mode| mode == settings::EXIT);
    if !is_attached() || asked_here || exits {
        return;
    }
    let error = execute::without_lease();
    crate::progress::warn(format_args!("the program cannot execute itself again: {error}"));
}
