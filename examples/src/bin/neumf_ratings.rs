//! Trains a recommender with a batch size that changes itself, alone or under a coordinator.
//!
//! What to expect: with `--epochs 12 --batch 256 --optimizer adamw --policy gns --period 3` the share of users whose
//! kept item is ranked among the first ten of a hundred rises from 0.09 (a guess: 0.10) to 0.36 after four epochs and
//! stays there; the batch grows from 256 to 2048. Exit codes: see the library.

use anyhow::Result;
use shockwave_examples::accuracy::Accuracy;
use shockwave_examples::adaptive::parse;
use shockwave_examples::ratings::{NeuMf, RatingsOptions, loss};
use shockwave_sdk::Session;
use tch::nn::{Module, VarStore};
use tch::{Device, no_grad};

fn main() -> Result<()> {
    let (options, adaptive) = parse::<RatingsOptions>();
    options.training.prepare();
    let (train, test) = options.load()?;
    let vars = VarStore::new(Device::cuda_if_available());
    let net = NeuMf::new(&vars.root(), &options);
    let (optimizer, policy) = adaptive.choose(&options.training)?;
    let builder = Session::builder(&vars, optimizer, policy);
    let log = adaptive.sample_log()?;
    let mut session = adaptive.configure(builder, &options.training).build(log.watch(train))?;
    while let Some(_epoch) = log.epoch(session.next_epoch()?)? {
        while let Some(batch) = session.next_batch()? {
            session.step(&batch, |b| loss(&net.forward(&b.x), &b.y))?;
        }
        let mut hits = Accuracy::default();
        for batch in session.evaluation(&test, 256) {
            let batch = batch?;
            hits.add_ranked(&no_grad(|| net.forward(&batch.x)));
        }
        session.end_epoch([("test_accuracy", hits.share())])?;
    }
    std::process::exit(adaptive.finish(session)?)
}
