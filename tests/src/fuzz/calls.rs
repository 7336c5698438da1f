//! Calls of agents, training and users as the coordinator takes them: what has passed the checks
//! must change its state without a panic, and the log must replay to the same.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use prost::Message;
use shockwave::grpc::agent::{sync_reply, take_join, take_sync};
use shockwave::grpc::worker::{take_declaration, take_renewal, take_report};
use shockwave::service::apply::{Stamp, State};
use shockwave::service::check;
use shockwave::service::clock::Clock;
use shockwave::service::owner::Owner;
use shockwave::service::record::Record;
use shockwave::service::settings::Configuration;
use shockwave::store::{Log, NewRecord, Snapshot, StoreError, StoreInfo};
use shockwave_core::engine::Planning;
use shockwave_proto::{PROTOCOL_VERSION, v1};

const SECRET: &str = "fuzz";
const NODE: &str = "one";

/// Records in memory.
#[derive(Clone, Default)]
struct Tape(Arc<Mutex<Vec<NewRecord>>>);

impl Log for Tape {
    fn append(&self, record: NewRecord) -> Result<(), StoreError> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(record);
        Ok(())
    }

    fn snapshot(&self, _snapshot: Snapshot, _version: &str) -> Result<(), StoreError> {
        Ok(())
    }
}

/// A coordinator with one machine and one job that trains on it.
struct Small {
    owner: Owner,
    tape: Tape,
    now_s: Arc<AtomicU64>,
}

fn configuration() -> Configuration {
    let mut configuration = Configuration { policy: "fifo".into(), ..Configuration::default() };
    configuration.engine.planning = Planning::Inline;
    configuration
}

fn lease() -> v1::LeaseRef {
    v1::LeaseRef { job_id: 1, lease_epoch: 1 }
}

fn request() -> v1::JobRequest {
    v1::JobRequest {
        name: "one".into(),
        command: vec!["train".into()],
        working_dir: "/".into(),
        ..v1::JobRequest::default()
    }
}

fn join() -> v1::JoinRequest {
    let device = |index| v1::Device { index, kind: "cpu".into(), ..v1::Device::default() };
    v1::JoinRequest {
        protocol_version: PROTOCOL_VERSION,
        node: NODE.into(),
        instance: "1".into(),
        devices: vec![device(0), device(1)],
        ..v1::JoinRequest::default()
    }
}

/// The exchange that makes a join count.
fn entering(join: &v1::JoinRequest, join_number: u64) -> v1::SyncRequest {
    v1::SyncRequest {
        node: join.node.clone(),
        instance: join.instance.clone(),
        workers: join.workers.clone(),
        join_number,
        ..v1::SyncRequest::default()
    }
}

fn declaration() -> v1::Declaration {
    v1::Declaration {
        epochs_total: 9,
        samples_per_epoch: 100,
        initial_batch: 10,
        family: "small".into(),
        policy: Some(v1::declaration::Policy::Static(v1::Static {})),
    }
}

fn events() -> Vec<v1::Event> {
    use v1::event::Kind;
    let kinds = [
        Kind::Started(v1::Started { batch: 10, ..v1::Started::default() }),
        Kind::EpochDone(v1::EpochDone {
            batch: 10,
            samples: 100,
            duration_s: 1.0,
            ..v1::EpochDone::default()
        }),
        Kind::RegimeChanged(v1::RegimeChanged {
            epoch: 1,
            old_batch: 10,
            new_batch: 20,
            ..v1::RegimeChanged::default()
        }),
        Kind::CheckpointSaved(v1::CheckpointSaved {
            epoch: 1,
            step: 10,
            uri: "/checkpoint".into(),
            sha256: "0".repeat(64),
            ..v1::CheckpointSaved::default()
        }),
        Kind::Finished(v1::Finished { step: 90, ..v1::Finished::default() }),
    ];
    let numbered = kinds.into_iter().zip(1..);
    numbered
        .map(|(kind, number)| v1::Event {
            number,
            lease_epoch: 1,
            at_unix_s: 1e9,
            kind: Some(kind),
        })
        .collect()
}

impl Small {
    fn new() -> Self {
        let (tape, now_s) = (Tape::default(), Arc::new(AtomicU64::new(0)));
        let state = State::empty(&configuration(), SECRET).expect("the configuration can be");
        let info = StoreInfo {
            path: "/nowhere".into(),
            epoch: 1,
            made_unix_s: 0.0,
            secret: SECRET.into(),
            last_number: 0,
            last_now_s: 0.0,
        };
        let clock = Clock::driven(Arc::clone(&now_s));
        let owner = Owner::new(state, info, Box::new(tape.clone()), clock);
        let mut small = Self { owner, tape, now_s };
        let configuration = Box::new(configuration());
        small.put(Record::Started { configuration, program: "fuzz".into() });
        let entering = entering(&join(), take_join(&mut small.owner, join()).join_number);
        take_sync(&mut small.owner, &entering).expect("a machine may join");
        small.submit(1, request());
        small.pass(1.0);
        small
    }

    fn put(&mut self, record: Record) {
        // A refusal is an answer.
        let _ = self.owner.append(&record);
    }

    fn submit(&mut self, job: u64, request: v1::JobRequest) {
        let (user, key) = ("ada".into(), String::new());
        self.put(Record::Submitted { job, user, key, request: Box::new(request) });
    }

    /// Time passes.
    fn pass(&mut self, seconds: f64) {
        let now_s = f64::from_bits(self.now_s.load(Ordering::Relaxed)) + seconds;
        self.now_s.store(now_s.to_bits(), Ordering::Relaxed);
        self.owner.tick();
        let _ = sync_reply(&mut self.owner, NODE, "http://127.0.0.1:1");
    }

    /// What the log adds up to is what the owner has.
    fn check_log(&self) {
        let mut state = State::empty(&configuration(), SECRET).expect("the configuration can be");
        for new in self.tape.0.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            let record = Record::decode(new.number, &new.body).expect("what was written is read");
            let stamp = Stamp { number: new.number, now_s: new.now_s, unix_s: new.unix_s };
            state.apply(stamp, &record);
        }
        let owned = &self.owner.state;
        let leases = |state: &State| state.book.leases.keys().copied().collect::<Vec<_>>();
        assert_eq!(state.book.number, owned.book.number);
        assert_eq!(leases(&state), leases(owned));
    }
}

/// The first byte says which call, the rest is its message.
pub(super) fn run(bytes: &[u8]) {
    let Some((kind, message)) = bytes.split_first() else { return };
    let mut small = Small::new();
    let owner = &mut small.owner;
    match kind % 6 {
        0 => {
            let Ok(it) = v1::JoinRequest::decode(message) else { return };
            let is_named = check::name("node", &it.node).is_ok() && !it.node.is_empty();
            if is_named && !it.devices.is_empty() {
                let number = take_join(owner, it.clone()).join_number;
                let _ = take_sync(owner, &entering(&it, number));
            }
        }
        1 => {
            let Ok(it) = v1::SyncRequest::decode(message) else { return };
            let _ = take_sync(owner, &it);
            let _ = sync_reply(owner, &it.node, "http://127.0.0.1:1");
        }
        2 => {
            let Ok(it) = v1::DeclareRequest::decode(message) else { return };
            if it.declaration.as_ref().is_none_or(|it| check::declaration(it).is_ok()) {
                let _ = take_declaration(owner, it.lease.unwrap_or_default(), it.declaration);
            }
        }
        3 => {
            let Ok(mut it) = v1::ReportRequest::decode(message) else { return };
            if it.events.iter_mut().all(|event| check::event(event).is_ok()) {
                let _ = take_report(owner, it.lease.unwrap_or_default(), it.events);
            }
        }
        4 => {
            let Ok(it) = v1::RenewRequest::decode(message) else { return };
            let position = it.position.map(check::position);
            let _ = take_renewal(owner, it.lease.unwrap_or_default(), position);
        }
        _ => {
            let Ok(it) = v1::JobRequest::decode(message) else { return };
            if check::request(&it).is_ok() {
                small.submit(2, it);
            }
        }
    }
    for seconds in [1.0, 59.0, 60.0, 300.0] {
        small.pass(seconds);
    }
    small.check_log();
}

/// A good call of each kind.
pub(super) fn seeds() -> Vec<Vec<u8>> {
    let small = Small::new();
    let nonce = |key| small.owner.state.book.leases.get(&key).map(|lease| lease.nonce.clone());
    let mut status = v1::WorkerStatus {
        lease: Some(lease()),
        nonce: nonce((1, 1)).unwrap_or_default(),
        ..v1::WorkerStatus::default()
    };
    status.set_state(v1::WorkerState::Running);
    let mut ended = v1::WorkerStatus { exit_code: Some(75), ..status.clone() };
    ended.set_state(v1::WorkerState::Exited);
    let sync = |workers| v1::SyncRequest {
        node: NODE.into(),
        instance: "1".into(),
        workers,
        ..v1::SyncRequest::default()
    };
    let declare = v1::DeclareRequest {
        lease: Some(lease()),
        protocol_version: PROTOCOL_VERSION,
        declaration: Some(declaration()),
        sdk_version: "fuzz".into(),
    };
    let position = v1::Position { epoch: 1, step: 10, sample: 5, batch: 10, samples_per_s: 3.0 };
    let job = v1::JobRequest {
        gpus: 2,
        workers: 2,
        after: vec![1],
        env: BTreeMap::from([("A".to_owned(), "b".to_owned())]).into_iter().collect(),
        declaration: Some(declaration()),
        ..request()
    };
    let messages: [(u8, Vec<u8>); 7] = [
        (0, join().encode_to_vec()),
        (1, sync(vec![status]).encode_to_vec()),
        (1, sync(vec![ended]).encode_to_vec()),
        (2, declare.encode_to_vec()),
        (3, v1::ReportRequest { lease: Some(lease()), events: events() }.encode_to_vec()),
        (4, v1::RenewRequest { lease: Some(lease()), position: Some(position) }.encode_to_vec()),
        (5, job.encode_to_vec()),
    ];
    messages.map(|(kind, message)| [vec![kind], message].concat()).into()
}

/// A snapshot of today's layout.
pub(super) fn snapshots() -> Vec<Vec<u8>> {
    vec![Small::new().owner.state.save().expect("a state can be saved").body]
}
