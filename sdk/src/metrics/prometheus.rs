//! Prometheus's text format, in a file that its node exporter collects; replaced as a whole.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use super::record::{EpochRecord, Place, Record, Stamped};
use crate::Error;

/// The newest numbers, and where they are written.
#[derive(Debug)]
pub(super) struct Exposition {
    path: PathBuf,
    place: Place,
    epoch: Option<EpochRecord>,
    decisions: u64,
    checkpoints: u64,
    at_unix_s: f64,
}

/// A label's value with its special characters escaped.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// A number as Prometheus reads it.
fn number(value: f64) -> String {
    match value {
        v if v.is_nan() => "NaN".to_owned(),
        v if v == f64::INFINITY => "+Inf".to_owned(),
        v if v == f64::NEG_INFINITY => "-Inf".to_owned(),
        v => v.to_string(),
    }
}

impl Exposition {
    pub(super) fn new(folder: &Path) -> Self {
        Self {
            path: folder.join("metrics.prom"),
            place: Place::default(),
            epoch: None,
            decisions: 0,
            checkpoints: 0,
            at_unix_s: 0.0,
        }
    }

    pub(super) fn write(&mut self, record: &Stamped) -> Result<(), Error> {
        self.at_unix_s = record.at_unix_s;
        match &record.record {
            Record::Start(place) | Record::Progress(place) => self.place = *place,
            Record::Epoch(epoch) => {
                self.place = epoch.place;
                self.epoch = Some(epoch.clone());
            }
            Record::Decision(decision) => {
                self.place.batch = decision.new_batch;
                self.decisions += 1;
            }
            Record::Checkpoint { .. } => self.checkpoints += 1,
            Record::End { .. } => {}
        }
        let temporary = self.path.with_extension("prom.tmp");
        std::fs::write(&temporary, self.text()).map_err(Error::io("write", &temporary))?;
        std::fs::rename(&temporary, &self.path).map_err(Error::io("rename", &self.path))
    }

    /// All families: name, kind, help, and samples as (labels, value).
    fn text(&self) -> String {
        let mut text = String::new();
        let mut family = |name: &str, kind: &str, help: &str, samples: &[(String, f64)]| {
            // Writing to a string cannot fail.
            let _ =
                writeln!(text, "# HELP shockwave_{name} {help}\n# TYPE shockwave_{name} {kind}");
            for (labels, value) in samples {
                let _ = writeln!(text, "shockwave_{name}{labels} {}", number(*value));
            }
        };
        let plain = |value: f64| [(String::new(), value)];
        let Place { epoch, step, sample, batch } = self.place;
        family("epoch", "gauge", "Epoch that training stands in, from 0.", &plain(epoch as f64));
        family("steps_total", "counter", "Optimiser steps.", &plain(step as f64));
        family("samples_total", "counter", "Samples trained on.", &plain(sample as f64));
        family("batch_size_samples", "gauge", "Batch size.", &plain(batch as f64));
        let (decisions, checkpoints) = (self.decisions as f64, self.checkpoints as f64);
        let help = "Changes of the batch size by this process.";
        family("decisions_total", "counter", help, &plain(decisions));
        let help = "Checkpoints written by this process.";
        family("checkpoints_total", "counter", help, &plain(checkpoints));
        family("updated_seconds", "gauge", "When this was written.", &plain(self.at_unix_s));
        let Some(epoch) = &self.epoch else { return text };
        family("loss", "gauge", "Mean training loss of the last epoch.", &plain(epoch.loss));
        family("gradient_norm", "gauge", "L2 norm of the gradient.", &plain(epoch.grad_norm));
        family("learning_rate", "gauge", "Learning rate.", &plain(epoch.learning_rate));
        family("samples_per_second", "gauge", "Speed of training.", &plain(epoch.samples_per_s));
        let skipped = epoch.skipped_steps as f64;
        let help = "Steps whose gradient was not finite.";
        family("skipped_steps_total", "counter", help, &plain(skipped));
        if let (Some(noise), Some((low, high))) = (epoch.noise_scale, epoch.noise_interval) {
            let bound = |name: &str, value| (format!("{{bound=\"{name}\"}}"), value);
            let samples = [bound("estimate", noise), bound("low", low), bound("high", high)];
            let help = "Gradient noise scale and its 95 % interval.";
            family("noise_scale_samples", "gauge", help, &samples);
        }
        let label =
            |(name, value): (&String, &f64)| (format!("{{name=\"{}\"}}", escaped(name)), *value);
        let metrics: Vec<(String, f64)> = epoch.metrics.iter().map(label).collect();
        if !metrics.is_empty() {
            family("metric", "gauge", "The program's own metrics of the last epoch.", &metrics);
        }
        text
    }
}
