//! What the checks train: a ResNet on generated pictures that already lie on the device.

use anyhow::Result;
use shockwave_examples::cifar::{ResNet, ResNetConfig};
use shockwave_sdk::optim::Sgd;
use shockwave_sdk::policy::BatchPolicy;
use shockwave_sdk::session::Builder;
use shockwave_sdk::{Batch, Dataset, Error, Output, Session};
use tch::nn::{ModuleT, VarStore};
use tch::{Device, Kind, Tensor};

use crate::machine::Machine;

const CLASSES: i64 = 10;

/// Pictures of ten classes, each a pattern under noise. They lie on the device, so that a step copies nothing: what is
/// measured is training. Samples must be taken in their order.
#[derive(Debug)]
pub struct Pictures {
    x: Tensor,
    y: Tensor,
    len: usize,
}

impl Pictures {
    /// `distinct` pictures, which come again until there are `len`.
    pub fn new(device: Device, distinct: usize, len: usize) -> Self {
        tch::manual_seed(11);
        let n = distinct as i64;
        let patterns = Tensor::randn([CLASSES, 3, 32, 32], (Kind::Float, device));
        let y = Tensor::arange(n, (Kind::Int64, device)).remainder(CLASSES);
        let noise = Tensor::randn([n, 3, 32, 32], (Kind::Float, device));
        Self { x: patterns.index_select(0, &y) + noise, y, len }
    }
}

impl Dataset for Pictures {
    fn len(&self) -> usize {
        self.len
    }

    fn batch(&self, indices: &[usize]) -> Result<Batch, Error> {
        let (have, want) = (self.x.size()[0] as usize, indices.len());
        if want > have {
            return Err(Error::Data(format!("a batch of {want} of {have} pictures")));
        }
        // A narrow view: a list of indices would have to be copied to the device.
        let start = (indices.first().copied().unwrap_or(0) % (have - want + 1)) as i64;
        let part = |tensor: &Tensor| tensor.f_narrow(0, start, want as i64);
        Ok(Batch::new(part(&self.x)?, part(&self.y)?))
    }
}

/// A session and its network.
pub struct Run {
    pub session: Session,
    net: ResNet,
    _vars: VarStore,
}

impl Run {
    /// ResNet-18 on a GPU, ResNet-8 with eight channels on a CPU; the same initial values each time.
    ///
    /// # Errors
    /// Whatever the session's builder says.
    pub fn new(
        machine: &Machine,
        policy: impl BatchPolicy + 'static,
        data: Pictures,
        settings: impl FnOnce(Builder<'_>) -> Builder<'_>,
    ) -> Result<Self> {
        tch::manual_seed(1);
        let vars = VarStore::new(machine.device);
        let (depth, width) = if machine.is_gpu() { (18, 64) } else { (8, 8) };
        let config = ResNetConfig { depth, width, classes: CLASSES, dropout: 0.1 };
        let net = ResNet::new(&vars.root(), &config)?;
        let sgd = Sgd::new(0.05).momentum(0.9).weight_decay(5e-4);
        let builder = Session::builder(&vars, sgd, policy)
            .seed(3)
            .shuffle(false)
            .output(Output::Quiet)
            .handle_signals(false)
            .alone()
            .offline();
        let session = settings(builder).build(data)?;
        Ok(Self { session, net, _vars: vars })
    }

    /// One step of the epoch that is going on; its loss on the device, or nothing at the epoch's end.
    ///
    /// # Errors
    /// The session's.
    pub fn step(&mut self) -> Result<Option<Tensor>> {
        self.step_after(|_| Ok(()))
    }

    /// As [`step`](Self::step); `before` is told of each forward pass's samples and may fail it.
    ///
    /// # Errors
    /// The session's, and those of `before`.
    pub fn step_after(
        &mut self,
        mut before: impl FnMut(usize) -> Result<(), Error>,
    ) -> Result<Option<Tensor>> {
        let Some(batch) = self.session.next_batch()? else { return Ok(None) };
        let net = &self.net;
        let step = self.session.step(&batch, |b: &Batch| -> Result<Tensor, Error> {
            before(b.len())?;
            Ok(net.forward_t(&b.x, true).cross_entropy_for_logits(&b.y))
        })?;
        Ok(Some(step.loss))
    }

    /// All steps of the epoch, and its end.
    ///
    /// # Errors
    /// The session's.
    pub fn epoch(&mut self) -> Result<()> {
        while self.step()?.is_some() {}
        self.session.end_epoch([] as [(&str, f64); 0])?;
        Ok(())
    }

    /// The parameters, in full, on the CPU.
    pub fn parameters(&self) -> Tensor {
        self.session.arena().params().to_device(Device::Cpu)
    }
}
