//! Machines from Slurm: jobs of Slurm's that carry an agent each (pilots), brought and given back
//! as work comes and goes.
//!
//! Level-triggered: what is wanted is written down first ([`pilot`]), then Slurm is asked, then
//! looked at again and again (`queue`); no answer of a command is believed alone. Slurm's numbers
//! are not used, for a controller that was killed gives them out a second time: a job is known by
//! its name, which holds a random number.
//!
//! Architecture invariant: that Slurm calls a job over does not end a lease. Only an agent's word
//! or the lease's own time does: a machine that is cut off may still train.

mod act;
mod carry;
mod command;
mod decide;
mod facts;
mod lease;
pub mod pilot;
mod places;
pub mod queue;
mod script;
pub mod settings;
mod share;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;

use self::command::Slurm;
use self::decide::{Act, Machine, Standing};
use self::pilot::Pilots;
use self::queue::{Phase, Queue};
use self::script::Site;
use self::settings::Pool;
use super::{Carries, Pass};
use crate::files::{FileError, make_folder, write_atomic};
use crate::service::Shared;

/// How often Slurm is looked at: while something changes, and otherwise.
const LOOK: (Duration, Duration) = (Duration::from_secs(3), Duration::from_secs(10));
/// How often decisions are made.
const TICK: Duration = Duration::from_secs(1);
/// How long a host on which something was wrong is not asked for, seconds.
const EXCLUDE_S: f64 = 3600.0;

/// What the launcher is started with.
pub struct Parts {
    /// The coordinator.
    pub shared: Arc<Shared>,
    /// Where it lies.
    pub state_dir: PathBuf,
    /// This program.
    pub program: PathBuf,
    /// Authority that signed the coordinator's certificate.
    pub authority: Option<PathBuf>,
    /// The pools.
    pub pools: Vec<Pool>,
    /// The pilots that are wanted, as they were written down.
    pub pilots: Pilots,
    /// Where their passes are made known.
    pub passes: watch::Sender<Arc<Vec<Pass>>>,
}

/// A pool and what has become of it.
struct State {
    pool: Pool,
    standing: Standing,
    /// Failures in a row.
    failures: u32,
    /// What the last of them said; empty: there was none since an agent has joined.
    last_failure: String,
    /// Until when a host is not asked for, seconds, and its failures.
    hosts: BTreeMap<String, (f64, u32)>,
}

/// The launcher.
struct Launcher {
    shared: Arc<Shared>,
    site: Site,
    slurm: Slurm,
    pools: Vec<State>,
    pilots: Pilots,
    passes: watch::Sender<Arc<Vec<Pass>>>,
    began: Instant,
    looked_s: f64,
    trouble: String,
    /// Slurm jobs with our prefix that nobody wants, and how often they were seen.
    strays: BTreeMap<String, u32>,
    /// Slurm jobs that have failed for parts of leases.
    failed_parts: BTreeMap<Carries, u32>,
}

/// Starts the launcher.
///
/// # Errors
/// The jobs' folder cannot be written to.
pub fn start(parts: Parts, stop: watch::Receiver<bool>) -> Result<(), FileError> {
    let jobs_dir = parts.shared.jobs_dir.clone();
    let mut site = Site {
        address: parts.shared.address.clone(),
        authority: None,
        jobs_dir,
        program: parts.program,
    };
    let folder = site.folder();
    make_folder(&folder)?;
    if let Some(authority) = parts.authority {
        let content = crate::files::at("read", &authority, std::fs::read(&authority))?;
        let copy = folder.join("ca.pem");
        write_atomic(&copy, &content)?;
        site.authority = Some(copy);
    }
    let pool = |pool| State {
        pool,
        standing: Standing::default(),
        failures: 0,
        last_failure: String::new(),
        hosts: BTreeMap::new(),
    };
    let launcher = Launcher {
        shared: parts.shared,
        site,
        slurm: Slurm::default(),
        pools: parts.pools.into_iter().map(pool).collect(),
        pilots: parts.pilots,
        passes: parts.passes,
        began: Instant::now(),
        looked_s: f64::NEG_INFINITY,
        trouble: String::new(),
        strays: BTreeMap::new(),
        failed_parts: BTreeMap::new(),
    };
    tokio::spawn(launcher.run(stop));
    Ok(())
}

impl Launcher {
    async fn run(mut self, mut stop: watch::Receiver<bool>) {
        let bell = self.shared.handle.ask(|owner| Ok(owner.place_bell())).await;
        let Ok(mut places) = bell else { return };
        let mut tick = tokio::time::interval(TICK);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = tick.tick() => {}
                Ok(()) = places.changed() => {}
                _ = stop.changed() => return,
            }
            if self.step().await.is_none() {
                return;
            }
        }
    }

    fn now_s(&self) -> f64 {
        self.began.elapsed().as_secs_f64()
    }

    /// One look and what follows from it; `None` when the coordinator is shutting down.
    async fn step(&mut self) -> Option<()> {
        let pause = if self.is_in_flux() { LOOK.0 } else { LOOK.1 };
        if self.now_s() - self.looked_s >= pause.as_secs_f64() {
            self.look().await;
        }
        let pools: Vec<Pool> = self.pools.iter().map(|state| state.pool.clone()).collect();
        let prefix = self.pilots.prefix.clone();
        let infos = self.pool_infos();
        let facts = self.shared.handle.ask(move |owner| {
            owner.pools = infos;
            Ok(facts::gather(owner, &pools, &prefix))
        });
        let facts = match facts.await {
            Ok(facts) => facts,
            Err(status) if status.message().contains("shutting down") => return None,
            Err(_) => return Some(()),
        };
        self.note(&facts.machines);
        self.sweep_machines(&facts.machines).await;
        self.carry_leases().await;
        for index in 0..self.pools.len() {
            self.pools[index].standing.wanted = facts.wanted[index];
            for act in self.decide(index, &facts.machines) {
                self.carry_out(index, act, &facts.machines).await;
            }
        }
        Some(())
    }

    fn is_in_flux(&self) -> bool {
        self.pilots.all.iter().any(|pilot| {
            let sight = &pilot.sight;
            let phase = sight.seen.as_ref().map(|seen| seen.phase);
            let settled = phase == Some(Phase::Waiting)
                || (phase == Some(Phase::Active) && pilot.has_joined && sight.lost_s.is_none());
            !settled || sight.dismissed_s.is_some() || sight.cancelled_s.is_some()
        })
    }

    /// Looks at Slurm's queue.
    async fn look(&mut self) {
        let before_s = self.now_s();
        self.looked_s = before_s;
        let queue = match self.slurm.queue().await {
            Ok(queue) => queue,
            Err(error) => {
                // A controller that is away says nothing of the jobs: they go on.
                self.tell_trouble(&error.to_string());
                return;
            }
        };
        self.trouble.clear();
        self.looked_s = self.now_s();
        for pilot in &mut self.pilots.all {
            let sight = &mut pilot.sight;
            match queue.get(&pilot.name) {
                Some(seen) => {
                    sight.absent = 0;
                    if seen.phase == Phase::Active {
                        sight.active_s.get_or_insert(before_s);
                    }
                    sight.seen = Some(seen.clone());
                }
                None if before_s - sight.asked_s > LOOK.0.as_secs_f64() => sight.absent += 1,
                None => {}
            }
        }
        self.end_strays(&queue).await;
    }

    fn tell_trouble(&mut self, what: &str) {
        if self.trouble != what {
            tracing::warn!("Slurm: {what}");
            what.clone_into(&mut self.trouble);
        }
    }

    /// Ends what carries our name and nobody wants: asked for by a coordinator whose state was
    /// replaced by an older one.
    async fn end_strays(&mut self, queue: &Queue) {
        let ours = queue.iter().filter(|(name, seen)| {
            name.starts_with(&self.pilots.prefix)
                && matches!(seen.phase, Phase::Waiting | Phase::Held | Phase::Active)
                && self
                    .pools
                    .iter()
                    .any(|it| facts::is_of_pool(name, &self.pilots.prefix, &it.pool))
                && !self.pilots.all.iter().any(|pilot| pilot.name == **name)
        });
        let ours: Vec<String> = ours.map(|(name, _)| name.clone()).collect();
        self.strays.retain(|name, _| ours.contains(name));
        for name in ours {
            let times = self.strays.entry(name.clone()).or_insert(0);
            *times += 1;
            if *times > 1 {
                tracing::warn!(name, "a Slurm job that nobody wants is ended");
                if let Err(error) = self.slurm.cancel(&name).await {
                    self.tell_trouble(&error.to_string());
                }
            }
        }
    }

    /// Takes what is known of the machines into the pilots.
    fn note(&mut self, machines: &BTreeMap<String, Machine>) {
        let now_s = self.now_s();
        let mut joined = Vec::new();
        for pilot in &mut self.pilots.all {
            let Some(machine) = machines.get(&pilot.name) else { continue };
            let sight = &mut pilot.sight;
            if machine.leases > 0 {
                sight.busy_s = Some(now_s);
            }
            if machine.is_lost {
                sight.lost_s.get_or_insert(now_s);
            } else {
                sight.lost_s = None;
                if !pilot.has_joined {
                    pilot.has_joined = true;
                    joined.push(pilot.pool.clone());
                }
            }
        }
        self.note_joined(&joined);
    }

    /// Agents of these pools have joined: so it can be done.
    fn note_joined(&mut self, pools: &[String]) {
        if pools.is_empty() {
            return;
        }
        for state in self.pools.iter_mut().filter(|state| pools.contains(&state.pool.name)) {
            state.failures = 0;
            state.last_failure.clear();
        }
        self.save();
    }

    fn save(&mut self) -> bool {
        let saved = self.pilots.save();
        if let Err(error) = &saved {
            self.tell_trouble(&error.to_string());
        }
        saved.is_ok()
    }

    fn decide(&mut self, index: usize, machines: &BTreeMap<String, Machine>) -> Vec<Act> {
        let now_s = self.now_s();
        let state = &mut self.pools[index];
        let pilots = self.pilots.all.iter();
        let pilots = pilots.filter(|it| it.pool == state.pool.name && it.carries.is_none());
        let carried: Vec<_> = pilots.map(|pilot| (pilot, machines.get(&pilot.name))).collect();
        if decide::has_surplus(&state.pool, state.standing, &carried) {
            state.standing.surplus_s.get_or_insert(now_s);
        } else {
            state.standing.surplus_s = None;
        }
        // Until Slurm has been seen once nothing is known of what there is.
        if self.looked_s == f64::NEG_INFINITY || !self.trouble.is_empty() {
            return Vec::new();
        }
        let acts = decide::decide(&state.pool, state.standing, &carried, now_s);
        for (pilot, machine) in &carried {
            if let Some(why) = machine.and_then(|machine| machine.drained.as_ref()) {
                let host = pilot.sight.seen.as_ref().map(|seen| seen.host.clone());
                if let Some(host) = host.filter(|host| !host.is_empty()) {
                    let known = state.hosts.entry(host.clone()).or_insert((0.0, 0));
                    if known.0 < now_s {
                        tracing::warn!(host, why, "not asked for in the next hour");
                    }
                    known.0 = now_s + EXCLUDE_S;
                }
            }
        }
        acts
    }

    /// Machines of pilots that nobody remembers: forgotten once their leases' time is over.
    async fn sweep_machines(&mut self, machines: &BTreeMap<String, Machine>) {
        for (pilot, machine) in machines {
            let known = self.pilots.all.iter().any(|it| it.name == *pilot);
            if !known && machine.is_lost && machine.leases == 0 {
                facts::leave(&self.shared, machine.node.clone()).await;
            }
        }
    }
}
