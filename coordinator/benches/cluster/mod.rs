//! 1,000 machines of 8 devices, as the coordinator takes their records in: joins, whole rounds,
//! losses. Without the network and the disk.

use std::error::Error;
use std::time::Instant;

use shockwave::service::apply::State;
use shockwave::service::record::Record;
use shockwave::service::settings::Configuration;
use shockwave_core::engine::ReleaseReason;
use shockwave_core::policies::Policy;
use shockwave_proto::v1::declaration;
use shockwave_proto::v1::event::Kind;
use shockwave_proto::v1::{Accordion, Declaration, Device, Event, JobRequest, Started};

use crate::{RUNS, median, put, row};

const NODES: u64 = 1000;
const JOBS: u64 = 5000;

/// What a round takes, ms.
#[derive(Default)]
struct Round {
    /// The question to the policy, with all that it may see.
    asked: f64,
    /// The policy's answer, beside everything else.
    planned: f64,
    /// The plan is taken, who runs next is chosen, others are asked to yield.
    fixed: f64,
    /// How many parts of leases were asked.
    going: usize,
    /// All who were asked have ended; others start on their devices.
    ended: f64,
    /// The longest of these records.
    longest: f64,
    /// Those who have started say so.
    started: f64,
}

/// Prints the rows.
pub(crate) fn measure() -> Result<(), Box<dyn Error>> {
    let configuration = Configuration::default();
    let mut policy = configuration.policy()?;
    let mut state = State::empty(&configuration, "secret")?;
    let joins = (0..NODES).map(|node| put(&mut state, &joined(node), 0.0)).collect();
    limited("join, 1,000 agents of 8", median(joins), 10.0);
    let submitted = (1..=JOBS).map(|job| put(&mut state, &submission(job), 1.0)).collect();
    limited("submission, 5,000 jobs, 1,000 agents of 8", median(submitted), 10.0);
    // The first round only starts what there is.
    play(&mut state, policy.as_mut())?;
    // Jobs are left where they are for a round or two; then all change.
    let mut rounds = Vec::new();
    while rounds.len() < RUNS {
        let round = play(&mut state, policy.as_mut())?;
        rounds.extend((round.going > 0).then_some(round));
    }
    let of = |part: fn(&Round) -> f64| median(rounds.iter().map(part).collect());
    limited("a round's question, 5,000 jobs, 1,000 agents of 8", of(|it| it.asked), 50.0);
    limited("the same, its plan, on a thread beside", of(|it| it.planned), 250.0);
    limited("the same, its directives", of(|it| it.fixed), 250.0);
    limited(
        "the same, all who go have gone and all who come have leases",
        of(|it| it.ended),
        250.0,
    );
    limited("the same, the longest record of these", of(|it| it.longest), 10.0);
    limited("the same, all who come have said that they train", of(|it| it.started), 250.0);
    let now_s = state.book.now_s + 1.0;
    let lost = |node: u64| Record::Lost { node: format!("node{node}"), why: "silent".into() };
    let losses = (0..100).map(|node| put(&mut state, &lost(node), now_s)).collect();
    limited("loss, 1,000 agents of 8", median(losses), 10.0);
    Ok(())
}

fn limited(name: &str, value_ms: f64, most_ms: f64) {
    row(name, value_ms, "ms", Some((most_ms, value_ms <= most_ms)), "");
}

fn joined(node: u64) -> Record {
    let device = |index| Device { index, kind: "gpu".into(), ..Device::default() };
    Record::Joined {
        node: format!("node{node}"),
        instance: "1".into(),
        address: String::new(),
        devices: (0..8).map(device).collect(),
        keeps: Vec::new(),
        until_s: None,
        machine: String::new(),
    }
}

fn submission(job: u64) -> Record {
    let gpus = [1, 1, 2, 4, 8][job as usize % 5];
    let declaration = Declaration {
        epochs_total: 200,
        samples_per_epoch: 50_000,
        initial_batch: 32,
        family: format!("family{}", job % 7),
        policy: Some(declaration::Policy::Accordion(Accordion { small: 32, large: 256 })),
    };
    let request = JobRequest {
        declaration: Some(declaration),
        command: vec!["train".into()],
        working_dir: "/".into(),
        gpus,
        workers: gpus,
        weight: 1.0,
        ..JobRequest::default()
    };
    Record::Submitted { job, user: "ada".into(), key: String::new(), request: Box::new(request) }
}

/// A round: it is fixed, whoever is asked to goes, whoever follows begins, all renew.
fn play(state: &mut State, policy: &mut dyn Policy) -> Result<Round, Box<dyn Error>> {
    let settings = &state.configuration.engine;
    let (lead_s, ask_s) = (settings.lead_s, settings.lead_s + settings.plan_budget_s);
    let boundary_s = state.engine.boundary_s();
    let running: Vec<_> = state.engine.leases().map(|it| (it.job.0, it.lease_epoch)).collect();
    for (job, lease_epoch) in running {
        let renewed = Record::Renewed { job, lease_epoch, position: None };
        put(state, &renewed, boundary_s - ask_s - 1.0);
    }
    let mut round =
        Round { asked: put(state, &Record::Tick, boundary_s - ask_s), ..Round::default() };
    if let Some(request) = state.book.open_plan.clone() {
        let start = Instant::now();
        let answer = Box::new(request.answer(policy)?);
        round.planned = start.elapsed().as_secs_f64() * 1000.0;
        let record = Record::Planned { answer, solve_s: 0.0 };
        round.fixed = put(state, &record, boundary_s - lead_s - 1.0);
    }
    round.fixed += put(state, &Record::Tick, boundary_s - lead_s);
    put(state, &Record::Tick, boundary_s);
    let leases = state.book.leases.values();
    let going = leases.filter(|lease| lease.stop.is_some()).flat_map(|lease| {
        lease.holders().map(|node| (lease.job, lease.epoch, node.to_owned())).collect::<Vec<_>>()
    });
    let going: Vec<_> = going.collect();
    round.going = going.len();
    for (job, lease_epoch, node) in going {
        let reason = ReleaseReason::Yielded;
        let released = Record::Released { job, lease_epoch, node, reason };
        let took_ms = put(state, &released, boundary_s + 1.0);
        round.ended += took_ms;
        round.longest = round.longest.max(took_ms);
    }
    for record in starts(state) {
        round.started += put(state, &record, boundary_s + 2.0);
    }
    Ok(round)
}

/// What agents and training say of leases that are new.
fn starts(state: &State) -> Vec<Record> {
    let new = state.book.leases.values().filter(|lease| !lease.trains);
    new.flat_map(|lease| {
        let (job, lease_epoch) = (lease.job, lease.epoch);
        let nodes = lease.holders().map(str::to_owned);
        let running = nodes.map(move |node| Record::Running { job, lease_epoch, node });
        let number = state.book.jobs.get(&job).map_or(1, |job| job.acknowledged + 1);
        let kind = Kind::Started(Started { batch: 32, ..Started::default() });
        let event = Event { number, lease_epoch, at_unix_s: 0.0, kind: Some(kind) };
        let started = Record::Reported { job, lease_epoch, events: vec![event] };
        running.chain(std::iter::once(started)).collect::<Vec<_>>()
    })
    .collect()
}
