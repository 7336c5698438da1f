//! Trains a recommender with tch alone: the loop that `neumf_ratings` starts from.

use anyhow::Result;
use clap::Parser;
use shockwave_examples::accuracy::Accuracy;
use shockwave_examples::plain::in_order;
use shockwave_examples::ratings::{NeuMf, RatingsOptions, loss};
use shockwave_sdk::Dataset;
use tch::nn::{Module, VarStore};
use tch::{Device, no_grad};

fn main() -> Result<()> {
    let options = RatingsOptions::parse();
    options.training.prepare();
    let (train, test) = options.load()?;
    let vars = VarStore::new(Device::cuda_if_available());
    let net = NeuMf::new(&vars.root(), &options);
    let mut optimizer = options.training.plain_optimizer(&vars)?;
    for epoch in 0..options.training.epochs {
        for indices in options.training.shuffled(train.len(), epoch) {
            let batch = train.batch(&indices)?.to_device(vars.device())?;
            optimizer.backward_step(&loss(&net.forward(&batch.x), &batch.y));
        }
        let mut hits = Accuracy::default();
        for indices in in_order(test.len(), 256) {
            let batch = test.batch(&indices)?.to_device(vars.device())?;
            hits.add_ranked(&no_grad(|| net.forward(&batch.x)));
        }
        println!("epoch {epoch}: hits among the first ten {:.4}", hits.share());
    }
    Ok(())
}
