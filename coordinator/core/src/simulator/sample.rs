//! Invented tables to start from: four kinds of models, with the shapes that real ones have.
//!
//! Steps take `alpha + beta B` seconds, gangs lose a part of their speed to communication, and
//! batch sizes double as training goes on. The figures are nobody's measurements: they are there
//! so that the simulator can be tried, and to show what a table of one's own looks like.

use std::fmt::Write;

/// Texts of the tables that [`super::profiles`] reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    /// `datasets.csv`.
    pub datasets: String,
    /// `gns_rules.csv`.
    pub gns_rules: String,
    /// `accordion_rules.csv`.
    pub accordion_rules: String,
    /// Steps per second by model, batch size and gang.
    pub throughputs: String,
}

struct Model {
    name: &'static str,
    dataset: &'static str,
    samples_per_epoch: u64,
    /// Smallest and largest batch size; every doubling in between runs too.
    batches: (u32, u32),
    /// Fixed cost of a step, and what a sample adds, seconds.
    step: (f64, f64),
    /// Speed of a gang twice as large, of twice the speed.
    scaling: f64,
}

const MODELS: [Model; 4] = [
    Model {
        name: "vision-small",
        dataset: "images-32",
        samples_per_epoch: 50_000,
        batches: (32, 256),
        step: (0.012, 0.000_25),
        scaling: 0.92,
    },
    Model {
        name: "vision-large",
        dataset: "images-224",
        samples_per_epoch: 100_000,
        batches: (16, 128),
        step: (0.045, 0.003),
        scaling: 0.95,
    },
    Model {
        name: "language",
        dataset: "text",
        samples_per_epoch: 60_000,
        batches: (16, 128),
        step: (0.02, 0.000_9),
        scaling: 0.85,
    },
    Model {
        name: "recommender",
        dataset: "ratings",
        samples_per_epoch: 1_000_000,
        batches: (512, 8_192),
        step: (0.004, 0.000_004),
        scaling: 0.75,
    },
];
/// Sizes of gangs.
const GANGS: [u32; 4] = [1, 2, 4, 8];
/// Epochs with the first batch size; each later size is kept for twice as long as the one before.
const FIRST_REGIME: u32 = 8;

impl Model {
    fn sizes(&self) -> impl Iterator<Item = u32> {
        let (least, most) = self.batches;
        std::iter::successors(Some(least), |batch| Some(2 * batch))
            .take_while(move |batch| *batch <= most)
    }

    /// Steps of the whole gang in a second; each worker takes its share of the batch.
    fn steps_per_s(&self, batch: u32, gpus: u32) -> f64 {
        let (alpha, beta) = self.step;
        let share = f64::from(batch) / f64::from(gpus);
        self.scaling.powf(f64::from(gpus).log2()) / (alpha + beta * share)
    }

    /// `0:32;8:64;24:128`: a size from each of these epochs on.
    fn doublings(&self, from: u32) -> String {
        let (mut epoch, mut regime) = (0, FIRST_REGIME);
        let mut segments = Vec::new();
        for batch in self.sizes().filter(|batch| *batch >= from) {
            segments.push(format!("{epoch}:{batch}"));
            (epoch, regime) = (epoch + regime, 2 * regime);
        }
        segments.join(";")
    }
}

/// The tables.
#[must_use]
pub fn sample() -> Sample {
    let mut datasets = String::from("model,dataset,samples_per_epoch,max_batch_size_sim\n");
    let mut gns = String::from("model,initial_batch_size,scale_factor,segments\n");
    let mut accordion = String::from(
        "model,initial_batch_size,critical_epochs_profile,critical_epochs_simulated\n",
    );
    let mut speeds = String::from("model,batch_size,scale_factor,steps_per_s\n");
    for model in &MODELS {
        let (name, most) = (model.name, model.batches.1);
        line(
            &mut datasets,
            &format!("{name},{},{},{most}", model.dataset, model.samples_per_epoch),
        );
        for batch in model.sizes() {
            line(&mut accordion, &format!("{name},{batch},\"[0,10);[30,35)\",\"[0,10);[30,35)\""));
            for gpus in GANGS {
                line(&mut gns, &format!("{name},{batch},{gpus},{}", model.doublings(batch)));
                let speed = model.steps_per_s(batch, gpus);
                line(&mut speeds, &format!("{name},{batch},{gpus},{speed:.4}"));
            }
        }
    }
    Sample { datasets, gns_rules: gns, accordion_rules: accordion, throughputs: speeds }
}

fn line(text: &mut String, line: &str) {
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{line}");
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::simulator::generate::{Recipe, generate};
    use crate::simulator::profiles::{Profiles, Throughputs};

    #[test]
    fn the_tables_are_read_and_make_a_trace() {
        let Sample { datasets, gns_rules, accordion_rules, throughputs } = sample();
        let profiles = Profiles::parse(&datasets, &gns_rules, &accordion_rules).unwrap();
        let speeds = Throughputs::parse(&throughputs).unwrap();
        assert_eq!(profiles.datasets.len(), MODELS.len());
        assert_eq!(profiles.gns[&("language".into(), 32, 2)], [(0, 32), (8, 64), (24, 128)]);
        let jobs = generate(&Recipe::published(200, 1), &profiles, &speeds).unwrap();
        let models: std::collections::BTreeSet<_> = jobs.iter().map(|job| &job.model).collect();
        assert_eq!((jobs.len(), models.len()), (200, MODELS.len()));
    }

    #[test]
    fn larger_batches_and_gangs_train_more_samples_a_second() {
        let speeds = Throughputs::parse(&sample().throughputs).unwrap();
        for model in &MODELS {
            for gpus in GANGS {
                let rates: Vec<f64> = (speeds.by_batch(model.name, gpus).iter())
                    .map(|(batch, steps_per_s)| f64::from(*batch) * steps_per_s)
                    .collect();
                assert!(rates.windows(2).all(|pair| pair[0] < pair[1]), "{} {gpus}", model.name);
            }
            let most = |gpus| speeds.by_batch(model.name, gpus)[&model.batches.1];
            assert!(GANGS.windows(2).all(|pair| most(pair[0]) < most(pair[1])), "{}", model.name);
        }
    }
}
