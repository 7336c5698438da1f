//! What jobs have shown of their trajectories, kept by likeness and within bounds.

use std::collections::{BTreeMap, VecDeque};
use std::hash::Hash;

use serde::{Deserialize, Serialize};

use crate::types::{Adaptation, JobId, JobProgress, JobSpec};

/// Records kept of each class and of each wider circle: enough to see a habit.
const RING: usize = 8;
/// Wider circles are not asked once there are so many records.
const ENOUGH: usize = 12;
/// Records kept in all, should jobs vanish without an end; the oldest go first.
const MOST: usize = 20_000;
/// A running job without a change tells something once it has trained this part of its epochs.
const TELLING: f64 = 0.35;

/// Policies whose regimes are learnt about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
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
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Change {
    /// Batch size of the regime that began.
    pub(super) to: u32,
    /// Epochs trained before it.
    pub(super) at: f64,
}

/// What one job has shown so far.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Record {
    pub(super) class: Class,
    pub(super) epochs_total: f64,
    /// Epochs trained so far: later ones are not known.
    pub(super) seen: f64,
    pub(super) changes: Vec<Change>,
    /// No more will be shown.
    pub(super) ended: bool,
    /// Rings that hold it. A running job's record outlives them, so that it is not taken for new.
    #[serde(skip)]
    rings: usize,
    /// Its place in the order of appearance.
    #[serde(skip)]
    turn: u64,
}

impl Record {
    pub(super) fn new(class: Class, spec: &JobSpec, progress: &JobProgress, ended: bool) -> Self {
        Self {
            class,
            epochs_total: f64::from(spec.epochs_total),
            seen: progress.epochs_done(),
            changes: changes(progress),
            ended,
            rings: 0,
            turn: 0,
        }
    }
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
    /// Records in order of appearance, and the next one's place.
    turns: BTreeMap<u64, JobId>,
    next_turn: u64,
    /// Families with records by name: number and how many records.
    families: BTreeMap<String, (u32, usize)>,
    next_family: u32,
}

impl History {
    /// The job's class; `None` when nothing about its regimes is random.
    pub(super) fn class(&self, spec: &JobSpec) -> Option<Class> {
        // A family that was never seen is like no other.
        let family = self.families.get(&spec.family).map_or(u32::MAX, |family| family.0);
        Class::of(spec, family)
    }

    /// Takes note of where a job stands, or how it `ended`.
    pub(super) fn note(&mut self, spec: &JobSpec, progress: &JobProgress, ended: bool) {
        let Some(class) = self.class(spec) else { return };
        let mut new = Record::new(class, spec, progress, ended);
        if let Some(record) = self.records.get_mut(&spec.id) {
            if ended && record.rings == 0 {
                self.forget(spec.id);
                return;
            }
            (new.rings, new.turn, new.class) = (record.rings, record.turn, record.class);
            *record = new;
            return;
        }
        if new.changes.is_empty() && !ended && new.seen < TELLING * new.epochs_total {
            return;
        }
        if class.family == u32::MAX {
            new.class.family = self.next_family;
            self.next_family += 1;
        }
        self.insert(spec.id, &spec.family, new);
        if self.records.len() > MOST
            && let Some((_, oldest)) = self.turns.pop_first()
        {
            self.forget(oldest);
        }
    }

    fn insert(&mut self, id: JobId, family: &str, mut record: Record) {
        let class = record.class;
        (record.turn, record.rings) = (self.next_turn, LEVELS);
        self.next_turn += 1;
        self.turns.insert(record.turn, id);
        self.records.insert(id, record);
        self.families.entry(family.to_owned()).or_insert((class.family, 0)).1 += 1;
        for circle in class.circles() {
            let ring = self.circles.entry(circle).or_default();
            ring.push_back(id);
            let oldest = if ring.len() > RING { ring.pop_front() } else { None };
            if let Some(oldest) = oldest
                && let Some(record) = self.records.get_mut(&oldest)
            {
                record.rings -= 1;
                if record.rings == 0 && record.ended {
                    self.forget(oldest);
                }
            }
        }
    }

    fn forget(&mut self, id: JobId) {
        let Some(record) = self.records.remove(&id) else { return };
        self.turns.remove(&record.turn);
        self.families.retain(|_, (family, records)| {
            *records -= usize::from(*family == record.class.family);
            *records > 0
        });
        for circle in record.class.circles() {
            if let Some(ring) = self.circles.get_mut(&circle) {
                ring.retain(|other| *other != id);
                if ring.is_empty() {
                    self.circles.remove(&circle);
                }
            }
        }
    }

    /// Every record with its family's name, in order of appearance: enough to build it again.
    pub(super) fn save(&self) -> Vec<(JobId, &str, &Record)> {
        let names: BTreeMap<u32, &str> =
            self.families.iter().map(|(name, family)| (family.0, name.as_str())).collect();
        let saved = |id: &JobId| {
            let record = self.records.get(id)?;
            Some((*id, *names.get(&record.class.family)?, record))
        };
        self.turns.values().filter_map(saved).collect()
    }

    /// The history of [`History::save`].
    pub(super) fn restore(saved: Vec<(JobId, String, Record)>) -> Self {
        let mut history = Self::default();
        for (id, family, record) in saved {
            history.next_family = history.next_family.max(record.class.family.saturating_add(1));
            history.insert(id, &family, record);
        }
        history
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
            history.note(&spec, &seen, false);
        }
        assert_eq!(levels(&history, &gns(1, 1, "a")), [0, 1, 3]);
        assert_eq!(levels(&history, &gns(9, 1, "c")), [3, 3, 3, 3]);
    }

    #[test]
    fn a_running_job_tells_nothing_at_its_start() {
        let mut history = History::default();
        let spec = gns(1, 1, "a");
        history.note(&spec, &regimes(&[(32, 30.0)]), false);
        assert!(levels(&history, &gns(2, 1, "a")).is_empty());
        history.note(&spec, &regimes(&[(32, 35.0)]), false);
        assert_eq!(levels(&history, &gns(2, 1, "a")), [0]);
    }

    #[test]
    fn memory_is_bounded_by_the_newest_of_each_circle() {
        let mut history = History::default();
        for id in 0..50 {
            let spec = gns(id, 1, "a");
            history.note(&spec, &regimes(&[(32, 5.0), (64, 1.0)]), false);
        }
        assert_eq!(levels(&history, &gns(99, 1, "a")).len(), RING);
        // Running jobs are remembered until they end; what no ring holds goes then.
        for id in 0..50 {
            let spec = gns(id, 1, "a");
            history.note(&spec, &regimes(&[(32, 5.0), (64, 95.0)]), true);
        }
        assert_eq!(history.records.len(), RING);
        for id in 0..50 {
            history.forget(JobId(id));
        }
        assert!(history.records.is_empty() && history.circles.is_empty());
        assert!(history.families.is_empty() && history.turns.is_empty());
    }

    #[test]
    fn a_saved_history_is_the_same() {
        let mut history = History::default();
        for id in 0..60 {
            let spec = gns(id, 1 + id as u32 % 3, ["a", "b", "c"][id as usize % 3]);
            history.note(&spec, &regimes(&[(32, 5.0), (64, id as f64)]), id % 2 == 0);
        }
        let saved = history.save().into_iter().map(|(id, name, r)| (id, name.into(), r.clone()));
        let restored = History::restore(saved.collect());
        assert_eq!(restored.records.len(), history.records.len());
        assert_eq!(restored.circles, history.circles);
        assert_eq!(restored.families, history.families);
    }

    #[test]
    fn repeated_regimes_of_one_size_are_no_change() {
        let seen = regimes(&[(32, 3.0), (32, 4.0), (64, 1.0)]);
        assert_eq!(changes(&seen), [Change { to: 64, at: 7.0 }]);
    }
}
