//! The sample log of a training program: which samples each epoch was trained on, in effect.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, bail};

/// The samples of each epoch in the order of training, as if it had never been interrupted.
///
/// A process that goes on from a checkpoint says how many samples of the epoch the checkpoint holds
/// (`epoch 3 done 96`): what was trained after that, and lost, does not count.
///
/// # Errors
/// The log cannot be read, or a process went on from further than the epoch had come.
pub fn effective(log: &Path) -> Result<BTreeMap<u64, Vec<u64>>> {
    share_of(log, 1)
}

/// The same of one of `workers` workers whose shares of each batch are equal.
fn share_of(log: &Path, workers: usize) -> Result<BTreeMap<u64, Vec<u64>>> {
    let text = std::fs::read_to_string(log).with_context(|| log.display().to_string())?;
    let mut epochs: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    let mut current = 0;
    for line in text.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        match words.as_slice() {
            ["epoch", epoch, "done", done] => {
                current = epoch.parse()?;
                let done: usize = done.parse::<usize>()? / workers;
                let samples = epochs.entry(current).or_default();
                if samples.len() < done {
                    bail!("{line:?}: only {} samples of it are logged", samples.len());
                }
                samples.truncate(done);
                // A resume in an earlier epoch undoes the later ones.
                epochs.retain(|epoch, _| *epoch <= current);
            }
            ["batch", indices] => {
                let samples = epochs.entry(current).or_default();
                for index in indices.split(',') {
                    samples.push(index.parse()?);
                }
            }
            // The last line of a killed process may be cut short; whole ones never look like this.
            _ => {}
        }
    }
    Ok(epochs)
}

/// Checks that each of `epochs` epochs was trained on every one of `samples` samples exactly once.
///
/// # Errors
/// Names the epoch, and what is missing or repeated.
pub fn check_once_each(log: &Path, epochs: u64, samples: u64) -> Result<()> {
    check_once_each_over(&[log], epochs, samples)
}

/// The same over the logs of all workers of a job; the batch sizes must be multiples of their number.
///
/// # Errors
/// As [`check_once_each`].
pub fn check_once_each_over(logs: &[&Path], epochs: u64, samples: u64) -> Result<()> {
    let shares = logs.iter().map(|log| share_of(log, logs.len()));
    let shares = shares.collect::<Result<Vec<_>>>()?;
    for epoch in 0..epochs {
        let mut seen: Vec<u64> =
            shares.iter().filter_map(|s| s.get(&epoch)).flatten().copied().collect();
        seen.sort_unstable();
        if seen != (0..samples).collect::<Vec<_>>() {
            let missing = (0..samples).filter(|index| !seen.contains(index)).count();
            bail!("epoch {epoch}: {} samples trained, {missing} of {samples} missing", seen.len());
        }
    }
    Ok(())
}
