//! The lease as its holder sees it: a duration on the local monotonic clock.
//!
//! `now` is an argument everywhere: nothing here reads a clock.
//!
//! Three things are kept apart that must never be confused: an answer that extends the lease, an
//! answer that ends it, and no answer. The last changes nothing: training goes on until the lease
//! has run out by the local clock and the grace after it, and then the job parks itself,
//! resumable.

use std::time::{Duration, Instant};

/// What the training loop is to do. Read between two steps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Directive {
    /// Go on.
    Run,
    /// Write a checkpoint and end before the deadline; the job will be resumed later.
    Yield {
        /// By when the process must have ended; it is killed after that.
        deadline: Instant,
        /// Why, in the coordinator's words.
        reason: String,
    },
    /// The lease is another's: end at once, commit nothing.
    Revoked {
        /// Why, in the coordinator's words.
        reason: String,
    },
    /// No answer for longer than the lease: write a checkpoint and end, resumable.
    Park,
}

/// The lease as shown to the user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaseStatus {
    /// The lease's fencing number.
    pub epoch: u64,
    /// Until it runs out, if nothing is heard (zero when it has).
    pub ends_in: Duration,
}

/// A lease and what was last said about it.
#[derive(Debug, Clone)]
pub struct Lease {
    epoch: u64,
    ttl: Duration,
    grace: Duration,
    /// The lease runs out at this time plus `ttl`.
    renewed_at: Instant,
    verdict: Verdict,
}

#[derive(Debug, Clone)]
enum Verdict {
    Held,
    Yield { asked_at: Instant, deadline: Instant, reason: String },
    Revoked { reason: String },
}

/// What the coordinator answered to a renewal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// The lease runs for `ttl` from now on.
    Extended {
        /// How long, from the moment the request was sent.
        ttl: Duration,
    },
    /// End within this time.
    YieldBy {
        /// From the moment the request was sent.
        within: Duration,
        /// Why.
        reason: String,
    },
    /// The lease is no longer this process's.
    Revoked {
        /// Why.
        reason: String,
    },
}

impl Lease {
    /// A lease just received at `now`.
    #[must_use]
    pub fn new(epoch: u64, ttl: Duration, grace: Duration, now: Instant) -> Self {
        Self { epoch, ttl, grace, renewed_at: now, verdict: Verdict::Held }
    }

    /// The fencing number.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Time between two renewals: a third of the lease, so that two may be lost.
    #[must_use]
    pub fn renewal_interval(&self) -> Duration {
        (self.ttl / 3).max(Duration::from_millis(50))
    }

    /// Takes an answer to a renewal sent at `sent_at`.
    ///
    /// Durations count from the sending, which is earlier than the coordinator's own reckoning: a
    /// slow answer makes the holder leave sooner, never later. Answers may come out of order: one
    /// to an older request changes nothing, and nothing takes back a revocation.
    pub fn hear(&mut self, answer: Answer, sent_at: Instant) {
        match answer {
            Answer::Extended { ttl } => {
                let ended = match &self.verdict {
                    Verdict::Held => false,
                    // The same devices follow in a newer plan: the yield is taken back.
                    Verdict::Yield { asked_at, .. } => sent_at <= *asked_at,
                    Verdict::Revoked { .. } => true,
                };
                if !ended && sent_at >= self.renewed_at {
                    self.ttl = ttl;
                    self.renewed_at = sent_at;
                    self.verdict = Verdict::Held;
                }
            }
            Answer::YieldBy { within, reason } => {
                let deadline = sent_at + within;
                match &self.verdict {
                    Verdict::Revoked { .. } => {}
                    // Repeated while the holder writes its checkpoint: the first deadline stands.
                    Verdict::Yield { deadline: first, .. } if *first <= deadline => {}
                    _ => self.verdict = Verdict::Yield { asked_at: sent_at, deadline, reason },
                }
            }
            Answer::Revoked { reason } => self.verdict = Verdict::Revoked { reason },
        }
    }

    /// What to do at `now`.
    #[must_use]
    pub fn directive(&self, now: Instant) -> Directive {
        match &self.verdict {
            Verdict::Revoked { reason } => Directive::Revoked { reason: reason.clone() },
            Verdict::Yield { deadline, reason, .. } => {
                Directive::Yield { deadline: *deadline, reason: reason.clone() }
            }
            Verdict::Held if now >= self.renewed_at + self.ttl + self.grace => Directive::Park,
            Verdict::Held => Directive::Run,
        }
    }

    /// The lease's number and what is left of it at `now`.
    #[must_use]
    pub fn status(&self, now: Instant) -> LeaseStatus {
        let ends_in = (self.renewed_at + self.ttl).saturating_duration_since(now);
        LeaseStatus { epoch: self.epoch, ends_in }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const S: Duration = Duration::from_secs(1);

    fn lease() -> (Lease, Instant) {
        let now = Instant::now();
        (Lease::new(3, 30 * S, 10 * S, now), now)
    }

    #[test]
    fn silence_parks_after_the_lease_and_the_grace_and_not_before() {
        let (mut lease, start) = lease();
        assert_eq!(lease.directive(start + 39 * S), Directive::Run);
        assert_eq!(lease.directive(start + 40 * S), Directive::Park);
        assert_eq!(lease.status(start + 35 * S).ends_in, Duration::ZERO);

        lease.hear(Answer::Extended { ttl: 30 * S }, start + 20 * S);
        assert_eq!(lease.directive(start + 59 * S), Directive::Run);
        assert_eq!(lease.directive(start + 60 * S), Directive::Park);
        assert_eq!(lease.status(start + 20 * S), LeaseStatus { epoch: 3, ends_in: 30 * S });
    }

    #[test]
    fn an_answer_late_in_order_does_not_shorten_the_lease() {
        let (mut lease, start) = lease();
        lease.hear(Answer::Extended { ttl: 30 * S }, start + 20 * S);
        lease.hear(Answer::Extended { ttl: 30 * S }, start + 10 * S);
        assert_eq!(lease.status(start + 20 * S).ends_in, 30 * S);
    }

    #[test]
    fn the_first_yield_deadline_stands() {
        let (mut lease, start) = lease();
        let by = |s: u32| Answer::YieldBy { within: s * S, reason: "round over".into() };
        lease.hear(by(10), start);
        lease.hear(by(10), start + 5 * S);
        let first = Directive::Yield { deadline: start + 10 * S, reason: "round over".into() };
        assert_eq!(lease.directive(start + 6 * S), first);
        // The answer to a renewal that was under way when the yield was asked.
        lease.hear(Answer::Extended { ttl: 30 * S }, start);
        assert_eq!(lease.directive(start + 6 * S), first);
        lease.hear(Answer::Extended { ttl: 30 * S }, start + 7 * S);
        assert_eq!(lease.directive(start + 8 * S), Directive::Run);
    }

    #[test]
    fn revoked_is_for_good() {
        let (mut lease, start) = lease();
        lease.hear(Answer::Revoked { reason: "epoch 4 exists".into() }, start);
        lease.hear(Answer::Extended { ttl: 30 * S }, start + S);
        lease.hear(Answer::YieldBy { within: S, reason: String::new() }, start + S);
        let revoked = Directive::Revoked { reason: "epoch 4 exists".into() };
        assert_eq!(lease.directive(start + 100 * S), revoked);
    }
}
