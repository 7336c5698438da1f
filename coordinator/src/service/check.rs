//! What comes in from outside, checked before it becomes a record.

use std::collections::BTreeMap;

use shockwave_proto::v1;
use shockwave_proto::v1::event::Kind;
use tonic::Status;

use super::translate;

/// Most bytes of a job's command, arguments and variables together.
const REQUEST_BYTES_MAX: usize = 256 << 10;
/// Most bytes of names, keys and reasons.
const NAME_BYTES_MAX: usize = 128;
/// Most bytes of free text and paths.
const TEXT_BYTES_MAX: usize = 4096;
/// Most metrics in one event.
const METRICS_MAX: usize = 256;
/// Most jobs that one job waits for.
const AFTER_MAX: usize = 64;
/// Most devices of a gang.
const GPUS_MAX: u32 = 65_536;

fn invalid(field: &str, got: impl std::fmt::Display, expected: &str) -> Status {
    Status::invalid_argument(format!("{field} is {got}, expected {expected}"))
}

/// A name for people: short, and nothing that moves the cursor.
///
/// # Errors
/// `INVALID_ARGUMENT` names the field.
pub fn name(field: &str, text: &str) -> Result<(), Status> {
    let expected = "at most 128 bytes without control characters";
    if text.len() > NAME_BYTES_MAX {
        return Err(invalid(field, format!("{} bytes long", text.len()), expected));
    }
    if text.chars().any(char::is_control) {
        return Err(invalid(field, format!("{text:?}"), expected));
    }
    Ok(())
}

fn text(field: &str, text: &str) -> Result<(), Status> {
    if text.len() > TEXT_BYTES_MAX || text.contains('\0') {
        return Err(invalid(field, format!("{} bytes long", text.len()), "at most 4096, no NUL"));
    }
    Ok(())
}

/// A text that people are shown: what would move their cursor, or take six bytes in the log for
/// one, becomes a space.
fn plain(field: &str, shown: &mut String) -> Result<(), Status> {
    text(field, shown)?;
    if shown.contains(char::is_control) {
        *shown = shown.replace(char::is_control, " ");
    }
    Ok(())
}

/// A job as handed in.
///
/// # Errors
/// `INVALID_ARGUMENT` names the field and what would be right.
pub fn request(request: &v1::JobRequest) -> Result<(), Status> {
    name("name", &request.name)?;
    if request.command.first().is_none_or(String::is_empty) {
        return Err(invalid("command", "empty", "a program and its arguments"));
    }
    let words = request.command.iter().chain(request.env.keys()).chain(request.env.values());
    let bytes: usize = words.clone().map(String::len).sum();
    if bytes > REQUEST_BYTES_MAX {
        let got = format!("{bytes} bytes with the variables");
        return Err(invalid("command", got, "at most 262144"));
    }
    if words.clone().any(|word| word.contains('\0')) {
        return Err(invalid("command", "with a NUL character", "text"));
    }
    if let Some(bad) = request.env.keys().find(|key| key.is_empty() || key.contains('=')) {
        return Err(invalid("env", format!("{bad:?}"), "names without `=`"));
    }
    if !request.working_dir.starts_with('/') {
        let got = format!("{:?}", request.working_dir);
        return Err(invalid("working_dir", got, "an absolute path"));
    }
    text("working_dir", &request.working_dir)?;
    text("checkpoint_dir", &request.checkpoint_dir)?;
    let gpus = request.gpus.max(1);
    if gpus > GPUS_MAX {
        return Err(invalid("gpus", gpus, "at most 65536"));
    }
    let workers = request.workers.max(1);
    if workers > gpus || !gpus.is_multiple_of(workers) {
        return Err(invalid("workers", workers, &format!("a divisor of gpus ({gpus})")));
    }
    number("weight", request.weight, 1e6)?;
    number("grace_s", request.grace_s, 3600.0)?;
    number("time_limit_s", request.time_limit_s, 1e9)?;
    name("device_kind", &request.device_kind)?;
    if request.after.len() > AFTER_MAX {
        return Err(invalid("after", format!("{} jobs", request.after.len()), "at most 64 jobs"));
    }
    if request.retries > 1000 {
        return Err(invalid("retries", request.retries, "at most 1000"));
    }
    request.declaration.as_ref().map_or(Ok(()), declaration)
}

/// A market budget.
///
/// # Errors
/// `INVALID_ARGUMENT`.
pub fn weight(weight: f64) -> Result<(), Status> {
    if weight > 0.0 {
        number("weight", weight, 1e6)
    } else {
        Err(invalid("weight", weight, "above 0"))
    }
}

/// A name of an account.
///
/// # Errors
/// `INVALID_ARGUMENT`.
pub fn user(user: &str) -> Result<(), Status> {
    name("user", user)?;
    if user.is_empty() { Err(invalid("user", "empty", "a name")) } else { Ok(()) }
}

/// A number from 0 to `max`.
fn number(field: &str, got: f64, max: f64) -> Result<(), Status> {
    if (0.0..=max).contains(&got) {
        return Ok(());
    }
    Err(invalid(field, got, &format!("a number from 0 to {max}")))
}

/// What a job declares.
///
/// # Errors
/// `INVALID_ARGUMENT` names the field and what would be right.
pub fn declaration(it: &v1::Declaration) -> Result<(), Status> {
    name("family", &it.family)?;
    for (field, value) in [
        ("epochs_total", u64::from(it.epochs_total)),
        ("samples_per_epoch", it.samples_per_epoch),
        ("initial_batch", u64::from(it.initial_batch)),
    ] {
        if value == 0 {
            return Err(invalid(field, 0, "at least 1"));
        }
    }
    if let Some(v1::declaration::Policy::Schedule(table)) = &it.policy
        && table.entries.len() > 10_000
    {
        return Err(invalid("schedule", table.entries.len(), "at most 10000 entries"));
    }
    let request = v1::JobRequest { declaration: Some(it.clone()), ..v1::JobRequest::default() };
    let spec = translate::submission(1, "", &request, 0.0).spec;
    spec.validate().map_err(|error| invalid(error.field, error.got.clone(), error.expected))
}

/// An event of training. Values that are not finite are what they say (a diverged loss): the event
/// is taken without them.
///
/// # Errors
/// `INVALID_ARGUMENT` for texts beyond their size and numbers that cannot be.
pub fn event(event: &mut v1::Event) -> Result<(), Status> {
    event.at_unix_s = finite(event.at_unix_s);
    match event.kind.as_mut() {
        None => Err(invalid("event", "of no kind that is known here", "a known kind")),
        Some(Kind::Started(it)) => {
            plain("device", &mut it.device)?;
            text("checkpoint_sha256", &it.checkpoint_sha256)?;
            batch(it.batch)
        }
        Some(Kind::EpochDone(it)) => {
            it.duration_s = finite(it.duration_s).max(0.0);
            for value in [&mut it.loss, &mut it.grad_norm, &mut it.noise_scale] {
                *value = value.filter(|value| value.is_finite());
            }
            metrics(&mut it.metrics)?;
            if it.epoch == u32::MAX {
                return Err(invalid("epoch", it.epoch, "an index from 0"));
            }
            batch(it.batch)
        }
        Some(Kind::RegimeChanged(it)) => {
            plain("reason", &mut it.reason)?;
            for value in [&mut it.estimate, &mut it.estimate_low, &mut it.estimate_high] {
                *value = value.filter(|value| value.is_finite());
            }
            batch(it.new_batch)
        }
        Some(Kind::CheckpointSaved(it)) => {
            plain("uri", &mut it.uri)?;
            it.duration_s = finite(it.duration_s).max(0.0);
            digest("sha256", &it.sha256)
        }
        Some(Kind::Finished(it)) => {
            text("checkpoint_sha256", &it.checkpoint_sha256)?;
            metrics(&mut it.metrics)
        }
        Some(Kind::Yielded(it)) => plain("cause", &mut it.cause),
    }
}

fn batch(batch: u32) -> Result<(), Status> {
    if batch == 0 { Err(invalid("batch", 0, "at least 1")) } else { Ok(()) }
}

fn digest(field: &str, got: &str) -> Result<(), Status> {
    if got.len() == 64 && got.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Ok(());
    }
    Err(invalid(field, format!("{got:?}"), "64 hexadecimal digits"))
}

fn metrics(metrics: &mut BTreeMap<String, f64>) -> Result<(), Status> {
    if metrics.len() > METRICS_MAX {
        return Err(invalid("metrics", metrics.len(), "at most 256"));
    }
    metrics.keys().try_for_each(|key| name("metrics", key))?;
    metrics.retain(|_, value| value.is_finite());
    Ok(())
}

fn finite(value: f64) -> f64 {
    if value.is_finite() { value } else { 0.0 }
}

/// Where training is, with speeds that can be.
#[must_use]
pub fn position(mut it: v1::Position) -> v1::Position {
    it.samples_per_s = finite(it.samples_per_s).max(0.0);
    it
}
