//! Training in bf16: the loss falls as in full precision, and what a step takes.

use std::time::Instant;

use anyhow::Result;
use shockwave_sdk::Precision;
use shockwave_sdk::policy::Static;
use tch::{Kind, Tensor};

use crate::machine::Machine;
use crate::rows::{Row, Rows};
use crate::training::{Pictures, Run};

/// Losses of all steps, and the seconds of the later half of them.
fn train(
    machine: &Machine,
    precision: Precision,
    batch: usize,
    steps: usize,
) -> Result<(Vec<f64>, f64)> {
    let data = Pictures::new(machine.device, 4 * batch, steps * batch);
    let policy = Static::new(batch as u64);
    let mut run = Run::new(machine, policy, data, |builder| builder.precision(precision))?;
    run.session.next_epoch()?;
    let mut losses = Vec::new();
    let mut start = Instant::now();
    while let Some(loss) = run.step()? {
        losses.push(loss);
        if losses.len() == steps / 2 {
            machine.synchronize();
            start = Instant::now();
        }
    }
    machine.synchronize();
    let later_s = start.elapsed().as_secs_f64();
    // One read at the end: reading each would slow what is measured.
    let losses = Tensor::f_stack(&losses, 0)?.f_to_kind(Kind::Double)?;
    Ok((Vec::try_from(&losses)?, later_s))
}

/// Mean of some losses.
fn mean(losses: &[f64]) -> f64 {
    losses.iter().sum::<f64>() / losses.len().max(1) as f64
}

pub fn check(machine: &Machine, rows: &mut Rows) -> Result<()> {
    let (batch, steps) = if machine.is_gpu() { (512, 100) } else { (32, 40) };
    let (full, full_s) = train(machine, Precision::Full, batch, steps)?;
    let (half, half_s) = train(machine, Precision::Bf16, batch, steps)?;
    let tail = steps / 10;
    let (from, to) = (mean(&half[..2]), mean(&half[steps - tail..]));
    let finite = half.iter().all(|loss| loss.is_finite());
    let against = format!(
        "from {from:.3} in bf16; in full precision from {:.3} to {:.3}",
        mean(&full[..2]),
        mean(&full[steps - tail..])
    );
    let name = format!("bf16: loss after {steps} steps, B={batch}");
    let row = Row::new(name, to, "")
        .goal("at most half of the first, all finite", finite && to <= from / 2.0);
    rows.add(row.against(against))?;
    let name = format!("bf16: time of a step, B={batch}");
    let against = format!("full precision, {:.3} ms", 2e3 * full_s / steps as f64);
    rows.add(Row::new(name, half_s / full_s, "times").against(against))
}
