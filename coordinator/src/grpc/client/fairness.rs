//! `Client.Fairness`: who got how much of the devices, and how fairly.

use std::collections::BTreeMap;

use shockwave_core::engine::Outcome;
use shockwave_core::types::JobId;
use shockwave_proto::v1::{FairnessReply, UserShare, UserTerms};
use tonic::Status;

use crate::service::owner::Owner;
use crate::service::{Shared, view};

pub(super) async fn fairness(shared: &Shared) -> Result<FairnessReply, Status> {
    shared.handle.ask(|owner| Ok(report(owner))).await
}

/// The report over every job of the store.
pub(crate) fn report(owner: &Owner) -> FairnessReply {
    let mut users: BTreeMap<&str, UserShare> = BTreeMap::new();
    let mut rhos: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    let mut jcts_s = Vec::new();
    let mut short_jobs = 0;
    for job in owner.state.book.jobs.values() {
        let share = users.entry(&job.user).or_default();
        share.jobs += 1;
        share.preemptions += job.preemptions;
        let gpus = f64::from(job.request.gpus.max(1));
        match &job.end {
            None => {
                share.active_jobs += 1;
                let progress = owner.state.engine.progress(JobId(job.id));
                share.gpu_s += gpus * progress.map_or(0.0, |progress| progress.attained_s);
            }
            Some(end) => {
                share.gpu_s += gpus * end.summary.attained_s;
                share.wasted_gpu_s += end.summary.wasted_gpu_s;
                if matches!(end.outcome, Outcome::Finished { .. }) {
                    jcts_s.push(end.summary.jct_s);
                    short_jobs += u32::from(view::rho_says_little(owner, end.summary.attained_s));
                    rhos.entry(&job.user).or_default().extend(end.summary.rho);
                }
            }
        }
    }
    let all_gpu_s: f64 = users.values().map(|share| share.gpu_s).sum();
    let all_rhos: Vec<f64> = rhos.values().flatten().copied().collect();
    let users = users.into_iter().map(|(user, mut share)| {
        let own = rhos.get(user).map(Vec::as_slice).unwrap_or_default();
        share.user = user.to_owned();
        share.share = if all_gpu_s > 0.0 { share.gpu_s / all_gpu_s } else { 0.0 };
        share.mean_rho = mean(own);
        share.worst_rho = own.iter().copied().reduce(f64::max);
        let default = || UserTerms { user: user.to_owned(), weight: 1.0, gpus_max: None };
        share.terms = Some(owner.state.book.users.get(user).cloned().unwrap_or_else(default));
        share
    });
    FairnessReply {
        users: users.collect(),
        finished_jobs: jcts_s.len() as u32,
        unfair_jobs: all_rhos.iter().filter(|&&rho| rho > 1.0).count() as u32,
        worst_rho: all_rhos.iter().copied().reduce(f64::max),
        mean_jct_s: mean(&jcts_s),
        short_jobs,
    }
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}
