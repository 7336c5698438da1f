//! A process group: what the workers say to each other.

use std::ffi::CString;
use std::ptr::NonNull;

use tch::{Device, Kind, Tensor};

use super::{Backend, Rendezvous};
use crate::Error;
use crate::shim::{self, RawGroup};

/// The workers of one training run. Every method is called by all of them, in the same order.
#[derive(Debug)]
pub struct Group {
    raw: NonNull<RawGroup>,
    meeting: Rendezvous,
    backend: Backend,
}

// SAFETY: c10d's process groups may be used from any thread; this type is not `Sync`, so that calls keep their order.
unsafe impl Send for Group {}

impl Group {
    /// Waits until all workers have come, at most for the timeout. For a model on the CPU; see
    /// [`join_on`](Self::join_on).
    ///
    /// # Errors
    /// As [`join_on`](Self::join_on).
    pub fn join(meeting: &Rendezvous) -> Result<Self, Error> {
        Self::join_on(meeting, Device::Cpu)
    }

    /// Waits until all workers have come, at most for the timeout. The model's device decides what carries its sums,
    /// unless the meeting does.
    ///
    /// # Errors
    /// [`Error::Workers`] when they have not come, [`Error::Invalid`] when the meeting makes no sense or asks for a
    /// backend that cannot be had.
    pub fn join_on(meeting: &Rendezvous, device: Device) -> Result<Self, Error> {
        meeting.check()?;
        let backend = meeting.backend.on(device)?;
        let address = meeting.own_address()?.to_string();
        let host = c_string("MASTER_ADDR", &meeting.host)?;
        let prefix = c_string("the rendezvous prefix", &meeting.prefix)?;
        let address = c_string("the worker's address", &address)?;
        let timeout_ms = i64::try_from(meeting.timeout.as_millis()).unwrap_or(i64::MAX);
        let (rank, size) = (meeting.rank as i32, meeting.size as i32);
        // SAFETY: the strings live through the call; the group is new and ours.
        let joined = shim::call(|error| unsafe {
            shim::shockwave_group_join(
                host.as_ptr(),
                meeting.port,
                meeting.serve,
                prefix.as_ptr(),
                address.as_ptr(),
                rank,
                size,
                timeout_ms,
                backend == Backend::Nccl,
                error,
            )
        });
        let raw = joined.and_then(|raw| NonNull::new(raw).ok_or_else(|| "no group".to_owned()));
        let raw = raw.map_err(|reason| failed(meeting, "the rendezvous", reason))?;
        Ok(Self { raw, meeting: meeting.clone(), backend })
    }

    /// What carries the sums of tensors on the model's device; never [`Backend::Auto`].
    #[must_use]
    pub fn backend(&self) -> Backend {
        self.backend
    }

    /// This worker's number, from 0.
    #[must_use]
    pub fn rank(&self) -> usize {
        self.meeting.rank
    }

    /// How many workers there are.
    #[must_use]
    pub fn size(&self) -> usize {
        self.meeting.size
    }

    /// Whether this worker is the one that writes checkpoints and talks to the coordinator.
    #[must_use]
    pub fn is_chief(&self) -> bool {
        self.meeting.rank == 0
    }

    /// Adds up `tensor` (any shape, the same on all workers) over the workers, in place: all get the same bits.
    ///
    /// # Errors
    /// [`Error::Workers`] when a worker is gone or does not come within the timeout.
    pub fn sum(&self, tensor: &mut Tensor) -> Result<(), Error> {
        self.all_reduce(tensor, false, "all-reduce")
    }

    /// Whether any worker says so. All get the same answer.
    ///
    /// # Errors
    /// As [`Group::sum`].
    pub fn any(&self, own: bool) -> Result<bool, Error> {
        let mut flag = Tensor::f_from_slice(&[i32::from(own)])?;
        self.all_reduce(&mut flag, true, "agreement")?;
        Ok(flag.f_int64_value(&[0])? != 0)
    }

    fn all_reduce(
        &self,
        tensor: &mut Tensor,
        maximum: bool,
        what: &'static str,
    ) -> Result<(), Error> {
        // SAFETY: group and tensor live through the call, which waits for the result.
        let done = shim::call(|error| unsafe {
            shim::shockwave_all_reduce(self.raw.as_ptr(), tensor.as_mut_ptr(), maximum, error)
        });
        done.map(|_| ()).map_err(|reason| failed(&self.meeting, what, reason))
    }

    /// Overwrites `tensor` (the same shape on all workers) with that of rank 0.
    ///
    /// # Errors
    /// As [`Group::sum`].
    pub fn broadcast(&self, tensor: &mut Tensor) -> Result<(), Error> {
        // SAFETY: group and tensor live through the call, which waits for the result.
        let done = shim::call(|error| unsafe {
            shim::shockwave_broadcast(self.raw.as_ptr(), tensor.as_mut_ptr(), 0, error)
        });
        done.map(|_| ()).map_err(|reason| failed(&self.meeting, "broadcast", reason))
    }

    /// The bytes that rank 0 gives; what the others give is not used.
    ///
    /// # Errors
    /// As [`Group::sum`].
    pub fn broadcast_bytes(&self, own: &[u8]) -> Result<Vec<u8>, Error> {
        let mut length = Tensor::f_from_slice(&[own.len() as i64])?;
        self.broadcast(&mut length)?;
        let length = length.f_int64_value(&[0])?;
        let mut bytes = if self.is_chief() {
            Tensor::f_from_slice(own)?
        } else {
            Tensor::f_zeros([length], (Kind::Uint8, Device::Cpu))?
        };
        // c10d refuses empty tensors.
        if length > 0 {
            self.broadcast(&mut bytes)?;
        }
        Ok(Vec::<u8>::try_from(&bytes)?)
    }

    /// Waits until all workers have come here.
    ///
    /// # Errors
    /// As [`Group::sum`].
    pub fn barrier(&self) -> Result<(), Error> {
        // SAFETY: the group lives through the call.
        let done = shim::call(|error| unsafe { shim::shockwave_barrier(self.raw.as_ptr(), error) });
        done.map(|_| ()).map_err(|reason| failed(&self.meeting, "barrier", reason))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // SAFETY: made by the shim, freed here only.
        unsafe { shim::shockwave_group_free(self.raw.as_ptr()) }
    }
}

fn failed(meeting: &Rendezvous, what: &'static str, reason: String) -> Error {
    let reason = plain(&reason).to_owned();
    Error::Workers { what, rank: meeting.rank, size: meeting.size, reason }
}

/// gloo's message without the place in its source at the start and the advice to its developers at the end.
fn plain(message: &str) -> &str {
    let placed = message.strip_prefix('[').and_then(|rest| rest.split_once("] "));
    let text = placed.filter(|(place, _)| place.contains(".cc:")).map_or(message, |(_, text)| text);
    text.split(". This is typically caused by").next().unwrap_or(text)
}

fn c_string(what: &str, text: &str) -> Result<CString, Error> {
    CString::new(text).map_err(|_| Error::invalid(what, format!("{text:?}"), "no NUL byte"))
}

#[cfg(test)]
mod tests {
    use super::plain;

    #[test]
    fn messages_are_for_people() {
        let message = "[/a/gloo/transport/tcp/pair.cc:537] Read error [127.0.0.1]:20392: Connection reset by peer. \
                       This is typically caused by a remote worker hanging.";
        assert_eq!(plain(message), "Read error [127.0.0.1]:20392: Connection reset by peer");
        assert_eq!(plain("[x] y"), "[x] y");
    }
}
