//! Trains a Transformer language model with tch alone: the loop that `transformer_text` starts from.

use anyhow::Result;
use clap::Parser;
use shockwave_examples::accuracy::Accuracy;
use shockwave_examples::plain::in_order;
use shockwave_examples::text::{TextOptions, Transformer, loss};
use shockwave_sdk::Dataset;
use tch::nn::{ModuleT, VarStore};
use tch::{Device, no_grad};

fn main() -> Result<()> {
    let options = TextOptions::parse();
    options.training.prepare();
    let (train, test) = options.load()?;
    let vars = VarStore::new(Device::cuda_if_available());
    let net = Transformer::new(&vars.root(), &options.config(&train))?;
    let mut optimizer = options.training.plain_optimizer(&vars)?;
    for epoch in 0..options.training.epochs {
        for indices in options.training.shuffled(train.len(), epoch) {
            let batch = train.batch(&indices)?.to_device(vars.device())?;
            optimizer.backward_step(&loss(&net.forward_t(&batch.x, true), &batch.y));
        }
        let mut accuracy = Accuracy::default();
        for indices in in_order(test.len(), 64) {
            let batch = test.batch(&indices)?.to_device(vars.device())?;
            accuracy.add(&no_grad(|| net.forward_t(&batch.x, false)), &batch.y);
        }
        println!("epoch {epoch}: next characters right {:.4}", accuracy.share());
    }
    Ok(())
}
