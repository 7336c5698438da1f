//! The arena: all trainable variables and their gradients as views of two flat buffers.
//!
//! One buffer makes the optimiser, the gradient norms and an all-reduce one to three kernels each, however many
//! variables the model has. tch has no setter for gradients, but `grad().set_data(view)` re-points the gradient, and
//! `backward` then accumulates into the view.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use tch::nn::{self, VarStore};
use tch::{Device, Kind, Tensor};

use crate::Error;

/// Each variable starts at a multiple of this many elements, so that views stay aligned for vector instructions.
pub const ALIGNMENT: i64 = 64;

/// The buffers' length is a multiple of this many elements: norms are taken over chunks of this size.
pub const CHUNK: i64 = 1024;

/// Where one variable lies in the flat buffers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slot {
    /// The variable's name in the `VarStore`.
    pub name: String,
    /// First element in the buffer, a multiple of [`ALIGNMENT`].
    pub offset: i64,
    /// Number of elements.
    pub len: i64,
    /// The variable's shape.
    pub shape: Vec<i64>,
}

/// The flat parameter and gradient buffers of a model, and the variables that view them.
#[derive(Debug)]
pub struct Arena {
    params: Tensor,
    grads: Tensor,
    slots: Vec<Slot>,
    variables: Vec<Tensor>,
    /// Whether the gradients are known to be zero.
    clear: bool,
    store: Arc<Mutex<nn::Variables>>,
}

/// Locks the variables of a store, whether or not another holder of the lock panicked: they are only read.
fn lock(store: &Mutex<nn::Variables>) -> std::sync::MutexGuard<'_, nn::Variables> {
    store.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// The trainable variables by name.
fn trainable(store: &Mutex<nn::Variables>) -> BTreeMap<String, Tensor> {
    let guard = lock(store);
    let named = guard.named_variables.iter();
    named
        .filter(|(_, t)| t.defined() && t.requires_grad())
        .map(|(n, t)| (n.clone(), t.shallow_clone()))
        .collect()
}

/// The slots of `variables` in order of their names, and the buffers' length in elements.
fn lay_out(variables: &BTreeMap<String, Tensor>) -> (Vec<Slot>, i64) {
    let mut slots = Vec::with_capacity(variables.len());
    let mut offset = 0;
    for (name, tensor) in variables {
        let len = tensor.numel() as i64;
        slots.push(Slot { name: name.clone(), offset, len, shape: tensor.size() });
        offset = (offset + len + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    }
    (slots, (offset + CHUNK - 1) / CHUNK * CHUNK)
}

/// Refuses models whose variables cannot share one buffer.
fn check_uniform(variables: &BTreeMap<String, Tensor>) -> Result<(Kind, Device), Error> {
    let mut first: Option<(Kind, Device)> = None;
    for (name, tensor) in variables {
        let (kind, device) = (tensor.f_kind()?, tensor.device());
        if !matches!(kind, Kind::Float | Kind::Double | Kind::Half | Kind::BFloat16) {
            let what = format!("it is of kind {kind:?}, not a floating point kind");
            return Err(Error::Unsupported { name: name.clone(), what });
        }
        let expected = *first.get_or_insert((kind, device));
        if (kind, device) != expected {
            let what = format!(
                "it is {kind:?} on {device:?}, others are {:?} on {:?}; all must be alike",
                expected.0, expected.1
            );
            return Err(Error::Unsupported { name: name.clone(), what });
        }
    }
    first.ok_or_else(|| {
        Error::invalid(
            "the number of trainable variables",
            0,
            "at least one: build the model first",
        )
    })
}

/// Makes libtorch allocate every variable's gradient: the gradient of the sum of all variables.
fn create_gradients(variables: &BTreeMap<String, Tensor>) -> Result<(), Error> {
    tch::with_grad(|| {
        let sums: Result<Vec<Tensor>, _> = variables.values().map(|v| v.f_sum(None)).collect();
        Tensor::f_stack(&sums?, 0)?.f_sum(None)?.f_backward()
    })?;
    Ok(())
}

impl Arena {
    /// Moves the trainable variables of `store` into two flat buffers; their values stay as they are, their gradients
    /// become zero. Create it after the whole model exists.
    ///
    /// # Errors
    /// [`Error::Invalid`] when there is nothing to train, [`Error::Unsupported`] when kinds or devices are mixed.
    pub fn new(store: &VarStore) -> Result<Self, Error> {
        let store = store.variables_.clone();
        let named = trainable(&store);
        let (kind, device) = check_uniform(&named)?;
        let (slots, len) = lay_out(&named);
        let params = Tensor::f_zeros([len], (kind, device))?;
        let grads = Tensor::f_zeros([len], (kind, device))?;
        create_gradients(&named)?;
        let variables: Vec<Tensor> = named.into_values().collect();
        let mut arena = Self { params, grads, slots, variables, clear: false, store };
        tch::no_grad(|| arena.adopt())?;
        arena.check()?;
        Ok(arena)
    }

    /// Copies the variables' values into the buffer and points variables and gradients at their views.
    fn adopt(&mut self) -> Result<(), Error> {
        for (slot, variable) in self.slots.iter().zip(&mut self.variables) {
            let mut value = self.params.f_narrow(0, slot.offset, slot.len)?.f_view_(&slot.shape)?;
            value.f_copy_(variable)?;
            variable.f_set_data(&value)?;
            let grad = self.grads.f_narrow(0, slot.offset, slot.len)?.f_view_(&slot.shape)?;
            variable.f_grad()?.f_set_data(&grad)?;
        }
        let _ = self.grads.f_zero_()?;
        Ok(())
    }

    /// The flat parameter buffer (shape `[len]`; the gaps between variables are zero).
    pub fn params(&self) -> &Tensor {
        &self.params
    }

    /// The flat gradient buffer (shape `[len]`; the gaps between variables are zero).
    pub fn grads(&self) -> &Tensor {
        &self.grads
    }

    /// Both buffers for an optimiser step, as (parameters, gradients).
    pub(crate) fn buffers(&mut self) -> (&mut Tensor, &mut Tensor) {
        (&mut self.params, &mut self.grads)
    }

    /// Where each variable lies, in order of names.
    pub fn slots(&self) -> &[Slot] {
        &self.slots
    }

    /// The trainable variables, in order of names.
    pub(crate) fn variables(&self) -> Vec<Tensor> {
        self.variables.iter().map(Tensor::shallow_clone).collect()
    }

    /// Element kind of the buffers.
    pub fn kind(&self) -> Kind {
        self.params.kind()
    }

    /// Device of the buffers.
    pub fn device(&self) -> Device {
        self.params.device()
    }

    /// Sets all gradients to zero. (tch's own `zero_grad` would take the gradients out of the arena.)
    ///
    /// # Errors
    /// [`Error::Torch`].
    pub fn zero_grads(&mut self) -> Result<(), Error> {
        let _ = self.grads.f_zero_()?;
        Ok(())
    }

    /// Sets all gradients to zero for a new step, unless they are.
    pub(crate) fn begin_step(&mut self) -> Result<(), Error> {
        match std::mem::take(&mut self.clear) {
            true => Ok(()),
            false => self.zero_grads(),
        }
    }

    /// Says that the gradients are zero, or are not.
    pub(crate) fn end_step(&mut self, clear: bool) {
        self.clear = clear;
    }

    /// All named variables of the model, trainable or not (BatchNorm's running statistics are not).
    pub(crate) fn named_variables(&self) -> BTreeMap<String, Tensor> {
        let guard = lock(&self.store);
        guard.named_variables.iter().map(|(n, t)| (n.clone(), t.shallow_clone())).collect()
    }

    /// Checks that every trainable variable and its gradient still lie at their place in the buffers.
    ///
    /// # Errors
    /// [`Error::LeftArena`] names the first variable that does not, and the usual cause.
    pub fn check(&self) -> Result<(), Error> {
        let size = self.kind().elt_size_in_bytes();
        let now = trainable(&self.store);
        let left = |name: &str, what: &str| {
            Err(Error::LeftArena { name: name.to_owned(), what: what.to_owned() })
        };
        if let Some(name) = now.keys().find(|n| !self.slots.iter().any(|s| &s.name == *n)) {
            return left(
                name,
                "it was created or unfrozen after the session; build the whole model first",
            );
        }
        for slot in &self.slots {
            let Some(variable) = now.get(&slot.name) else {
                return left(
                    &slot.name,
                    "it was removed or frozen; freeze variables before the session is built",
                );
            };
            let offset = slot.offset as usize * size;
            if variable.data_ptr() as usize != self.params.data_ptr() as usize + offset {
                return left(
                    &slot.name,
                    "its values were moved (set_data, a change of kind or device)",
                );
            }
            let grad = variable.f_grad()?;
            if !grad.defined() {
                return left(
                    &slot.name,
                    "its gradient was dropped (zero_grad of a tch optimiser or tensor?)",
                );
            }
            if grad.data_ptr() as usize != self.grads.data_ptr() as usize + offset {
                return left(&slot.name, "its gradient was replaced (backward after zero_grad?)");
            }
        }
        Ok(())
    }
}
