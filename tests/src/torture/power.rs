//! Power loss (P1): every prefix of the store's writes is opened as a crash image, and once more with
//! only some of the writes that were not synced, the last of them torn.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use shockwave::store::{Snapshot, Store};

use super::tape::{self, Op};
use super::{Run, Scenario, Tally, log};

/// The scenario.
pub const SCENARIO: Scenario = Scenario {
    name: "power-loss",
    what: "P1: each prefix of the recorded writes opens with what was acknowledged",
    counts: "acknowledged records looked for",
    runs: 2600,
    ci_runs: 60,
    prepare,
};

/// Recorded operations: enough for a checkpoint of the write-ahead log, and its beginning anew.
const OPS: usize = 3600;
/// From one seed's image to the next; prime, so that every prefix comes once.
const STRIDE: u64 = 7919;
/// What a disk writes at once, bytes.
const SECTOR: usize = 512;

/// The content of files at a moment, as far as they are known to the disk.
#[derive(Clone, Default)]
struct Disk {
    synced: BTreeMap<String, Vec<u8>>,
    pending: Vec<Op>,
    acknowledged: u64,
}

fn prepare(_runs: u64) -> Result<Run> {
    let (ops, asked) = record_ops()?;
    let checkpoints = ops
        .iter()
        .filter(|op| matches!(op, Op::Write { file, offset: 0, .. } if file.ends_with("-wal")));
    ensure!(checkpoints.count() >= 2, "the write-ahead log was never begun anew");
    Ok(Box::new(move |seed, tally| {
        let upto = (seed.wrapping_mul(STRIDE) % (ops.len() as u64 + 1)) as usize;
        let disk = Disk::after(&ops[..upto]);
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        open_image(&disk.clone().all(), &disk, asked, &mut random, tally)
            .with_context(|| format!("all of {upto} writes"))?;
        open_image(&disk.clone().some(&mut random), &disk, asked, &mut random, tally)
            .with_context(|| format!("a part of what was not synced of {upto} writes"))
    }))
}

/// Lets a store work, and gives what it wrote and the last record it was asked for.
fn record_ops() -> Result<(Vec<Op>, u64)> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().canonicalize()?;
    tape::start(&path)?;
    let (store, writer) = Store::open(&path)?;
    let mut number = 0;
    while tape::length() < OPS {
        let group = 1 + number % 4;
        for _ in 0..group {
            number += 1;
            log::append(&writer, &log::record(number, "one"))?;
        }
        log::wait_for(&writer, number)?;
        tape::acknowledge(number);
        if number % 100 < group {
            let snapshot = Snapshot { number, now_s: number as f64, body: vec![7; 20_000] };
            writer.snapshot(snapshot, "torture")?;
        }
    }
    drop(writer);
    drop(store);
    Ok((tape::finish(), number))
}

impl Disk {
    fn after(ops: &[Op]) -> Self {
        let mut disk = Self::default();
        for op in ops {
            match op {
                Op::Acknowledged(number) => disk.acknowledged = *number,
                Op::Sync { file } => disk.sync(file),
                Op::Delete { file } => {
                    disk.pending.retain(|op| name(op) != Some(file));
                    disk.synced.remove(file);
                }
                Op::Write { .. } | Op::Truncate { .. } => disk.pending.push(op.clone()),
            }
        }
        disk
    }

    fn sync(&mut self, file: &str) {
        let (of_file, others) =
            std::mem::take(&mut self.pending).into_iter().partition(|op| name(op) == Some(file));
        self.pending = others;
        let of_file: Vec<Op> = of_file;
        of_file.iter().for_each(|op| self.apply(op));
    }

    fn apply(&mut self, op: &Op) {
        match op {
            Op::Write { file, offset, data } => {
                let content = self.synced.entry(file.clone()).or_default();
                let end = offset + data.len();
                if content.len() < end {
                    content.resize(end, 0);
                }
                content[*offset..end].copy_from_slice(data);
            }
            Op::Truncate { file, size } => {
                self.synced.entry(file.clone()).or_default().resize(*size, 0);
            }
            Op::Sync { .. } | Op::Delete { .. } | Op::Acknowledged(_) => {}
        }
    }

    /// Everything that was written has reached the disk.
    fn all(mut self) -> BTreeMap<String, Vec<u8>> {
        let pending = std::mem::take(&mut self.pending);
        pending.iter().for_each(|op| self.apply(op));
        self.synced
    }

    /// Of what was not synced, only some has reached the disk, in parts.
    fn some(mut self, random: &mut ChaCha8Rng) -> BTreeMap<String, Vec<u8>> {
        for mut op in std::mem::take(&mut self.pending) {
            if random.random_bool(0.5) {
                continue;
            }
            if let Op::Write { offset, data, .. } = &mut op
                && random.random_bool(0.3)
            {
                let sectors = (*offset % SECTOR + data.len()) / SECTOR;
                let kept = random.random_range(0..=sectors) * SECTOR;
                data.truncate(kept.saturating_sub(*offset % SECTOR));
            }
            self.apply(&op);
        }
        self.synced
    }
}

fn name(op: &Op) -> Option<&str> {
    match op {
        Op::Write { file, .. }
        | Op::Truncate { file, .. }
        | Op::Sync { file }
        | Op::Delete { file } => Some(file),
        Op::Acknowledged(_) => None,
    }
}

/// Opens a crash image as a coordinator does, and looks for what was acknowledged.
fn open_image(
    files: &BTreeMap<String, Vec<u8>>,
    disk: &Disk,
    asked: u64,
    random: &mut ChaCha8Rng,
    tally: &mut Tally,
) -> Result<()> {
    let folder = tempfile::tempdir()?;
    for (name, content) in files {
        std::fs::write(folder.path().join(name), content)?;
    }
    // Written without a sync after each commit: there, or not, or an older one.
    if disk.acknowledged > 0 && random.random_bool(0.7) {
        write_mark(folder.path(), random.random_range(1..=disk.acknowledged))?;
    }
    tally.note_sum("crash images", 1.0);
    let opened = Store::open(folder.path());
    let (store, _writer) = match opened {
        Ok(opened) => opened,
        // Before the first acknowledgement there is nothing to lose; a refusal says what to do.
        Err(_) if disk.acknowledged == 0 => return Ok(()),
        Err(error) => {
            tally.lost += disk.acknowledged;
            return Err(error.into());
        }
    };
    let found = log::all(&store.reader()?)?;
    log::check_prefix(&found, disk.acknowledged, asked, tally)
}

fn write_mark(folder: &Path, number: u64) -> Result<()> {
    Ok(std::fs::write(folder.join("high-water"), format!("{number:020}\n"))?)
}
