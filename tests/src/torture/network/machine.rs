//! A machine: an agent that keeps to the rules of the real one, and the runners of its leases.

use std::collections::BTreeMap;

use shockwave_proto::PROTOCOL_VERSION;
use shockwave_proto::v1::{
    Assignment, Device, JoinRequest, LeaseRef, SyncRequest, WorkerState, WorkerStatus,
};

use super::process::Process;

/// Job and lease epoch.
pub(super) type Key = (u64, u64);

/// How a lease's processes ended here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Code(i32),
    Signal(i32),
    /// Nobody saw it.
    Lost,
}

/// A lease on a machine.
#[derive(Clone, Debug)]
pub(super) struct Local {
    pub(super) nonce: String,
    pub(super) devices: Vec<u32>,
    pub(super) process: Option<Process>,
    pub(super) end: Option<End>,
    /// End of the lease as far as is known here.
    pub(super) ends_s: f64,
    /// When SIGTERM and SIGKILL are due.
    stop_s: Option<(f64, f64)>,
    /// The same, unless the lease is renewed.
    lapse_s: Option<(f64, f64)>,
    has_lapsed: bool,
    sigterm_sent: bool,
}

/// A machine.
#[derive(Clone, Debug)]
pub(super) struct Machine {
    pub(super) name: String,
    pub(super) devices: u32,
    /// Starts of its agent.
    pub(super) instance: u32,
    pub(super) joined: bool,
    /// Number of the newest join that was answered.
    pub(super) join_number: u64,
    pub(super) leases: BTreeMap<Key, Local>,
    pub(super) wanted: BTreeMap<Key, Assignment>,
    /// The exchange under way, and when it is given up.
    pub(super) exchange: u64,
    pub(super) give_up_s: f64,
    pub(super) agent_down_until_s: f64,
    generation: u64,
}

fn key(lease: Option<LeaseRef>) -> Key {
    let lease = lease.unwrap_or_default();
    (lease.job_id, lease.lease_epoch)
}

impl Machine {
    pub(super) fn new(index: usize, devices: u32) -> Self {
        Self {
            name: format!("node{index}"),
            devices,
            instance: 1,
            joined: false,
            join_number: 0,
            leases: BTreeMap::new(),
            wanted: BTreeMap::new(),
            exchange: 0,
            give_up_s: 0.0,
            agent_down_until_s: 0.0,
            generation: 0,
        }
    }

    pub(super) fn join(&self) -> JoinRequest {
        let device = |index| Device { index, kind: "cpu".into(), ..Device::default() };
        JoinRequest {
            protocol_version: PROTOCOL_VERSION,
            node: self.name.clone(),
            instance: self.instance.to_string(),
            devices: (0..self.devices).map(device).collect(),
            workers: self.statuses(),
            walltime_left_s: None,
            address: self.name.clone(),
            ..JoinRequest::default()
        }
    }

    pub(super) fn sync(&self) -> SyncRequest {
        SyncRequest {
            node: self.name.clone(),
            instance: self.instance.to_string(),
            workers: self.statuses(),
            generation: self.generation,
            join_number: self.join_number,
            wait_ms: 5_000,
            ..SyncRequest::default()
        }
    }

    fn statuses(&self) -> Vec<WorkerStatus> {
        let status = |(key, local): (&Key, &Local)| {
            let mut status = WorkerStatus {
                lease: Some(LeaseRef { job_id: key.0, lease_epoch: key.1 }),
                nonce: local.nonce.clone(),
                ..WorkerStatus::default()
            };
            status.set_state(match (&local.process, local.end) {
                (Some(_), _) => WorkerState::Running,
                (None, None) => WorkerState::Reserved,
                (None, Some(End::Lost)) => WorkerState::Lost,
                (None, Some(_)) => WorkerState::Exited,
            });
            match local.end {
                Some(End::Code(code)) => status.exit_code = Some(code),
                Some(End::Signal(signal)) => status.signal = Some(signal),
                Some(End::Lost) | None => {}
            }
            status
        };
        self.leases.iter().map(status).collect()
    }

    /// Takes the wanted state of an exchange that was begun at `sent_s`; gives what may start now.
    pub(super) fn reconcile(
        &mut self,
        generation: u64,
        assignments: Vec<Assignment>,
        sent_s: f64,
        now_s: f64,
    ) -> Vec<Key> {
        self.generation = generation;
        self.wanted = assignments.into_iter().map(|it| (key(it.lease), it)).collect();
        let wanted = &self.wanted;
        self.leases.retain(|key, local| {
            let is_wanted = wanted.get(key).is_some_and(|it| it.nonce == local.nonce);
            if !is_wanted && local.process.is_some() {
                local.stop_s = Some((now_s, now_s));
            }
            is_wanted || local.process.is_some()
        });
        for (key, it) in wanted {
            let local = self.leases.entry(*key).or_insert_with(|| Local {
                nonce: it.nonce.clone(),
                devices: it.devices.clone(),
                process: None,
                end: None,
                ends_s: 0.0,
                stop_s: None,
                lapse_s: None,
                has_lapsed: false,
                sigterm_sent: false,
            });
            let (ttl_s, grace_s) = (it.ttl_ms as f64 / 1000.0, it.grace_ms as f64 / 1000.0);
            let end_s = sent_s + ttl_s;
            local.ends_s = local.ends_s.max(end_s);
            local.lapse_s = it.kept_by_agent.then_some((end_s + grace_s / 2.0, end_s + grace_s));
            if let Some(stop) = it.stop {
                let after = |ms: u64| now_s + ms as f64 / 1000.0;
                let new = (after(stop.term_in_ms.min(stop.kill_in_ms)), after(stop.kill_in_ms));
                // One that was given can only come earlier.
                let old = local.stop_s.unwrap_or(new);
                local.stop_s = Some((old.0.min(new.0), old.1.min(new.1)));
                if local.process.is_none() && local.end.is_none() {
                    local.end = Some(End::Code(75));
                }
            }
        }
        self.startable()
    }

    /// What is told to go, not told to stop, and finds every device free.
    pub(super) fn startable(&self) -> Vec<Key> {
        let may = |(key, it): (&Key, &Assignment)| {
            let local = self.leases.get(key)?;
            let is_new = local.process.is_none() && local.end.is_none() && local.nonce == it.nonce;
            let busy = self.leases.iter().any(|(other, lease)| {
                other != key
                    && lease.process.is_some()
                    && lease.devices.iter().any(|device| it.devices.contains(device))
            });
            (it.go && it.stop.is_none() && is_new && !busy).then_some(*key)
        };
        self.wanted.iter().filter_map(may).collect()
    }

    /// What the runners do at this moment: signals that are due. Gives the leases that ended.
    pub(super) fn enforce(&mut self, now_s: f64) -> Vec<Key> {
        let mut ended = Vec::new();
        for (key, local) in &mut self.leases {
            let Some(process) = &mut local.process else { continue };
            if local.stop_s.is_none() && local.lapse_s.is_some_and(|lapse| now_s >= lapse.0) {
                local.has_lapsed = true;
                local.stop_s = local.lapse_s;
            }
            let Some((term_s, kill_s)) = local.stop_s else { continue };
            if now_s >= term_s && !local.sigterm_sent {
                local.sigterm_sent = true;
                process.terminate();
                if !process.work.has_sdk && !process.work.is_deaf {
                    local.exit(End::Signal(15));
                    ended.push(*key);
                    continue;
                }
            }
            if now_s >= kill_s {
                local.exit(End::Signal(9));
                ended.push(*key);
            }
        }
        ended
    }

    /// Everything on it is gone, and how it ended is not known.
    pub(super) fn reboot(&mut self) {
        for local in self.leases.values_mut().filter(|local| local.process.is_some()) {
            local.exit(End::Lost);
        }
    }

    /// The agent is killed, and comes again later; processes stay.
    pub(super) fn restart_agent(&mut self, until_s: f64) {
        self.agent_down_until_s = until_s;
        self.instance += 1;
        self.joined = false;
        self.join_number = 0;
        self.exchange += 1_000_000;
        self.generation = 0;
        self.wanted.clear();
        // A lease of which nothing was started is not remembered.
        self.leases.retain(|_, local| local.process.is_some() || local.end.is_some());
    }
}

impl Local {
    pub(super) fn exit(&mut self, end: End) {
        self.process = None;
        // As the runner reports the end of a lease that was not renewed.
        let parked = self.has_lapsed && end != End::Code(0);
        self.end = Some(if parked { End::Code(75) } else { end });
    }
}
