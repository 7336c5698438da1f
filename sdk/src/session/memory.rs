//! The ceiling on the samples of one forward pass: none, given, or found when the device's memory runs out.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use tch::{TchError, Tensor};

use super::{IntoLoss, Session};
use crate::Error;
use crate::data::step_seed;
use crate::distributed::Group;

/// How many samples one forward pass may hold.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Ceiling {
    /// At most so many; gradients of larger batches are accumulated.
    pub samples: Option<usize>,
    /// Whether to go lower when memory runs out.
    pub find: bool,
}

/// Whether libtorch says that there is no memory left, on a GPU or on the CPU.
fn is_out_of_memory(message: &str) -> bool {
    let message = message.to_ascii_lowercase();
    message.contains("out of memory") || message.contains("can't allocate memory")
}

/// What a panic says, if it says anything.
fn message_of(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or_default()
}

impl Ceiling {
    /// Computes a loss. tch's plain methods panic when memory runs out: that panic becomes an error here, if a ceiling
    /// is to be found. Any other goes on.
    pub(super) fn call<L: IntoLoss>(self, loss: impl FnOnce() -> L) -> Result<Tensor, Error> {
        if !self.find {
            return loss().into_loss();
        }
        match catch_unwind(AssertUnwindSafe(|| loss().into_loss())) {
            Ok(loss) => loss,
            Err(panic) if is_out_of_memory(message_of(panic.as_ref())) => {
                Err(Error::Torch(TchError::Torch(message_of(panic.as_ref()).to_owned())))
            }
            Err(panic) => resume_unwind(panic),
        }
    }
}

impl Session {
    /// The most samples in one forward pass, given or found so far.
    pub fn micro_batch(&self) -> Option<usize> {
        self.ceiling.samples
    }

    /// After a step of `samples` samples has failed: whether it should be tried again, with half as many in a forward
    /// pass.
    pub(super) fn lower_ceiling(&mut self, error: &Error, samples: usize) -> Result<bool, Error> {
        let ran_out = matches!(error, Error::Torch(e) if is_out_of_memory(&e.to_string()));
        let tried = self.ceiling.samples.map_or(samples, |s| s.min(samples));
        if !(self.ceiling.find && ran_out && tried > 1) {
            return Ok(false);
        }
        let lower = tried.div_ceil(2);
        self.ceiling.samples = Some(lower);
        self.progress.say(&format!(
            "memory does not hold {tried} samples: gradients are accumulated over {lower} at a time"
        ));
        self.arena.zero_grads()?;
        // The step begins anew, with the random numbers that it would have had.
        let rank = self.group.as_ref().map_or(0, Group::rank);
        tch::manual_seed(step_seed(self.seed, self.position.step, rank));
        Ok(true)
    }
}
