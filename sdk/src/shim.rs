//! What the SDK needs of libtorch and tch does not bind: the C functions of `shim/`, and how their errors come back.

use std::ffi::{CStr, c_char, c_int};

use tch::{Device, TchError, Tensor};
use torch_sys::C_tensor;

use crate::Error;

/// A process group on the C++ side.
#[repr(C)]
pub(crate) struct RawGroup {
    _private: [u8; 0],
}

// Declared in shim/shim.h, which says what each does.
unsafe extern "C" {
    pub(crate) fn shockwave_group_join(
        host: *const c_char,
        port: u16,
        serve: bool,
        prefix: *const c_char,
        address: *const c_char,
        rank: c_int,
        size: c_int,
        timeout_ms: i64,
        nccl: bool,
        error: *mut *mut c_char,
    ) -> *mut RawGroup;
    pub(crate) fn shockwave_group_free(group: *mut RawGroup);
    pub(crate) fn shockwave_all_reduce(
        group: *mut RawGroup,
        tensor: *mut C_tensor,
        maximum: bool,
        error: *mut *mut c_char,
    ) -> bool;
    pub(crate) fn shockwave_broadcast(
        group: *mut RawGroup,
        tensor: *mut C_tensor,
        root: c_int,
        error: *mut *mut c_char,
    ) -> bool;
    pub(crate) fn shockwave_barrier(group: *mut RawGroup, error: *mut *mut c_char) -> bool;
    fn shockwave_generator_state(cuda: c_int, error: *mut *mut c_char) -> *mut C_tensor;
    fn shockwave_set_generator_state(
        cuda: c_int,
        state: *mut C_tensor,
        error: *mut *mut c_char,
    ) -> bool;
    fn shockwave_set_deterministic(on: bool, error: *mut *mut c_char) -> bool;
    pub(crate) fn shockwave_autocast_begin(
        cuda: bool,
        fp16: bool,
        error: *mut *mut c_char,
    ) -> c_int;
    pub(crate) fn shockwave_autocast_end(
        cuda: bool,
        before: c_int,
        error: *mut *mut c_char,
    ) -> bool;
    pub(crate) fn shockwave_count_syncs();
    pub(crate) fn shockwave_counted_syncs() -> i64;
    fn shockwave_error_free(error: *mut c_char);
}

/// Calls a function of the shim with a place for its error, and returns what it returned or its message.
pub(crate) fn call<T>(function: impl FnOnce(*mut *mut c_char) -> T) -> Result<T, String> {
    let mut error: *mut c_char = std::ptr::null_mut();
    let returned = function(&mut error);
    if error.is_null() {
        return Ok(returned);
    }
    // SAFETY: the shim sets a NUL-terminated message that is ours until it is freed, here, once.
    let message = unsafe {
        let message = CStr::from_ptr(error).to_string_lossy().into_owned();
        shockwave_error_free(error);
        message
    };
    Err(first_lines(&message))
}

/// libtorch appends a C++ backtrace to its messages: of no use to whoever trains a model.
fn first_lines(message: &str) -> String {
    let end = message.find("\nException raised from").unwrap_or(message.len());
    message[..end].trim_end().to_owned()
}

pub(crate) fn torch(message: String) -> Error {
    Error::Torch(TchError::Torch(message))
}

/// The number by which the shim knows a device.
fn number(device: Device) -> Result<c_int, Error> {
    match device {
        Device::Cpu => Ok(-1),
        Device::Cuda(index) => Ok(index as c_int),
        other => {
            Err(Error::invalid("the device", format!("{other:?}"), "the CPU or a CUDA device"))
        }
    }
}

/// The state of the generator from which libtorch draws random numbers on `device`: a byte tensor.
///
/// A session needs none of this: it seeds the generators anew in each step.
///
/// # Errors
/// [`Error::Invalid`] for a device without a generator of its own, [`Error::Torch`].
pub fn generator_state(device: Device) -> Result<Tensor, Error> {
    let number = number(device)?;
    // SAFETY: plain values; the returned tensor is new and ours.
    let state = call(|error| unsafe { shockwave_generator_state(number, error) }).map_err(torch)?;
    // SAFETY: not null, since there was no error; nobody else has it.
    Ok(unsafe { Tensor::from_ptr(state) })
}

/// Brings a generator back to a state that [`generator_state`] has returned.
///
/// # Errors
/// [`Error::Torch`] when `state` is not a state of such a device's generator.
pub fn set_generator_state(device: Device, state: &Tensor) -> Result<(), Error> {
    let number = number(device)?;
    let state = state.as_ptr().cast_mut();
    // SAFETY: the tensor lives through the call, which only reads it.
    call(|error| unsafe { shockwave_set_generator_state(number, state, error) }).map_err(torch)?;
    Ok(())
}

/// Whether libtorch may use only kernels that give the same bits each time (default: any kernel).
///
/// On a GPU a resume is exact only with this; an operation that has no such kernel then fails and says so. cuBLAS also
/// wants the variable `CUBLAS_WORKSPACE_CONFIG=:4096:8` in the environment. On a CPU the kernels that the SDK and the
/// usual layers use are deterministic anyway.
///
/// # Errors
/// [`Error::Torch`].
pub fn set_deterministic(on: bool) -> Result<(), Error> {
    // SAFETY: a plain value.
    call(|error| unsafe { shockwave_set_deterministic(on, error) }).map_err(torch)?;
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use tch::Kind;

    use super::*;

    #[test]
    fn generator_goes_on_from_a_restored_state() {
        let draw = || Tensor::randn([64], (Kind::Float, Device::Cpu));
        tch::manual_seed(3);
        let _ = draw();
        let state = generator_state(Device::Cpu).unwrap();
        let first = draw();
        let _ = draw();
        set_generator_state(Device::Cpu, &state).unwrap();
        assert!(first.equal(&draw()));
    }

    #[test]
    fn nonsense_is_refused_with_libtorchs_reason() {
        let state = Tensor::zeros([3], (Kind::Uint8, Device::Cpu));
        let error = set_generator_state(Device::Cpu, &state).unwrap_err().to_string();
        assert!(error.starts_with("libtorch: "), "{error}");
        assert!(!error.contains("Exception raised from"), "{error}");
        assert!(generator_state(Device::Mps).is_err());
    }

    #[test]
    fn determinism_can_be_switched() {
        set_deterministic(true).unwrap();
        set_deterministic(false).unwrap();
    }
}
