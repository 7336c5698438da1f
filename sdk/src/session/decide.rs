//! Asks the policy, and carries out what it chose.

use super::{Position, Session};
use crate::Error;
use crate::monitor::{NoiseEstimate, Reading};
use crate::policy::{Decision, Observation};
use crate::progress::Line;

impl Session {
    /// One host read of all that waits on the device; also says how many steps were skipped since the last one.
    pub(super) fn read(&mut self, layers: bool) -> Result<Reading, Error> {
        let unread = self.control.unread()?;
        let reading = self.monitor.read(layers.then_some(&self.arena), unread)?;
        let skipped = self.control.hear(&reading.extra);
        if skipped > 0 {
            let scale = self.loss_scale().unwrap_or(1.0);
            let all = self.skipped_steps();
            self.progress.say(&format!(
                "{skipped} steps skipped, their gradient was not finite ({all} in all, loss scale {scale})"
            ));
        }
        Ok(reading)
    }

    /// One host read, then the policy's decision, within the user's bounds.
    pub(super) fn decide(&mut self, epoch_ended: bool) -> Result<(), Error> {
        let reading = self.read(epoch_ended)?;
        let noise = self.monitor.noise();
        if epoch_ended {
            self.tell_epoch(&reading, noise.as_ref());
        }
        let (epoch, samples) = (self.position.epoch, self.sampler.len() as u64);
        let observation = Observation {
            epoch,
            epoch_ended,
            epochs: self.epochs,
            step: self.position.step,
            sample: self.position.sample,
            batch: self.position.batch,
            lr: self.rate.schedule_at(epoch * samples),
            next_lr: self.rate.schedule_at((epoch + 1) * samples),
            rate: self.learning_rate(),
            metrics: &self.metrics,
            loss: reading.loss,
            layer_norms: (!reading.layer_norms.is_empty()).then_some(&reading.layer_norms[..]),
            noise: noise.as_ref(),
        };
        let choice = self.policy.decide(&observation)?;
        let (min, max) = self.bounds;
        let chosen = self.chiefs_batch(choice.batch)?;
        let new_batch = chosen.clamp(min, max);
        let old_batch = self.position.batch;
        if new_batch == old_batch {
            return Ok(());
        }
        let mut reason = choice.reason;
        if chosen != choice.batch {
            reason = format!("rank 0 chose {chosen}");
        }
        if new_batch != chosen {
            reason = format!("{reason}; {chosen} is outside the bounds {min}..={max}");
        }
        self.progress.say(&format!("batch {old_batch} -> {new_batch}: {reason}"));
        self.position.batch = new_batch;
        self.rate.change(new_batch, self.position.sample, noise.map(|n| n.b_noise));
        self.monitor.batch_changed();
        let decision = Decision {
            epoch: epoch + u64::from(epoch_ended),
            sample: self.position.sample,
            old_batch,
            new_batch,
            estimate: choice.estimate,
            interval: choice.interval,
            reason,
        };
        let cursor = if epoch_ended { 0 } else { self.sampler.cursor() };
        self.report_decision(&decision, cursor as u64);
        self.record_decision(&decision);
        self.decisions.push(decision);
        Ok(())
    }

    /// Shows, reports and records the numbers of the epoch that has ended.
    fn tell_epoch(&mut self, reading: &Reading, noise: Option<&NoiseEstimate>) {
        let line = Line {
            loss: Some(reading.loss),
            grad_norm: Some(reading.grad_norm),
            noise,
            ..self.line()
        };
        self.progress.epoch(&line, &self.metrics);
        self.report_epoch(reading.loss, reading.grad_norm, noise.map(|n| n.b_noise));
        self.record_epoch(reading, noise);
    }

    /// Where training stands, for people.
    fn line(&self) -> Line<'static> {
        let Position { epoch, step, batch, .. } = self.position;
        Line {
            epoch,
            epochs: self.epochs,
            step,
            batch,
            lease: self.coordinator.lease_left(),
            ..Line::default()
        }
    }

    /// Moves the progress bar, and tells the coordinator where training is.
    pub(super) fn show_step(&mut self) {
        let Position { epoch, step, batch, .. } = self.position;
        self.report_position();
        self.record_step();
        let (epochs, lease) = (self.epochs, self.coordinator.lease_left());
        let line = || Line { epoch, epochs, step, batch, lease, ..Line::default() };
        self.progress.step(self.sampler.cursor() as u64, line);
    }
}
