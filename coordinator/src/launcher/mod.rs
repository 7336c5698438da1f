//! Where machines come from when the site's batch system has them: one launcher for each kind of
//! batch system.
//!
//! Architecture invariant: a launcher only brings and gives back machines. Who runs where is the
//! engine's decision, and only an agent starts training.

pub mod slurm;

use serde::{Deserialize, Serialize};

/// What lets a pilot's agent in: good for this pilot, as long as the pilot is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pass {
    /// Name of the pilot.
    pub pilot: String,
    /// Digest of its token.
    pub digest: String,
    /// The one lease that it carries; none: it carries a machine.
    pub carries: Option<Carries>,
}

/// A lease's part on one place: all that one job of the batch system is for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Carries {
    /// The job.
    pub job: u64,
    /// Its lease.
    pub lease_epoch: u64,
    /// The place.
    pub place: String,
    /// Devices.
    pub devices: u32,
}

impl Pass {
    /// Whether a machine of this name is carried by the pilot: `HOST.PILOT`.
    #[must_use]
    pub fn admits(&self, node: &str) -> bool {
        node.rsplit_once('.').is_some_and(|(host, pilot)| !host.is_empty() && pilot == self.pilot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pass_is_good_for_its_pilot_on_any_host() {
        let pass = Pass { pilot: "sw1-low-ab".into(), digest: String::new(), carries: None };
        assert!(pass.admits("n1.sw1-low-ab") && pass.admits("n1.example.org.sw1-low-ab"));
        for other in ["sw1-low-ab", ".sw1-low-ab", "n1.sw1-low-abc", "n1.xsw1-low-ab", "n1"] {
            assert!(!pass.admits(other), "{other}");
        }
    }
}
