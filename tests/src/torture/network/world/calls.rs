//! The network, and the coordinator's side of each call over it.

use super::*;

/// The answer that says why a call was refused.
type Refusal = fn(v1::LeaseRef, tonic::Code) -> Down;

impl World {
    /// Over the network: cut, lost, late, or twice.
    pub(super) fn send(&mut self, machine: usize, packet: Packet) {
        let copies = 1 + usize::from(self.random.random_bool(0.03));
        for _ in 0..copies {
            let cut_s = self.cut_s[machine];
            let is_cut = match packet {
                Packet::Up(..) => self.now_s < cut_s.0,
                Packet::Down(..) => self.now_s < cut_s.1,
            };
            let lossy = self.now_s < FAULTS_UNTIL_S && self.random.random_bool(self.loss);
            if is_cut || lossy {
                continue;
            }
            let late = self.random.random_bool(0.05);
            let most_s = if late { 8.0 } else { 0.05 };
            let after_s = self.random.random_range(0.0005..most_s);
            self.at(after_s, Event::Arrives(machine, Box::new(packet.clone())));
        }
    }

    pub(super) fn handle(&mut self, machine: usize, up: Up, sent_s: f64) {
        let outbox = Arc::clone(&self.outbox);
        let put = move |down: Down| {
            outbox.lock().unwrap_or_else(PoisonError::into_inner).push((machine, down, sent_s));
        };
        if let Up::Sync(request, exchange) = up {
            return self.handle_sync(machine, &request, exchange, sent_s);
        }
        self.call(|owner| {
            let (result, refused): (Result<Down, Status>, Refusal);
            let mut lease = v1::LeaseRef::default();
            match up {
                Up::Join(request, exchange) => {
                    result = Ok(Down::Joined(exchange, take_join(owner, request).join_number));
                    refused = |_, code| Down::Unsynced(0, code);
                }
                Up::Declare(of) => {
                    lease = of;
                    let declared = take_declaration(owner, of, None);
                    result = declared.map(|reply| Down::Declared(of, Ok(reply)));
                    refused = |lease, code| Down::Declared(lease, Err(code));
                }
                Up::Report(of, events) => {
                    lease = of;
                    let reported = take_report(owner, of, events);
                    result = reported.map(|reply| Down::Reported(of, Ok(reply.acknowledged)));
                    refused = |lease, code| Down::Reported(lease, Err(code));
                }
                Up::Renew(of, position) => {
                    lease = of;
                    let renewed = take_renewal(owner, of, Some(position));
                    result = renewed.map(|directive| Down::Renewed(of, Ok(directive)));
                    refused = |lease, code| Down::Renewed(lease, Err(code));
                }
                Up::Sync(..) => return,
            }
            match result {
                Ok(down) => owner.release(Box::new(move |trouble| {
                    if trouble.is_none() {
                        put(down);
                    }
                })),
                Err(status) => put(refused(lease, status.code())),
            }
        });
    }

    fn handle_sync(
        &mut self,
        machine: usize,
        request: &v1::SyncRequest,
        exchange: u64,
        sent_s: f64,
    ) {
        let Some(owner) = &mut self.owner else { return };
        if let Err(status) = take_sync(owner, request) {
            self.send(machine, Packet::Down(Down::Unsynced(exchange, status.code()), sent_s));
            return self.after_call();
        }
        self.ordinal += 1;
        let id = self.ordinal;
        let seen = request.generation;
        self.holds.push(Hold { id, machine, exchange, sent_s, seen, is_due: false });
        self.at(request.wait_ms as f64 / 1000.0, Event::HoldOver(id));
        self.after_call();
    }

    pub(super) fn answer_holds(&mut self) {
        let Some(owner) = &mut self.owner else { return };
        for hold in std::mem::take(&mut self.holds) {
            let reply = sync_reply(owner, &self.machines[hold.machine].name, "coordinator");
            if reply.generation == hold.seen && !hold.is_due {
                self.holds.push(hold);
                continue;
            }
            let outbox = Arc::clone(&self.outbox);
            owner.release(Box::new(move |trouble| {
                if trouble.is_none() {
                    let down = Down::Synced(hold.exchange, reply);
                    let mut outbox = outbox.lock().unwrap_or_else(PoisonError::into_inner);
                    outbox.push((hold.machine, down, hold.sent_s));
                }
            }));
        }
    }
}
