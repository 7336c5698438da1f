//! The fluid market's equilibrium by a primal-dual interior-point method.
//!
//! Each buyer's part of the Newton system is diagonal plus rank one, so eliminating purchases
//! leaves one dense system in the T prices: N T^2 operations per iteration. Whatever it returns is
//! certified by the closed-form dual, not by the method.

use super::fluid::{Equilibrium, FluidMarket};

/// Most Newton steps.
const STEPS_MAX: usize = 120;
/// Relative gap at which to stop.
const GAP: f64 = 1e-10;
/// How far a step goes towards the boundary at most.
const TO_BOUNDARY: f64 = 0.99;

/// Primal and dual variables, one row per buyer.
struct Point {
    bought: Vec<f64>,
    /// Multipliers of `x >= 0`.
    low: Vec<f64>,
    /// Multipliers of `x <= 1`.
    high: Vec<f64>,
    idle: Vec<f64>,
    prices: Vec<f64>,
}

/// A Newton step.
struct Step {
    bought: Vec<f64>,
    prices: Vec<f64>,
    idle: Vec<f64>,
}

/// The market with budgets that average 1 and gains of which each buyer's largest is 1.
struct Scaled<'a> {
    market: &'a FluidMarket,
    rounds: usize,
    budgets: Vec<f64>,
    owned: Vec<f64>,
    gains: Vec<f64>,
}

/// Finds the equilibrium; `stop` ends the search early.
#[must_use]
pub fn equilibrium(market: &FluidMarket, stop: &dyn Fn() -> bool) -> Equilibrium {
    let jobs = market.buyers.len();
    if jobs == 0 || market.rounds == 0 {
        return Equilibrium { bought: vec![], prices: vec![0.0; market.rounds] };
    }
    let total: f64 = market.buyers.iter().map(|buyer| buyer.budget).sum();
    let unit = total / jobs as f64;
    let scaled = Scaled::new(market, unit);
    let mut point = scaled.start();
    for _ in 0..STEPS_MAX {
        let mu = scaled.complementarity(&point);
        let terms = (market.rounds * (1 + jobs * (1 + usize::from(market.capped)))) as f64;
        if mu * terms <= GAP * jobs as f64 || stop() {
            break;
        }
        let target = 0.15 * mu;
        let Some(step) = scaled.newton(&point, target) else { break };
        scaled.advance(&mut point, &step, target);
    }
    let bought = point.bought.chunks(market.rounds).map(<[f64]>::to_vec).collect();
    Equilibrium { bought, prices: point.prices.iter().map(|p| p * unit).collect() }
}

impl<'a> Scaled<'a> {
    fn new(market: &'a FluidMarket, unit: f64) -> Self {
        let mut scaled = Self {
            market,
            rounds: market.rounds,
            budgets: vec![],
            owned: vec![],
            gains: Vec::with_capacity(market.buyers.len() * market.rounds),
        };
        for buyer in &market.buyers {
            let largest = buyer.gains.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
            scaled.budgets.push(buyer.budget / unit);
            scaled.owned.push(buyer.owned / largest);
            scaled.gains.extend(buyer.gains.iter().map(|gain| gain / largest));
        }
        scaled
    }

    fn gpus(&self, job: usize) -> f64 {
        self.market.buyers[job].gpus
    }

    /// Everybody gets the same share, half of what is there at most.
    fn start(&self) -> Point {
        let (jobs, rounds) = (self.budgets.len(), self.rounds);
        let wanted: f64 = self.market.buyers.iter().map(|buyer| buyer.gpus).sum();
        let share = 0.5 * (self.market.gpus / wanted);
        let share = if self.market.capped { share.min(0.5) } else { share };
        let idle = self.market.gpus - share * wanted;
        let price = self.budgets.iter().sum::<f64>() / (self.market.gpus * rounds as f64);
        let cells = jobs * rounds;
        let mu = price * idle;
        Point {
            bought: vec![share; cells],
            low: vec![mu / share; cells],
            high: vec![if self.market.capped { mu / (1.0 - share) } else { 0.0 }; cells],
            idle: vec![idle; rounds],
            prices: vec![price; rounds],
        }
    }

    /// Mean of all products of variables and their multipliers.
    fn complementarity(&self, point: &Point) -> f64 {
        let mut sum: f64 = point.idle.iter().zip(&point.prices).map(|(s, p)| s * p).sum();
        let mut terms = self.rounds;
        for (cell, x) in point.bought.iter().enumerate() {
            sum += point.low[cell] * x;
            if self.market.capped {
                sum += point.high[cell] * (1.0 - x);
            }
        }
        terms += point.bought.len() * (1 + usize::from(self.market.capped));
        sum / terms as f64
    }

    fn row<'b>(&self, all: &'b [f64], job: usize) -> &'b [f64] {
        &all[job * self.rounds..(job + 1) * self.rounds]
    }

    fn utility(&self, point: &Point, job: usize) -> f64 {
        let gains = self.row(&self.gains, job);
        let bought = self.row(&point.bought, job);
        self.owned[job] + gains.iter().zip(bought).map(|(a, x)| a * x).sum::<f64>()
    }

    /// A buyer's system: diagonal, `gains / diagonal`, the rank-one factor, and the right side.
    fn local(&self, point: &Point, job: usize, mu: f64, out: &mut Local) {
        let utility = self.utility(point, job);
        let curvature = self.budgets[job] / (utility * utility);
        let mut along = 0.0;
        for t in 0..self.rounds {
            let cell = job * self.rounds + t;
            let (x, a) = (point.bought[cell], self.gains[cell]);
            let mut diagonal = point.low[cell] / x;
            let mut right =
                self.budgets[job] * a / utility - self.gpus(job) * point.prices[t] + mu / x;
            if self.market.capped {
                diagonal += point.high[cell] / (1.0 - x);
                right -= mu / (1.0 - x);
            }
            out.inverse[t] = 1.0 / diagonal;
            out.along[t] = a / diagonal;
            out.right[t] = right;
            along += a * a / diagonal;
        }
        out.factor = 1.0 / (1.0 / curvature + along);
    }

    /// The Newton step towards complementarity `mu`; `None` when the system is singular.
    fn newton(&self, point: &Point, mu: f64) -> Option<Step> {
        let rounds = self.rounds;
        let jobs = self.budgets.len();
        let mut system = vec![0.0; rounds * rounds];
        let mut right: Vec<f64> =
            (0..rounds).map(|t| mu / point.prices[t] - point.idle[t]).collect();
        for t in 0..rounds {
            system[t * rounds + t] = point.idle[t] / point.prices[t];
        }
        let mut local = Local::new(rounds);
        for job in 0..jobs {
            self.local(point, job, mu, &mut local);
            let gpus = self.gpus(job);
            let projected: f64 = local.along.iter().zip(&local.right).map(|(v, q)| v * q).sum();
            for t in 0..rounds {
                right[t] += gpus
                    * (local.inverse[t] * local.right[t]
                        - local.factor * local.along[t] * projected);
                system[t * rounds + t] += gpus * gpus * local.inverse[t];
                let weight = gpus * gpus * local.factor * local.along[t];
                for (u, along) in local.along[..=t].iter().enumerate() {
                    system[t * rounds + u] -= weight * along;
                }
            }
        }
        let prices = solve_spd(&mut system, right)?;
        let mut bought = vec![0.0; jobs * rounds];
        let mut idle = vec![0.0; rounds];
        for job in 0..jobs {
            self.local(point, job, mu, &mut local);
            let gpus = self.gpus(job);
            for (right, price) in local.right.iter_mut().zip(&prices).take(rounds) {
                *right -= gpus * price;
            }
            let projected: f64 = local.along.iter().zip(&local.right).map(|(v, q)| v * q).sum();
            for t in 0..rounds {
                let dx =
                    local.inverse[t] * local.right[t] - local.factor * local.along[t] * projected;
                bought[job * rounds + t] = dx;
                idle[t] -= gpus * dx;
            }
        }
        Some(Step { bought, prices, idle })
    }

    /// Goes along the step as far as all variables stay positive.
    fn advance(&self, point: &mut Point, step: &Step, mu: f64) {
        let mut multipliers = Vec::with_capacity(step.bought.len());
        let mut length = 1.0_f64;
        let mut limit = |value: f64, change: f64| {
            if change < 0.0 {
                length = length.min(TO_BOUNDARY * value / -change);
            }
        };
        for (cell, &dx) in step.bought.iter().enumerate() {
            let x = point.bought[cell];
            let low = mu / x - point.low[cell] - point.low[cell] / x * dx;
            limit(x, dx);
            limit(point.low[cell], low);
            let mut high = 0.0;
            if self.market.capped {
                let room = 1.0 - x;
                high = mu / room - point.high[cell] + point.high[cell] / room * dx;
                limit(room, -dx);
                limit(point.high[cell], high);
            }
            multipliers.push((low, high));
        }
        for t in 0..self.rounds {
            limit(point.idle[t], step.idle[t]);
            limit(point.prices[t], step.prices[t]);
        }
        for (cell, (low, high)) in multipliers.into_iter().enumerate() {
            point.bought[cell] += length * step.bought[cell];
            point.low[cell] += length * low;
            point.high[cell] += length * high;
        }
        for t in 0..self.rounds {
            point.idle[t] += length * step.idle[t];
            point.prices[t] += length * step.prices[t];
        }
    }
}

/// Scratch of one buyer's system.
struct Local {
    inverse: Vec<f64>,
    along: Vec<f64>,
    right: Vec<f64>,
    factor: f64,
}

impl Local {
    fn new(rounds: usize) -> Self {
        let zero = vec![0.0; rounds];
        Self { inverse: zero.clone(), along: zero.clone(), right: zero, factor: 0.0 }
    }
}

/// Solves a symmetric positive definite system given by its lower triangle (Cholesky, in place).
fn solve_spd(system: &mut [f64], mut right: Vec<f64>) -> Option<Vec<f64>> {
    let n = right.len();
    for i in 0..n {
        for j in 0..=i {
            let dot: f64 = (0..j).map(|k| system[i * n + k] * system[j * n + k]).sum();
            let value = system[i * n + j] - dot;
            if i == j {
                if value <= 0.0 || !value.is_finite() {
                    return None;
                }
                system[i * n + i] = value.sqrt();
            } else {
                system[i * n + j] = value / system[j * n + j];
            }
        }
    }
    for i in 0..n {
        let dot: f64 = (0..i).map(|k| system[i * n + k] * right[k]).sum();
        right[i] = (right[i] - dot) / system[i * n + i];
    }
    for i in (0..n).rev() {
        let dot: f64 = (i + 1..n).map(|k| system[k * n + i] * right[k]).sum();
        right[i] = (right[i] - dot) / system[i * n + i];
    }
    Some(right)
}
