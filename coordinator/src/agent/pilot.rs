//! An agent on a machine that a batch system lends: it gives the machine back in good order.

use std::time::Duration;

use shockwave_proto::v1::{StopOrder, SyncRequest};
use tokio::sync::watch;
use tokio::time::Instant;

use super::link::Link;
use super::{Agent, Phase};

/// Why a pilot's agent has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// The coordinator has no use for the machine.
    NotNeeded,
    /// The machine was taken away.
    TakenAway,
}

/// How much of the warning time is left to the batch system's own clock, which is no exact one.
const RESERVE: f64 = 0.2;
/// How often the last word is tried.
const LAST_WORDS: u32 = 3;
/// How long a machine that is not needed may take to stop what still runs there.
const UNHURRIED: Duration = Duration::from_secs(30);

impl<L: Link> Agent<L> {
    /// Works until `taken` is set or the coordinator wants the machine to be given back. Then
    /// everything that runs is asked to stop, and killed within `warning`; nothing is left behind.
    pub async fn run_as_pilot(
        mut self,
        mut taken: watch::Receiver<bool>,
        warning: Duration,
    ) -> Left {
        self.work(&mut taken).await;
        let left = if *taken.borrow() { Left::TakenAway } else { Left::NotNeeded };
        let time = if left == Left::TakenAway { warning } else { UNHURRIED.max(warning) };
        self.wind_down(time.mul_f64(1.0 - RESERVE)).await;
        left
    }

    async fn wind_down(&mut self, time: Duration) {
        let deadline = Instant::now() + time;
        let kill_in_ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        self.leaving = true;
        for lease in self.leases.values_mut() {
            lease.stop(StopOrder { term_in_ms: 0, kill_in_ms });
        }
        self.start_waiting();
        let mut joined = true;
        while self.leases.values().any(|lease| lease.phase == Phase::Running) {
            if Instant::now() > deadline + Duration::from_secs(5) {
                tracing::error!("training did not end in time");
                return;
            }
            let step = async {
                if joined { self.exchange().await } else { self.join().await.map(|()| true) }
            };
            match tokio::time::timeout(Duration::from_secs(1), step).await {
                Ok(Ok(now_joined)) => joined = now_joined,
                // It is told as soon as it can be; meanwhile deadlines are kept here.
                Ok(Err(_)) => tokio::time::sleep(Duration::from_millis(200)).await,
                Err(_) => {}
            }
            self.look_after();
        }
        self.say_left().await;
    }

    async fn say_left(&self) {
        let request = SyncRequest {
            node: self.config.node.clone(),
            instance: self.instance.clone(),
            workers: self.statuses(),
            generation: self.generation,
            wait_ms: 0,
            leaving: true,
            left: true,
            leaves: false,
            join_number: self.join_number,
        };
        for _ in 0..LAST_WORDS {
            let said =
                tokio::time::timeout(Duration::from_secs(2), self.link.sync(request.clone()));
            match said.await {
                Ok(Ok(_)) => return,
                Ok(Err(status)) => tracing::warn!("the last word was not heard: {status}"),
                Err(_) => tracing::warn!("the last word was not answered"),
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    /// Nothing that waits for its start starts any more.
    pub(super) fn refuse_waiting(&mut self) {
        for lease in self.leases.values_mut().filter(|lease| lease.phase == Phase::Reserved) {
            lease.refuse("its machine is being taken away".into());
        }
    }
}
