//! The machines' side of the world, and what must have come of it all.

use shockwave_proto::v1::directive::Kind as Told;
use shockwave_proto::v1::event::Kind;
use tonic::Code;

use super::*;

/// How long an agent waits for an answer beyond the time that it may be held open, seconds.
const PATIENCE_S: f64 = 10.0;

impl World {
    /// Agents, runners and processes act.
    pub(super) fn step(&mut self) -> Result<()> {
        for index in 0..self.machines.len() {
            self.processes(index)?;
            if self.machines[index].enforce(self.now_s).is_empty() {
                self.exchange(index);
            } else {
                // What has ended is told at once.
                self.machines[index].give_up_s = 0.0;
                self.exchange(index);
                self.start_waiting(index);
            }
        }
        Ok(())
    }

    /// Begins an exchange where none is under way.
    fn exchange(&mut self, index: usize) {
        let now_s = self.now_s;
        let machine = &mut self.machines[index];
        if now_s < machine.agent_down_until_s || now_s < machine.give_up_s {
            return;
        }
        machine.exchange += 1;
        machine.give_up_s = now_s + PATIENCE_S;
        let exchange = machine.exchange;
        let up = if machine.joined {
            Up::Sync(machine.sync(), exchange)
        } else {
            Up::Join(machine.join(), exchange)
        };
        self.send(index, Packet::Up(up, now_s));
    }

    pub(super) fn hear(
        &mut self,
        index: usize,
        down: Down,
        sent_s: f64,
        tally: &mut Tally,
    ) -> Result<()> {
        let now_s = self.now_s;
        let machine = &mut self.machines[index];
        let awaited = machine.exchange;
        match down {
            Down::Joined(exchange, number) if exchange == awaited => {
                (machine.joined, machine.join_number) = (true, number);
                machine.give_up_s = 0.0;
                self.exchange(index);
            }
            Down::Synced(exchange, reply) if exchange == awaited => {
                machine.reconcile(reply.generation, reply.assignments, sent_s, now_s);
                machine.give_up_s = 0.0;
                self.start_waiting(index);
                self.exchange(index);
            }
            Down::Unsynced(exchange, code) if exchange == awaited => {
                machine.joined = code != Code::NotFound;
                machine.give_up_s = now_s + 0.1;
            }
            Down::Joined(..) | Down::Synced(..) | Down::Unsynced(..) => {}
            Down::Declared(lease, answer) => {
                let number = answer.map(|reply| reply.acknowledged);
                self.acknowledged(index, lease, number, true, tally)?;
            }
            Down::Reported(lease, answer) => {
                self.acknowledged(index, lease, answer, false, tally)?;
            }
            Down::Renewed(lease, answer) => {
                let key = (lease.job_id, lease.lease_epoch);
                let process = machine.leases.get_mut(&key).and_then(|it| it.process.as_mut());
                match (process, answer) {
                    (Some(process), Ok(directive)) => {
                        if matches!(directive.kind, Some(Told::YieldBy(_))) {
                            tally.note_sum("yields heard", 1.0);
                        }
                        process.hear_directive(directive, sent_s);
                    }
                    (Some(process), Err(Code::FailedPrecondition)) => process.hear_refusal(),
                    _ => {}
                }
            }
        }
        Ok(())
    }

    /// A process hears what is durable: from then on that may not be lost.
    fn acknowledged(
        &mut self,
        index: usize,
        lease: v1::LeaseRef,
        answer: Result<u64, Code>,
        is_declared: bool,
        tally: &mut Tally,
    ) -> Result<()> {
        let key = (lease.job_id, lease.lease_epoch);
        let local = self.machines[index].leases.get_mut(&key);
        let process = local.and_then(|local| local.process.as_mut());
        let number = match answer {
            Ok(number) => number,
            Err(code) => {
                if let (Code::FailedPrecondition, Some(process)) = (code, process) {
                    tally.note_sum("stale leases refused", 1.0);
                    process.hear_refusal();
                }
                return Ok(());
            }
        };
        tally.checked += 1;
        if let Some(process) = process {
            if is_declared {
                process.hear_declared(number);
            } else {
                process.hear_reported(number);
            }
        }
        let disk = self.disks.entry(lease.job_id).or_default();
        ensure!(
            number <= disk.events.len() as u64,
            "job {}: event {number} is acknowledged, which nobody has sent",
            lease.job_id
        );
        let saved =
            disk.events.iter().take(number as usize).filter_map(|event| match &event.kind {
                Some(Kind::CheckpointSaved(it)) => Some(it.epoch),
                _ => None,
            });
        let saved = saved.max().unwrap_or(0);
        let told = self.told.entry(lease.job_id).or_default();
        *told = (told.0.max(number), told.1.max(saved));
        Ok(())
    }

    fn start_waiting(&mut self, index: usize) {
        for key in self.machines[index].startable() {
            self.start(index, key);
        }
    }

    /// A process starts: nothing else of its job may be in use (P2).
    fn start(&mut self, index: usize, key: Key) {
        let now_s = self.now_s;
        let Some(work) = self.works.get(&key.0).copied() else { return };
        for (other, machine) in self.machines.iter().enumerate() {
            for (at, local) in machine.leases.range((key.0, 0)..=(key.0, u64::MAX)) {
                let Some(process) = local.process.as_ref().filter(|_| at.1 != key.1) else {
                    continue;
                };
                let counts = process.is_chief || !process.work.has_sdk;
                if counts && process.is_in_use(now_s) {
                    self.double.push(format!(
                        "job {} starts as lease {} on node{index} while lease {} is in use on \
                         node{other} at {now_s:.1} s",
                        key.0, key.1, at.1
                    ));
                }
            }
        }
        let machine = &mut self.machines[index];
        let (Some(it), Some(local)) = (machine.wanted.get(&key), machine.leases.get_mut(&key))
        else {
            return;
        };
        let lease = v1::LeaseRef { job_id: key.0, lease_epoch: key.1 };
        let ttl_s = (local.ends_s - now_s).max(0.0);
        let times = (ttl_s, it.grace_ms as f64 / 1000.0);
        let disk = self.disks.entry(key.0).or_default();
        let is_chief = it.group_rank == 0;
        // What was acknowledged is what it resumes from, or something newer (P3).
        let told = self.told.get(&key.0).map_or(0, |told| told.1);
        if work.has_sdk && disk.checkpoint < told {
            self.double.push(format!("job {} resumes before checkpoint {told}", key.0));
        }
        local.process = Some(Process::start(lease, work, is_chief, times, now_s, disk));
    }

    /// Every process does what it does in half a second.
    fn processes(&mut self, index: usize) -> Result<()> {
        let now_s = self.now_s;
        let keys: Vec<Key> = self.machines[index].leases.keys().copied().collect();
        for key in keys {
            let gone = self.chief_end(key);
            let Some(local) = self.machines[index].leases.get_mut(&key) else { continue };
            let Some(process) = local.process.as_mut().filter(|it| it.frozen_until_s <= now_s)
            else {
                continue;
            };
            let disk = self.disks.entry(key.0).or_default();
            let wants = if process.work.has_sdk && !process.is_chief {
                // The other ranks end with the first one: their next all-reduce fails.
                let code = gone.map(|end| if let End::Code(code) = end { code } else { 1 });
                super::super::process::Wants { exit: code, ..Default::default() }
            } else {
                process.step(now_s, STEP_S, disk)
            };
            let lease = process.lease;
            if let Some(Kind::Finished(_)) = disk.events.last().and_then(|it| it.kind.as_ref()) {
                self.completed.insert(key.0, true);
            }
            if let Some(code) = wants.exit {
                if code == 0 && !process.work.has_sdk {
                    self.completed.insert(key.0, true);
                }
                local.exit(End::Code(code));
                self.machines[index].give_up_s = 0.0;
                self.start_waiting(index);
            }
            if wants.declare {
                self.send(index, Packet::Up(Up::Declare(lease), now_s));
            }
            if let Some(position) = wants.renew {
                self.send(index, Packet::Up(Up::Renew(lease, position), now_s));
            }
            if !wants.report.is_empty() {
                self.send(index, Packet::Up(Up::Report(lease, wants.report), now_s));
            }
        }
        Ok(())
    }

    /// How the first rank of a lease has ended, if it has.
    fn chief_end(&self, key: Key) -> Option<End> {
        let chiefs = self
            .machines
            .iter()
            .filter(|machine| machine.wanted.get(&key).is_some_and(|it| it.group_rank == 0));
        chiefs.filter_map(|machine| machine.leases.get(&key)?.end).next()
    }

    /// Everything has ended: as it should, and as the log says.
    pub(super) fn check_end(&mut self, tally: &mut Tally) -> Result<()> {
        self.written(self.log.last());
        let replayed = self.replay()?;
        if let Err(error) = self.check_kept(&replayed) {
            tally.lost += 1;
            return Err(error);
        }
        let owner = self.owner.as_ref().context("it runs")?;
        for (job, work) in &self.works {
            let known = owner.state.book.jobs.get(job).with_context(|| format!("job {job}"))?;
            let outcome = known.end.as_ref().map(|end| &end.outcome);
            ensure!(
                matches!(outcome, Some(Outcome::Finished { .. })),
                "job {job} ({work:?}) ended as {outcome:?}"
            );
            // Nothing is ever done by absence (P1).
            if !self.completed.contains_key(job) {
                tally.phantom += 1;
                bail!("job {job} is finished, and never said so");
            }
        }
        // P6: the same log gives the same state.
        let (live, again) = (owner.state.save(), replayed.save());
        ensure!(live == again, "the log adds up to another state than the one that was live");
        Ok(())
    }
}
