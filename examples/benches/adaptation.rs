//! What adaptation saves: a small ResNet with a small batch, a large one, Accordion and the noise scale, over several
//! seeds. `cargo xtask bench adaptation --data DIR` (a folder with CIFAR-10's binary files; without it, generated
//! pictures). It takes an hour or more on two cores.
//!
//! All runs see the same samples and the same learning-rate schedule; the rate follows the batch size linearly, from the
//! small batch's. Runs of one seed begin with the same weights.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use clap::Parser;
use serde_json::json;
use shockwave_examples::accuracy::Accuracy;
use shockwave_examples::cifar::{ResNet, ResNetConfig};
use shockwave_sdk::data::Images;
use shockwave_sdk::lr::{BatchRule, LearningRate, Schedule};
use shockwave_sdk::optim::Sgd;
use shockwave_sdk::policy::{Accordion, BatchPolicy, Gns, GnsRule, Static};
use shockwave_sdk::{Output, Session};
use tch::nn::{ModuleT, VarStore};
use tch::{Device, no_grad};

/// The options after `--`.
#[derive(Debug, Parser)]
#[command(about = "Steps and accuracy with and without adaptation")]
struct Options {
    /// Folder with CIFAR-10's binary files [default: generated pictures].
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Training pictures.
    #[arg(long, default_value_t = 2000)]
    train_samples: usize,
    /// Test pictures.
    #[arg(long, default_value_t = 2000)]
    test_samples: usize,
    /// How many seeds.
    #[arg(long, default_value_t = 3)]
    seeds: u64,
    /// The first of them.
    #[arg(long, default_value_t = 1)]
    first_seed: u64,
    /// Epochs of a run.
    #[arg(long, default_value_t = 20)]
    epochs: u64,
    /// Epochs between two decisions.
    #[arg(long, default_value_t = 3)]
    period: u64,
    /// The small batch.
    #[arg(long, default_value_t = 32)]
    batch: u64,
    /// The large batch.
    #[arg(long, default_value_t = 256)]
    max_batch: u64,
    /// The learning rate at the small batch.
    #[arg(long, default_value_t = 0.025)]
    lr: f64,
    /// Layers of the network.
    #[arg(long, default_value_t = 8)]
    depth: usize,
    /// Channels of its first stage.
    #[arg(long, default_value_t = 8)]
    width: i64,
    /// Crop and mirror the training pictures.
    #[arg(long)]
    augment: bool,
    /// Threads of libtorch.
    #[arg(long, default_value_t = 1)]
    threads: i32,
    /// Cargo's own.
    #[arg(long, hide = true)]
    bench: bool,
}

/// Who sets the batch size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Arm {
    Small,
    Large,
    Accordion,
    Gns,
}

const ARMS: [(Arm, &str); 4] = [
    (Arm::Small, "always small"),
    (Arm::Large, "always large"),
    (Arm::Accordion, "Accordion"),
    (Arm::Gns, "noise scale"),
];

/// What a run leaves.
#[derive(Debug, Clone, Copy)]
struct Run {
    accuracy: f64,
    steps: u64,
    cpu_s: f64,
}

impl Options {
    fn policy(&self, arm: Arm) -> Box<dyn BatchPolicy> {
        let (small, large, period) = (self.batch, self.max_batch, self.period);
        match arm {
            Arm::Small => Box::new(Static::new(small)),
            Arm::Large => Box::new(Static::new(large)),
            Arm::Accordion => Box::new(Accordion::new(small, large).window(period)),
            Arm::Gns => Box::new(Gns::new(small, large).rule(GnsRule::Doubling { period })),
        }
    }

    /// A tenth of the rate in the last quarter of the epochs.
    fn rate(&self) -> LearningRate {
        let drop = (0.75 * self.epochs as f64).round();
        LearningRate::new()
            .schedule(Schedule::Step(vec![(drop, 0.1)]))
            .rule(BatchRule::Linear)
            .reference_batch(self.batch)
            .warmup_epochs(2.0)
    }

    fn run(&self, arm: Arm, seed: u64, train: Images, test: &Images) -> Result<Run> {
        tch::manual_seed(seed as i64);
        let vars = VarStore::new(Device::Cpu);
        let config =
            ResNetConfig { depth: self.depth, width: self.width, classes: 10, dropout: 0.0 };
        let net = ResNet::new(&vars.root(), &config)?;
        let sgd = Sgd::new(self.lr).momentum(0.9).weight_decay(5e-4);
        let mut session = Session::builder(&vars, sgd, self.policy(arm))
            .epochs(self.epochs)
            .seed(seed)
            .learning_rate(self.rate())
            .output(Output::Quiet)
            .offline()
            .build(train)?;
        let start = cpu_s();
        let mut accuracy = 0.0;
        while let Some(epoch) = session.next_epoch()? {
            while let Some(batch) = session.next_batch()? {
                session
                    .step(&batch, |b| net.forward_t(&b.x, true).cross_entropy_for_logits(&b.y))?;
            }
            if epoch.index + 1 == self.epochs {
                accuracy = share_of_right(&session, &net, test)?;
            }
            session.end_epoch([] as [(&str, f64); 0])?;
        }
        for decision in session.decisions() {
            let (epoch, old, new) = (decision.epoch, decision.old_batch, decision.new_batch);
            eprintln!("  from epoch {epoch}: {old} -> {new}: {}", decision.reason);
        }
        Ok(Run { accuracy, steps: session.steps(), cpu_s: cpu_s() - start })
    }
}

fn share_of_right(session: &Session, net: &ResNet, test: &Images) -> Result<f64> {
    let mut right = Accuracy::default();
    for batch in session.evaluation(test, 256) {
        let batch = batch?;
        right.add(&no_grad(|| net.forward_t(&batch.x, false)), &batch.y);
    }
    Ok(right.share())
}

/// CPU time of this process, in seconds: others use the machine too.
fn cpu_s() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes one timespec, which lives until it returns.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

fn mean(runs: &[Run], value: impl Fn(&Run) -> f64) -> f64 {
    runs.iter().map(value).sum::<f64>() / runs.len() as f64
}

fn row(name: &str, value: f64, unit: &str, goal: Option<&str>, holds: Option<bool>, against: &str) {
    let row = json!({"name": name, "value": value, "unit": unit, "goal": goal, "holds": holds, "against": against});
    println!("{row}");
}

/// The rows of one way to set the batch size, against the small batch.
fn report(arm: Arm, name: &str, runs: &[Run], small: &[Run]) {
    let points = 100.0 * mean(runs, |run| run.accuracy);
    let each: Vec<String> = runs.iter().map(|run| format!("{:.1}", 100.0 * run.accuracy)).collect();
    let seeds = format!("by seed: {}", each.join(", "));
    row(&format!("{name}: accuracy"), points, "%", None, None, &seeds);
    let steps = mean(runs, |run| run.steps as f64);
    row(&format!("{name}: steps"), steps, "steps", None, None, "");
    if arm == Arm::Small {
        return;
    }
    let judged = matches!(arm, Arm::Accordion | Arm::Gns);
    let lost = 100.0 * mean(small, |run| run.accuracy) - points;
    let (goal, holds) = (judged.then_some("<= 0.5"), judged.then_some(lost <= 0.5));
    row(&format!("{name}: accuracy lost"), lost, "points", goal, holds, "always small");
    let fewer = mean(small, |run| run.steps as f64) / steps;
    let (goal, holds) = (judged.then_some(">= 2"), judged.then_some(fewer >= 2.0));
    row(&format!("{name}: fewer steps"), fewer, "times", goal, holds, "always small");
    let time = mean(runs, |run| run.cpu_s) / mean(small, |run| run.cpu_s);
    row(&format!("{name}: CPU time"), time, "times", None, None, "always small");
}

fn main() -> Result<()> {
    let options = Options::parse();
    ensure!(options.seeds > 0, "--seeds 0: at least 1");
    ensure!(options.epochs >= 2, "--epochs {}: at least 2, the rate falls once", options.epochs);
    tch::set_num_threads(options.threads.max(1));
    let (train, test) = match &options.data {
        Some(folder) => Images::cifar10(folder).context("--data")?,
        None => Images::generated(1, options.train_samples, options.test_samples),
    };
    let train = train.take(options.train_samples).augmented(options.augment);
    let test = test.take(options.test_samples);
    let mut runs: [Vec<Run>; ARMS.len()] = Default::default();
    for seed in (options.first_seed..).take(options.seeds as usize) {
        for ((arm, name), runs) in ARMS.iter().zip(&mut runs) {
            let start = Instant::now();
            let run = options.run(*arm, seed, train.clone(), &test)?;
            eprintln!("seed {seed}, {name}: {run:?}, {:.0} s", start.elapsed().as_secs_f64());
            runs.push(run);
        }
    }
    for ((arm, name), own) in ARMS.iter().zip(&runs) {
        report(*arm, name, own, &runs[0]);
    }
    Ok(())
}
