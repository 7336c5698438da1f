//! The part of a monitor that a checkpoint holds.

use serde::{Deserialize, Serialize};
use tch::{Kind, Tensor};

use super::{Monitor, NoiseAverage};
use crate::Error;

/// A monitor's state besides the window buffer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct MonitorState {
    #[serde(with = "crate::json")]
    loss_sum: f64,
    #[serde(with = "crate::json")]
    last_square: f64,
    loss_samples: u64,
    noise: NoiseAverage,
}

impl Monitor {
    /// Reads everything that waits on the device (one host read) and exports the state.
    pub(crate) fn state(&mut self) -> Result<MonitorState, Error> {
        let (loss_sum, last_square) = self.read(None)?.raw;
        Ok(MonitorState {
            loss_sum,
            last_square,
            loss_samples: self.loss_samples,
            noise: self.noise.clone(),
        })
    }

    /// The window buffer, if there is one, under its name in the checkpoint.
    pub(crate) fn buffers(&self) -> Vec<(&'static str, Tensor)> {
        self.window.iter().map(|w| ("window", w.shallow_clone())).collect()
    }

    /// The inverse of [`state`](Self::state); the window buffer is restored by writing into [`buffers`](Self::buffers).
    pub(crate) fn restore(&mut self, state: MonitorState) -> Result<(), Error> {
        let options = (Kind::Double, self.device());
        self.loss = Tensor::f_full([0i64; 0], state.loss_sum, options)?;
        self.last_square = Tensor::f_full([0i64; 0], state.last_square, options)?;
        self.loss_samples = state.loss_samples;
        self.noise = state.noise;
        Ok(())
    }
}
