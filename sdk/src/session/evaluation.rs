//! Evaluation batches that end early when training is told to stop.

use super::{IntoLoss, Session};
use crate::Error;
use crate::data::{Batch, Dataset};
use crate::monitor::{Eigenvalue, PowerIteration, top_eigenvalue};

/// An iterator over the batches of a data set, in order, on the model's device. See [`Session::evaluation`].
pub struct Evaluation<'a, D: ?Sized> {
    session: &'a Session,
    data: &'a D,
    batch: usize,
    next: usize,
}

impl Session {
    /// Iterates over `data` in batches of `batch` samples. It ends early when training is told to stop; the metrics
    /// that are then given to [`end_epoch`](Session::end_epoch) are not used, and the evaluation is repeated after the
    /// resume.
    pub fn evaluation<'a, D: Dataset + ?Sized>(
        &'a self,
        data: &'a D,
        batch: usize,
    ) -> Evaluation<'a, D> {
        Evaluation { session: self, data, batch: batch.max(1), next: 0 }
    }
}

impl Session {
    /// The eigenvalue of largest magnitude of the Hessian of the mean loss that `loss` computes on `batch`: about
    /// `settings.iterations` times the cost of a step at most. Gradients and training are not touched. For the policy
    /// [`Curvature`](crate::policy::Curvature).
    ///
    /// # Errors
    /// The closure's own; [`Error::Torch`] when an operation in the loss has no second derivative.
    pub fn top_eigenvalue<L: IntoLoss>(
        &self,
        batch: &Batch,
        loss: impl FnOnce(&Batch) -> L,
        settings: PowerIteration,
    ) -> Result<Eigenvalue, Error> {
        top_eigenvalue(&loss(batch).into_loss()?, self.arena.variables(), settings)
    }
}

impl<D: Dataset + ?Sized> Iterator for Evaluation<'_, D> {
    type Item = Result<Batch, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.next >= self.data.len() || self.session.should_stop() {
            return None;
        }
        let end = self.next.saturating_add(self.batch).min(self.data.len());
        let indices: Vec<usize> = (self.next..end).collect();
        self.next = end;
        let batch = self.data.batch(&indices).and_then(|b| {
            b.check(indices.len())?;
            b.to_device(self.session.device())
        });
        Some(batch)
    }
}
