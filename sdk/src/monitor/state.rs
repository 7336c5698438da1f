//! The part of a monitor that a checkpoint holds.

use serde::{Deserialize, Serialize};
use tch::{Kind, Tensor};

use super::{Monitor, NoiseAverage, Reading};
use crate::Error;

/// The sums over an epoch, as they lie on the device.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct Sums {
    #[serde(with = "crate::json", rename = "loss_sum")]
    pub loss: f64,
    #[serde(with = "crate::json")]
    pub last_square: f64,
    /// Samples of skipped steps.
    #[serde(default)]
    pub uncounted: f64,
}

/// A monitor's state besides the window buffer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct MonitorState {
    #[serde(flatten)]
    sums: Sums,
    loss_samples: u64,
    noise: NoiseAverage,
}

impl Monitor {
    /// The state, from what was read just now.
    pub(crate) fn state(&self, reading: &Reading) -> MonitorState {
        MonitorState {
            sums: reading.raw,
            loss_samples: self.loss_samples,
            noise: self.noise.clone(),
        }
    }

    /// The window buffer, if there is one, under its name in the checkpoint.
    pub(crate) fn buffers(&self) -> Vec<(&'static str, Tensor)> {
        self.window.iter().map(|w| ("window", w.shallow_clone())).collect()
    }

    /// The inverse of [`state`](Self::state); the window buffer is restored by writing into [`buffers`](Self::buffers).
    pub(crate) fn restore(&mut self, state: MonitorState) -> Result<(), Error> {
        let device = self.device();
        let scalar = |value: f64| crate::optim::scalar(value, Kind::Double, device);
        self.loss = scalar(state.sums.loss)?;
        self.last_square = scalar(state.sums.last_square)?;
        self.uncounted = scalar(state.sums.uncounted)?;
        self.loss_samples = state.loss_samples;
        self.noise = state.noise;
        Ok(())
    }
}
