//! Training processes are killed at random points: alone and in pairs, with SGD and AdamW, within a checkpoint's write,
//! in the middle of an epoch, just after a change of the batch size. Each run must end with the bytes of an undisturbed
//! one.

use anyhow::Result;

use crate::{process, setup};

/// Kills that the goal asks for.
const RUNS: u64 = 50;

/// Kills `runs` times in all (50 when not given); whether every run ended as it should.
pub(crate) fn run(runs: Option<u64>) -> Result<bool> {
    setup::ensure()?;
    let mut build = process::cargo();
    build.args(["build", "--quiet", "--locked", "--workspace", "--bins"]);
    if !process::succeeds(&mut build)? {
        return Ok(false);
    }
    let mut test = process::cargo();
    test.args(["test", "--locked", "--workspace", "--test", "kill_training", "--", "--nocapture"]);
    if let Some(path) = setup::library_path() {
        test.env("LD_LIBRARY_PATH", path);
    }
    process::succeeds(test.env("SHOCKWAVE_KILLS", runs.unwrap_or(RUNS).to_string()))
}
