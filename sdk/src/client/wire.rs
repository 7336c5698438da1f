//! Events and answers as protocol messages.

use std::time::Duration;

use shockwave_proto::v1;

use super::declaration::clip;
use super::event::{Event, Numbered};
use super::lease::Answer;

/// Longest text sent, in bytes: a reason is a sentence, not a log.
const TEXT_BYTES_MAX: usize = 1024;

/// Most metrics of one event.
const METRICS_MAX: usize = 256;

impl From<&Numbered> for v1::Event {
    fn from(numbered: &Numbered) -> Self {
        Self {
            number: numbered.number,
            lease_epoch: numbered.lease_epoch,
            at_unix_s: numbered.at_unix_s,
            kind: kind(numbered.event.clone()),
        }
    }
}

fn kind(event: Event) -> Option<v1::event::Kind> {
    use v1::event::Kind;
    Some(match event {
        Event::Started { epoch, step, sample, batch, device, checkpoint_sha256 } => {
            Kind::Started(v1::Started {
                epoch: clip(epoch),
                step,
                sample,
                batch: clip(batch),
                device: text(device),
                checkpoint_sha256: checkpoint_sha256.unwrap_or_default(),
            })
        }
        event @ Event::EpochDone { .. } => Kind::EpochDone(epoch_done(event)?),
        event @ Event::RegimeChanged { .. } => Kind::RegimeChanged(regime_changed(event)?),
        Event::CheckpointSaved { epoch, step, uri, sha256, sample, size_bytes, duration_s } => {
            let epoch = clip(epoch);
            let saved =
                v1::CheckpointSaved { epoch, step, uri, sha256, sample, size_bytes, duration_s };
            Kind::CheckpointSaved(saved)
        }
        Event::Finished { step, metrics, checkpoint_sha256 } => Kind::Finished(v1::Finished {
            step,
            metrics: clip_metrics(metrics).collect(),
            checkpoint_sha256: checkpoint_sha256.unwrap_or_default(),
        }),
        Event::Yielded { epoch, step, cause } => {
            let cause = cause.as_str().to_owned();
            Kind::Yielded(v1::Yielded { epoch: clip(epoch), step, cause })
        }
    })
}

fn epoch_done(event: Event) -> Option<v1::EpochDone> {
    let Event::EpochDone {
        epoch,
        step,
        batch,
        samples,
        duration_s,
        loss,
        metrics,
        grad_norm,
        noise_scale,
    } = event
    else {
        return None;
    };
    Some(v1::EpochDone {
        epoch: clip(epoch),
        step,
        batch: clip(batch),
        samples,
        duration_s,
        loss,
        metrics: clip_metrics(metrics).collect(),
        grad_norm,
        noise_scale,
    })
}

fn regime_changed(event: Event) -> Option<v1::RegimeChanged> {
    let Event::RegimeChanged { epoch, sample, old_batch, new_batch, estimate, interval, reason } =
        event
    else {
        return None;
    };
    Some(v1::RegimeChanged {
        epoch: clip(epoch),
        sample,
        old_batch: clip(old_batch),
        new_batch: clip(new_batch),
        estimate,
        estimate_low: interval.map(|(low, _)| low),
        estimate_high: interval.map(|(_, high)| high),
        reason: text(reason),
    })
}

fn clip_metrics(
    metrics: impl IntoIterator<Item = (String, f64)>,
) -> impl Iterator<Item = (String, f64)> {
    metrics.into_iter().take(METRICS_MAX).map(|(name, value)| (text(name), value))
}

fn text(mut text: String) -> String {
    if text.len() > TEXT_BYTES_MAX {
        let mut end = TEXT_BYTES_MAX;
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
    }
    text
}

/// The answer in a directive; none if the coordinator speaks of something newer than this SDK, which
/// is then no answer at all.
pub(super) fn answer(directive: v1::Directive) -> Option<Answer> {
    use v1::directive::Kind;
    Some(match directive.kind? {
        Kind::Extended(v1::Extended { ttl_ms }) => {
            Answer::Extended { ttl: Duration::from_millis(ttl_ms) }
        }
        Kind::YieldBy(v1::YieldBy { deadline_ms, reason }) => {
            Answer::YieldBy { within: Duration::from_millis(deadline_ms), reason }
        }
        Kind::Revoked(v1::Revoked { reason }) => Answer::Revoked { reason },
    })
}
