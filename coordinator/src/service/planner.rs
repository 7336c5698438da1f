//! Decides beside the round: the policy runs on a thread of its own, so that a hard plan delays
//! nobody.

use std::time::Instant;

use shockwave_core::engine::PlanRequest;
use shockwave_core::policies::Policy;
use tokio::sync::mpsc;

use super::owner::Handle;

/// Starts the planner's thread; it ends with its requests.
pub(super) fn start(
    mut policy: Box<dyn Policy>,
    mut requests: mpsc::Receiver<PlanRequest>,
    handle: Handle,
) {
    let runtime = tokio::runtime::Handle::current();
    let body = move || {
        while let Some(request) = requests.blocking_recv() {
            let began = Instant::now();
            match request.answer(policy.as_mut()) {
                Ok(answer) => {
                    let solve_s = began.elapsed().as_secs_f64();
                    let told = handle.ask(move |owner| {
                        owner.planned(answer, solve_s);
                        Ok(())
                    });
                    if runtime.block_on(told).is_err() {
                        return;
                    }
                }
                Err(error) => tracing::error!(%error, "the policy cannot decide"),
            }
        }
    };
    if let Err(error) = std::thread::Builder::new().name("planner".into()).spawn(body) {
        tracing::error!(%error, "the planner's thread cannot be started");
    }
}
