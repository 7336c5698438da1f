//! One job's trajectory, read as a forecast of another's.

use super::history::{Change, Kind, Record, changes};
use crate::predictor::regime;
use crate::types::{Adaptation, JobProgress, JobSpec};

/// Regimes ahead that a forecast tells apart; later ones are added to the last of their size.
pub(super) const AHEAD: usize = 8;

/// How positions carry over from one job to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mapping {
    /// Changes come after so many epochs.
    Epochs,
    /// Changes come after such a part of all epochs.
    Fraction,
}

/// The job that is forecast.
#[derive(Clone, Debug)]
pub(super) struct Target {
    pub(super) kind: Kind,
    /// Epochs in all, and trained so far.
    pub(super) total: f64,
    pub(super) done: f64,
    pub(super) seen: Vec<Change>,
    /// Batch sizes of the ongoing and later regimes.
    pub(super) batches: [u32; AHEAD],
    /// How many of them the declared policy implies.
    pub(super) implied: usize,
    /// For Accordion, the large size, at which a job is expected to stay.
    large: u32,
    /// Density of each seen change, and probability of none since, under the flat Dirichlet prior.
    flat_changes: Vec<f64>,
    flat_none_since: f64,
}

/// A trajectory that the target may take.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Candidate {
    /// Likelihood of what the target has shown, over its likelihood under the flat prior.
    pub(super) evidence: f64,
    /// How much it tells of the next change, 0 to 1: the flat prior's probability that the change
    /// would have come in the epochs that the record has seen and the target has not.
    pub(super) telling: f64,
    /// Epochs left in each regime ahead.
    pub(super) epochs: [f64; AHEAD],
    /// Standard deviation of where the next change comes, epochs; 0 without one.
    pub(super) spread: f64,
}

/// Uncertainty of a position that another job showed, epochs.
fn spread(at: f64) -> f64 {
    0.5 + 0.05 * at
}

/// Probability that a job does something that the other one gives no hint of.
const SURPRISE: f64 = 0.02;

/// Density and upper tail of Student's t with two degrees of freedom, whose heavy tails forgive.
fn student(t: f64) -> (f64, f64) {
    let root = (2.0 + t * t).sqrt();
    (1.0 / (root * root * root), 0.5 - 0.5 * t / root)
}

impl Target {
    pub(super) fn new(kind: Kind, spec: &JobSpec, progress: &JobProgress) -> Self {
        let implied = regime::ahead(spec, progress);
        let mut batches = [implied[0]; AHEAD];
        let large = match spec.adaptation {
            Adaptation::Accordion { small, large } => {
                let other = if implied[0] == large { small } else { large };
                (1..AHEAD).step_by(2).for_each(|i| batches[i] = other);
                large
            }
            _ => {
                let last = implied[implied.len() - 1];
                let all = implied.iter().copied().chain(std::iter::repeat(last));
                batches.iter_mut().zip(all).for_each(|(batch, implied)| *batch = implied);
                last
            }
        };
        let mut target = Self {
            kind,
            total: f64::from(spec.epochs_total),
            done: progress.epochs_done().min(f64::from(spec.epochs_total)),
            seen: changes(progress),
            batches,
            implied: implied.len().min(AHEAD),
            large,
            flat_changes: Vec::new(),
            flat_none_since: 1.0,
        };
        target.weigh_flat_prior();
        target
    }

    /// Likelihood of each regime's length when the rest of the job is split flatly.
    fn weigh_flat_prior(&mut self) {
        let (mut from, mut ahead) = (0.0, self.implied + self.seen.len());
        for change in &self.seen {
            let rest = (self.total - from).max(1.0);
            let later = (1.0 - (change.at - from) / rest).clamp(1e-3, 1.0);
            let others = ahead.max(2) as f64 - 1.0;
            self.flat_changes.push(others / rest * later.powf(others - 1.0));
            (from, ahead) = (change.at, ahead.saturating_sub(1));
        }
        self.flat_none_since = self.flat_none(self.done);
    }

    /// How the epochs from `from` on are split when nothing is known of them: evenly among the
    /// regimes that are implied from regime `index` on.
    fn fill(&self, epochs: &mut [f64; AHEAD], index: usize, from: f64) {
        let rest = (self.total - from).max(0.0);
        let regimes = match self.kind {
            Kind::Gns => self.implied.saturating_sub(index).max(1),
            Kind::Accordion if self.batches[index] == self.large => 1,
            Kind::Accordion => 2.min(AHEAD - index),
        };
        epochs[index..index + regimes].iter_mut().for_each(|e| *e += rest / regimes as f64);
    }

    /// The batch size never changes again. Every change so far speaks against it.
    pub(super) fn never(&self) -> Candidate {
        let mut epochs = [0.0; AHEAD];
        epochs[0] = self.total - self.done;
        let surprises = SURPRISE.powi(self.seen.len() as i32);
        let evidence = surprises / self.flat_none_since;
        Candidate { evidence, telling: 1.0, epochs, spread: 0.0 }
    }

    /// How the positions that `record` showed are scaled, and the epoch up to which it tells
    /// anything.
    fn reach(&self, record: &Record, mapping: Mapping) -> (f64, f64) {
        let whole = record.seen >= record.epochs_total - 0.5;
        let (scale, horizon) = match mapping {
            Mapping::Epochs => (1.0, record.seen),
            Mapping::Fraction if whole => (self.total / record.epochs_total, self.total),
            Mapping::Fraction => {
                let scale = self.total / record.epochs_total;
                (scale, record.seen * scale)
            }
        };
        (scale, horizon.min(self.total))
    }

    /// Likelihood of what the target has shown if it does as `record` did, over its likelihood
    /// under the flat prior; and how uncertain the next change is, epochs.
    fn weigh(&self, record: &Record, scale: f64, horizon: f64) -> (f64, f64) {
        let mut evidence = 1.0;
        for (index, change) in self.seen.iter().enumerate() {
            let flat = self.flat_changes[index];
            let density = match self.entry(record, index, change.to) {
                Some(at) => {
                    let (at, width) = (at * scale, spread(at * scale));
                    student((change.at - at) / width).0 / width
                }
                None if change.at < horizon => 0.0,
                None => flat,
            };
            evidence *= (1.0 - SURPRISE) * density / flat + SURPRISE;
        }
        let next = self.entry(record, self.seen.len(), self.batches[1]).map(|at| at * scale);
        let (none_since, spread) = match next.filter(|at| *at <= horizon) {
            Some(at) => (student((self.done - at) / spread(at)).1, spread(at)),
            None => (self.flat_none_since / self.flat_none(horizon), 0.0),
        };
        evidence *= (1.0 - SURPRISE) * none_since / self.flat_none_since + SURPRISE;
        (evidence, spread)
    }

    /// Probability of no change from the ongoing regime's start to `until` or the present epoch,
    /// whichever is first, under the flat prior.
    fn flat_none(&self, until: f64) -> f64 {
        let from = self.seen.last().map_or(0.0, |change| change.at);
        let lasted = (until.min(self.done) - from).max(0.0);
        let later = (1.0 - lasted / (self.total - from).max(1.0)).clamp(1e-3, 1.0);
        later.powf(self.implied as f64 - 1.0)
    }

    /// Probability, under the flat prior, that the next change comes before epoch `until`.
    fn open(&self, until: f64) -> f64 {
        let passed = (until - self.done) / (self.total - self.done).max(1e-9);
        1.0 - (1.0 - passed).clamp(0.0, 1.0).powf(self.implied.max(2) as f64 - 1.0)
    }

    /// Evidence for doing as `record` did, as in [`Candidate::evidence`].
    pub(super) fn evidence(&self, record: &Record, mapping: Mapping) -> f64 {
        let (scale, horizon) = self.reach(record, mapping);
        self.weigh(record, scale, horizon).0
    }

    /// Takes `record` for what this job does; `None` if it tells nothing of the epochs ahead.
    ///
    /// `never` is the probability that a job never changes, for records that have not yet.
    pub(super) fn like(&self, record: &Record, mapping: Mapping, never: f64) -> Option<Candidate> {
        let (scale, horizon) = self.reach(record, mapping);
        if horizon <= self.done {
            return None;
        }
        let (evidence, spread) = self.weigh(record, scale, horizon);
        let mut epochs = self.follow(record, scale, horizon);
        let telling = if spread > 0.0 || horizon >= self.total { 1.0 } else { self.open(horizon) };
        if self.seen.is_empty() && record.changes.is_empty() && horizon < self.total {
            let open = (1.0 - horizon / self.total).powf(self.implied as f64 - 1.0);
            let stays = never / (never + (1.0 - never) * open);
            epochs.iter_mut().for_each(|epochs| *epochs *= 1.0 - stays);
            epochs[0] += stays * (self.total - self.done);
        }
        Some(Candidate { evidence, telling, epochs, spread })
    }

    /// Epochs left in each regime when the changes ahead come where `record` had them.
    fn follow(&self, record: &Record, scale: f64, horizon: f64) -> [f64; AHEAD] {
        let mut epochs = [0.0; AHEAD];
        let (mut from, mut index) = (self.done, 0);
        let most = if self.kind == Kind::Gns { self.implied - 1 } else { usize::MAX };
        for step in 0.. {
            if step >= most {
                break;
            }
            let to = self.batches[(step + 1).min(AHEAD - 1)];
            let Some(at) = self.entry(record, self.seen.len() + step, to) else { break };
            // A change that is overdue comes soon, and the later the longer it has been so.
            let (at, width) = (at * scale, spread(at * scale));
            let at = if at > from || step > 0 { at.max(from) } else { from + width + (from - at) };
            if at >= horizon {
                break;
            }
            epochs[index] += at - from;
            from = at;
            // Beyond the last regime that is told apart, sizes alternate between the last two.
            index = if index + 1 < AHEAD { index + 1 } else { AHEAD - 2 };
        }
        if horizon >= self.total {
            epochs[index] += self.total - from;
        } else {
            epochs[index] += horizon.max(from) - from;
            self.fill(&mut epochs, index, horizon.max(from));
        }
        epochs
    }

    /// Epoch at which `record` made the change that corresponds to the target's change number
    /// `index`, to batch size `to`.
    fn entry(&self, record: &Record, index: usize, to: u32) -> Option<f64> {
        match self.kind {
            Kind::Accordion => record.changes.get(index).map(|change| change.at),
            Kind::Gns => record.changes.iter().find(|change| change.to >= to).map(|c| c.at),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::predictor::hierarchical::history::History;
    use crate::predictor::rules::tests::{job, regimes};

    fn record(spec: &JobSpec, seen: &[(u32, f64)]) -> Record {
        let class = History::default().class(spec).unwrap();
        Record::new(class, spec, &regimes(seen), true)
    }

    fn target(spec: &JobSpec, seen: &[(u32, f64)]) -> Target {
        Target::new(Kind::of(spec).unwrap(), spec, &regimes(seen))
    }

    #[test]
    fn positions_carry_over_by_epochs_or_by_fraction() {
        let gns = Adaptation::Gns { initial: 32, max: 128 };
        let (short, long) = (job(50, 32, gns.clone()), job(100, 32, gns));
        let record = record(&short, &[(32, 10.0), (64, 20.0), (128, 20.0)]);
        let target = target(&long, &[(32, 4.0)]);
        let fraction = target.like(&record, Mapping::Fraction, 0.0).unwrap();
        assert_eq!(fraction.epochs[..3], [16.0, 40.0, 40.0]);
        let epochs = target.like(&record, Mapping::Epochs, 0.0).unwrap();
        assert_eq!(epochs.epochs[..3], [6.0, 20.0, 70.0]);
    }

    #[test]
    fn a_record_that_ends_early_leaves_the_rest_to_the_prior() {
        let gns = Adaptation::Gns { initial: 32, max: 128 };
        let spec = job(100, 32, gns);
        let record = record(&spec, &[(32, 10.0), (64, 30.0)]);
        let candidate = target(&spec, &[(32, 4.0)]).like(&record, Mapping::Epochs, 0.0).unwrap();
        // 60 epochs after the 40 that were seen: 30 more at 64 and 30 at 128.
        assert_eq!(candidate.epochs[..3], [6.0, 60.0, 30.0]);
        assert!(target(&spec, &[(32, 45.0)]).like(&record, Mapping::Epochs, 0.0).is_none());
    }

    #[test]
    fn evidence_favours_records_that_agree() {
        let accordion = Adaptation::Accordion { small: 32, large: 256 };
        let spec = job(100, 32, accordion);
        let same = record(&spec, &[(32, 30.0), (256, 70.0)]);
        let other = record(&spec, &[(32, 60.0), (256, 40.0)]);
        let none = record(&spec, &[(32, 100.0)]);
        let evidence = |seen: &[(u32, f64)], record: &Record| {
            target(&spec, seen).like(record, Mapping::Epochs, 0.0).unwrap().evidence
        };
        let changed = [(32, 31.0), (256, 5.0)];
        assert!(evidence(&changed, &same) > 10.0 && evidence(&changed, &other) < 0.2);
        assert!(evidence(&changed, &none) < 0.1);
        let waiting = [(32, 50.0)];
        assert!(evidence(&waiting, &none) > 1.5 && evidence(&waiting, &same) < 0.1);
    }

    #[test]
    fn accordion_follows_every_alternation() {
        let spec = job(100, 32, Adaptation::Accordion { small: 32, large: 256 });
        let many: Vec<(u32, f64)> =
            (0..20).map(|i| (if i % 2 == 0 { 32 } else { 256 }, 5.0)).collect();
        let record = record(&spec, &many);
        let candidate = target(&spec, &[(32, 1.0)]).like(&record, Mapping::Epochs, 0.0).unwrap();
        assert!((candidate.epochs.iter().sum::<f64>() - 99.0).abs() < 1e-9);
        let small: f64 = candidate.epochs.iter().step_by(2).sum();
        assert!((small - 49.0).abs() < 1e-9);
    }
}
