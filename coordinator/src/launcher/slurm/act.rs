//! What was decided is done: nodes asked for, given back, forgotten; failures counted.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::decide::{Act, Machine};
use super::lease::Part;
use super::pilot::Pilot;
use super::settings::Pool;
use super::{Launcher, facts, script};
use crate::files::{FileError, make_folder, write_atomic};

/// Wait after the first failure of a pool, and the longest, seconds.
const BACKOFF_S: (f64, f64) = (10.0, 600.0);
/// Failures to join on one host after which it is not asked for.
const HOST_FAILURES_MAX: u32 = 2;

impl Launcher {
    pub(super) async fn carry_out(
        &mut self,
        index: usize,
        act: Act,
        machines: &BTreeMap<String, Machine>,
    ) {
        let now_s = self.now_s();
        match act {
            Act::Submit => self.submit(index, None).await,
            Act::Dismiss(name) => {
                let Some(machine) = machines.get(&name) else { return };
                tracing::info!(node = machine.node, "a machine is given back");
                if let Some(pilot) = self.pilots.get_mut(&name) {
                    pilot.sight.dismissed_s = Some(now_s);
                }
                self.dismiss(machine.node.clone()).await;
            }
            Act::Cancel(name, failed) => self.cancel(index, name, failed).await,
            Act::Lose(name) => {
                if let Some(machine) = machines.get(&name) {
                    let state = self.pilots.get_mut(&name).and_then(|it| it.sight.seen.clone());
                    let state = state.map_or_else(|| "unknown".into(), |seen| seen.state);
                    let why = format!("Slurm says that its job is over ({state})");
                    facts::lose(&self.shared, machine.node.clone(), why).await;
                }
            }
            Act::Forget(name, failed) => {
                self.forget(index, &name, failed, machines.get(&name)).await
            }
        }
    }

    /// Has Slurm end a job; why that is a failure, if it is one.
    pub(super) async fn cancel(&mut self, index: usize, name: String, failed: Option<String>) {
        if let Some(why) = failed {
            self.failed(index, &name, &why);
        }
        tracing::info!(name, "a Slurm job is ended");
        match self.slurm.cancel(&name).await {
            Ok(()) => {
                let now_s = self.now_s();
                if let Some(pilot) = self.pilots.get_mut(&name) {
                    pilot.sight.cancelled_s = Some(now_s);
                }
            }
            Err(error) => self.tell_trouble(&error.to_string()),
        }
    }

    async fn dismiss(&self, node: String) {
        let ask = move |owner: &mut crate::service::owner::Owner| {
            owner.dismissed.insert(node.clone());
            owner.tell_node(&node);
            Ok(())
        };
        let _ = self.shared.handle.ask(ask).await;
    }

    /// Asks Slurm for a node, or for what one lease's part needs: written down first.
    pub(super) async fn submit(&mut self, index: usize, part: Option<&Part>) {
        let now_s = self.now_s();
        // A failure may have been counted since this was decided.
        if self.pools[index].standing.not_before_s > now_s {
            return;
        }
        let pool = self.pools[index].pool.clone();
        let pilot = self.pilots.add(&pool.name, part.map(|part| part.carries.clone()), now_s);
        if !self.save() {
            self.pilots.all.pop();
            return;
        }
        self.passes.send_replace(Arc::new(self.pilots.passes()));
        let answer = self.hand_in(index, &pool, &pilot, part).await;
        let answered_s = self.now_s();
        if let Some(known) = self.pilots.get_mut(&pilot.name) {
            known.sight.asked_s = answered_s;
            known.sight.refused.clone_from(&answer.as_ref().err().cloned());
        }
        match answer {
            Ok(()) => {
                let job = part.map(|part| part.carries.job);
                tracing::info!(name = pilot.name, job, "Slurm is asked for a node");
            }
            // Whether it is there all the same is seen in the queue.
            Err(why) => self.back_off(index, &pilot.name, &why),
        }
        self.looked_s = self.looked_s.min(answered_s - super::LOOK.1.as_secs_f64() + 1.0);
    }

    async fn hand_in(
        &self,
        index: usize,
        pool: &Pool,
        pilot: &Pilot,
        part: Option<&Part>,
    ) -> Result<(), String> {
        let folder = self.site.folder().join(&pilot.name);
        let text = |error: FileError| error.to_string();
        make_folder(&folder).map_err(text)?;
        write_atomic(&folder.join("token"), self.pilots.token(pilot).as_bytes()).map_err(text)?;
        let now_s = self.now_s();
        let hosts = self.pools[index].hosts.iter();
        let exclude: Vec<String> = hosts
            .filter(|(_, (until_s, _))| *until_s > now_s)
            .map(|(host, _)| host.clone())
            .collect();
        let own = part.and_then(|part| pool.accounts.get(&part.user));
        let comment = part.map(|part| {
            let carries = &part.carries;
            format!(
                "shockwave job={} lease={} user={}",
                carries.job, carries.lease_epoch, part.user
            )
        });
        let ask = script::Ask {
            pool,
            name: &pilot.name,
            folder: &folder,
            devices: part.map_or(pool.devices_per_node, |part| part.carries.devices),
            exclude: &exclude,
            account: own.unwrap_or(&pool.account),
            comment: comment.as_deref().unwrap_or_default(),
        };
        let (options, script) = (script::options(&ask), script::agent(&self.site, &ask));
        self.slurm.submit(&options, &script).await.map_err(|error| error.to_string())
    }

    /// A node could not be had.
    fn failed(&mut self, index: usize, name: &str, why: &str) {
        let host = self.pilots.get_mut(name).and_then(|pilot| pilot.sight.seen.clone());
        let now_s = self.now_s();
        if let Some(host) = host.map(|seen| seen.host).filter(|host| !host.is_empty()) {
            let known = self.pools[index].hosts.entry(host).or_insert((0.0, 0));
            known.1 += 1;
            if known.1 >= HOST_FAILURES_MAX {
                known.0 = now_s + super::EXCLUDE_S;
            }
        }
        self.back_off(index, name, why);
    }

    fn back_off(&mut self, index: usize, name: &str, why: &str) {
        let now_s = self.now_s();
        let state = &mut self.pools[index];
        state.failures = state.failures.saturating_add(1);
        why.clone_into(&mut state.last_failure);
        let wait_s = BACKOFF_S.0 * f64::from(2_u32.saturating_pow(state.failures - 1));
        let wait_s = wait_s.min(BACKOFF_S.1);
        state.standing.not_before_s = now_s + wait_s;
        let (pool, failures) = (&state.pool.name, state.failures);
        tracing::warn!(
            pool,
            name,
            failures,
            "no node from Slurm: {why}; asked again in {wait_s:.0} s at the earliest"
        );
    }

    pub(super) async fn forget(
        &mut self,
        index: usize,
        name: &str,
        failed: Option<String>,
        machine: Option<&Machine>,
    ) {
        if let Some(machine) = machine
            && !facts::leave(&self.shared, machine.node.clone()).await
        {
            return;
        }
        let folder = self.site.folder().join(name);
        if let Some(why) = failed {
            let was_counted =
                self.pilots.get_mut(name).is_some_and(|pilot| pilot.sight.refused.is_some());
            if !was_counted {
                let said = facts::last_line(&folder.join("log"));
                self.failed(index, name, &format!("{why}{said}"));
            }
        }
        self.pilots.all.retain(|pilot| pilot.name != name);
        self.save();
        self.passes.send_replace(Arc::new(self.pilots.passes()));
        if let Err(error) = std::fs::remove_dir_all(&folder)
            && error.kind() != std::io::ErrorKind::NotFound
        {
            tracing::warn!(%error, folder = %folder.display(), "cannot remove");
        }
        tracing::info!(name, "a Slurm job is over");
    }
}
