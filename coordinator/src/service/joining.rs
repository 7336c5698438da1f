//! Machines that enter: a join counts once its number comes back.
//!
//! What a machine does not name as it enters is gone from it, and may be started elsewhere. A join
//! that was under way for long says that of leases that its agent has started since, after a later
//! one. So a join by itself changes nothing: its answer carries a number, and the machine is in with
//! the first exchange that says it. An agent waits for one answer at a time and starts nothing that
//! it was not told in one, so what it names in that exchange is all that it has.

use shockwave_proto::v1::{JoinRequest, SyncRequest, WorkerState, WorkerStatus};
use tonic::Status;

use super::LOST_AFTER;
use super::owner::Owner;
use super::record::Record;
use crate::grpc::agent::take_statuses;

/// A machine whose agent has asked to enter it.
#[derive(Debug)]
pub struct Joining {
    number: u64,
    request: JoinRequest,
    /// When it was asked for, coordinator's clock, seconds.
    asked_s: f64,
    /// When it is taken away, coordinator's clock, seconds.
    until_s: Option<f64>,
}

impl Owner {
    /// Notes that a machine is to be entered; gives the number to say. An earlier one is void.
    pub fn note_joining(&mut self, request: JoinRequest) -> u64 {
        self.joins += 1;
        // None comes again after a restart.
        let number = (self.store.epoch << 40) + self.joins;
        let left_s = request.walltime_left_s.filter(|left_s| left_s.is_finite());
        let asked_s = self.now_s();
        let until_s = left_s.map(|left_s| asked_s + left_s);
        let joining = Joining { number, request, asked_s, until_s };
        self.joining.insert(joining.request.node.clone(), joining);
        number
    }

    /// Drops joins whose number was not said in the time after which a machine counts as lost: their
    /// names are free again. An agent that comes with such a number is told to join anew.
    pub fn drop_unsaid_joins(&mut self) {
        let (late_s, now_s) = (LOST_AFTER.as_secs_f64(), self.now_s());
        self.joining.retain(|_, joining| now_s - joining.asked_s <= late_s);
    }

    /// Enters a machine whose agent says the number of its join. Others pass.
    ///
    /// # Errors
    /// As [`Owner::append`].
    pub fn enter(&mut self, request: &SyncRequest) -> Result<(), Status> {
        let node = &request.node;
        let is_its = |joining: &Joining| {
            // An agent from before the numbers says none.
            let is_said = request.join_number == joining.number || request.join_number == 0;
            is_said && request.instance == joining.request.instance
        };
        if !self.joining.get(node).is_some_and(is_its) {
            return Ok(());
        }
        // Ends first: a machine that joins holds only what still runs.
        take_statuses(self, node, &request.workers, request.leaving)?;
        let Some(Joining { request: join, until_s, .. }) = self.joining.remove(node) else {
            return Ok(());
        };
        let keeps = request.workers.iter().filter_map(|status| self.kept(status)).collect();
        self.left.remove(node);
        self.append(&Record::Joined {
            node: join.node,
            instance: join.instance,
            address: join.address,
            devices: join.devices,
            keeps,
            until_s,
            machine: join.machine,
        })?;
        Ok(())
    }

    /// Job and epoch of a lease that a machine still has.
    fn kept(&self, status: &WorkerStatus) -> Option<(u64, u64)> {
        let is_up = matches!(status.state(), WorkerState::Running | WorkerState::Reserved);
        let key = status.lease.filter(|_| is_up).map(|it| (it.job_id, it.lease_epoch))?;
        let known = self.state.book.leases.get(&key)?;
        (known.nonce == status.nonce).then_some(key)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use shockwave_proto::v1::{Device, JobRequest, LeaseRef};

    use super::*;
    use crate::grpc::agent::{take_join, take_sync};
    use crate::service::apply::State;
    use crate::service::clock::Clock;
    use crate::service::settings::Configuration;
    use crate::store::{Log, NewRecord, Snapshot, StoreError, StoreInfo};

    /// Keeps nothing.
    struct Nowhere;

    impl Log for Nowhere {
        fn append(&self, _record: NewRecord) -> Result<(), StoreError> {
            Ok(())
        }

        fn snapshot(&self, _snapshot: Snapshot, _version: &str) -> Result<(), StoreError> {
            Ok(())
        }
    }

    /// A coordinator with one job, and its clock.
    fn coordinator() -> (Owner, Arc<AtomicU64>) {
        let configuration =
            Configuration { policy: "gandiva-fair".into(), ..Configuration::default() };
        let state = State::empty(&configuration, "secret").unwrap();
        let info = StoreInfo {
            path: "/nowhere".into(),
            epoch: 1,
            made_unix_s: 0.0,
            secret: "secret".into(),
            last_number: 0,
            last_now_s: 0.0,
        };
        let clock = Arc::new(AtomicU64::new(0));
        let mut owner =
            Owner::new(state, info, Box::new(Nowhere), Clock::driven(Arc::clone(&clock)));
        let request = JobRequest {
            command: vec!["train".into()],
            gpus: 1,
            workers: 1,
            weight: 1.0,
            ..JobRequest::default()
        };
        let (user, request) = ("ada".to_owned(), Box::new(request));
        let record = Record::Submitted { job: 1, user, key: String::new(), request };
        owner.append(&record).unwrap();
        (owner, clock)
    }

    fn join(instance: &str) -> JoinRequest {
        JoinRequest {
            node: "a".into(),
            instance: instance.into(),
            devices: vec![Device { kind: "cpu".into(), ..Device::default() }],
            ..JoinRequest::default()
        }
    }

    fn sync(instance: &str, join_number: u64, workers: Vec<WorkerStatus>) -> SyncRequest {
        let (node, instance) = ("a".into(), instance.into());
        SyncRequest { node, instance, join_number, workers, ..SyncRequest::default() }
    }

    /// The job's first lease, as it runs.
    fn running(owner: &Owner) -> WorkerStatus {
        let mut status = WorkerStatus {
            lease: Some(LeaseRef { job_id: 1, lease_epoch: 1 }),
            nonce: owner.state.book.leases[&(1, 1)].nonce.clone(),
            ..WorkerStatus::default()
        };
        status.set_state(WorkerState::Running);
        status
    }

    #[test]
    fn a_join_that_was_under_way_for_long_takes_nothing_from_its_machine() {
        for late in ["1", "0"] {
            let (mut owner, clock) = coordinator();
            let number = take_join(&mut owner, join("1")).join_number;
            assert!(owner.state.book.nodes.is_empty(), "nobody has said the number");
            take_sync(&mut owner, &sync("1", number, Vec::new())).unwrap();
            let worker = running(&owner);
            take_sync(&mut owner, &sync("1", number, vec![worker.clone()])).unwrap();
            clock.store(5.0_f64.to_bits(), Ordering::Relaxed);
            // The same agent's, or that of its earlier start: from before the lease.
            take_join(&mut owner, join(late));
            take_sync(&mut owner, &sync("1", number, vec![worker])).unwrap();
            let lease = &owner.state.book.leases[&(1, 1)];
            assert!(lease.running.contains("a"), "{late}");
            assert_eq!(owner.state.book.jobs[&1].lease_epoch, 1, "{late}");
        }
    }

    #[test]
    fn a_machine_that_comes_back_without_a_lease_has_let_go_of_it() {
        for says_number in [true, false] {
            let (mut owner, _clock) = coordinator();
            let number = take_join(&mut owner, join("1")).join_number;
            take_sync(&mut owner, &sync("1", number, Vec::new())).unwrap();
            let worker = running(&owner);
            take_sync(&mut owner, &sync("1", number, vec![worker])).unwrap();
            let number = take_join(&mut owner, join("2")).join_number;
            let said = if says_number { number } else { 0 };
            take_sync(&mut owner, &sync("2", said, Vec::new())).unwrap();
            assert!(!owner.state.book.leases.contains_key(&(1, 1)), "{says_number}");
            assert_eq!(owner.state.book.jobs[&1].lease_epoch, 2, "it goes on at once");
        }
    }

    #[test]
    fn numbers_of_joins_are_said_by_the_start_that_was_told_them() {
        let (mut owner, _clock) = coordinator();
        let first = take_join(&mut owner, join("1")).join_number;
        let second = take_join(&mut owner, join("2")).join_number;
        assert_ne!(first, second);
        for (instance, number) in [("1", first), ("1", second), ("2", first)] {
            let status = take_sync(&mut owner, &sync(instance, number, Vec::new())).unwrap_err();
            assert_eq!(status.code(), tonic::Code::NotFound, "{instance} {number}");
        }
        take_sync(&mut owner, &sync("2", second, Vec::new())).unwrap();
        assert_eq!(owner.state.book.nodes["a"].instance, "2");
    }

    #[test]
    fn a_join_whose_number_nobody_says_ends_like_a_machine_that_falls_silent() {
        let (mut owner, clock) = coordinator();
        let number = take_join(&mut owner, join("1")).join_number;
        let late_s = LOST_AFTER.as_secs_f64();
        for (now_s, is_kept) in [(late_s - 1.0, true), (late_s + 1.0, false)] {
            clock.store(now_s.to_bits(), Ordering::Relaxed);
            owner.each_second();
            assert_eq!(owner.joining.contains_key("a"), is_kept, "at {now_s} s");
        }
        let status = take_sync(&mut owner, &sync("1", number, Vec::new())).unwrap_err();
        assert_eq!(status.code(), tonic::Code::NotFound, "it joins anew");
        let number = take_join(&mut owner, join("1")).join_number;
        take_sync(&mut owner, &sync("1", number, Vec::new())).unwrap();
        assert_eq!(owner.state.book.nodes["a"].instance, "1");
    }
}
