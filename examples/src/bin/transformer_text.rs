//! Trains a Transformer language model on a text file with a batch size that changes itself, alone or under a
//! coordinator.
//!
//! What to expect: `--epochs 8 --optimizer adamw --policy gns --period 2` on the generated text gets 0.7 of the next
//! characters right (0.2 after the first epoch), with the batch growing from 32 to 256. Exit codes: see the library.

use anyhow::Result;
use shockwave_examples::accuracy::Accuracy;
use shockwave_examples::adaptive::parse;
use shockwave_examples::text::{TextOptions, Transformer, loss};
use shockwave_sdk::Session;
use tch::nn::{ModuleT, VarStore};
use tch::{Device, no_grad};

fn main() -> Result<()> {
    let (options, adaptive) = parse::<TextOptions>();
    options.training.prepare();
    let (train, test) = options.load()?;
    let vars = VarStore::new(Device::cuda_if_available());
    let net = Transformer::new(&vars.root(), &options.config(&train))?;
    let (optimizer, policy) = adaptive.choose(&options.training)?;
    let builder = Session::builder(&vars, optimizer, policy);
    let log = adaptive.sample_log()?;
    let mut session = adaptive.configure(builder, &options.training).build(log.watch(train))?;
    while let Some(_epoch) = log.epoch(session.next_epoch()?)? {
        while let Some(batch) = session.next_batch()? {
            session.step(&batch, |b| loss(&net.forward_t(&b.x, true), &b.y))?;
        }
        let mut accuracy = Accuracy::default();
        for batch in session.evaluation(&test, 64) {
            let batch = batch?;
            accuracy.add(&no_grad(|| net.forward_t(&batch.x, false)), &batch.y);
        }
        session.end_epoch([("test_accuracy", accuracy.share())])?;
    }
    std::process::exit(adaptive.finish(session)?)
}
