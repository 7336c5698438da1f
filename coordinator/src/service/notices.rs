//! What others are to be told of: part of the state, so that it outlives the coordinator, until
//! their receipt is a record of the log.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

/// Most notices that wait; the oldest go first.
const WAITING_MAX: usize = 10_000;

/// Something that has happened to a job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Notice {
    /// Number, from 1: the same in every attempt to deliver it.
    pub number: u64,
    /// `finished`, `failed`, `cancelled` or `yielded`.
    pub event: String,
    /// The job.
    pub job: u64,
    /// Its name.
    pub name: String,
    /// Whose it is.
    pub user: String,
    /// When, seconds since 1970.
    pub at_unix_s: f64,
    /// Why, in one sentence; may be empty.
    pub reason: String,
    /// From submission to end, seconds, once ended.
    pub jct_s: Option<f64>,
    /// Finish-time fairness, once ended.
    pub rho: Option<f64>,
}

/// Notices that nobody has taken yet.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Outbox {
    waiting: VecDeque<Notice>,
    /// Number of the last one.
    last: u64,
    /// Notices that had to make room.
    pub dropped: u64,
}

impl Outbox {
    /// Puts one in; its number is set here.
    pub fn push(&mut self, notice: Notice) {
        self.last += 1;
        if self.waiting.len() >= WAITING_MAX {
            self.waiting.pop_front();
            self.dropped += 1;
        }
        self.waiting.push_back(Notice { number: self.last, ..notice });
    }

    /// The oldest one.
    #[must_use]
    pub fn first(&self) -> Option<&Notice> {
        self.waiting.front()
    }

    /// Everything up to a number is delivered.
    pub fn delivered(&mut self, number: u64) {
        while self.waiting.front().is_some_and(|notice| notice.number <= number) {
            self.waiting.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stays_until_it_is_delivered_and_never_grows_without_end() {
        let notice = Notice {
            number: 0,
            event: "finished".into(),
            job: 1,
            name: String::new(),
            user: String::new(),
            at_unix_s: 0.0,
            reason: String::new(),
            jct_s: None,
            rho: None,
        };
        let mut outbox = Outbox::default();
        for _ in 0..WAITING_MAX + 2 {
            outbox.push(notice.clone());
        }
        assert_eq!((outbox.waiting.len(), outbox.dropped), (WAITING_MAX, 2));
        assert_eq!(outbox.first().map(|notice| notice.number), Some(3));
        outbox.delivered(4);
        assert_eq!(outbox.first().map(|notice| notice.number), Some(5));
    }
}
