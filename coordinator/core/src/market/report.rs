//! The market report of a plan: prices, spending, welfare, and what they certify.

use serde::Serialize;

use super::buyer::{Buyer, Window};
use super::equilibrium::equilibrium;
use super::fluid::{FluidBuyer, FluidMarket};
use super::objective::Objective;
use super::utility::progress_table;
use crate::solver::Schedule;

/// What the certificate proves and what it does not.
pub const MEANING: &str = "\
The plan's gap is proven: no schedule of whole gangs and rounds has an objective above the upper \
bound. The market figures are about another problem, the fluid market, in which rounds can be \
divided: there the prices and purchases are an equilibrium up to the weak-duality gap shown, every \
GPU round with a price is sold, and each budget is spent on rounds, on the right to whole rounds \
(rent) and on the progress made before the window. The integer plan is no equilibrium: its own gap \
and what each job's rounds would have cost at the market's prices are shown beside it. Plain budget \
clearing does not hold once a job has made progress or runs in every round. Forecasts are taken as \
given; nothing here says that they are right.";

/// One job's account.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Account {
    /// Budget, as a share of all budgets.
    pub budget: f64,
    /// Paid for GPU rounds in the fluid equilibrium.
    pub spending: f64,
    /// Worth of the limit of one gang per round (the multiplier of x <= 1).
    pub rent: f64,
    /// The part of the budget that the progress before the window stands for, B U0 / U.
    pub owned: f64,
    /// `|spending + rent + owned - budget| / budget`.
    pub residual: f64,
    /// What the integer plan's rounds cost at the market's prices.
    pub plan_cost: f64,
}

/// The fluid market's equilibrium beside the plan.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MarketReport {
    /// Price of a GPU in each round; all budgets together are 1.
    pub prices: Vec<f64>,
    /// Nash social welfare of the fluid equilibrium, `sum_j B_j log U_j`.
    pub welfare: f64,
    /// The dual at these prices: no allocation has a higher welfare.
    pub welfare_bound: f64,
    /// `welfare_bound - welfare`.
    pub duality_gap: f64,
    /// `sum_t p_t idle_t / sum_t p_t M`: money's worth of rounds that are not sold.
    pub unsold: f64,
    /// Largest residual of a spending identity.
    pub residual_max: f64,
    /// Accounts in the order of the window's buyers; `None` for a job that cannot gain.
    #[serde(skip)]
    pub accounts: Vec<Option<Account>>,
    /// What this proves.
    pub meaning: &'static str,
}

/// The fluid market of a window: each round's gain is the progress that the plan's course makes
/// it, and the budgets are those of the objective.
#[must_use]
pub fn fluid_market(
    window: &Window,
    objective: Objective,
    schedule: &Schedule,
) -> (FluidMarket, Vec<usize>) {
    let mut buyers = Vec::new();
    let mut jobs = Vec::new();
    for (job, buyer) in window.buyers.iter().enumerate() {
        let budget = objective.budget(buyer, window);
        if let Some(fluid) = fluid_buyer(window, schedule, job, buyer, budget) {
            buyers.push(fluid);
            jobs.push(job);
        }
    }
    let total: f64 = buyers.iter().map(|buyer| buyer.budget).sum();
    for buyer in &mut buyers {
        buyer.budget /= total;
    }
    let gpus = f64::from(window.gpus);
    (FluidMarket { gpus, rounds: window.rounds, capped: true, buyers }, jobs)
}

fn fluid_buyer(
    window: &Window,
    schedule: &Schedule,
    job: usize,
    buyer: &Buyer,
    budget: f64,
) -> Option<FluidBuyer> {
    if buyer.gpus > window.gpus || budget <= 0.0 {
        return None;
    }
    let ahead = buyer.trajectories.first()?;
    let (done, total) = (buyer.epochs_done, buyer.epochs_total);
    let table = progress_table(done, total, ahead, window.round_s, window.rounds);
    let mut rounds_run = 0;
    let gains: Vec<f64> = (0..window.rounds)
        .map(|round| {
            let next = (rounds_run + 1).min(window.rounds);
            let gain = table[next] - table[next - 1];
            rounds_run += usize::from(schedule.runs(job, round));
            gain
        })
        .collect();
    gains.iter().any(|gain| *gain > 0.0).then(|| FluidBuyer {
        budget,
        gpus: f64::from(buyer.gpus),
        owned: table[0],
        gains,
    })
}

/// Solves the fluid market and sets the plan beside it.
#[must_use]
pub fn market_report(
    window: &Window,
    objective: Objective,
    schedule: &Schedule,
    stop: &dyn Fn() -> bool,
) -> MarketReport {
    let (market, jobs) = fluid_market(window, objective, schedule);
    let found = equilibrium(&market, stop);
    let welfare = market.welfare(&found.bought);
    let welfare_bound = market.dual(&found.prices);
    let sold = market.sold(&found.bought);
    let idle: f64 = sold.iter().zip(&found.prices).map(|(s, p)| (market.gpus - s) * p).sum();
    let worth: f64 = found.prices.iter().sum::<f64>() * market.gpus;
    let mut accounts = vec![None; window.buyers.len()];
    for (index, &job) in jobs.iter().enumerate() {
        let mut account = account(&market, index, &found.bought[index], &found.prices);
        account.plan_cost =
            schedule.rounds_of(job).map(|t| found.prices[t] * market.buyers[index].gpus).sum();
        accounts[job] = Some(account);
    }
    let residuals = accounts.iter().flatten().map(|account| account.residual);
    MarketReport {
        welfare,
        welfare_bound,
        duality_gap: welfare_bound - welfare,
        unsold: if worth > 0.0 { idle / worth } else { 0.0 },
        residual_max: residuals.fold(0.0, f64::max),
        prices: found.prices,
        accounts,
        meaning: MEANING,
    }
}

/// `p g x + rent + B U0 / U = B`: where a buyer's budget goes.
fn account(market: &FluidMarket, job: usize, bought: &[f64], prices: &[f64]) -> Account {
    let buyer = &market.buyers[job];
    let utility = market.utility(job, bought);
    let (mut spending, mut rent) = (0.0, 0.0);
    for ((x, price), gain) in bought.iter().zip(prices).zip(&buyer.gains) {
        spending += price * buyer.gpus * x;
        rent += (buyer.budget * gain / utility - price * buyer.gpus).max(0.0) * x;
    }
    let owned = buyer.budget * buyer.owned / utility;
    let residual = (spending + rent + owned - buyer.budget).abs() / buyer.budget;
    Account { budget: buyer.budget, spending, rent, owned, residual, plan_cost: 0.0 }
}
