//! The newest records of the durable log, in short: no request's variables, nobody's secrets.

use serde_json::{Value, json};
use tonic::Status;

use crate::service::Shared;
use crate::store::{LogReader, StoreError, StoredRecord};

/// Records that are looked at: ticks and renewals among them are left out.
const LOOK: u64 = 2000;
/// Records that are shown.
const SHOWN_MAX: usize = 200;
/// Longest text of a detail, characters.
const TEXT_MAX: usize = 120;

/// The newest first.
pub(super) async fn newest(shared: &Shared) -> Result<String, Status> {
    let last = shared.handle.ask(|owner| Ok(owner.durable())).await?;
    let path = shared.database.clone();
    let read = move || -> Result<Vec<StoredRecord>, StoreError> {
        let from = last.saturating_sub(LOOK) + 1;
        LogReader::open(&path)?.read(from, 0, LOOK as usize)
    };
    let records = tokio::task::spawn_blocking(read).await;
    let records = records.map_err(|error| Status::internal(error.to_string()))?;
    let records = records.map_err(|error| Status::unavailable(error.to_string()))?;
    let shown = records.iter().rev().filter_map(short).take(SHOWN_MAX);
    Ok(json!({ "version": 1, "events": shown.collect::<Vec<_>>() }).to_string())
}

/// A record in short; none for what happens all the time.
fn short(record: &StoredRecord) -> Option<Value> {
    let body: Value = serde_json::from_str(&record.body).ok()?;
    let (kind, content) = match &body["record"] {
        Value::String(kind) => (kind.clone(), Value::Null),
        Value::Object(fields) => {
            fields.iter().next().map(|(kind, it)| (kind.clone(), it.clone()))?
        }
        _ => return None,
    };
    if matches!(kind.as_str(), "tick" | "renewed" | "planned") {
        return None;
    }
    Some(json!({
        "number": record.number,
        "unix_s": record.unix_s,
        "job": record.job_id,
        "what": details(&kind, &content),
        "kind": kind,
    }))
}

/// What there is to say about it, from fields that hold no secret.
fn details(kind: &str, content: &Value) -> String {
    let text = |value: &Value| match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    };
    let parts = match kind {
        "started" => vec![format!("program {}", text(&content["program"]))],
        "submitted" => {
            vec![text(&content["request"]["name"]), format!("by {}", text(&content["user"]))]
        }
        "cancelled" | "lost" => vec![text(&content["why"])],
        "weighed" => vec![format!("weight {}", text(&content["weight"]))],
        "held" if content["held"] == Value::Bool(false) => vec!["released".to_owned()],
        "running" | "joined" => vec![format!("on {}", text(&content["node"]))],
        "drained" => vec![text(&content["node"])],
        "released" => vec![released(&content["reason"]), format!("on {}", text(&content["node"]))],
        "reported" => content["events"].as_array().into_iter().flatten().map(event).collect(),
        _ => Vec::new(),
    };
    let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    parts.join(", ").chars().take(TEXT_MAX).collect()
}

/// How a process ended, in words.
fn released(reason: &Value) -> String {
    if let Some(code) = reason["exited"]["code"].as_i64() {
        return format!("ended with code {code}");
    }
    if let Some(signal) = reason["signalled"]["signal"].as_i64() {
        return format!("ended by signal {signal}");
    }
    match reason["start-failed"]["why"].as_str() {
        Some(why) => format!("could not start: {why}"),
        None => reason.as_str().unwrap_or_default().replace('-', " "),
    }
}

/// An event of training in short.
fn event(event: &Value) -> String {
    let Some((kind, content)) = event["kind"].as_object().and_then(|kind| kind.iter().next())
    else {
        return String::new();
    };
    match kind.as_str() {
        "EpochDone" => format!("epoch {} done", content["epoch"].as_u64().unwrap_or(0) + 1),
        "RegimeChanged" => format!("batch {} to {}", content["old_batch"], content["new_batch"]),
        "CheckpointSaved" => format!("checkpoint of step {}", content["step"]),
        "Started" => format!("trains from step {}", content["step"]),
        "Yielded" => format!("yielded at step {}", content["step"]),
        "Finished" => format!("finished at step {}", content["step"]),
        other => other.to_lowercase(),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use shockwave_proto::v1::JobRequest;

    use super::*;
    use crate::service::record::Record;

    fn stored(record: &Record) -> StoredRecord {
        let body = record.encode().unwrap();
        StoredRecord { number: 3, now_s: 1.0, unix_s: 2.0, epoch: 1, job_id: record.job_id(), body }
    }

    #[test]
    fn a_submission_shows_no_variables() {
        let request = JobRequest {
            name: "one".into(),
            env: [("API_KEY".to_owned(), "s3cret".to_owned())].into(),
            ..JobRequest::default()
        };
        let record = Record::Submitted {
            job: 7,
            user: "ada".into(),
            key: "k3y".into(),
            request: Box::new(request),
        };
        let shown = short(&stored(&record)).unwrap();
        assert_eq!(shown["what"], "one, by ada");
        let text = shown.to_string();
        assert!(!text.contains("s3cret") && !text.contains("k3y"), "{text}");
    }

    #[test]
    fn what_happens_all_the_time_is_left_out() {
        assert!(short(&stored(&Record::Tick)).is_none());
        let lost = Record::Lost { node: "n".into(), why: "silent".into() };
        assert_eq!(short(&stored(&lost)).unwrap()["what"], "silent");
        let reason = shockwave_core::engine::ReleaseReason::Exited { code: 3 };
        let gone = Record::Released { job: 1, lease_epoch: 1, node: "n".into(), reason };
        assert_eq!(short(&stored(&gone)).unwrap()["what"], "ended with code 3, on n");
    }
}
