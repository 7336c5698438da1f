//! What a session notes for its metrics' files; see [`crate::metrics`].

use super::save::SavePoint;
use super::{Outcome, Phase, Position, Session};
use crate::checkpoint::Saved;
use crate::metrics::{EpochRecord, Place, Record};
use crate::monitor::{NoiseEstimate, Reading};
use crate::policy::Decision;

impl Session {
    fn place(&self) -> Place {
        let Position { epoch, step, sample, batch } = self.position;
        Place { epoch, step, sample, batch }
    }

    pub(super) fn record_start(&mut self) {
        let place = self.place();
        self.recorder.note(|| Record::Start(place));
    }

    pub(super) fn record_step(&mut self) {
        let place = self.place();
        self.recorder.heartbeat(place);
    }

    pub(super) fn record_epoch(&mut self, reading: &Reading, noise: Option<&NoiseEstimate>) {
        let seconds = self.stopwatch.seconds();
        let record = EpochRecord {
            place: self.place(),
            loss: reading.loss,
            grad_norm: reading.grad_norm,
            noise_scale: noise.map(|noise| noise.b_noise),
            noise_interval: noise.map(|noise| noise.interval),
            learning_rate: self.learning_rate(),
            samples_per_s: if seconds > 0.0 { self.sampler.len() as f64 / seconds } else { 0.0 },
            skipped_steps: self.skipped_steps(),
            loss_scale: self.loss_scale(),
            metrics: self.metrics.clone(),
        };
        self.recorder.note(|| Record::Epoch(record));
    }

    pub(super) fn record_decision(&mut self, decision: &Decision) {
        self.recorder.note(|| Record::Decision(decision.clone()));
    }

    pub(super) fn record_saved(&mut self, saved: &Saved, point: &SavePoint) {
        let record = || Record::Checkpoint {
            path: saved.path.display().to_string(),
            size_bytes: saved.size_bytes,
            stood_still_s: point.stood_still.as_secs_f64(),
        };
        self.recorder.note(record);
    }

    pub(super) fn record_end(&mut self) {
        let outcome = match &self.phase {
            Phase::Ended(Outcome::Finished) => "finished".to_owned(),
            Phase::Ended(Outcome::Yielded { reason } | Outcome::Revoked { reason }) => {
                reason.clone()
            }
            _ => "ended early".to_owned(),
        };
        self.recorder.note(|| Record::End { outcome });
    }
}
