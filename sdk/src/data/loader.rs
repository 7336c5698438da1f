//! Fetches training batches: when they are needed, or ahead of that on a thread of its own.
//!
//! A batch depends on its samples, the seed and the epoch alone ([`Draw`]), so fetching ahead changes nothing in it. The
//! session says which batches will most likely come next; when it then wants another one (the batch size has changed,
//! say), what was fetched in vain is dropped. The position in the data is the session's, so a resume is as exact as
//! without.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use super::{Batch, Dataset, Draw};
use crate::Error;

/// A batch that is wanted, or will most likely be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Request {
    pub indices: Vec<usize>,
    pub draw: Draw,
}

/// Where training batches come from.
pub(crate) enum Loader {
    /// Fetched when they are needed.
    Here(Box<dyn Dataset>),
    /// Fetched ahead.
    Ahead(Ahead),
}

impl Loader {
    /// Fetches `ahead` batches ahead at most; 0: none.
    pub(crate) fn new(data: Box<dyn Dataset>, ahead: usize) -> Result<Self, Error> {
        if ahead == 0 {
            return Ok(Self::Here(data));
        }
        Ahead::start(data, ahead).map(Self::Ahead)
    }

    /// The batch `now`, on the CPU. `later(k)` is the k-th one after it, if the session can tell.
    pub(crate) fn fetch(
        &mut self,
        now: Request,
        later: impl Fn(usize) -> Option<Request>,
    ) -> Result<Batch, Error> {
        match self {
            Self::Here(data) => data.training_batch(&now.indices, now.draw),
            Self::Ahead(ahead) => ahead.fetch(now, later),
        }
    }
}

/// A thread with the data set, and what it was asked for.
pub(crate) struct Ahead {
    /// `None` once the thread was told to end.
    requests: Option<SyncSender<(u64, Request)>>,
    batches: Receiver<Option<Result<Batch, Error>>>,
    /// What was asked for and not taken yet, in order.
    asked: VecDeque<Request>,
    depth: usize,
    /// Requests of an older generation are not worth fetching any more.
    generation: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl Ahead {
    fn start(data: Box<dyn Dataset>, depth: usize) -> Result<Self, Error> {
        // What is wanted and `depth` more are asked for at a time: neither side ever waits for room.
        let (requests, incoming) = sync_channel::<(u64, Request)>(depth + 1);
        let (outgoing, batches) = sync_channel(depth + 1);
        let generation = Arc::new(AtomicU64::new(0));
        let newest = generation.clone();
        let thread = std::thread::Builder::new()
            .name("shockwave-loader".to_owned())
            .spawn(move || {
                for (generation, request) in incoming {
                    let wanted = generation == newest.load(Ordering::Acquire);
                    let batch = wanted.then(|| data.training_batch(&request.indices, request.draw));
                    if outgoing.send(batch).is_err() {
                        break;
                    }
                }
            })
            .map_err(|error| Error::Data(format!("the loader's thread cannot start: {error}")))?;
        let (requests, thread) = (Some(requests), Some(thread));
        Ok(Self { requests, batches, asked: VecDeque::new(), depth, generation, thread })
    }

    fn ask(&mut self, request: Request) {
        let generation = self.generation.load(Ordering::Acquire);
        if let Some(requests) = &self.requests {
            // A thread that has ended is noticed when its batch is missed.
            let _ = requests.send((generation, request.clone()));
        }
        self.asked.push_back(request);
    }

    /// The next answer; an error when the thread has ended.
    fn answer(&mut self) -> Result<Option<Result<Batch, Error>>, Error> {
        self.asked.pop_front();
        let ended = "the loader's thread has ended: the data set panicked, see above";
        self.batches.recv().map_err(|_| Error::Data(ended.into()))
    }

    fn fetch(
        &mut self,
        now: Request,
        later: impl Fn(usize) -> Option<Request>,
    ) -> Result<Batch, Error> {
        if self.asked.front().is_some_and(|asked| *asked != now) {
            self.generation.fetch_add(1, Ordering::AcqRel);
            while !self.asked.is_empty() {
                self.answer()?;
            }
        }
        if self.asked.is_empty() {
            self.ask(now);
        }
        // One is taken at once, so that `depth` are under way while the training works on it.
        while self.asked.len() <= self.depth {
            let Some(request) = later(self.asked.len()) else { break };
            self.ask(request);
        }
        // Never of an older generation: those were taken above.
        self.answer()?.unwrap_or_else(|| Err(Error::Data("the batch was not fetched".into())))
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        self.generation.fetch_add(1, Ordering::AcqRel);
        self.requests = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::Mutex;

    use tch::Tensor;

    use super::*;

    /// Samples are their own numbers; notes what was fetched, fails at sample 90 and panics at 99.
    struct Numbers(Arc<Mutex<Vec<usize>>>);

    impl Dataset for Numbers {
        fn len(&self) -> usize {
            100
        }

        fn batch(&self, indices: &[usize]) -> Result<Batch, Error> {
            self.0.lock().unwrap().extend(indices);
            assert!(!indices.contains(&99), "the data set's own panic");
            if indices.contains(&90) {
                return Err(Error::Data("sample 90 is damaged".into()));
            }
            let numbers: Vec<i64> = indices.iter().map(|&i| i as i64).collect();
            Ok(Batch::new(Tensor::from_slice(&numbers), Tensor::from_slice(&numbers)))
        }
    }

    fn request(start: usize, len: usize) -> Option<Request> {
        let indices: Vec<usize> = (start..(start + len).min(100)).collect();
        let draw = Draw { seed: 1, epoch: 0 };
        (!indices.is_empty()).then_some(Request { indices, draw })
    }

    fn fetch(loader: &mut Loader, start: usize, len: usize) -> Result<Vec<i64>, Error> {
        let batch =
            loader.fetch(request(start, len).unwrap(), |k| request(start + k * len, len))?;
        Ok(Vec::try_from(&batch.x).unwrap())
    }

    #[test]
    fn batches_come_in_order_and_no_more_than_the_depth_ahead() {
        for depth in [0, 1, 3] {
            let seen = Arc::new(Mutex::new(Vec::new()));
            let mut loader = Loader::new(Box::new(Numbers(seen.clone())), depth).unwrap();
            for step in 0..8 {
                let got = fetch(&mut loader, step * 10, 10).unwrap();
                assert_eq!(got, (step as i64 * 10..step as i64 * 10 + 10).collect::<Vec<_>>());
                assert!(seen.lock().unwrap().len() <= (step + 1 + depth) * 10);
            }
        }
    }

    #[test]
    fn another_batch_size_drops_what_was_fetched_in_vain() {
        let mut loader = Loader::new(Box::new(Numbers(Arc::default())), 4).unwrap();
        assert_eq!(fetch(&mut loader, 0, 4).unwrap(), [0, 1, 2, 3]);
        assert_eq!(fetch(&mut loader, 4, 2).unwrap(), [4, 5]);
        assert_eq!(fetch(&mut loader, 6, 3).unwrap(), [6, 7, 8]);
        assert_eq!(fetch(&mut loader, 9, 3).unwrap(), [9, 10, 11]);
    }

    #[test]
    fn an_error_comes_with_its_own_batch_and_a_panic_is_an_error() {
        let mut loader = Loader::new(Box::new(Numbers(Arc::default())), 3).unwrap();
        assert_eq!(fetch(&mut loader, 80, 5).unwrap().len(), 5);
        assert_eq!(fetch(&mut loader, 85, 5).unwrap().len(), 5);
        let error = fetch(&mut loader, 90, 5).unwrap_err().to_string();
        assert!(error.contains("sample 90 is damaged"), "{error}");
        let error = fetch(&mut loader, 95, 5).unwrap_err().to_string();
        assert!(error.contains("the data set panicked"), "{error}");
        drop(loader);
    }
}
