//! The one task that owns the state. Everything else asks it, and hears nothing before it is
//! durable.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use shockwave_core::engine::{PlanAnswer, PlanRequest};
use shockwave_core::policies::Policy;
use tokio::sync::{mpsc, oneshot, watch};
use tonic::Status;

mod bells;

use super::apply::{Effects, Stamp, State};
use super::bell::Bell;
use super::book::Token;
use super::carriers::Carrier;
use super::clock::Clock;
use super::joining::Joining;
use super::record::Record;
use crate::store::{
    Log, NewRecord, QUEUE_RECORDS, StoreInfo, Writer, WriterState, fail_point, unix_now_s,
};

/// Work for the owner: a closure that is run on its state.
type Work = Box<dyn FnOnce(&mut Owner) + Send>;

/// An answer that waits for the disk; it is told why it must not wait any longer, if so.
pub type Release = Box<dyn FnOnce(Option<&str>) + Send>;

/// Asks the owner. Cheap to clone.
#[derive(Clone)]
pub struct Handle {
    work: mpsc::Sender<Work>,
}

/// Questions that may wait for the owner; whoever asks beyond that waits too.
const WORK_MAX: usize = 1024;
/// Records that may wait for the disk before new ones are refused: some room stays for the
/// coordinator's own.
const PENDING_MAX: u64 = QUEUE_RECORDS as u64 / 2;

impl Handle {
    /// Runs `work` on the owner's state. The answer comes once everything that it may rest on is
    /// durable.
    ///
    /// # Errors
    /// What `work` says; `UNAVAILABLE` when the coordinator is shutting down.
    pub async fn ask<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Owner) -> Result<T, Status> + Send + 'static,
    ) -> Result<T, Status> {
        let (sender, receiver) = oneshot::channel();
        let work: Work = Box::new(move |owner| {
            match work(owner) {
                Ok(answer) => owner.release(Box::new(move |trouble| {
                    let refused = |trouble: &str| Err(not_accepted(trouble));
                    drop(sender.send(trouble.map_or(Ok(answer), refused)));
                })),
                // A refusal rests on nothing that could be lost.
                Err(status) => drop(sender.send(Err(status))),
            }
        });
        let gone = || Status::unavailable("the coordinator is shutting down");
        self.work.send(work).await.map_err(|_| gone())?;
        receiver.await.map_err(|_| gone())?
    }
}

/// The owner of the state.
pub struct Owner {
    /// What the log adds up to.
    pub state: State,
    /// What is known of the store.
    pub store: StoreInfo,
    /// When each machine's agent was last heard, coordinator's clock, seconds.
    pub heard: BTreeMap<String, f64>,
    /// Machines whose agent has said that it ends, until it is heard again.
    pub left: BTreeSet<String>,
    /// Open directive streams by job: such a job hears of a yield without a signal.
    pub followers: BTreeMap<u64, u32>,
    /// Programs started by hand that listen for their lease: job, and which call of theirs.
    pub attached: BTreeMap<u64, u64>,
    /// What each machine is to have has changed this often.
    pub generations: BTreeMap<String, u64>,
    /// Machines whose agents are asked to give them back.
    pub dismissed: BTreeSet<String>,
    /// Machines that keep devices for a gang that spans several, with the rendezvous port of each;
    /// by job and lease epoch. Agents say it again after a restart.
    pub reserved: BTreeMap<(u64, u64), BTreeMap<String, u32>>,
    /// Machines whose agents have asked to enter them, and have not said the number since.
    pub joining: BTreeMap<String, Joining>,
    /// Joins so far.
    pub(super) joins: u64,
    /// Agents that carry one lease each, by their names.
    pub carriers: BTreeMap<String, Carrier>,
    /// Pools of machines that a batch system lends, as it was seen last.
    pub pools: Vec<shockwave_proto::v1::PoolInfo>,
    pub(super) place_bell: watch::Sender<u64>,
    /// Leases by machine, as far as they are known: ten thousand of them are not looked through for
    /// every exchange of an agent.
    pub(super) here: BTreeMap<String, Vec<(u64, u64)>>,
    clock: Clock,
    writer: Box<dyn Log>,
    durable: u64,
    trouble: Option<String>,
    waiting: VecDeque<(u64, Release)>,
    job_bell: Bell<u64>,
    node_bell: Bell<String>,
    log_bell: watch::Sender<u64>,
    pub(super) accounts: watch::Sender<Arc<Vec<Token>>>,
    planner: mpsc::Sender<PlanRequest>,
    planning: Option<u64>,
    tick_after: Instant,
    snapshot: u64,
}

/// What the owner is started with.
pub struct Parts {
    /// What the log adds up to.
    pub state: State,
    /// What is known of the store.
    pub store: StoreInfo,
    /// The writer of the log.
    pub writer: Writer,
    /// The coordinator's clock.
    pub clock: Clock,
    /// The planner's own instance of the policy.
    pub policy: Box<dyn Policy>,
    /// The start itself: taken before time passes, so that nobody is blamed for what lies before it.
    pub started: Record,
}

/// The owner's task: why it ended.
pub type Task = tokio::task::JoinHandle<Result<(), StoreFailure>>;

/// Starts the owner. It ends when `stop` is set, or when the log cannot be written for good: then
/// the task's result says why.
///
/// # Errors
/// The log does not take the start.
pub fn start(parts: Parts, stop: watch::Receiver<bool>) -> Result<(Handle, Task), Status> {
    let (sender, receiver) = mpsc::channel(WORK_MAX);
    let (planner, requests) = mpsc::channel(1);
    let handle = Handle { work: sender };
    let written = parts.writer.state();
    let (log, clock) = (Box::new(parts.writer), parts.clock);
    let mut owner = Owner { planner, ..Owner::new(parts.state, parts.store, log, clock) };
    owner.append(&parts.started)?;
    super::planner::start(parts.policy, requests, handle.clone());
    Ok((handle, tokio::spawn(owner.run(receiver, written, stop))))
}

fn not_accepted(trouble: &str) -> Status {
    Status::unavailable(format!("nothing is accepted for now: {trouble}"))
}

/// The log can be written no more.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub struct StoreFailure(Arc<crate::store::StoreError>);

impl Owner {
    /// An owner for a driver of its own: it has to tick, to look after things each second, and to
    /// say what is durable. Nobody plans beside it.
    #[must_use]
    pub fn new(state: State, store: StoreInfo, log: Box<dyn Log>, clock: Clock) -> Self {
        Self {
            durable: state.book.number,
            accounts: watch::channel(super::accounts::tokens(&state)).0,
            state,
            store,
            heard: BTreeMap::new(),
            joining: BTreeMap::new(),
            joins: 0,
            left: BTreeSet::new(),
            followers: BTreeMap::new(),
            attached: BTreeMap::new(),
            generations: BTreeMap::new(),
            dismissed: BTreeSet::new(),
            reserved: BTreeMap::new(),
            carriers: BTreeMap::new(),
            pools: Vec::new(),
            place_bell: watch::channel(0).0,
            here: BTreeMap::new(),
            clock,
            writer: log,
            trouble: None,
            waiting: VecDeque::new(),
            job_bell: Bell::new(),
            node_bell: Bell::new(),
            log_bell: watch::channel(0).0,
            planner: mpsc::channel(1).0,
            planning: None,
            tick_after: Instant::now(),
            snapshot: 0,
        }
    }

    async fn run(
        mut self,
        mut work: mpsc::Receiver<Work>,
        mut written: watch::Receiver<WriterState>,
        mut stop: watch::Receiver<bool>,
    ) -> Result<(), StoreFailure> {
        let mut watch_nodes = tokio::time::interval(Duration::from_secs(1));
        loop {
            self.ask_planner();
            let wake_s = self.state.engine.wake_s().unwrap_or(f64::INFINITY);
            let sleep_s = (wake_s - self.clock.now_s()).clamp(0.001, 3600.0);
            let wake = (Instant::now() + Duration::from_secs_f64(sleep_s)).max(self.tick_after);
            tokio::select! {
                changed = written.changed() => {
                    let state = written.borrow_and_update().clone();
                    if let Some(error) = state.ended {
                        return Err(StoreFailure(error));
                    }
                    self.on_written(&state);
                    if changed.is_err() {
                        return Ok(());
                    }
                }
                _ = stop.changed() => return self.close(written).await,
                Some(work) = work.recv() => work(&mut self),
                () = tokio::time::sleep_until(wake.into()) => self.tick(),
                _ = watch_nodes.tick() => self.each_second(),
            }
        }
    }

    /// The time that records are stamped with, seconds.
    #[must_use]
    pub fn now_s(&self) -> f64 {
        self.clock.now_s()
    }

    /// Number of the last record that is known to be on the disk.
    #[must_use]
    pub fn durable(&self) -> u64 {
        self.durable
    }

    /// Takes a fact: hands it to the log and acts on it. Whoever asked for it hears of it once it
    /// is durable.
    ///
    /// # Errors
    /// `UNAVAILABLE` while the log cannot be written; nothing has happened then.
    pub fn append(&mut self, record: &Record) -> Result<Effects, Status> {
        if let Some(trouble) = &self.trouble {
            return Err(not_accepted(trouble));
        }
        if self.state.book.number - self.durable > PENDING_MAX {
            return Err(Status::unavailable("the disk does not keep up; try again"));
        }
        let stamp = Stamp {
            number: self.state.book.number + 1,
            now_s: self.clock.now_s(),
            unix_s: unix_now_s(),
        };
        let body = record.encode().map_err(|error| Status::internal(error.to_string()))?;
        // A record that could not be read back (a number that is not finite) would end the log here.
        if let Err(error) = Record::decode(stamp.number, &body) {
            return Err(Status::invalid_argument(error.to_string()));
        }
        let new = NewRecord {
            number: stamp.number,
            now_s: stamp.now_s,
            unix_s: stamp.unix_s,
            job_id: record.job_id(),
            body,
        };
        fail_point("owner.append");
        self.writer.append(new).map_err(|error| Status::unavailable(error.to_string()))?;
        let effects = self.state.apply(stamp, record);
        fail_point("owner.applied");
        self.tell(&effects);
        Ok(effects)
    }

    /// As [`Owner::append`], for the coordinator's own facts: they come again when refused.
    pub fn append_own(&mut self, record: &Record) -> bool {
        let result = self.append(record);
        if let Err(status) = &result {
            tracing::debug!(%status, "a fact must wait");
        }
        result.is_ok()
    }

    /// Records since the last snapshot of this process.
    #[must_use]
    pub fn records_since_snapshot(&self) -> u64 {
        self.state.book.number - self.snapshot
    }

    /// Hands a snapshot of the state to the writer.
    ///
    /// # Errors
    /// In one sentence.
    pub fn take_snapshot(&mut self) -> Result<(), String> {
        let (snapshot, version) = (self.state.save()?, super::recover::SNAPSHOT_VERSION);
        let number = snapshot.number;
        self.writer.snapshot(snapshot, version).map_err(|error| error.to_string())?;
        self.snapshot = number;
        Ok(())
    }

    /// Runs `release` once everything that is known now is durable, or with the reason why it need
    /// not be waited for.
    pub fn release(&mut self, release: Release) {
        match &self.trouble {
            _ if self.durable >= self.state.book.number => release(None),
            Some(trouble) => release(Some(trouble)),
            None => self.waiting.push_back((self.state.book.number, release)),
        }
    }

    /// Hears how far the log is: whatever waited for it is released.
    pub fn on_written(&mut self, state: &WriterState) {
        if state.trouble != self.trouble {
            match &state.trouble {
                Some(trouble) => tracing::error!(trouble, "the log cannot be written"),
                None => tracing::info!("the log is written again"),
            }
        }
        self.trouble.clone_from(&state.trouble);
        self.durable = self.durable.max(state.durable);
        self.log_bell.send_replace(self.durable);
        while self.waiting.front().is_some_and(|(number, _)| *number <= self.durable) {
            if let Some((_, release)) = self.waiting.pop_front() {
                fail_point("owner.release");
                release(None);
            }
        }
        // Nobody is kept waiting for a disk that refuses: asked again, the same key is the same job.
        if let Some(trouble) = &self.trouble {
            self.waiting.drain(..).for_each(|(_, release)| release(Some(trouble)));
        }
    }

    /// Time has passed.
    pub fn tick(&mut self) {
        if !self.append_own(&Record::Tick) {
            self.tick_after = Instant::now() + Duration::from_secs(1);
        }
    }

    /// Hands the open question to the planner, once.
    fn ask_planner(&mut self) {
        let Some(request) = &self.state.book.open_plan else { return };
        if self.planning == Some(request.id) {
            return;
        }
        if self.planner.try_send((**request).clone()).is_ok() {
            self.planning = Some(request.id);
        }
    }

    /// Takes the planner's answer.
    pub(super) fn planned(&mut self, answer: PlanAnswer, solve_s: f64) {
        let open = self.state.book.open_plan.as_ref().map(|request| request.id);
        if open != Some(answer.id) {
            return;
        }
        // Refused for want of disk, the question stays open and is asked again.
        let _ = self.append_own(&Record::Planned { answer: Box::new(answer), solve_s });
        self.planning = None;
    }

    /// Waits until what was taken is durable, and ends.
    async fn close(
        mut self,
        mut written: watch::Receiver<WriterState>,
    ) -> Result<(), StoreFailure> {
        while self.durable < self.state.book.number {
            if tokio::time::timeout(Duration::from_secs(10), written.changed()).await.is_err() {
                tracing::error!("the log could not be written to its end");
                break;
            }
            let state = written.borrow_and_update().clone();
            if let Some(error) = state.ended {
                return Err(StoreFailure(error));
            }
            self.on_written(&state);
        }
        Ok(())
    }
}
