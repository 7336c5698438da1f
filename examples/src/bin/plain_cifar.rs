//! Trains a ResNet on CIFAR-10 with tch alone: the loop that `resnet_cifar` starts from.

use anyhow::Result;
use clap::Parser;
use shockwave_examples::accuracy::Accuracy;
use shockwave_examples::cifar::{CifarOptions, Pictures, ResNet};
use shockwave_examples::plain::in_order;
use shockwave_sdk::Dataset;
use tch::nn::{ModuleT, VarStore};
use tch::{Device, no_grad};

fn main() -> Result<()> {
    let options = CifarOptions::parse();
    options.training.prepare();
    let Pictures { train, test, classes } = options.data.load()?;
    let vars = VarStore::new(Device::cuda_if_available());
    let net = ResNet::new(&vars.root(), &options.network.config(classes))?;
    let mut optimizer = options.training.plain_optimizer(&vars)?;
    for epoch in 0..options.training.epochs {
        for indices in options.training.shuffled(train.len(), epoch) {
            let batch = train.batch(&indices)?.to_device(vars.device())?;
            let loss = net.forward_t(&batch.x, true).cross_entropy_for_logits(&batch.y);
            optimizer.backward_step(&loss);
        }
        let mut accuracy = Accuracy::default();
        for indices in in_order(test.len(), 256) {
            let batch = test.batch(&indices)?.to_device(vars.device())?;
            accuracy.add(&no_grad(|| net.forward_t(&batch.x, false)), &batch.y);
        }
        println!("epoch {epoch}: test accuracy {:.4}", accuracy.share());
    }
    Ok(())
}
