//! What training reports, event by event.

use shockwave_core::engine::Event;
use shockwave_core::types::JobId;
use shockwave_proto::v1;
use shockwave_proto::v1::event::Kind;

use super::apply::{Effects, Stamp, State};
use super::book::Job;
use super::curve::Forecast;

impl State {
    /// Takes a batch of events: what is new and follows without a gap.
    pub(super) fn reported(
        &mut self,
        stamp: Stamp,
        (id, lease_epoch): (u64, u64),
        events: &[v1::Event],
        effects: &mut Effects,
    ) {
        for event in events {
            let Some(job) = self.book.jobs.get_mut(&id) else { return };
            if event.number != job.acknowledged + 1 {
                continue;
            }
            job.acknowledged = event.number;
            effects.jobs.insert(id);
            let Some(kind) = &event.kind else { continue };
            note(job, kind);
            match kind {
                Kind::EpochDone(it) => job.curve.epoch_done(stamp.unix_s, it),
                Kind::Started(it) => job.curve.batch(stamp.unix_s, it.batch),
                Kind::RegimeChanged(it) => job.curve.batch(stamp.unix_s, it.new_batch),
                _ => {}
            }
            if let Some(event) = translate(job, lease_epoch, kind) {
                self.feed(stamp, event, effects);
            }
            if matches!(kind, Kind::Started(_))
                && let Some(lease) = self.book.leases.get_mut(&(id, lease_epoch))
            {
                lease.trains = true;
            }
            if matches!(kind, Kind::EpochDone(_)) {
                self.forecast(stamp, id);
            }
        }
    }

    /// Writes down when the job is expected to end, at most once a round: to be held against its
    /// end.
    fn forecast(&mut self, stamp: Stamp, id: u64) {
        let round_s = self.configuration.engine.round_s;
        let wants = |job: &&mut Job| job.curve.wants_forecast(stamp.unix_s, round_s);
        let Some(job) = self.book.jobs.get_mut(&id).filter(wants) else { return };
        let Some(eta) = self.engine.eta(JobId(id)) else { return };
        let at = |engine_s: f64| stamp.unix_s + (engine_s - self.engine.now_s()).max(0.0);
        job.curve.forecast(Forecast {
            unix_s: stamp.unix_s,
            earliest_unix_s: at(eta.earliest_s),
            expected_unix_s: at(eta.expected_s),
            latest_unix_s: at(eta.latest_s),
        });
    }
}

/// What people are to see of it.
fn note(job: &mut Job, kind: &Kind) {
    job.has_sdk = true;
    match kind {
        Kind::Started(it) => {
            job.regimes.start(job.epochs_at(it.epoch, it.sample), it.batch);
            job.position = Some(v1::Position {
                epoch: it.epoch,
                step: it.step,
                sample: it.sample,
                batch: it.batch,
                samples_per_s: 0.0,
            });
        }
        Kind::EpochDone(it) => {
            job.regimes.epoch_done(f64::from(it.epoch) + 1.0, it.batch, it.duration_s);
            job.metrics.clone_from(&it.metrics);
            job.monitor = Some(it.clone());
            let position = job.position.get_or_insert_default();
            (position.epoch, position.sample) = (it.epoch + 1, 0);
            (position.step, position.batch) = (it.step, it.batch);
        }
        Kind::RegimeChanged(it) => {
            job.regimes.change(job.epochs_at(it.epoch, it.sample), it.new_batch);
            job.position.get_or_insert_default().batch = it.new_batch;
        }
        Kind::Finished(it) => {
            job.finished = Some(it.clone());
            job.metrics.extend(it.metrics.clone());
        }
        Kind::CheckpointSaved(it) => job.saved = Some(it.clone()),
        Kind::Yielded(_) => {}
    }
}

/// What the engine is to hear of it; the sender's lease is the fence.
fn translate(job: &Job, lease_epoch: u64, kind: &Kind) -> Option<Event> {
    let id = JobId(job.id);
    Some(match kind {
        Kind::Started(it) => Event::WorkerStarted {
            job: id,
            lease_epoch,
            epochs_done: job.epochs_at(it.epoch, it.sample),
        },
        Kind::EpochDone(it) => Event::EpochDone {
            job: id,
            lease_epoch,
            epochs: it.epoch + 1,
            batch: it.batch,
            duration_s: it.duration_s,
        },
        Kind::RegimeChanged(it) => Event::RegimeChanged {
            job: id,
            lease_epoch,
            epochs_done: job.epochs_at(it.epoch, it.sample),
            batch: it.new_batch,
        },
        Kind::CheckpointSaved(it) => Event::CheckpointSaved {
            job: id,
            lease_epoch,
            step: it.step,
            epochs_done: job.epochs_at(it.epoch, it.sample),
            uri: it.uri.clone(),
            sha256: it.sha256.clone(),
        },
        Kind::Finished(it) => Event::Finished { job: id, lease_epoch, step: it.step },
        // The process ends next: its release says so.
        Kind::Yielded(_) => return None,
    })
}
