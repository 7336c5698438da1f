//! What jobs have shown of their trajectories, kept by likeness and within bounds.

use std::collections::{BTreeMap, VecDeque};
use std::hash::Hash;

use crate::types::{Adaptation, JobId, JobProgress, JobSpec};

/// Records kept of each class and of each wider circle: enough to see a habit.
const RING: usize = 8;
/// Wider circles are not asked once there are so many records.
const ENOUGH: usize = 12;
/// Records kept in all; the oldest go first.
const MOST: usize = 20_000;
/// A running job without a change tells something once it has trained this part of its epochs.
const TELLING: f64 = 0.35;

/// Policies whose regimes are learnt about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Kind {
    Accordion,
    Gns,
}

impl Kind {
    /// `None` when nothing about the job's regimes is random.
    pub(super) fn of(spec: &JobSpec) -> Option<Self> {
        match spec.adaptation {
            Adaptation::Accordion { small, large } if small != large => Some(Self::Accordion),
            Adaptation::Gns { initial, max } if initial != max => Some(Self::Gns),
            _ => None,
        }
    }
}

/// Jobs that are told apart by nothing that is declared but their length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Class {
    pub(super) kind: Kind,
    /// Number of the family's name.
    pub(super) family: u32,
    /// Limits that the policy declares, samples.
    pub(super) limits: (u32, u32),
    pub(super) initial: u32,
    pub(super) gpus: u32,
}

impl Class {
    fn of(spec: &JobSpec, family: u32) -> Option<Self> {
        let limits = match spec.adaptation {
            Adaptation::Accordion { small, large } => (small, large),
            Adaptation::Gns { initial, max } => (initial, max),
            _ => return None,
        };
        let (initial, gpus) = (spec.initial_batch, spec.gpus);
        Some(Self { kind: Kind::of(spec)?, family, limits, initial, gpus })
    }

    /// How alike jobs of the other class are: 0 the same class, up to [`LEVELS`] - 1.
    fn level(&self, other: &Self) -> usize {
        if self.family != other.family {
            3
        } else if self.limits != other.limits || self.initial != other.initial {
            2
        } else {
            usize::from(self.gpus != other.gpus)
        }
    }

    /// The circles that a class belongs to, from the narrowest: their parts that count, as a key.
    fn circles(&self) -> [Circle; LEVELS] {
        let family = Some(self.family);
        let (limits, initial) = (Some(self.limits), Some(self.initial));
        let circle = |family, limits, initial, gpus| (self.kind, family, limits, initial, gpus);
        [
            circle(family, limits, initial, Some(self.gpus)),
            circle(family, limits, initial, None),
            circle(family, None, None, None),
            circle(None, None, None, None),
        ]
    }
}

type Circle = (Kind, Option<u32>, Option<(u32, u32)>, Option<u32>, Option<u32>);

/// Degrees of likeness: the same class; other gang; other batch sizes; other family.
pub(super) const LEVELS: usize = 4;

/// A change of batch size that was seen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Change {
    /// Batch size of the regime that began.
    pub(super) to: u32,
    /// Epochs trained before it.
    pub(super) at: f64,
}

/// What one job has shown so far.
#[derive(Clone, Debug)]
pub(super) struct Record {
    pub(super) class: Class,
    pub(super) epochs_total: f64,
    /// Epochs trained so far: later ones are not known.
    pub(super) seen: f64,
    pub(super) changes: Vec<Change>,
}

/// Changes of batch size in order, without regimes that nothing was trained in.
pub(super) fn changes(progress: &JobProgress) -> Vec<Change> {
    let mut at = 0.0;
    let mut before = progress.regimes.first().map(|regime| regime.batch);
    let mut changes = Vec::new();
    for regime in &progress.regimes {
        if Some(regime.batch) != before {
            changes.push(Change { to: regime.batch, at });
            before = Some(regime.batch);
        }
        at += regime.epochs;
    }
    changes
}

/// Records by job, and the newest of each circle.
#[derive(Clone, Debug, Default)]
pub(super) struct History {
    records: BTreeMap<JobId, Record>,
    circles: BTreeMap<Circle, VecDeque<JobId>>,
    order: VecDeque<JobId>,
    /// Families by name, numbered in order of appearance.
    families: BTreeMap<String, u32>,
}

impl History {
    /// The job's class; `None` when nothing about its regimes is random.
    pub(super) fn class(&self, spec: &JobSpec) -> Option<Class> {
        // A family that was never seen is like no other.
        Class::of(spec, self.families.get(&spec.family).copied().unwrap_or(u32::MAX))
    }

    /// Takes note of where a job stands.
    pub(super) fn note(&mut self, spec: &JobSpec, progress: &JobProgress) {
        if Kind::of(spec).is_none() {
            return;
        }
        let (changes, seen) = (changes(progress), progress.epochs_done());
        let epochs_total = f64::from(spec.epochs_total);
        if let Some(record) = self.records.get_mut(&spec.id) {
            record.seen = seen;
            record.changes = changes;
            return;
        }
        if changes.is_empty() && seen < TELLING * epochs_total {
            return;
        }
        if !self.families.contains_key(&spec.family) {
            let number = self.families.len() as u32;
            self.families.insert(spec.family.clone(), number);
        }
        let Some(class) = self.class(spec) else { return };
        for circle in class.circles() {
            let ring = self.circles.entry(circle).or_default();
            if ring.len() == RING {
                ring.pop_front();
            }
            ring.push_back(spec.id);
        }
        self.records.insert(spec.id, Record { class, epochs_total, seen, changes });
        self.order.push_back(spec.id);
        if self.order.len() > MOST {
            self.forget_oldest();
        }
    }

    fn forget_oldest(&mut self) {
        let Some(id) = self.order.pop_front() else { return };
        let Some(record) = self.records.remove(&id) else { return };
        for circle in record.class.circles() {
            if let Some(ring) = self.circles.get_mut(&circle) {
                ring.retain(|other| *other != id);
                if ring.is_empty() {
                    self.circles.remove(&circle);
                }
            }
        }
    }

    /// Records of other jobs with their degree of likeness, the most alike first.
    pub(super) fn alike(&self, class: Class, id: JobId) -> Vec<(usize, &Record)> {
        let mut found: Vec<(usize, &Record)> = Vec::with_capacity(ENOUGH + RING);
        for (level, circle) in class.circles().into_iter().enumerate() {
            if found.len() >= ENOUGH {
                break;
            }
            let ring = self.circles.get(&circle).into_iter().flatten().filter(|x| **x != id);
            // Each record counts once, in the narrowest circle that it belongs to.
            let records = ring.filter_map(|other| self.records.get(other));
            found
                .extend(records.map(|r| (class.level(&r.class), r)).filter(|(at, _)| *at == level));
        }
        found
    }

    /// Changes that the job is already known for.
    pub(super) fn known_changes(&self, id: JobId) -> usize {
        self.records.get(&id).map_or(0, |record| record.changes.len())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::predictor::rules::tests::{job, regimes};

    fn gns(id: u64, gpus: u32, family: &str) -> JobSpec {
        let mut spec = job(100, 32, Adaptation::Gns { initial: 32, max: 256 });
        (spec.id, spec.gpus, spec.family) = (JobId(id), gpus, family.into());
        spec
    }

    fn levels(history: &History, spec: &JobSpec) -> Vec<usize> {
        history
            .alike(history.class(spec).unwrap(), spec.id)
            .iter()
            .map(|(level, _)| *level)
            .collect()
    }

    #[test]
    fn records_come_by_likeness_and_never_from_the_job_itself() {
        let mut history = History::default();
        let seen = regimes(&[(32, 10.0), (64, 1.0)]);
        for spec in [gns(1, 1, "a"), gns(2, 2, "a"), gns(3, 1, "b"), gns(4, 1, "a")] {
            history.note(&spec, &seen);
        }
        assert_eq!(levels(&history, &gns(1, 1, "a")), [0, 1, 3]);
        assert_eq!(levels(&history, &gns(9, 1, "c")), [3, 3, 3, 3]);
    }

    #[test]
    fn a_running_job_tells_nothing_at_its_start() {
        let mut history = History::default();
        let spec = gns(1, 1, "a");
        history.note(&spec, &regimes(&[(32, 30.0)]));
        assert!(levels(&history, &gns(2, 1, "a")).is_empty());
        history.note(&spec, &regimes(&[(32, 35.0)]));
        assert_eq!(levels(&history, &gns(2, 1, "a")), [0]);
    }

    #[test]
    fn memory_is_bounded_by_the_newest_of_each_circle() {
        let mut history = History::default();
        for id in 0..50 {
            let spec = gns(id, 1, "a");
            history.note(&spec, &regimes(&[(32, 5.0), (64, 1.0)]));
        }
        assert_eq!(levels(&history, &gns(99, 1, "a")).len(), RING);
        while history.order.len() > 1 {
            history.forget_oldest();
        }
        history.forget_oldest();
        assert!(history.records.is_empty() && history.circles.is_empty());
    }

    #[test]
    fn repeated_regimes_of_one_size_are_no_change() {
        let seen = regimes(&[(32, 3.0), (32, 4.0), (64, 1.0)]);
        assert_eq!(changes(&seen), [Change { to: 64, at: 7.0 }]);
    }
}
