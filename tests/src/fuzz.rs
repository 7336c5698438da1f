//! Every decoder of the coordinator's side against bytes of all kinds: each may refuse, none may
//! panic, and what is taken can be checked without a panic too.

use prost::Message;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::de::DeserializeOwned;
use shockwave::cli::{JobTerms, ServeSettings};
use shockwave::runner::spec::{Exit, Order, Running, Stop};
use shockwave::serve::AddressFile;
use shockwave::service::apply::State;
use shockwave::service::check;
use shockwave::service::record::Record;
use shockwave::store::Snapshot;
use shockwave_core::market::Instance;
use shockwave_core::simulator::{Faults, published_trace, trace};
use shockwave_proto::v1;

/// A decoder: its name, which is its folder of the corpus, and what is done to it.
pub struct Target {
    /// Its name.
    pub name: &'static str,
    /// Decodes and checks; a panic is the fault that is looked for.
    pub run: fn(&[u8]),
}

/// Every decoder.
pub const TARGETS: [Target; 9] = [
    Target { name: "messages", run: messages },
    Target { name: "records", run: |bytes| with_text(bytes, |text| drop(Record::decode(1, text))) },
    Target { name: "snapshots", run: snapshots },
    Target { name: "settings", run: settings },
    Target { name: "job-files", run: job_files },
    Target { name: "instances", run: instances },
    Target { name: "traces", run: traces },
    Target { name: "agent-files", run: agent_files },
    Target { name: "faults", run: |bytes| with_text(bytes, |text| drop(text.parse::<Faults>())) },
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
    let _ = v1::JoinRequest::decode(bytes);
    let _ = v1::SyncRequest::decode(bytes);
    let _ = v1::SyncReply::decode(bytes);
    let _ = v1::Directive::decode(bytes);
    let _ = v1::DeclareReply::decode(bytes);
}

fn snapshots(bytes: &[u8]) {
    let snapshot = Snapshot { number: 1, now_s: 1.0, body: bytes.to_vec() };
    let _ = State::load(&snapshot, "secret");
}

fn settings(bytes: &[u8]) {
    with_text(bytes, |text| {
        if let Ok(settings) = toml::from_str::<ServeSettings>(text) {
            let _ = settings.configuration().engine();
        }
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

/// Bytes for a seed: one of the corpus changed in some places, or (without one) any at all.
#[must_use]
pub fn mutated(corpus: &[Vec<u8>], seed: u64) -> Vec<u8> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    if corpus.is_empty() || random.random_bool(0.1) {
        let mut bytes = vec![0; random.random_range(0..400)];
        random.fill(bytes.as_mut_slice());
        return bytes;
    }
    let mut bytes = corpus[random.random_range(0..corpus.len())].clone();
    for _ in 0..random.random_range(1..6) {
        change(&mut bytes, corpus, &mut random);
    }
    bytes
}

/// Words on which decoders have stumbled before.
const WORDS: [&str; 14] = [
    "NaN",
    "inf",
    "-1",
    "1e308",
    "1e999",
    "18446744073709551616",
    "4294967295",
    "\"",
    "{",
    "[[",
    "\0",
    "\u{feff}",
    "null",
    "-0.0",
];

fn change(bytes: &mut Vec<u8>, corpus: &[Vec<u8>], random: &mut ChaCha8Rng) {
    let at = random.random_range(0..=bytes.len());
    match random.random_range(0..6) {
        0 if at < bytes.len() => bytes[at] ^= 1 << random.random_range(0..8),
        1 if at < bytes.len() => bytes[at] = random.random(),
        2 => bytes.truncate(at),
        3 => {
            let word = WORDS[random.random_range(0..WORDS.len())].bytes();
            bytes.splice(at..at, word);
        }
        4 => {
            let end = (at + random.random_range(0..20)).min(bytes.len());
            bytes.drain(at..end);
        }
        _ => {
            let other = &corpus[random.random_range(0..corpus.len())];
            let from = random.random_range(0..=other.len());
            bytes.truncate(at);
            bytes.extend_from_slice(&other[from..]);
        }
    }
}
