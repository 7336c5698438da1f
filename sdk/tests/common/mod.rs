//! A small training run for the tests: generated images, a network with BatchNorm and dropout.
#![allow(clippy::unwrap_used, dead_code)] // Tests; each test program uses a part of this.

pub mod workers;

use std::path::Path;
use std::sync::{Arc, Mutex};

use rand::Rng;
use shockwave_sdk::data::Draw;
use shockwave_sdk::optim::{AdamW, Optimizer, Sgd};
use shockwave_sdk::policy::{BatchPolicy, Choice, Needs, Observation, PolicyDeclaration};
use shockwave_sdk::session::Builder;
use shockwave_sdk::{Batch, Dataset, Error, Outcome, Output, Session};
use tch::nn::{self, ModuleT};
use tch::{Device, Kind, Tensor};

/// Samples handed out, as (epoch, index), in order.
pub type Seen = Arc<Mutex<Vec<(u64, usize)>>>;

/// `len` generated images of 3x8x8 with 4 classes; remembers which samples it gave for training.
pub struct Images {
    x: Vec<f32>,
    y: Vec<i64>,
    pub seen: Seen,
}

const PIXELS: usize = 3 * 8 * 8;

impl Images {
    pub fn new(len: usize) -> Self {
        // A linear congruential generator: the same on every machine, whatever libtorch does.
        let mut state = 12345u64;
        let mut next = || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            ((state >> 40) as f32 / (1u32 << 24) as f32) - 0.5
        };
        let y: Vec<i64> = (0..len).map(|i| (i % 4) as i64).collect();
        let x = (0..len * PIXELS).map(|i| next() + 0.2 * y[i / PIXELS] as f32).collect();
        Self { x, y, seen: Seen::default() }
    }
}

impl Dataset for Images {
    fn len(&self) -> usize {
        self.y.len()
    }

    fn batch(&self, indices: &[usize]) -> Result<Batch, Error> {
        let mut x = Vec::new();
        let y: Vec<i64> = indices.iter().map(|&i| self.y[i]).collect();
        for &i in indices {
            x.extend_from_slice(&self.x[i * PIXELS..(i + 1) * PIXELS]);
        }
        let n = indices.len() as i64;
        Ok(Batch::new(Tensor::from_slice(&x).view([n, 3, 8, 8]), Tensor::from_slice(&y)))
    }

    fn training_batch(&self, indices: &[usize], draw: Draw) -> Result<Batch, Error> {
        self.seen.lock().unwrap().extend(indices.iter().map(|&i| (draw.epoch, i)));
        let mut batch = self.batch(indices)?;
        // Augmentation: one random offset per sample.
        let shifts: Vec<f32> =
            indices.iter().map(|&i| draw.rng(i).random_range(-0.1..0.1)).collect();
        batch.x += Tensor::from_slice(&shifts).view([-1, 1, 1, 1]);
        Ok(batch)
    }
}

/// A convolutional network with BatchNorm and dropout.
pub fn network(vs: &nn::Path) -> impl ModuleT + use<> {
    let conv =
        nn::conv2d(vs / "conv", 3, 8, 3, nn::ConvConfig { padding: 1, ..Default::default() });
    let norm = nn::batch_norm2d(vs / "norm", 8, Default::default());
    let head = nn::linear(vs / "head", 8, 4, Default::default());
    nn::func_t(move |x, train| {
        x.apply(&conv)
            .apply_t(&norm, train)
            .relu()
            .adaptive_avg_pool2d([1, 1])
            .flatten(1, -1)
            .dropout(0.3, train)
            .apply(&head)
    })
}

/// Grows the batch after a given number of steps, in the middle of an epoch; asks for whatever `needs` says.
#[derive(Clone)]
pub struct GrowAt {
    pub from: u64,
    pub to: u64,
    pub at_step: u64,
    pub needs: Needs,
    pub decisions: u64,
}

impl BatchPolicy for GrowAt {
    fn kind(&self) -> &str {
        "grow-at"
    }
    fn initial(&self) -> u64 {
        self.from
    }
    fn declare(&self) -> PolicyDeclaration {
        PolicyDeclaration {
            kind: "grow-at".into(),
            initial: self.from,
            configurations: vec![self.from, self.to],
            min: self.from.min(self.to),
            max: self.from.max(self.to),
            can_shrink: false,
            schedule: vec![],
        }
    }
    fn needs(&self) -> Needs {
        self.needs
    }
    fn decide(&mut self, now: &Observation<'_>) -> Result<Choice, Error> {
        self.decisions += 1;
        let batch = if now.step >= self.at_step { self.to } else { self.from };
        Ok(Choice::new(batch, "the test says so"))
    }
    fn state(&self) -> serde_json::Value {
        self.decisions.into()
    }
    fn restore(&mut self, state: &serde_json::Value) -> Result<(), Error> {
        self.decisions = state.as_u64().unwrap();
        Ok(())
    }
}

/// One of the two optimisers.
pub fn optimizer(adam: bool) -> Box<dyn Optimizer> {
    if adam {
        Box::new(AdamW::new(2e-3))
    } else {
        Box::new(Sgd::new(0.05).momentum(0.9).weight_decay(5e-4))
    }
}

/// libtorch's generators belong to the process: tests that run side by side would disturb each other.
pub fn alone() -> std::sync::MutexGuard<'static, ()> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    tch::set_num_threads(1);
    ONE_AT_A_TIME.lock().unwrap_or_else(|broken| broken.into_inner())
}

/// Builds the model from a fixed seed, lets `settings` finish the session, and hands both to `body`.
pub fn with_session<P: BatchPolicy + 'static, R>(
    optimizer: Box<dyn Optimizer>,
    policy: P,
    data: Images,
    settings: impl FnOnce(Builder<'_>) -> Builder<'_>,
    body: impl FnOnce(Session, &nn::VarStore, &dyn Fn(&Tensor, bool) -> Tensor) -> R,
) -> Result<R, Error> {
    let _guard = alone();
    tch::manual_seed(1);
    let vs = nn::VarStore::new(Device::Cpu);
    let net = network(&vs.root());
    let builder = Session::builder(&vs, optimizer, policy).seed(5).output(Output::Quiet);
    let session = settings(builder.handle_signals(false)).build(data)?;
    Ok(body(session, &vs, &|x, train| net.forward_t(x, train)))
}

/// The plain loop. `stop_at` asks for a stop once that many steps are done.
pub fn train(
    session: &mut Session,
    net: &dyn Fn(&Tensor, bool) -> Tensor,
    stop_at: Option<u64>,
) -> Result<(), Error> {
    let test = Images::new(40);
    while let Some(_epoch) = session.next_epoch()? {
        while let Some(batch) = session.next_batch()? {
            session.step(&batch, |b| net(&b.x, true).cross_entropy_for_logits(&b.y))?;
            if stop_at.is_some_and(|s| session.steps() >= s) {
                session.stop_handle().stop("the test asked");
            }
        }
        let mut right = 0.0;
        for batch in session.evaluation(&test, 16) {
            let batch = batch?;
            let logits = tch::no_grad(|| net(&batch.x, false));
            right +=
                logits.argmax(1, false).eq_tensor(&batch.y).sum(Kind::Double).double_value(&[]);
        }
        session.end_epoch([("accuracy", right / 40.0)])?;
    }
    Ok(())
}

/// Every byte of the model and the optimiser, by name.
pub fn bytes(session: &Session, vs: &nn::VarStore) -> Vec<(String, Vec<u8>)> {
    let mut all: Vec<(String, Tensor)> = vs.variables().into_iter().collect();
    all.extend(session.buffers());
    all.sort_by(|a, b| a.0.cmp(&b.0));
    all.into_iter()
        .map(|(name, t)| {
            let mut bytes = vec![0; t.numel() * t.kind().elt_size_in_bytes()];
            let n = t.numel();
            t.detach().contiguous().copy_data_u8(&mut bytes, n);
            (name, bytes)
        })
        .collect()
}

/// The outcome of a stop by [`train`].
pub fn is_yield(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Yielded { .. }) && outcome.exit_code() == 75
}

/// The files of the newest checkpoint's model and training tensors.
pub fn newest_tensors(folder: &Path) -> (Vec<u8>, Vec<u8>) {
    let mut names: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|e| e.unwrap().path())
        .filter(|p| p.file_name().unwrap().to_str().unwrap().starts_with("ckpt-"))
        .filter(|p| p.extension().is_none())
        .collect();
    names.sort();
    let newest = names.pop().unwrap();
    let read = |file| std::fs::read(newest.join(file)).unwrap();
    (read("model.safetensors"), read("training.safetensors"))
}
