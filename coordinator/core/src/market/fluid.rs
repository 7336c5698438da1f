//! The volatile Fisher market over one window, with divisible rounds (equations 1 and 3).
//!
//! Buyer j has budget B_j and utility `U_j = U0_j + sum_t a_jt x_jt`, where a_jt is the progress
//! that a whole round t gives it and U0_j what it has already; it can use each round at most once
//! (`x_jt <= 1`). The seller offers M GPUs in each round, x_jt takes g_j of them. The equilibrium
//! maximises `sum_j B_j log U_j`; prices are the duals of the rounds' capacities.

/// One buyer of the fluid market.
#[derive(Clone, Debug, PartialEq)]
pub struct FluidBuyer {
    /// B_j, above 0.
    pub budget: f64,
    /// Gang size g_j, GPUs.
    pub gpus: f64,
    /// Progress so far, U0_j.
    pub owned: f64,
    /// a_jt: progress from each whole round.
    pub gains: Vec<f64>,
}

/// The market.
#[derive(Clone, Debug, PartialEq)]
pub struct FluidMarket {
    /// GPUs for sale in each round, M.
    pub gpus: f64,
    /// Rounds, T.
    pub rounds: usize,
    /// Whether a buyer can use a round at most once. Without this the market is the pure one of
    /// appendix C.
    pub capped: bool,
    /// The buyers; each gains something in some round.
    pub buyers: Vec<FluidBuyer>,
}

/// Purchases and prices.
#[derive(Clone, Debug, PartialEq)]
pub struct Equilibrium {
    /// `bought[j][t]`: share of round t that buyer j gets (above 1 only in an uncapped market).
    pub bought: Vec<Vec<f64>>,
    /// Price of a GPU in each round.
    pub prices: Vec<f64>,
}

impl FluidMarket {
    /// Utility of buyer `job` from purchases `bought`.
    #[must_use]
    pub fn utility(&self, job: usize, bought: &[f64]) -> f64 {
        let buyer = &self.buyers[job];
        buyer.owned + buyer.gains.iter().zip(bought).map(|(a, x)| a * x).sum::<f64>()
    }

    /// Nash social welfare over time, `sum_j B_j log U_j` (the logarithm of eq. 1).
    #[must_use]
    pub fn welfare(&self, bought: &[Vec<f64>]) -> f64 {
        (0..self.buyers.len())
            .map(|job| self.buyers[job].budget * self.utility(job, &bought[job]).ln())
            .sum()
    }

    /// GPUs sold in each round.
    #[must_use]
    pub fn sold(&self, bought: &[Vec<f64>]) -> Vec<f64> {
        let mut sold = vec![0.0; self.rounds];
        for (buyer, bought) in self.buyers.iter().zip(bought) {
            for (sum, x) in sold.iter_mut().zip(bought) {
                *sum += buyer.gpus * x;
            }
        }
        sold
    }

    /// The Lagrangian dual at any prices above 0: no allocation has a higher welfare.
    #[must_use]
    pub fn dual(&self, prices: &[f64]) -> f64 {
        let supply: f64 = prices.iter().map(|p| p * self.gpus).sum();
        let demand: f64 = self.buyers.iter().map(|buyer| self.best_response(buyer, prices)).sum();
        supply + demand
    }

    /// `max_x B log U(x) - g p x`: the buyer takes rounds in order of price per progress while a
    /// unit of utility is worth more than it costs.
    fn best_response(&self, buyer: &FluidBuyer, prices: &[f64]) -> f64 {
        let mut offers: Vec<(f64, f64)> = buyer
            .gains
            .iter()
            .zip(prices)
            .filter(|(gain, _)| **gain > 0.0)
            .map(|(gain, price)| (buyer.gpus * price / gain, *gain))
            .collect();
        offers.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
        let mut utility = buyer.owned;
        let mut cost = 0.0;
        for (price, gain) in offers {
            let wanted = buyer.budget / price - utility;
            if wanted <= 0.0 {
                break;
            }
            let taken = if self.capped { wanted.min(gain) } else { wanted };
            utility += taken;
            cost += taken * price;
        }
        buyer.budget * utility.ln() - cost
    }
}
