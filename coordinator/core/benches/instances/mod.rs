//! Synthetic planning windows with the gang mix of the published 900-job trace.

use rand::Rng;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use shockwave_core::market::{Buyer, MicroJob, Objective, Trajectory, Window};

/// Gang sizes and how many of 900 jobs have each.
const GANGS: [(u32, u32); 4] = [(1, 617), (2, 208), (4, 63), (8, 12)];
/// Length of a round, seconds.
const ROUND_S: f64 = 120.0;

/// A window of `jobs` jobs on `gpus` GPUs over `rounds` rounds.
pub fn window(jobs: usize, gpus: u32, rounds: usize, objective: Objective, seed: u64) -> Window {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut free = gpus;
    let busy = f64::from(gpus) / jobs as f64;
    let buyers = (0..jobs)
        .map(|_| {
            let mut buyer = buyer(&mut rng, jobs as f64 / f64::from(gpus));
            buyer.running = buyer.gpus <= free && rng.random::<f64>() < 1.3 * busy;
            free -= if buyer.running { buyer.gpus } else { 0 };
            buyer
        })
        .collect();
    let (k, lambda) = objective.parameters();
    Window { gpus, rounds, round_s: ROUND_S, k, lambda, buyers }
}

fn buyer(rng: &mut ChaCha8Rng, contention: f64) -> Buyer {
    let mut pick = rng.random_range(0..900);
    let gang = GANGS.iter().find(|gang| {
        let here = pick < gang.1;
        pick -= gang.1.min(pick);
        here
    });
    let gpus = gang.map_or(1, |gang| gang.0);
    let alone_s = 3600.0 * rng.random_range(0.2_f64.ln()..5.0_f64.ln()).exp();
    let epochs_total = f64::from(rng.random_range(10_u32..=100));
    let fresh = rng.random::<f64>() < 0.15;
    let epochs_done = if fresh { 0.0 } else { (rng.random::<f64>() * epochs_total).floor() };
    let ahead = ahead(rng, alone_s, epochs_total, epochs_done);
    let left_s: f64 = ahead.iter().map(|part| part.epochs * part.epoch_s).sum();
    let elapsed_s = rng.random_range(0.0..4.0 * 3600.0);
    Buyer {
        gpus,
        weight: 1.0,
        running: false,
        epochs_total,
        epochs_done,
        trajectories: vec![ahead],
        rho: 0.5 + 2.0 * (rng.random::<f64>() + rng.random::<f64>()) / 2.0,
        elapsed_s,
        attained_s: (alone_s - left_s).min(elapsed_s).max(0.0),
        contention: contention.max(1.0),
        left_lower_s: left_s,
        left_upper_s: left_s,
    }
}

/// What lies ahead of a job of up to five regimes: static, growing (GNS) or alternating
/// (Accordion).
fn ahead(rng: &mut ChaCha8Rng, alone_s: f64, total: f64, done: f64) -> Trajectory {
    let kind = rng.random_range(0..3);
    let regimes = if kind == 0 { 1 } else { rng.random_range(2..=5) };
    let alternate = rng.random_range(1.3..2.5);
    let mut speed = 1.0;
    let mut parts: Vec<(f64, f64)> = Vec::new();
    for regime in 0..regimes {
        speed = match (kind, regime) {
            (_, 0) => 1.0,
            (1, _) => speed * rng.random_range(1.1..2.0),
            _ if regime % 2 == 1 => alternate,
            _ => 1.0,
        };
        parts.push((rng.random_range(0.2..1.0), speed));
    }
    let whole: f64 = parts.iter().map(|part| part.0).sum();
    let time: f64 = parts.iter().map(|part| part.0 / whole / part.1).sum();
    let mut at = 0.0;
    let mut ahead = Vec::new();
    for (share, speed) in parts {
        let epochs = share / whole * total;
        let from = f64::max(at, done);
        at += epochs;
        if at > from {
            ahead.push(MicroJob { epochs: at - from, epoch_s: alone_s / speed / time / total });
        }
    }
    ahead
}
