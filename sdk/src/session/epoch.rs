//! The loops: epochs, and the batches of an epoch.

use super::parallel::own_share;
use super::stop::Stop;
use super::{Outcome, Phase, Session};
use crate::Error;
use crate::data::step_seed;
use crate::data::{Batch, Draw, Request};
use crate::distributed::Group;

/// One epoch of the loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Epoch {
    /// Its number, from 0.
    pub index: u64,
    /// The batch size at this point, in samples.
    pub batch: u64,
    /// Samples of this epoch that were used before (by the run that this one resumes).
    pub done: usize,
}

impl Session {
    /// The next epoch, or `None` when all are done or training was told to stop.
    ///
    /// # Errors
    /// [`Error::LeftArena`] when a variable is no longer part of the flat buffers; [`Error::OutOfOrder`] when the epoch
    /// before was not ended.
    pub fn next_epoch(&mut self) -> Result<Option<Epoch>, Error> {
        match self.phase {
            Phase::Ended(_) => return Ok(None),
            Phase::Inside => {
                return Err(Error::OutOfOrder {
                    call: "next_epoch",
                    when: format!("inside epoch {}", self.position.epoch),
                    instead: "call end_epoch first",
                });
            }
            Phase::Between => {}
        }
        if self.position.epoch >= self.epochs {
            self.save()?;
            self.phase = Phase::Ended(Outcome::Finished);
            self.report_finished();
            return Ok(None);
        }
        if self.stop_if_asked()? {
            return Ok(None);
        }
        self.arena.check()?;
        self.progress.begin(self.sampler.cursor() as u64);
        self.phase = Phase::Inside;
        self.evaluation_cut.set(false);
        self.stopwatch.start();
        let (index, batch) = (self.position.epoch, self.position.batch);
        Ok(Some(Epoch { index, batch, done: self.sampler.cursor() }))
    }

    /// The next batch of this epoch, on the model's device, or `None` at its end or when training was told to stop.
    ///
    /// # Errors
    /// [`Error::Data`] when the data set fails; [`Error::OutOfOrder`] outside an epoch.
    pub fn next_batch(&mut self) -> Result<Option<Batch>, Error> {
        match self.phase {
            Phase::Ended(_) => return Ok(None),
            Phase::Between => {
                return Err(Error::OutOfOrder {
                    call: "next_batch",
                    when: "outside an epoch".into(),
                    instead: "call it inside `while let Some(epoch) = session.next_epoch()?`",
                });
            }
            Phase::Inside => {}
        }
        // A batch that the loop skipped counts as seen.
        self.take_pending();
        if self.stop_if_asked()? {
            return Ok(None);
        }
        let size = self.position.batch as usize;
        let indices = self.sampler.peek(size);
        if indices.is_empty() {
            self.stopwatch.stop();
            return Ok(None);
        }
        let (handed, indices) = own_share(self.group.as_ref(), indices);
        let draw = Draw { seed: self.seed, epoch: self.position.epoch };
        let (sampler, group) = (&self.sampler, self.group.as_ref());
        let later = |k: usize| {
            let all = sampler.peek_after(k * size, size);
            let indices = own_share(group, all).1;
            (!all.is_empty()).then_some(Request { indices, draw })
        };
        let batch = self.loader.fetch(Request { indices, draw }, later)?;
        batch.check(handed.len)?;
        self.handed = handed;
        let rank = self.group.as_ref().map_or(0, Group::rank);
        tch::manual_seed(step_seed(self.seed, self.position.step, rank));
        Ok(Some(batch.to_device(self.device())?))
    }

    /// Moves on past the batch that was handed out last.
    pub(super) fn take_pending(&mut self) {
        let handed = std::mem::take(&mut self.handed);
        if handed.all > 0 {
            self.sampler.advance(handed.all);
            self.position.sample += handed.all as u64;
            self.position.step += 1;
        }
    }

    /// Ends the epoch with the metrics of its evaluation (empty if there are none): the policy decides, and the
    /// position moves to the next epoch. Does nothing when training was told to stop.
    ///
    /// # Errors
    /// [`Error::OutOfOrder`] when the epoch has samples left; the policy's own errors.
    pub fn end_epoch<N: Into<String>>(
        &mut self,
        metrics: impl IntoIterator<Item = (N, f64)>,
    ) -> Result<(), Error> {
        if matches!(self.phase, Phase::Ended(_)) {
            return Ok(());
        }
        let done = self.sampler.cursor() + self.handed.all;
        if self.phase != Phase::Inside || done < self.sampler.len() {
            return Err(Error::OutOfOrder {
                call: "end_epoch",
                when: format!("after {done} of {} samples", self.sampler.len()),
                instead: "call it once, when next_batch has returned None",
            });
        }
        self.take_pending();
        if self.any_worker(self.evaluation_cut.get())? {
            // The evaluation is not whole: it is repeated when the run resumes at this point, even if the coordinator
            // has taken its word back since.
            let stop = self.stop_asked().unwrap_or_else(Stop::taken_back);
            return self.end(stop);
        }
        let metrics = metrics.into_iter().map(|(n, v)| (n.into(), v)).collect();
        self.metrics = self.chiefs_metrics(metrics)?;
        tch::no_grad(|| self.decide(true))?;
        self.monitor.reset_epoch()?;
        self.position.epoch += 1;
        self.sampler.seek(self.position.epoch, 0);
        self.phase = Phase::Between;
        self.stopwatch.set(0.0);
        self.save_if_due(true)
    }
}
