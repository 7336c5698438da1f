//! `Client.Submit`: takes a job, once per idempotency key.

use shockwave_core::engine::Outcome;
use shockwave_proto::v1::{SubmitReply, SubmitRequest};
use tonic::Status;

use crate::cli::json::state_name;
use crate::grpc::auth::Caller;
use crate::service::owner::Owner;
use crate::service::record::Record;
use crate::service::{Shared, check, view};

pub(super) async fn submit(
    shared: &Shared,
    caller: Caller,
    request: SubmitRequest,
) -> Result<SubmitReply, Status> {
    let mut job = request.job.ok_or_else(|| Status::invalid_argument("job is missing"))?;
    check::request(&job)?;
    if job.attached.is_some() {
        return Err(Status::invalid_argument(
            "attached is set: a program that was started by hand attaches itself",
        ));
    }
    check::name("idempotency_key", &request.idempotency_key)?;
    if job.name.is_empty() {
        job.name = default_name(&job.command);
    }
    job.gpus = job.gpus.max(1);
    job.workers = job.workers.max(1);
    if job.weight == 0.0 {
        job.weight = 1.0;
    }
    let key = request.idempotency_key;
    let ask = move |owner: &mut Owner| {
        let known = owner.state.book.keys.get(&(caller.user.clone(), key.clone())).copied();
        if let Some(id) = known.filter(|_| !key.is_empty()) {
            let known = super::job(owner, id)?;
            if !is_same(&known.request, &job) {
                return Err(Status::already_exists(format!(
                    "the idempotency key {key:?} belongs to job {id}, which is another one"
                )));
            }
            return Ok(SubmitReply { job: Some(view::job(owner, known)), created: false });
        }
        for after in &job.after {
            let before = super::job(owner, *after).map_err(|_| {
                Status::invalid_argument(format!("after names job {after}, which does not exist"))
            })?;
            let end = before.end.as_ref().map(|end| &end.outcome);
            if end.is_some_and(|end| !matches!(end, Outcome::Finished { .. })) {
                let state = state_name(view::job_state(owner, before));
                return Err(Status::failed_precondition(format!(
                    "after names job {after}, which is {state}: this job would never run"
                )));
            }
        }
        check_room(owner)?;
        let id = owner.state.book.next_job();
        let user = caller.user;
        owner.append(&Record::Submitted { job: id, user, key, request: Box::new(job) })?;
        Ok(SubmitReply { job: Some(view::job(owner, super::job(owner, id)?)), created: true })
    };
    shared.handle.ask(ask).await
}

/// Whether there is room for one job more.
pub(super) fn check_room(owner: &Owner) -> Result<(), Status> {
    let active = owner.state.book.active().count() as u64;
    let jobs_max = owner.state.configuration.jobs_max;
    if active >= jobs_max {
        let sentence = format!("{active} jobs have not ended, jobs_max is {jobs_max}");
        return Err(Status::resource_exhausted(sentence));
    }
    Ok(())
}

/// Whether a repeat asks for the same; the SDK may have refined the declaration since.
fn is_same(
    known: &shockwave_proto::v1::JobRequest,
    repeated: &shockwave_proto::v1::JobRequest,
) -> bool {
    let mut repeated = repeated.clone();
    repeated.declaration.clone_from(&known.declaration);
    repeated.weight = known.weight;
    *known == repeated
}

/// A name for a job without one: its program and first argument.
pub(super) fn default_name(command: &[String]) -> String {
    let last = |text: &String| text.rsplit('/').next().unwrap_or_default().to_owned();
    let words: Vec<String> = command.iter().take(2).map(last).collect();
    let name: String = words.join(" ").chars().filter(|it| !it.is_control()).collect();
    name.chars().take(40).collect()
}

#[cfg(test)]
mod tests {
    use super::default_name;

    #[test]
    fn names_a_job_by_its_program() {
        let check = |command: &[&str], expected: &str| {
            let command: Vec<String> = command.iter().map(ToString::to_string).collect();
            assert_eq!(default_name(&command), expected);
        };
        check(&["/usr/bin/python3", "src/train.py", "--lr", "1"], "python3 train.py");
        check(&["a\nb"], "ab");
        check(&["é".repeat(100).as_str()], &"é".repeat(40));
    }
}
