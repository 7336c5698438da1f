//! How often the host waits for a GPU, as libtorch itself notices it.

use std::marker::PhantomData;

use crate::shim;

/// Counts, from [`start`](Self::start) to [`stop`](Self::stop), the calls of this thread at which the host waited for a
/// GPU: copies between host and device, numbers that are read. A session makes one per epoch or decision by itself,
/// besides the copies of its batches.
#[derive(Debug)]
pub struct SyncCount {
    /// libtorch counts by thread.
    _not_send: PhantomData<*const ()>,
}

impl SyncCount {
    /// Starts to count, from 0. One count at a time.
    #[must_use]
    pub fn start() -> Self {
        // SAFETY: sets libtorch's own state for this thread.
        unsafe { shim::shockwave_count_syncs() }
        Self { _not_send: PhantomData }
    }

    /// The count; nothing where libtorch has no CUDA.
    #[must_use]
    pub fn stop(self) -> Option<u64> {
        // SAFETY: as above.
        u64::try_from(unsafe { shim::shockwave_counted_syncs() }).ok()
    }
}
