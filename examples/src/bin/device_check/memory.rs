//! The search for a micro-batch that the device's memory holds.

use anyhow::{Result, ensure};
use shockwave_sdk::Error;
use shockwave_sdk::policy::Static;
use tch::TchError;

use crate::machine::Machine;
use crate::rows::{Row, Rows};
use crate::training::{Pictures, Run};

/// Samples of the step on a GPU. ResNet-18 keeps some 6.5 MB of each for its backward pass: about 200 GB. More would take
/// single tensors of over 2^31 elements, which not every kernel knows.
const SAMPLES_GPU: usize = 30_000;

/// Samples of the step on a CPU, and how many "fit" there.
const SAMPLES_CPU: usize = 40;
const HELD_CPU: usize = 11;

pub fn check(machine: &Machine, rows: &mut Rows) -> Result<()> {
    let samples = if machine.is_gpu() { SAMPLES_GPU } else { SAMPLES_CPU };
    let data = Pictures::new(machine.device, samples, samples);
    let mut run =
        Run::new(machine, Static::new(samples as u64), data, |builder| builder.find_micro_batch())?;
    run.session.next_epoch()?;
    let mut passes = Vec::new();
    let on_cpu = !machine.is_gpu();
    let loss = run.step_after(|samples| {
        passes.push(samples);
        // A CPU's memory would swap first: it is told to be full, in the device's words.
        match on_cpu && samples > HELD_CPU {
            true => Err(Error::Torch(TchError::Torch("CUDA out of memory (pretended)".into()))),
            false => Ok(()),
        }
    })?;
    let loss = loss.map_or(f64::NAN, |loss| loss.double_value(&[]));
    ensure!(loss.is_finite(), "the step's loss is {loss}");
    let name = format!("micro-batch found for a step of {samples} samples");
    let tried = format!("forward passes of {passes:?} samples");
    let Some(found) = run.session.micro_batch() else {
        let row =
            Row::new(name, samples as f64, "samples").goal("a ceiling below the batch", false);
        return rows.add(row.against("memory held all of them: the check tells nothing here"));
    };
    let whole = passes.iter().rev().take_while(|&&pass| pass <= found).sum::<usize>() == samples;
    let row = Row::new(name, found as f64, "samples");
    rows.add(row.goal("a ceiling below the batch", found < samples && whole).against(tried))
}
