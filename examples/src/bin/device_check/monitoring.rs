//! What monitoring costs, and how often the host waits for the device.

use std::time::Instant;

use anyhow::Result;
use shockwave_sdk::SyncCount;
use shockwave_sdk::monitor::NoiseSettings;
use shockwave_sdk::policy::{Accordion, Compose, Gns, Mode, Static};
use shockwave_sdk::session::Builder;

use crate::machine::Machine;
use crate::rows::{Row, Rows};
use crate::training::{Pictures, Run};

/// Steps from one sample of the noise scale to the next: what is compared are whole periods.
const PERIOD: usize = 10;

/// The largest cost of monitoring, in percent.
const GOAL_PERCENT: f64 = 1.0;

/// Both policies' measurements at once, more than any one policy needs.
fn both(batch: u64) -> Compose {
    Compose::new(Mode::Both, Accordion::new(batch, 2 * batch), Gns::new(batch, 2 * batch))
}

fn sampled(builder: Builder<'_>) -> Builder<'_> {
    builder.noise(NoiseSettings { every_steps: PERIOD as u64, beta: 0.99 })
}

pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Seconds that one period takes, to the end of what it has queued.
fn period_s(machine: &Machine, run: &mut Run) -> Result<f64> {
    machine.synchronize();
    let start = Instant::now();
    for _ in 0..PERIOD {
        run.step()?;
    }
    machine.synchronize();
    Ok(start.elapsed().as_secs_f64())
}

/// The loop with both policies' measurements against the same loop with a static policy.
pub fn check(machine: &Machine, rows: &mut Rows) -> Result<()> {
    let (batches, turns): (&[u64], usize) =
        if machine.is_gpu() { (&[128, 1024], 31) } else { (&[16], 3) };
    for &batch in batches {
        let one = batch as usize;
        let steps = (turns + 3) * PERIOD;
        let data = || Pictures::new(machine.device, 4 * one, steps * one);
        let mut with = Run::new(machine, both(batch), data(), sampled)?;
        let mut without = Run::new(machine, Static::new(batch), data(), |builder| builder)?;
        with.session.next_epoch()?;
        without.session.next_epoch()?;
        let (mut percent, mut plain_ms) = (Vec::new(), Vec::new());
        for turn in 0..turns + 2 {
            let monitored = period_s(machine, &mut with)?;
            let plain = period_s(machine, &mut without)?;
            // The first turns choose kernels and fill the allocator's cache.
            if turn >= 2 {
                percent.push(100.0 * (monitored / plain - 1.0));
                plain_ms.push(1e3 * plain / PERIOD as f64);
            }
        }
        let value = median(percent);
        let step_ms = median(plain_ms);
        let against = format!("the same loop with a static policy, {step_ms:.3} ms a step");
        let name = format!("monitoring, B={batch}");
        let row = Row::new(name, value, "% of time").against(against);
        let row = row.goal(format!("<= {GOAL_PERCENT}"), value <= GOAL_PERCENT);
        rows.add(row.only_if(machine.is_gpu()))?;
    }
    Ok(())
}

/// An epoch with both policies' measurements: the session's own reads, and the waits that libtorch notices.
pub fn count_syncs(machine: &Machine, rows: &mut Rows) -> Result<()> {
    let (batch, steps): (u64, usize) = if machine.is_gpu() { (128, 100) } else { (16, 12) };
    let one = batch as usize;
    let data = Pictures::new(machine.device, 4 * one, steps * one);
    let mut run = Run::new(machine, both(batch), data, |builder| sampled(builder).epochs(2))?;
    // The first epoch chooses kernels.
    run.session.next_epoch()?;
    run.epoch()?;
    let before = run.session.host_reads();
    run.session.next_epoch()?;
    let count = SyncCount::start();
    let done = run.epoch();
    let waits = count.stop();
    done?;
    let reads = run.session.host_reads() - before;
    let name = format!("host reads of the session in an epoch of {steps} steps");
    rows.add(Row::new(name, reads as f64, "reads").goal("1", reads == 1))?;
    if let Some(waits) = waits {
        let name = format!("waits for the device in an epoch of {steps} steps");
        let row = Row::new(name, waits as f64, "waits").goal("1", waits == 1);
        rows.add(row.against("libtorch's own count").only_if(machine.is_gpu()))?;
    }
    Ok(())
}
