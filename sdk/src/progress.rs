//! What a person sees: a bar on a terminal, plain lines elsewhere.

use std::fmt::{self, Write as _};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::monitor::NoiseEstimate;

/// Where the session's messages go.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Output {
    /// Standard error: a bar when it is a terminal, else plain lines.
    #[default]
    Auto,
    /// Nothing but warnings.
    Quiet,
}

/// Prints a warning to standard error.
pub(crate) fn warn(message: fmt::Arguments<'_>) {
    eprintln!("warning: {message}");
}

/// The numbers of one line.
#[derive(Debug, Clone, Default)]
pub(crate) struct Line<'a> {
    pub epoch: u64,
    pub epochs: u64,
    pub step: u64,
    pub batch: u64,
    pub loss: Option<f64>,
    pub grad_norm: Option<f64>,
    pub noise: Option<&'a NoiseEstimate>,
    /// Time left of the lease, when a coordinator gave one.
    pub lease: Option<Duration>,
}

impl fmt::Display for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "epoch {}/{} step {} batch {}",
            self.epoch + 1,
            self.epochs,
            self.step,
            self.batch
        )?;
        if let Some(loss) = self.loss {
            write!(f, " loss {loss:.4}")?;
        }
        if let Some(norm) = self.grad_norm {
            write!(f, " |g| {norm:.3e}")?;
        }
        if let Some(noise) = self.noise {
            let (low, high) = noise.interval;
            write!(f, " noise {:.0} ({low:.0}..{high:.0})", noise.b_noise)?;
        }
        if let Some(lease) = self.lease {
            write!(f, " lease {} s", lease.as_secs())?;
        }
        Ok(())
    }
}

/// The bar, or the plain lines, of one session.
#[derive(Debug)]
pub(crate) struct Progress {
    bar: ProgressBar,
    plain: bool,
    drawn: Instant,
}

/// The message changes at most this often: formatting it each step would show up in short steps.
const REDRAW: Duration = Duration::from_millis(200);

impl Progress {
    pub(crate) fn new(output: Output, samples: u64) -> Self {
        let terminal = output == Output::Auto && console_is_terminal();
        let target =
            if terminal { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(Some(samples), target);
        let style = ProgressStyle::with_template("{bar:20} {pos}/{len} {per_sec} {eta} {msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        Self { bar, plain: output == Output::Auto && !terminal, drawn: Instant::now() }
    }

    /// Begins an epoch at its sample `position`.
    pub(crate) fn begin(&mut self, position: u64) {
        self.bar.reset();
        self.bar.set_position(position);
        self.bar.reset_eta();
    }

    /// Shows the position after a step; `line` is only called when the message is due.
    pub(crate) fn step<'a>(&mut self, position: u64, line: impl FnOnce() -> Line<'a>) {
        if self.bar.is_hidden() {
            return;
        }
        self.bar.set_position(position);
        if self.drawn.elapsed() >= REDRAW {
            self.drawn = Instant::now();
            self.bar.set_message(line().to_string());
        }
    }

    /// Says something that stays on the screen: the end of an epoch, a change of the batch size.
    pub(crate) fn say(&self, text: &str) {
        if self.plain {
            eprintln!("{text}");
        } else {
            self.bar.println(text);
        }
    }

    /// The line at the end of an epoch, with its metrics.
    pub(crate) fn epoch(&self, line: &Line<'_>, metrics: &std::collections::BTreeMap<String, f64>) {
        let mut text = line.to_string();
        for (name, value) in metrics {
            // Writing to a string cannot fail.
            let _ = write!(text, " {name} {value:.4}");
        }
        self.say(&text);
    }

    pub(crate) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

fn console_is_terminal() -> bool {
    std::io::IsTerminal::is_terminal(&std::io::stderr())
}
