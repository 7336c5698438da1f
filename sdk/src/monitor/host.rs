//! The only place where numbers travel from the device to the host, and the counter of such reads.
//!
//! A host read waits for everything that the device has queued; one per step would cost more than all of the monitoring.

use std::cell::Cell;

use tch::{Device, Kind, Tensor};

use crate::Error;

/// Reads device scalars, many at a time, and counts how often.
#[derive(Debug, Default)]
pub struct HostReads {
    count: Cell<u64>,
}

impl HostReads {
    /// How many reads there were since the session was built.
    pub fn count(&self) -> u64 {
        self.count.get()
    }

    /// Reads all elements of `tensors`, one after the other, in one host read (none when there is nothing to read).
    ///
    /// # Errors
    /// [`Error::Torch`].
    pub fn read(&self, tensors: &[Tensor]) -> Result<Vec<f64>, Error> {
        if tensors.is_empty() {
            return Ok(Vec::new());
        }
        let flat: Result<Vec<Tensor>, tch::TchError> =
            tensors.iter().map(|t| t.f_detach()?.f_to_kind(Kind::Double)?.f_view_([-1])).collect();
        let all = Tensor::f_cat(&flat?, 0)?.f_to(Device::Cpu)?;
        self.count.set(self.count.get() + 1);
        let mut values = vec![0.0; all.numel()];
        let len = values.len();
        all.f_copy_data(&mut values, len)?;
        Ok(values)
    }
}
