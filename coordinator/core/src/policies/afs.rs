//! AFS (NSDI '21), Apathetic Future Share: GPU by GPU to the job that shortens completion times
//! most, on the assumption that the future will be as contended as the present.
//!
//! AFS resizes jobs; here gangs are whole, so `a` GPUs of a job with a gang of `g` are the share
//! `a / g` of its time.

use super::{Information, Policy};
use crate::types::{ClusterView, Decision, JobView};

/// The AFS-L rule.
#[derive(Clone, Copy, Debug)]
pub struct Afs {
    /// What is known of remaining times.
    pub information: Information,
}

impl Default for Afs {
    fn default() -> Self {
        Self { information: Information::Reactive }
    }
}

/// Whether `b` should get the next GPU before `a`, given how many each has.
fn before(b: (&JobView, u32), a: (&JobView, u32)) -> bool {
    let work = |job: &JobView| job.forecast.left_s * f64::from(job.gpus);
    match (b.1, a.1) {
        (0, 0) => work(b.0) < work(a.0),
        _ => {
            let ends = |(job, gpus): (&JobView, u32)| work(job) / f64::from(gpus);
            let ((short, long), b_is_long) =
                if ends(b) < ends(a) { ((b, a), false) } else { ((a, b), true) };
            // Throughput is linear in GPUs up to the gang: the longer job gains by
            // (p' - p) / p' = 1 / (n + 1), the shorter one by (p' - p) / p = 1 / n.
            let gain_long = 1.0 / f64::from(long.1 + 1);
            let gain_short = 1.0 / f64::from(short.1);
            (gain_long > gain_short) == b_is_long
        }
    }
}

impl Policy for Afs {
    fn name(&self) -> &'static str {
        "afs"
    }

    fn information(&self) -> Information {
        self.information
    }

    fn decide(&mut self, view: &ClusterView) -> Decision {
        let mut given = vec![0_u32; view.jobs.len()];
        for _ in 0..view.gpus {
            let mut best: Option<usize> = None;
            for (place, job) in view.jobs.iter().enumerate() {
                if given[place] == job.gpus {
                    continue;
                }
                best = match best {
                    Some(held) if !before((job, given[place]), (&view.jobs[held], given[held])) => {
                        Some(held)
                    }
                    _ => Some(place),
                };
            }
            let Some(place) = best else { break };
            given[place] += 1;
        }
        let share = |(job, gpus): (&JobView, u32)| (job.id, f64::from(gpus) / f64::from(job.gpus));
        Decision::Shares(view.jobs.iter().zip(given).map(share).collect())
    }
}
