//! A policy, a data set and a model of one's own, from the SDK alone: nothing here comes from the other examples.
//!
//! The points of two spirals are told apart. The policy doubles the batch whenever the training loss has not fallen for
//! two epochs, instead of letting the learning rate fall (Smith et al. 2018, "Don't decay the learning rate, increase the
//! batch size"): so the rate stays as it is when the batch grows.
//!
//! What to expect: a few seconds; the accuracy passes 0.85, and the batch grows from 16 to 256 on the way. Run it
//! with a folder for checkpoints, stop it with Ctrl-C and start it again: it goes on where it was, the policy too.
//! Under a coordinator: `shockwave submit -- target/debug/own_policy`. Exit codes: see the library.

use std::f32::consts::TAU;

use serde_json::{Value, json};
use shockwave_sdk::data::Draw;
use shockwave_sdk::lr::{BatchRule, LearningRate};
use shockwave_sdk::optim::Sgd;
use shockwave_sdk::policy::{BatchPolicy, Choice, Observation, PolicyDeclaration};
use shockwave_sdk::{Batch, Dataset, Error, Session};
use tch::nn::{self, Module, VarStore};
use tch::{Device, Kind, Tensor};

/// Points on two spirals, and which of the two.
struct Spirals {
    points: usize,
    seed: u64,
}

impl Dataset for Spirals {
    fn len(&self) -> usize {
        self.points
    }

    fn batch(&self, indices: &[usize]) -> Result<Batch, Error> {
        // A generator of its own for each point: the same whatever else is in the batch.
        let draw = Draw { seed: self.seed, epoch: 0 };
        let mut x = Vec::new();
        for &index in indices {
            let mut rng = draw.rng(index);
            let along: f32 = rand::Rng::random(&mut rng);
            let angle = TAU * (1.5 * along + 0.5 * (index % 2) as f32);
            let radius = 0.1 + along + 0.36 * (rand::Rng::random::<f32>(&mut rng) - 0.5);
            x.extend([radius * angle.cos(), radius * angle.sin()]);
        }
        let y: Vec<i64> = indices.iter().map(|&index| (index % 2) as i64).collect();
        let x = Tensor::f_from_slice(&x)?.f_view([-1, 2])?;
        Ok(Batch::new(x, Tensor::f_from_slice(&y)?))
    }
}

/// Doubles the batch when the training loss has not fallen for `patience` epochs.
struct Plateau {
    small: u64,
    large: u64,
    patience: u64,
    best: f64,
    since: u64,
}

impl BatchPolicy for Plateau {
    fn kind(&self) -> &str {
        "plateau"
    }

    fn initial(&self) -> u64 {
        self.small
    }

    /// What may happen, for whoever plans the machine: only to larger sizes, by doublings.
    fn declare(&self) -> PolicyDeclaration {
        let doubled = std::iter::successors(Some(self.small), |batch| Some(2 * batch));
        PolicyDeclaration {
            kind: self.kind().to_owned(),
            initial: self.small,
            configurations: doubled.take_while(|&batch| batch <= self.large).collect(),
            min: self.small,
            max: self.large,
            can_shrink: false,
            schedule: Vec::new(),
        }
    }

    fn decide(&mut self, now: &Observation<'_>) -> Result<Choice, Error> {
        if !now.epoch_ended {
            return Ok(Choice::new(now.batch, "decides at the end of epochs"));
        }
        self.since = if now.loss < self.best { 0 } else { self.since + 1 };
        self.best = self.best.min(now.loss);
        if self.since < self.patience || 2 * now.batch > self.large {
            return Ok(Choice::new(now.batch, "the loss still falls"));
        }
        self.since = 0;
        let reason = format!("the loss has not fallen for {} epochs", self.patience);
        Ok(Choice { estimate: Some(now.loss), ..Choice::new(2 * now.batch, reason) })
    }

    /// All that later decisions depend on; as bits, since JSON has no infinity.
    fn state(&self) -> Value {
        json!([self.best.to_bits(), self.since])
    }

    fn restore(&mut self, state: &Value) -> Result<(), Error> {
        let wrong = || Error::Data("the policy's state is not two numbers".into());
        let number = |index: usize| state[index].as_u64().ok_or_else(wrong);
        (self.best, self.since) = (f64::from_bits(number(0)?), number(1)?);
        Ok(())
    }
}

fn network(vars: &nn::Path) -> impl Module + use<> {
    nn::seq()
        .add(nn::linear(vars / "first", 2, 64, Default::default()))
        .add_fn(Tensor::tanh)
        .add(nn::linear(vars / "second", 64, 64, Default::default()))
        .add_fn(Tensor::tanh)
        .add(nn::linear(vars / "third", 64, 2, Default::default()))
}

fn train(folder: Option<String>) -> Result<i32, Error> {
    tch::manual_seed(1);
    tch::set_num_threads(1);
    let vars = VarStore::new(Device::cuda_if_available());
    let net = network(&vars.root());
    let policy = Plateau { small: 16, large: 256, patience: 2, best: f64::INFINITY, since: 0 };
    let mut builder = Session::builder(&vars, Sgd::new(0.05).momentum(0.9), policy)
        .epochs(60)
        .learning_rate(LearningRate::new().rule(BatchRule::None));
    if let Some(folder) = folder {
        builder = builder.checkpoints(folder);
    }
    let mut session = builder.build(Spirals { points: 1000, seed: 1 })?;
    let test = Spirals { points: 400, seed: 2 };
    while let Some(_epoch) = session.next_epoch()? {
        while let Some(batch) = session.next_batch()? {
            session.step(&batch, |b| net.forward(&b.x).cross_entropy_for_logits(&b.y))?;
        }
        let mut right = 0.0;
        for batch in session.evaluation(&test, 200) {
            let batch = batch?;
            let classes = tch::no_grad(|| net.forward(&batch.x)).f_argmax(1, false)?;
            right += classes.f_eq_tensor(&batch.y)?.f_sum(Kind::Double)?.f_double_value(&[])?;
        }
        session.end_epoch([("test_accuracy", right / test.len() as f64)])?;
    }
    println!("test accuracy {:.3}", session.metrics().get("test_accuracy").unwrap_or(&f64::NAN));
    for change in session.decisions() {
        let (epoch, old, new) = (change.epoch, change.old_batch, change.new_batch);
        println!("batch {old} -> {new} from epoch {epoch}: {}", change.reason);
    }
    Ok(session.finish()?.exit_code())
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next();
    let usage = "usage: own_policy [FOLDER FOR CHECKPOINTS]";
    if matches!(folder.as_deref(), Some("-h" | "--help")) {
        println!("{usage}");
        return;
    }
    if arguments.next().is_some() || folder.as_deref().is_some_and(|f| f.starts_with('-')) {
        eprintln!("{usage}");
        std::process::exit(2);
    }
    match train(folder) {
        Ok(code) => std::process::exit(code),
        Err(error) => {
            eprintln!("error: {error}");
            std::process::exit(1);
        }
    }
}
