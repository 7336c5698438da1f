//! A run that is stopped and resumed ends with the same bits as one that is not, with the determinism flags on.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use shockwave_sdk::monitor::NoiseSettings;
use shockwave_sdk::policy::Gns;
use shockwave_sdk::set_deterministic;
use tch::Tensor;

use crate::machine::Machine;
use crate::rows::{Row, Rows};
use crate::training::{Pictures, Run};

const EPOCHS: u64 = 2;

/// Trains to the end, or to a stop before step `stop_at`; the parameters, and whether the run calls itself exact.
fn train(machine: &Machine, folder: &Path, stop_at: Option<u64>) -> Result<(Tensor, bool)> {
    let (batch, steps) = if machine.is_gpu() { (128, 30) } else { (16, 6) };
    let data = Pictures::new(machine.device, 4 * batch, steps * batch);
    let policy = Gns::new(batch as u64, 2 * batch as u64);
    let mut run = Run::new(machine, policy, data, |builder| {
        let noise = NoiseSettings { every_steps: 3, beta: 0.9 };
        builder.epochs(EPOCHS).noise(noise).checkpoints(folder)
    })?;
    while run.session.next_epoch()?.is_some() {
        loop {
            if stop_at == Some(run.session.steps()) {
                run.session.stop_handle().stop("the check stops it");
            }
            if run.step()?.is_none() {
                break;
            }
        }
        run.session.end_epoch([] as [(&str, f64); 0])?;
    }
    let parameters = run.parameters();
    let exact = run.session.is_exact();
    run.session.finish()?;
    Ok((parameters, exact))
}

/// Elements that differ in any bit that counts: NaN differs from everything.
fn differing(left: &Tensor, right: &Tensor) -> Result<i64> {
    Ok(left.f_ne_tensor(right)?.f_sum(tch::Kind::Int64)?.f_int64_value(&[])?)
}

/// With the flags on, whatever happens inside: they are off afterwards.
pub fn deterministically<T>(body: impl FnOnce() -> Result<T>) -> Result<T> {
    set_deterministic(true)?;
    let done = body();
    set_deterministic(false)?;
    done
}

pub fn check(machine: &Machine, rows: &mut Rows) -> Result<()> {
    if machine.is_gpu() {
        let set = std::env::var_os("CUBLAS_WORKSPACE_CONFIG").is_some();
        ensure!(set, "CUBLAS_WORKSPACE_CONFIG is not set: cuBLAS wants it to be :4096:8");
    }
    let folder = machine.folder.join("resume");
    let fresh = |name: &str| -> Result<_> {
        let folder = folder.join(name);
        if folder.exists() {
            std::fs::remove_dir_all(&folder)
                .with_context(|| format!("{} cannot be emptied", folder.display()))?;
        }
        Ok(folder)
    };
    let (whole, stopped) = (fresh("whole")?, fresh("stopped")?);
    let (left, right, exact) = deterministically(|| {
        let (left, _) = train(machine, &whole, None)?;
        let stop_at = if machine.is_gpu() { 17 } else { 4 };
        let _ = train(machine, &stopped, Some(stop_at))?;
        let (right, exact) = train(machine, &stopped, None)?;
        Ok((left, right, exact))
    })?;
    let differ = differing(&left, &right)?;
    let name = "resume: parameters that differ from an uninterrupted run's";
    let claim =
        if exact { "the run calls itself exact" } else { "the run calls itself approximate" };
    let row = Row::new(name, differ as f64, "parameters").goal("0", differ == 0 && exact);
    rows.add(row.against(format!("{} parameters; {claim}", left.numel())))?;
    std::fs::remove_dir_all(&folder).context("the check's checkpoints cannot be removed")
}
