//! Trains a ResNet on CIFAR-10 with a batch size that changes itself, alone or under a coordinator.
//!
//! What to expect: two epochs on the generated pictures take about a minute on two cores, and the test accuracy passes
//! 0.5 within four. Exit codes: see the library.

use anyhow::Result;
use shockwave_examples::accuracy::Accuracy;
use shockwave_examples::adaptive::parse;
use shockwave_examples::cifar::{CifarOptions, Pictures, ResNet};
use shockwave_sdk::Session;
use tch::nn::{ModuleT, VarStore};
use tch::{Device, no_grad};

fn main() -> Result<()> {
    let (options, adaptive) = parse::<CifarOptions>();
    options.training.prepare();
    let Pictures { train, test, classes } = options.data.load()?;
    let vars = VarStore::new(Device::cuda_if_available());
    let net = ResNet::new(&vars.root(), &options.network.config(classes))?;
    let (optimizer, policy) = adaptive.choose(&options.training)?;
    let builder = Session::builder(&vars, optimizer, policy);
    let log = adaptive.sample_log()?;
    let mut session = adaptive.configure(builder, &options.training).build(log.watch(train))?;
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
    std::process::exit(adaptive.finish(session)?)
}
