//! Packing with few restarts: gangs of one size share lanes, and a lane runs whole jobs in turn.
//!
//! Largest gangs first. Jobs that need every round take whole lanes, running jobs stand at the
//! head of lanes (they go on where they are), the others fill the lanes best-fit decreasing.
//! A job that fits nowhere whole is split over the gaps of several lanes, each gap moved to a
//! boundary between jobs so that the pieces' rounds are disjoint (McNaughton's wrap-around). What
//! a lane leaves free becomes lanes of the next smaller gang.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::{Program, Schedule};

/// A span of rounds `[from, to)` on one gang's worth of GPUs.
type Window = (usize, usize);

/// Number of windows of each (length, first round).
type Windows = BTreeMap<(usize, usize), usize>;

/// A window with jobs back to back from its start, then one gap.
struct Lane {
    window: Window,
    jobs: Vec<(usize, usize)>,
    /// Leading jobs that must stay at the window's start.
    heads: usize,
    gap: usize,
}

/// The lanes of one gang size.
struct Class<'a> {
    counts: &'a [usize],
    schedule: &'a mut Schedule,
    lanes: Vec<Lane>,
    /// Windows not yet opened: how many of each (length, first round).
    unopened: Windows,
    /// What split jobs have left of the gaps they used.
    spare: Vec<Window>,
    /// `by_gap[g]`: open lanes with a gap of g rounds.
    by_gap: Vec<Vec<usize>>,
}

/// Places `counts` in lanes of the sizes in `chain`; `keep` marks running jobs to be left where
/// they are. May leave rounds out, which the caller must check.
pub(super) fn pack_lanes(
    program: &Program,
    counts: &[usize],
    chain: &[u32],
    keep: &[bool],
) -> Schedule {
    let mut schedule = Schedule::empty(counts.len(), program.rounds);
    let mut windows = Windows::new();
    let mut free = program.gpus;
    for (rank, &size) in chain.iter().enumerate() {
        let copies = if rank == 0 { 1 } else { (chain[rank - 1] / size) as usize };
        windows.values_mut().for_each(|count| *count *= copies);
        if free >= size {
            *windows.entry((program.rounds, 0)).or_default() += (free / size) as usize;
            free %= size;
        }
        let jobs: Vec<usize> = (0..counts.len())
            .filter(|&job| counts[job] > 0 && program.items[job].gpus == size)
            .collect();
        windows = Class::new(counts, &mut schedule, windows).run(jobs, keep);
    }
    schedule
}

impl<'a> Class<'a> {
    fn new(counts: &'a [usize], schedule: &'a mut Schedule, unopened: Windows) -> Self {
        let by_gap = vec![Vec::new(); schedule.rounds() + 1];
        Self { counts, schedule, lanes: vec![], unopened, spare: vec![], by_gap }
    }

    /// Takes one window of a kind from those not yet opened.
    fn take(&mut self, kind: (usize, usize)) -> Window {
        if let Some(count) = self.unopened.get_mut(&kind) {
            *count -= 1;
            if *count == 0 {
                self.unopened.remove(&kind);
            }
        }
        (kind.1, kind.1 + kind.0)
    }

    /// Places the class's jobs; returns the windows that are left for smaller gangs.
    fn run(mut self, mut jobs: Vec<usize>, keep: &[bool]) -> Windows {
        let rounds = self.schedule.rounds();
        jobs.sort_by_key(|&job| (Reverse(self.counts[job]), job));
        let (heads, others): (Vec<usize>, Vec<usize>) =
            jobs.into_iter().partition(|&job| keep[job] || self.counts[job] == rounds);
        let mut floating = Vec::new();
        for job in heads {
            if !self.open_head(job) {
                floating.push(job);
            }
        }
        floating.extend(others);
        floating.sort_by_key(|&job| (Reverse(self.counts[job]), job));
        self.open_for(&floating);
        let late: Vec<usize> = floating.into_iter().filter(|&job| !self.fit_whole(job)).collect();
        for job in late {
            self.split(job);
        }
        self.finish()
    }

    /// Opens the shortest window from round 0 on that holds `job`, with the job at its head.
    fn open_head(&mut self, job: usize) -> bool {
        let need = self.counts[job];
        let long_enough = self.unopened.range((need, 0)..).map(|(&kind, _)| kind);
        let Some(kind) = long_enough.into_iter().find(|&(_, from)| from == 0) else {
            return false;
        };
        let window = self.take(kind);
        self.lanes.push(Lane {
            window,
            jobs: vec![(job, need)],
            heads: 1,
            gap: window.1 - window.0 - need,
        });
        self.index(self.lanes.len() - 1);
        true
    }

    /// Opens the shortest windows until the gaps hold `jobs` by volume.
    fn open_for(&mut self, jobs: &[usize]) {
        let need: usize = jobs.iter().map(|&job| self.counts[job]).sum();
        let mut gaps: usize = self.lanes.iter().map(|lane| lane.gap).sum();
        while gaps < need
            && let Some((&kind, _)) = self.unopened.first_key_value()
        {
            let window = self.take(kind);
            self.open(window);
            gaps += kind.0;
        }
    }

    fn open(&mut self, window: Window) {
        self.lanes.push(Lane { window, jobs: vec![], heads: 0, gap: window.1 - window.0 });
        self.index(self.lanes.len() - 1);
    }

    fn index(&mut self, lane: usize) {
        self.by_gap[self.lanes[lane].gap].push(lane);
    }

    /// Puts a job whole into the tightest gap that holds it.
    fn fit_whole(&mut self, job: usize) -> bool {
        let need = self.counts[job];
        let Some(gap) = (need..self.by_gap.len()).find(|&gap| !self.by_gap[gap].is_empty()) else {
            return false;
        };
        if let Some(lane) = self.by_gap[gap].pop() {
            self.lanes[lane].jobs.push((job, need));
            self.lanes[lane].gap -= need;
            self.index(lane);
        }
        true
    }

    /// Splits a job over spare windows and the gaps of lanes; opens another lane if need be.
    fn split(&mut self, job: usize) {
        let mut need = self.counts[job];
        while need > 0 {
            need -= match self.piece_of_spare(job, need).or_else(|| self.piece_of_gap(job, need)) {
                Some(length) => length,
                None => {
                    let Some((&kind, _)) = self.unopened.last_key_value() else { return };
                    let window = self.take(kind);
                    self.spare.push(window);
                    0
                }
            };
        }
    }

    /// Takes the longest run of a spare window in which the job does not run yet.
    fn piece_of_spare(&mut self, job: usize, need: usize) -> Option<usize> {
        let mut best: Option<(usize, usize, usize)> = None;
        for (index, &(from, to)) in self.spare.iter().enumerate() {
            let mut round = from;
            while round < to {
                let run = self.free_run(job, round, to);
                if run > best.map_or(0, |b| b.2) {
                    best = Some((index, round, run));
                }
                round += run + 1;
            }
        }
        let (index, from, run) = best?;
        let length = run.min(need);
        let window = self.spare.swap_remove(index);
        for round in from..from + length {
            self.schedule.set(job, round);
        }
        self.spare.extend(
            [(window.0, from), (from + length, window.1)].into_iter().filter(|w| w.0 < w.1),
        );
        Some(length)
    }

    /// Moves a lane's gap to where most of the job fits and takes that part of it.
    fn piece_of_gap(&mut self, job: usize, need: usize) -> Option<usize> {
        let longest = self.by_gap.len() - 1;
        let gaps = (need..=longest).chain((1..need.min(longest + 1)).rev());
        for gap in gaps {
            for at in (0..self.by_gap[gap].len()).rev() {
                let lane = self.by_gap[gap][at];
                if let Some((boundary, from, length)) = self.best_boundary(lane, job, need) {
                    self.by_gap[gap].swap_remove(at);
                    self.use_gap(lane, boundary, (from, from + length), job);
                    return Some(length);
                }
            }
        }
        None
    }

    /// The boundary between a lane's jobs at which its gap holds the longest piece of `job`:
    /// (jobs before the gap, first round of the piece, rounds).
    fn best_boundary(&self, lane: usize, job: usize, need: usize) -> Option<(usize, usize, usize)> {
        let Lane { window, jobs, heads, gap } = &self.lanes[lane];
        let mut best: Option<(usize, usize, usize)> = None;
        let mut at = window.0;
        for before in 0..=jobs.len() {
            if before > 0 {
                at += jobs[before - 1].1;
            }
            if before < *heads {
                continue;
            }
            for from in [at, at + gap - need.min(*gap)] {
                let run = self.free_run(job, from, at + gap).min(need);
                if run > best.map_or(0, |b| b.2) {
                    best = Some((before, from, run));
                }
            }
        }
        best
    }

    /// Fixes a lane with its gap after `before` jobs and `job` in the rounds `piece` of the gap;
    /// the rest of the gap becomes spare.
    fn use_gap(&mut self, lane: usize, before: usize, piece: Window, job: usize) {
        let lane = &mut self.lanes[lane];
        let jobs = std::mem::take(&mut lane.jobs);
        let gap = std::mem::take(&mut lane.gap);
        let gap_from = lane.window.0 + jobs[..before].iter().map(|placed| placed.1).sum::<usize>();
        let mut at = lane.window.0;
        for (index, (other, length)) in jobs.into_iter().enumerate() {
            at += if index == before { gap } else { 0 };
            (at..at + length).for_each(|round| self.schedule.set(other, round));
            at += length;
        }
        (piece.0..piece.1).for_each(|round| self.schedule.set(job, round));
        let rest = [(gap_from, piece.0), (piece.1, gap_from + gap)];
        self.spare.extend(rest.into_iter().filter(|window| window.0 < window.1));
    }

    /// Rounds from `from` on, before `to`, in which the job does not run yet.
    fn free_run(&self, job: usize, from: usize, to: usize) -> usize {
        self.schedule.row(job)[from..to].iter().take_while(|&&runs| !runs).count()
    }

    /// Writes the lanes that were not split and returns what is free.
    fn finish(self) -> Windows {
        let mut windows = self.unopened;
        for (from, to) in self.spare {
            *windows.entry((to - from, from)).or_default() += 1;
        }
        for lane in self.lanes {
            let mut at = lane.window.0;
            for (job, length) in lane.jobs {
                (at..at + length).for_each(|round| self.schedule.set(job, round));
                at += length;
            }
            if lane.gap > 0 {
                *windows.entry((lane.gap, at)).or_default() += 1;
            }
        }
        windows
    }
}
