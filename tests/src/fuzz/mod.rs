//! Every decoder of the coordinator's side against bytes of all kinds: each may refuse, none may
//! panic, and what is taken can be checked without a panic too.

mod calls;
pub mod mutate;

use prost::Message;
use serde::de::DeserializeOwned;
use shockwave::cli::{JobTerms, ServeSettings};
use shockwave::launcher::slurm::queue;
use shockwave::launcher::slurm::settings::{Pool, check_all};
use shockwave::runner::spec::{Exit, Order, Running, Stop};
use shockwave::serve::AddressFile;
use shockwave::service::apply::State;
use shockwave::service::check;
use shockwave::service::record::Record;
use shockwave::store::Snapshot;
use shockwave_core::market::Instance;
use shockwave_core::simulator::profiles::{Profiles, Throughputs};
use shockwave_core::simulator::{Faults, Workload, published_trace, trace};
use shockwave_proto::v1;

/// A decoder: its name, which is its folder of the corpus, and what is done to it.
pub struct Target {
    /// Its name.
    pub name: &'static str,
    /// Decodes and checks; a panic is the fault that is looked for.
    pub run: fn(&[u8]),
    /// Inputs beside the corpus, of today's layout.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

const fn target(name: &'static str, run: fn(&[u8])) -> Target {
    Target { name, run, seeds: Vec::new }
}

/// Every decoder of the coordinator's side; `sdk/tests/fuzz.rs` has training's.
pub const TARGETS: [Target; 12] = [
    target("messages", messages),
    Target { name: "calls", run: calls::run, seeds: calls::seeds },
    target("records", |bytes| with_text(bytes, |text| drop(Record::decode(1, text)))),
    Target { name: "snapshots", run: snapshots, seeds: calls::snapshots },
    target("settings", settings),
    target("job-files", job_files),
    target("instances", instances),
    target("traces", traces),
    target("tables", tables),
    target("agent-files", agent_files),
    target("slurm", slurm),
    target("faults", |bytes| with_text(bytes, |text| drop(text.parse::<Faults>()))),
];

fn with_text(bytes: &[u8], run: impl Fn(&str)) {
    run(&String::from_utf8_lossy(bytes));
}

/// Whatever comes over the network, and what is checked of it.
fn messages(bytes: &[u8]) {
    if let Ok(it) = v1::SubmitRequest::decode(bytes) {
        let _ = it.job.as_ref().map(check::request);
        let _ = check::name("idempotency_key", &it.idempotency_key);
    }
    if let Ok(it) = v1::JobRequest::decode(bytes) {
        let _ = check::request(&it);
    }
    if let Ok(it) = v1::Declaration::decode(bytes) {
        let _ = check::declaration(&it);
    }
    if let Ok(mut it) = v1::ReportRequest::decode(bytes) {
        it.events.iter_mut().for_each(|event| drop(check::event(event)));
    }
    if let Ok(mut it) = v1::Event::decode(bytes) {
        // What is taken becomes a record, and must be readable again.
        if check::event(&mut it).is_ok() {
            let record = Record::Reported { job: 1, lease_epoch: 1, events: vec![it] };
            let text = record.encode().expect("a checked event is written");
            assert!(Record::decode(1, &text).is_ok_and(|again| again == record), "{text}");
        }
    }
    if let Ok(it) = v1::Position::decode(bytes) {
        let _ = check::position(it);
    }
    if let Ok(it) = v1::CreateTokenRequest::decode(bytes) {
        let _ = check::user(&it.user);
    }
    if let Ok(it) = v1::UserTerms::decode(bytes) {
        let _ = check::user(&it.user).and_then(|()| check::weight(it.weight));
    }
    others(bytes);
}

/// Messages of which nothing is checked but their form.
fn others(bytes: &[u8]) {
    fn read<T: Message + Default>(bytes: &[u8]) {
        let _ = T::decode(bytes);
    }
    read::<v1::JoinRequest>(bytes);
    read::<v1::SyncRequest>(bytes);
    read::<v1::SyncReply>(bytes);
    read::<v1::DeclareRequest>(bytes);
    read::<v1::DeclareReply>(bytes);
    read::<v1::RenewRequest>(bytes);
    read::<v1::FollowRequest>(bytes);
    read::<v1::Directive>(bytes);
    read::<v1::JobInfo>(bytes);
    read::<v1::ListJobsRequest>(bytes);
    read::<v1::LogsRequest>(bytes);
    read::<v1::EventsRequest>(bytes);
    read::<v1::CancelJobRequest>(bytes);
    read::<v1::HoldJobRequest>(bytes);
    read::<v1::SetWeightRequest>(bytes);
    read::<v1::DrainNodeRequest>(bytes);
    read::<v1::SnapshotRequest>(bytes);
}

fn snapshots(bytes: &[u8]) {
    let snapshot = Snapshot { number: 1, now_s: 1.0, body: bytes.to_vec() };
    let _ = State::load(&snapshot, "secret");
}

fn settings(bytes: &[u8]) {
    with_text(bytes, |text| {
        if let Ok(settings) = toml::from_str::<ServeSettings>(text) {
            let _ = settings.configuration().engine();
            let _ = check_all(&settings.slurm, settings.jobs.is_some());
            let _ = settings.limits.limits();
        }
        let _ = toml::from_str::<Pool>(text);
    });
}

fn job_files(bytes: &[u8]) {
    with_text(bytes, |text| {
        let json = serde_json::from_str::<JobTerms>(text).ok();
        for terms in json.into_iter().chain(toml::from_str::<JobTerms>(text).ok()) {
            let _ = terms.indices();
            if let Ok(Some(declaration)) = terms.declaration.declaration() {
                let _ = check::declaration(&declaration);
            }
        }
    });
}

fn instances(bytes: &[u8]) {
    with_text(bytes, |text| {
        if let Ok(instance) = serde_json::from_str::<Instance>(text) {
            let _ = instance.window();
        }
    });
}

fn traces(bytes: &[u8]) {
    with_text(bytes, |text| {
        let _ = published_trace::parse(text);
        if let Ok(jobs) = trace::parse_trace(text) {
            let again = trace::parse_trace(&trace::to_csv(&jobs));
            assert!(again.is_ok(), "what was read cannot be read again: {again:?}");
        }
    });
}

/// The tables beside a trace, in one text: a line `---` between two.
fn tables(bytes: &[u8]) {
    with_text(bytes, |text| {
        let mut parts = text.split("---\n");
        let mut next = || parts.next().unwrap_or_default();
        let profiles = Profiles::parse(next(), next(), next());
        let throughputs = Throughputs::parse(next());
        if let (Ok(profiles), Ok(throughputs)) = (profiles, throughputs) {
            let _ = Workload::parse(next(), &profiles, &throughputs);
        }
    });
}

/// What Slurm's commands print.
fn slurm(bytes: &[u8]) {
    with_text(bytes, |text| {
        let _ = queue::parse_json(text);
        let _ = queue::parse_table(text);
    });
}

/// What agent, runner and commands leave for each other on disk.
fn agent_files(bytes: &[u8]) {
    fn read<T: DeserializeOwned>(bytes: &[u8]) {
        let _ = serde_json::from_slice::<T>(bytes);
    }
    read::<Order>(bytes);
    read::<Running>(bytes);
    read::<Stop>(bytes);
    read::<Exit>(bytes);
    read::<AddressFile>(bytes);
}
