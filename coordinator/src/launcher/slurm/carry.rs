//! A Slurm job for every lease: asked for when the lease is granted, gone when it is over.

use std::collections::{BTreeMap, BTreeSet};

use shockwave_proto::v1::{BatchJobInfo, PoolInfo};
use tonic::Status;

use super::lease::{Agent, Carried, Part, Task, look_after};
use super::settings::Pool;
use super::{Launcher, places};
use crate::launcher::Carries;
use crate::service::owner::Owner;
use crate::service::record::Record;

/// Slurm jobs that may fail for one lease before the next gets its turn.
const FAILURES_MAX: u32 = 5;

/// What is known of the places.
struct Facts {
    parts: Vec<Part>,
    agents: BTreeMap<String, Agent>,
}

impl Launcher {
    /// One look at the leases on places, and what follows from it.
    pub(super) async fn carry_leases(&mut self) {
        let pools: Vec<Pool> = self.pools.iter().map(|state| state.pool.clone()).collect();
        let wanted = places::wanted(&pools);
        let ask = move |owner: &mut Owner| {
            places::enter(owner, &wanted);
            Ok(Facts { parts: places::parts(owner), agents: places::agents(owner) })
        };
        let Ok(facts) = self.shared.handle.ask(ask).await else { return };
        self.note_carriers(&facts);
        self.renew(&facts).await;
        for index in 0..self.pools.len() {
            for task in self.tasks(index, &facts) {
                self.do_task(index, task).await;
            }
        }
    }

    fn note_carriers(&mut self, facts: &Facts) {
        let now_s = self.now_s();
        let mut joined = Vec::new();
        for pilot in &mut self.pilots.all {
            let Some(carries) = &pilot.carries else { continue };
            if !facts.parts.iter().any(|part| part.carries == *carries) {
                pilot.sight.dismissed_s.get_or_insert(now_s);
            }
            let is_heard = facts.agents.get(&pilot.name).is_some_and(|agent| agent.is_heard);
            if is_heard && !pilot.has_joined {
                pilot.has_joined = true;
                joined.push(pilot.pool.clone());
            }
        }
        self.failed_parts.retain(|carries, _| facts.parts.iter().any(|it| it.carries == *carries));
        self.note_joined(&joined);
    }

    /// Leases whose Slurm jobs wait keep their time.
    async fn renew(&self, facts: &Facts) {
        let carried = |part: &Part| {
            let pilot =
                self.pilots.all.iter().find(|it| it.carries.as_ref() == Some(&part.carries));
            pilot.map(|pilot| carried(pilot, facts))
        };
        let key = |part: &Part| (part.carries.job, part.carries.lease_epoch);
        let waits = |part: &&Part| match carried(part) {
            Some(it) => it.needs_time(),
            None => !part.has_run,
        };
        let is_silent = |part: &&Part| carried(part).is_some_and(|it| it.is_silent());
        let silent: BTreeSet<_> = facts.parts.iter().filter(is_silent).map(key).collect();
        let due = facts.parts.iter().filter(|part| part.is_due && !part.is_stopped).filter(waits);
        let due: BTreeSet<_> = due.map(key).filter(|key| !silent.contains(key)).collect();
        if due.is_empty() {
            return;
        }
        let ask = move |owner: &mut Owner| -> Result<(), Status> {
            for (job, lease_epoch) in due {
                owner.append(&Record::Renewed { job, lease_epoch, position: None })?;
            }
            Ok(())
        };
        let _ = self.shared.handle.ask(ask).await;
    }

    fn tasks(&self, index: usize, facts: &Facts) -> Vec<Task> {
        let (pool, now_s) = (&self.pools[index].pool, self.now_s());
        // Until Slurm has been seen once nothing is known of what there is.
        let is_blind = self.looked_s == f64::NEG_INFINITY || !self.trouble.is_empty();
        let pilots = self.pilots.all.iter();
        let pilots = pilots.filter(|it| it.pool == pool.name && it.carries.is_some());
        let mut tasks: Vec<Task> =
            pilots.filter_map(|it| look_after(pool, carried(it, facts), is_blind, now_s)).collect();
        for part in facts.parts.iter().filter(|it| places::is_of_pool(&it.carries.place, pool)) {
            let is_carried =
                self.pilots.all.iter().any(|it| it.carries.as_ref() == Some(&part.carries));
            let failures = self.failed_parts.get(&part.carries).copied().unwrap_or(0);
            if is_carried {
                continue;
            }
            if part.is_over || (!part.has_run && (part.is_stopped || failures >= FAILURES_MAX)) {
                tasks.push(Task::LetGo(part.carries.clone()));
            } else if !part.has_run && !is_blind {
                tasks.push(Task::Ask(part.clone()));
            }
        }
        tasks
    }

    async fn do_task(&mut self, index: usize, task: Task) {
        match task {
            Task::Ask(part) => self.submit(index, Some(&part)).await,
            Task::Dismiss(name) => self.dismiss_carrier(&name).await,
            Task::Cancel(name, failed) => self.cancel(index, name, failed).await,
            Task::LetGo(carries) => {
                let (job, place) = (carries.job, carries.place.clone());
                tracing::info!(job, place, "a lease's place lets go of it");
                let _ = self.shared.handle.ask(move |owner| owner.let_go(&carries)).await;
            }
            Task::Forget(name, failed) => {
                let carries = self.pilots.get_mut(&name).and_then(|pilot| pilot.carries.clone());
                if let (Some(carries), Some(_)) = (carries, &failed) {
                    *self.failed_parts.entry(carries).or_insert(0) += 1;
                }
                self.forget(index, &name, failed, None).await;
            }
        }
    }

    async fn dismiss_carrier(&mut self, name: &str) {
        let now_s = self.now_s();
        let Some(pilot) = self.pilots.get_mut(name) else { return };
        pilot.sight.dismissed_s = Some(now_s);
        tracing::info!(name, "a lease's machine is given back");
        let end = format!(".{name}");
        let ask = move |owner: &mut Owner| {
            let mut places = Vec::new();
            for (node, carrier) in &mut owner.carriers {
                if node.ends_with(&end) {
                    carrier.is_dismissed = true;
                    places.push(carrier.carries.place.clone());
                }
            }
            places.iter().for_each(|place| owner.tell_node(place));
            Ok(())
        };
        let _ = self.shared.handle.ask(ask).await;
    }

    /// How the pools stand, for people.
    pub(super) fn pool_infos(&self) -> Vec<PoolInfo> {
        let now_s = self.now_s();
        let of_pool = |state: &super::State| {
            let pool = &state.pool;
            let pilots = self.pilots.all.iter().filter(|pilot| pilot.pool == pool.name);
            let job = |pilot: &super::pilot::Pilot| {
                let seen = pilot.sight.seen.clone();
                let (state, reason, host) =
                    seen.map_or_else(Default::default, |it| (it.state, it.reason, it.host));
                BatchJobInfo {
                    name: pilot.name.clone(),
                    state,
                    reason: pilot.sight.refused.clone().unwrap_or(reason),
                    host,
                    asked_ago_s: now_s - pilot.sight.asked_s,
                    joined: pilot.has_joined,
                    job_id: pilot.carries.as_ref().map_or(0, |carries| carries.job),
                }
            };
            let trouble = if self.trouble.is_empty() { &state.last_failure } else { &self.trouble };
            PoolInfo {
                name: pool.name.clone(),
                mode: pool.mode.name().into(),
                nodes_max: pool.nodes_max,
                jobs: pilots.map(job).collect(),
                trouble: trouble.clone(),
                asked_again_s: (state.standing.not_before_s - now_s).max(0.0),
            }
        };
        self.pools.iter().map(of_pool).collect()
    }
}

fn carried<'a>(pilot: &'a super::pilot::Pilot, facts: &'a Facts) -> Carried<'a> {
    let carries: Option<&Carries> = pilot.carries.as_ref();
    Carried {
        pilot,
        part: facts.parts.iter().find(|part| Some(&part.carries) == carries),
        agent: facts.agents.get(&pilot.name).copied(),
    }
}
