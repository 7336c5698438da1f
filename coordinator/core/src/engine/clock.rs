//! The round clock: a grid of boundaries, and how far the next round is prepared.

use serde::{Deserialize, Serialize};

/// What is next on the clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Ask the policy (beside the round).
    Ask,
    /// Fix the jobs of the next round.
    Fix,
    /// Begin the next round.
    Begin,
}

/// Rounds of equal length from an origin. It sleeps while there is nothing to schedule.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct RoundClock {
    origin_s: Option<f64>,
    round_s: f64,
    /// Index of the round that goes on.
    pub(super) round: u64,
    pub(super) awake: bool,
    pub(super) asked: bool,
    pub(super) fixed: bool,
}

impl RoundClock {
    pub(super) fn new(round_s: f64) -> Self {
        Self { origin_s: None, round_s, round: 0, awake: false, asked: false, fixed: false }
    }

    /// End of the round that goes on, seconds.
    pub(super) fn boundary_s(&self) -> f64 {
        self.origin_s.unwrap_or(0.0) + (self.round + 1) as f64 * self.round_s
    }

    /// Changes the length of rounds; the round that goes on begins anew.
    pub(super) fn set_round_s(&mut self, round_s: f64, now_s: f64) {
        if self.round_s != round_s {
            self.round_s = round_s;
            self.origin_s = self.origin_s.map(|_| now_s - self.round as f64 * round_s);
            (self.asked, self.fixed) = (false, false);
        }
    }

    /// There is something to schedule again. The first time sets the origin.
    pub(super) fn wake(&mut self, now_s: f64) {
        if !self.awake {
            self.awake = true;
            self.jump(now_s);
        }
    }

    /// Goes to the round in which `now_s` lies, with nothing prepared for the next.
    pub(super) fn jump(&mut self, now_s: f64) {
        let origin_s = *self.origin_s.get_or_insert(now_s);
        let passed = ((now_s - origin_s) / self.round_s).floor().max(0.0) as u64;
        self.round = passed.max(self.round);
        (self.asked, self.fixed) = (false, false);
    }

    /// Goes on to the next round.
    pub(super) fn advance(&mut self) {
        self.round += 1;
        (self.asked, self.fixed) = (false, false);
    }

    /// What is next and when. `ask_lead_s`: how long before the boundary the policy is asked,
    /// where it is asked beside the round.
    pub(super) fn next(&self, lead_s: f64, ask_lead_s: Option<f64>) -> Option<(f64, Step)> {
        let boundary_s = self.boundary_s();
        match (self.awake, self.fixed, self.asked, ask_lead_s) {
            (false, ..) => None,
            (true, true, ..) => Some((boundary_s, Step::Begin)),
            (true, false, false, Some(ask_lead_s)) => Some((boundary_s - ask_lead_s, Step::Ask)),
            (true, false, ..) => Some((boundary_s - lead_s, Step::Fix)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_of_a_round() {
        let mut clock = RoundClock::new(100.0);
        assert_eq!(clock.next(10.0, None), None);
        clock.wake(50.0);
        assert_eq!(clock.next(10.0, Some(30.0)), Some((120.0, Step::Ask)));
        clock.asked = true;
        assert_eq!(clock.next(10.0, Some(30.0)), Some((140.0, Step::Fix)));
        clock.fixed = true;
        assert_eq!(clock.next(10.0, Some(30.0)), Some((150.0, Step::Begin)));
        clock.advance();
        assert_eq!(clock.next(10.0, None), Some((240.0, Step::Fix)));
        clock.jump(1055.0);
        assert_eq!((clock.round, clock.boundary_s()), (10, 1150.0));
    }
}
