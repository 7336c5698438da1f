//! What the SDK costs: monitoring, optimisers, checkpoints, against tch alone (ResNet-18, 11.17 M parameters, CPU time).
//!
//! Every figure is a median; what is compared runs in turns, so that a busy machine disturbs both alike.
#![allow(clippy::unwrap_used)] // A benchmark that fails should stop.

mod network;
mod workers;

use std::time::Instant;

use serde_json::json;
use shockwave_sdk::monitor::{NoiseSettings, squared_norm};
use shockwave_sdk::optim::{AdamW, Optimizer, Sgd};
use shockwave_sdk::policy::{Accordion, BatchPolicy, Compose, Gns, Mode, Static};
use shockwave_sdk::session::{Builder, Every};
use shockwave_sdk::{Batch, Dataset, Error, Output, Session};
use tch::nn::{self, ModuleT, OptimizerConfig};
use tch::{Device, Kind, Tensor};

use network::resnet18;

fn row(name: &str, value: f64, unit: &str, goal: &str, holds: Option<bool>, against: &str) {
    let row = json!({"name": name, "value": value, "unit": unit, "goal": goal, "holds": holds, "against": against});
    println!("{row}");
}

/// CPU time of this process, in seconds.
fn cpu_s() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes one timespec, which lives until it returns.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Random images; the same tensor for every batch, so that reading data costs nothing.
struct Noise(usize);

impl Dataset for Noise {
    fn len(&self) -> usize {
        self.0
    }

    fn batch(&self, indices: &[usize]) -> Result<Batch, Error> {
        let n = indices.len() as i64;
        let y: Vec<i64> = indices.iter().map(|&i| (i % 10) as i64).collect();
        Ok(Batch::new(
            Tensor::ones([n, 3, 32, 32], (Kind::Float, Device::Cpu)),
            Tensor::from_slice(&y),
        ))
    }
}

/// A session in the middle of an epoch, with its model.
struct Run {
    session: Session,
    net: Box<dyn ModuleT>,
    vs: nn::VarStore,
}

impl Run {
    fn new(
        policy: impl BatchPolicy + 'static,
        batch: u64,
        folder: Option<&std::path::Path>,
    ) -> Self {
        Self::with(policy, batch, folder, |builder| builder)
    }

    fn with(
        policy: impl BatchPolicy + 'static,
        batch: u64,
        folder: Option<&std::path::Path>,
        settings: impl FnOnce(Builder<'_>) -> Builder<'_>,
    ) -> Self {
        let vs = nn::VarStore::new(Device::Cpu);
        let net = Box::new(resnet18(&vs.root()));
        let optimizer: Box<dyn Optimizer> = match folder {
            Some(_) => Box::new(AdamW::new(1e-3)),
            None => Box::new(Sgd::new(1e-3).momentum(0.9).weight_decay(5e-4)),
        };
        let mut builder = Session::builder(&vs, optimizer, policy)
            .noise(NoiseSettings { every_steps: 10, beta: 0.99 })
            .output(Output::Quiet)
            .handle_signals(false)
            .offline()
            .checkpoint_every(Every::Steps(1));
        if let Some(folder) = folder {
            builder = builder.checkpoints(folder);
        }
        let mut session = settings(builder).build(Noise(1000 * batch as usize)).unwrap();
        session.next_epoch().unwrap();
        Self { session, net, vs }
    }

    fn step(&mut self) {
        let batch = self.session.next_batch().unwrap().unwrap();
        let net = &self.net;
        self.session
            .step(&batch, |b| net.forward_t(&b.x, true).cross_entropy_for_logits(&b.y))
            .unwrap();
    }
}

/// The loop with both policies' measurements against the same loop with none, over whole sampling periods.
fn monitoring(batch: u64, periods: usize, goal: f64) {
    let both =
        Compose::new(Mode::Both, Accordion::new(batch, 2 * batch), Gns::new(batch, 2 * batch));
    let (mut with, mut without) =
        (Run::new(both, batch, None), Run::new(Static::new(batch), batch, None));
    let mut overheads = Vec::new();
    with.step();
    without.step();
    for _ in 0..periods {
        // A step of each in turn: sampled steps come every ten.
        let (mut a, mut b) = (0.0, 0.0);
        for _ in 0..10 {
            let start = cpu_s();
            with.step();
            let middle = cpu_s();
            without.step();
            a += middle - start;
            b += cpu_s() - middle;
        }
        overheads.push(100.0 * (a / b - 1.0));
    }
    let value = median(overheads);
    let name = format!("monitoring, ResNet-18, B={batch}");
    row(
        &name,
        value,
        "% of CPU time",
        &format!("<= {goal}"),
        Some(value <= goal),
        "the same loop with a static policy",
    );
    let reads = with.session.host_reads() as f64;
    row(
        &format!("host reads in {} steps, B={batch}", 10 * periods + 1),
        reads,
        "reads",
        "0",
        Some(reads == 0.0),
        "",
    );
}

/// The session's whole loop against a plain tch loop with tch's own optimiser, a step of each in turn.
fn whole_loop(batch: u64, turns: usize) {
    let plain_vs = nn::VarStore::new(Device::Cpu);
    let plain_net = resnet18(&plain_vs.root());
    let sgd = nn::Sgd { momentum: 0.9, dampening: 0.0, wd: 5e-4, nesterov: false };
    let mut optimizer = sgd.build(&plain_vs, 1e-3).unwrap();
    let data = Noise(1000 * batch as usize);
    let mut session = Run::new(Static::new(batch), batch, None);
    let (mut ratios, mut steps) = (Vec::new(), Vec::new());
    for turn in 0..=turns {
        let start = cpu_s();
        session.step();
        let middle = cpu_s();
        let indices: Vec<usize> = (0..batch as usize).map(|i| turn * batch as usize + i).collect();
        let b = data.batch(&indices).unwrap();
        let loss = plain_net.forward_t(&b.x, true).cross_entropy_for_logits(&b.y);
        optimizer.backward_step(&loss);
        let plain = cpu_s() - middle;
        if turn > 0 {
            ratios.push(plain / (middle - start));
            steps.push(plain * 1e3);
        }
    }
    let value = median(ratios);
    let name = format!("the session's loop, ResNet-18, B={batch}");
    let against = format!("a plain tch loop with tch's own SGD: {:.0} ms a step", median(steps));
    // The goal is one at B = 128.
    let (goal, holds) = (">= 0.98 at B=128", (batch >= 128).then_some(value >= 0.98));
    row(&name, value, "times the samples/s of CPU time", goal, holds, &against);
}

/// What the flat gradient buffer costs beside tch's own way, in which each step's gradients are new tensors: autograd
/// adds to what is there. (The optimiser sets it to zero on its way: that pass costs nothing of its own.)
fn gradient_passes() {
    let vs = nn::VarStore::new(Device::Cpu);
    let _net = resnet18(&vs.root());
    let mut arena = shockwave_sdk::arena::Arena::new(&vs).unwrap();
    let new: Vec<Tensor> = vs.trainable_variables().iter().map(Tensor::ones_like).collect();
    let (mut adds, mut zeros) = (Vec::new(), Vec::new());
    for _ in 0..15 {
        let start = cpu_s();
        for (variable, new) in vs.trainable_variables().iter().zip(&new) {
            let _ = variable.grad().g_add_(new);
        }
        let middle = cpu_s();
        arena.zero_grads().unwrap();
        adds.push((middle - start) * 1e3);
        zeros.push((cpu_s() - middle) * 1e3);
    }
    let unit = "ms of CPU time";
    row("adding a step's gradients, ResNet-18", median(adds), unit, "none set", None, "");
    row("setting them to zero by themselves", median(zeros), unit, "none set", None, "");
}

/// What clipping and skipping add to a step: their passes over the gradient, against an SGD step.
fn gradient_control() {
    let mut with = Run::with(Static::new(2), 2, None, |b| b.clip_norm(1.0).skip_non_finite(true));
    let mut without = Run::new(Static::new(2), 2, None);
    let mut extra = Vec::new();
    for turn in 0..=15 {
        let start = cpu_s();
        with.step();
        let middle = cpu_s();
        without.step();
        if turn > 0 {
            extra.push((2.0 * middle - start - cpu_s()) * 1e3);
        }
    }
    let value = median(extra);
    let name = "clipping and skipping, ResNet-18";
    row(name, value, "ms of CPU time a step", "none set", None, "the same step without");
    let reads = with.session.host_reads() as f64;
    row("host reads of 16 such steps", reads, "reads", "0", Some(reads == 0.0), "");
}

fn optimisers() {
    let vs = nn::VarStore::new(Device::Cpu);
    let _net = resnet18(&vs.root());
    let arena = shockwave_sdk::arena::Arena::new(&vs).unwrap();
    let theirs = nn::VarStore::new(Device::Cpu);
    let net = resnet18(&theirs.root());
    let x = Tensor::randn([2, 3, 32, 32], (Kind::Float, Device::Cpu));
    net.forward_t(&x, true).sum(Kind::Float).f_backward().unwrap();
    let (mut params, mut grads) = (arena.params().shallow_clone(), arena.grads().shallow_clone());
    let noise = grads.randn_like() * 1e-3;
    let mut compare =
        |name: &str, ours: &mut dyn Optimizer, mut other: nn::Optimizer, goal: f64| {
            ours.prepare(arena.params()).unwrap();
            let (mut a, mut b) = (Vec::new(), Vec::new());
            for turn in 0..=30 {
                // A step may overwrite the gradients.
                grads.copy_(&noise);
                let start = cpu_s();
                tch::no_grad(|| ours.step(&mut params, &mut grads, 1e-6, None)).unwrap();
                let middle = cpu_s();
                other.step();
                if turn > 0 {
                    a.push(middle - start);
                    b.push(cpu_s() - middle);
                }
            }
            let (a, b) = (median(a), median(b));
            let text = format!("{:.2} ms of CPU time", b * 1e3);
            row(name, a / b, "times tch's own", &format!("<= {goal}"), Some(a / b <= goal), &text);
        };
    let sgd = nn::Sgd { momentum: 0.9, dampening: 0.0, wd: 5e-4, nesterov: false };
    let ours = &mut Sgd::new(0.1).momentum(0.9).weight_decay(5e-4);
    compare("SGD step", ours, sgd.build(&theirs, 1e-6).unwrap(), 1.0);
    let adamw = nn::AdamW { wd: 0.01, ..Default::default() };
    compare("AdamW step", &mut AdamW::new(1e-3), adamw.build(&theirs, 1e-6).unwrap(), 1.2);
}

/// CPU time of this thread, in seconds.
fn thread_s() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes one timespec, which lives until it returns.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

fn checkpoints() {
    let folder = tempfile::tempdir().unwrap();
    let mut saving = Run::new(Static::new(2), 2, Some(folder.path()));
    let mut plain = Run::new(Static::new(2), 2, None);
    let mut extra = Vec::new();
    for _ in 0..9 {
        // Wait for the write before, so that only the copy is measured.
        saving.session.save().unwrap();
        let (start, wall) = (thread_s(), Instant::now());
        saving.step();
        let (with, wall) = (thread_s() - start, wall.elapsed().as_secs_f64());
        let start = thread_s();
        plain.step();
        let without = thread_s() - start;
        eprintln!(
            "step with checkpoint {with:.3} s of CPU time, {wall:.3} s, without {without:.3} s"
        );
        extra.push((with - without) * 1e3);
    }
    let value = median(extra);
    let note =
        "the training thread's CPU time: AdamW step with a checkpoint, less an SGD step without";
    let name = "checkpoint of ResNet-18 and 2 moments: standstill";
    row(name, value, "ms", "<= 100", Some(value <= 100.0), note);
}

fn numerics() {
    let run = Run::new(Static::new(8), 8, None);
    let x = Tensor::randn([8, 3, 32, 32], (Kind::Float, Device::Cpu));
    let y = Tensor::randint(10, [8], (Kind::Int64, Device::Cpu));
    run.net.forward_t(&x, true).cross_entropy_for_logits(&y).f_backward().unwrap();
    let grads = run.session.arena().grads();
    let exact = grads.to_kind(Kind::Double).square().sum(Kind::Double).double_value(&[]);
    let error = (squared_norm(grads).unwrap().double_value(&[]) / exact - 1.0).abs();
    row(
        "|g|^2 of 11 M gradients",
        error,
        "relative error",
        "<= 1e-7",
        Some(error <= 1e-7),
        "double precision",
    );
    assert!(run.vs.len() > 60);
}

fn main() {
    tch::set_num_threads(1);
    tch::manual_seed(1);
    if std::env::var_os(workers::WORKER).is_some() {
        return workers::sum_as_worker();
    }
    let parts: [(&str, fn()); 10] = [
        ("numerics", numerics),
        ("optimisers", optimisers),
        ("checkpoints", checkpoints),
        ("gradient-control", gradient_control),
        ("all-reduce", workers::all_reduce),
        ("gradient-passes", gradient_passes),
        ("loop-16", || whole_loop(16, 15)),
        ("monitoring-16", || monitoring(16, 7, 2.0)),
        ("loop-128", || whole_loop(128, 7)),
        ("monitoring-128", || monitoring(128, 1, 1.0)),
    ];
    // Parts may be named. A step at B = 128 takes seconds on one core: REDUCE=1 leaves it out.
    let named: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with('-')).collect();
    let reduced = std::env::var_os("REDUCE").is_some();
    for (name, part) in parts {
        let chosen = named.is_empty() || named.iter().any(|n| n == name);
        if chosen && !(reduced && name.ends_with("-128")) {
            eprintln!("{name}");
            part();
        }
    }
}
