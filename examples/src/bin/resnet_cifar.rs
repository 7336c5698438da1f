//! Trains a ResNet on CIFAR-10 with a batch size that changes itself, alone or under a coordinator.
//!
//! Exit codes: 0 training is complete, 75 it stopped on request and goes on when started again with
//! the same checkpoint folder, 76 its lease belongs to another process, 1 an error.

use anyhow::Result;
use clap::Parser;
use shockwave_examples::accuracy::Accuracy;
use shockwave_examples::adaptive::AdaptiveOptions;
use shockwave_examples::options::{DataOptions, NetworkOptions, TrainingOptions};
use shockwave_examples::resnet::ResNet;
use shockwave_sdk::Session;
use tch::nn::{ModuleT, VarStore};
use tch::{Device, no_grad};

/// Trains a ResNet on CIFAR-10.
#[derive(Debug, Parser)]
#[command(args_override_self = true)]
struct Options {
    #[command(flatten)]
    data: DataOptions,
    #[command(flatten)]
    network: NetworkOptions,
    #[command(flatten)]
    training: TrainingOptions,
    #[command(flatten)]
    adaptive: AdaptiveOptions,
}

fn main() -> Result<()> {
    let options = Options::parse();
    options.training.prepare();
    let (train, test) = options.data.load()?;
    let vars = VarStore::new(Device::cuda_if_available());
    let net = ResNet::new(&vars.root(), &options.network.config())?;
    let (optimizer, policy) = options.adaptive.choose(&options.training)?;
    let builder = Session::builder(&vars, optimizer, policy);
    let log = options.adaptive.sample_log()?;
    let mut session =
        options.adaptive.configure(builder, &options.training).build(log.watch(train))?;
    while let Some(_epoch) = log.epoch(session.next_epoch()?)? {
        while let Some(batch) = session.next_batch()? {
            session.step(&batch, |b| net.forward_t(&b.x, true).cross_entropy_for_logits(&b.y))?;
        }
        let mut accuracy = Accuracy::default();
        for batch in session.evaluation(&test, 256) {
            let batch = batch?;
            accuracy.add(&no_grad(|| net.forward_t(&batch.x, false)), &batch.y);
        }
        session.end_epoch([("test_accuracy", accuracy.share())])?;
    }
    std::process::exit(options.adaptive.finish(session)?)
}
