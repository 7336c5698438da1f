//! How many connections `shockwave serve` allows.

use clap::Args;
use serde::Deserialize;

use super::connect::CliError;
use crate::grpc::Limits;

/// What can be set of the limits: the table `[limits]` of the settings file.
#[derive(Clone, Debug, Default, PartialEq, Args, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LimitSettings {
    /// Most connections at once; each training process has one [default: 20000]
    #[arg(long, value_name = "COUNT")]
    pub connections_max: Option<usize>,
    /// Most connections at once from one address (of IPv6: one network of 64 bits) [default: 5000]
    #[arg(long, value_name = "COUNT")]
    pub connections_per_address_max: Option<usize>,
}

impl LimitSettings {
    /// These settings, and `other` where these say nothing.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            connections_max: self.connections_max.or(other.connections_max),
            connections_per_address_max: self
                .connections_per_address_max
                .or(other.connections_per_address_max),
        }
    }

    /// The limits.
    ///
    /// # Errors
    /// A limit that lets nobody in.
    pub fn limits(&self) -> Result<Limits, CliError> {
        let mut limits = Limits::default();
        let set = |name: &str, value: Option<usize>, default: usize| match value {
            Some(0) => Err(CliError::Usage(format!("{name} is 0, expected at least 1"))),
            value => Ok(value.unwrap_or(default)),
        };
        limits.connections_max =
            set("connections_max", self.connections_max, limits.connections_max)?;
        limits.connections_per_address_max = set(
            "connections_per_address_max",
            self.connections_per_address_max,
            limits.connections_per_address_max,
        )?;
        Ok(limits)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_set_stays_and_nobody_is_locked_out() {
        let set = LimitSettings { connections_max: Some(7), ..LimitSettings::default() };
        let file = LimitSettings { connections_max: Some(9), connections_per_address_max: Some(3) };
        let limits = set.clone().or(file).limits().unwrap();
        assert_eq!((limits.connections_max, limits.connections_per_address_max), (7, 3));
        assert_eq!(set.limits().unwrap().opening_timeout, Limits::default().opening_timeout);
        let nobody = LimitSettings { connections_max: Some(0), ..LimitSettings::default() };
        let error = nobody.limits().unwrap_err();
        assert_eq!(error.to_string(), "connections_max is 0, expected at least 1");
    }
}
