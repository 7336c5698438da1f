//! A pool's two modes: what makes sense in which, and the part of a node that a lease gets.

use super::settings::{Mode, Pool, PoolError, has_space};

impl Pool {
    /// Checks what makes sense in one mode only.
    pub(super) fn check_mode(&self) -> Result<(), PoolError> {
        let wrong = |field, got: String, expected| {
            Err(PoolError { pool: self.name.clone(), field, got, expected })
        };
        if self.mode == Mode::Pilot {
            return match self.accounts.is_empty() {
                true => Ok(()),
                false => wrong(
                    "accounts",
                    format!("set for {} users", self.accounts.len()),
                    "nothing with mode = \"pilot\": a pilot carries the leases of many users (`account` \
                     is the account of all, mode = \"job\" has one for each)",
                ),
            };
        }
        let default = Self::default();
        if self.nodes_min != default.nodes_min {
            let got = self.nodes_min.to_string();
            return wrong(
                "nodes_min",
                got,
                "0 with mode = \"job\": no node is held without a lease",
            );
        }
        if self.backlog != default.backlog {
            let got = self.backlog.to_string();
            return wrong(
                "backlog",
                got,
                "nothing with mode = \"job\": each lease is asked for at once",
            );
        }
        if self.idle_s != default.idle_s {
            let got = self.idle_s.to_string();
            return wrong(
                "idle_s",
                got,
                "nothing with mode = \"job\": a lease's end is its Slurm job's",
            );
        }
        if !self.gres.is_empty() {
            let expected = "nothing with mode = \"job\": the count is the lease's; set gres_type";
            return wrong("gres", format!("{:?}", self.gres), expected);
        }
        let slots = format!("cpu:{}", self.devices_per_node);
        if self.devices != "slurm" && self.devices != slots {
            let expected =
                "slurm or cpu:DEVICES_PER_NODE with mode = \"job\": a lease gets a part of a node";
            return wrong("devices", format!("{:?}", self.devices), expected);
        }
        if self.memory_for(1).is_none() {
            let expected =
                "a number with K, M, G or T with mode = \"job\": a lease gets its part of it";
            return wrong("memory", format!("{:?}", self.memory), expected);
        }
        let is_word = |it: &str| !it.is_empty() && !has_space(it);
        match self.accounts.values().find(|account| !is_word(account)) {
            Some(account) => wrong("accounts", format!("{account:?}"), "words without spaces"),
            None => Ok(()),
        }
    }

    /// `--mem` for so many of a node's devices; empty: the site's default. `None`: `memory` is no
    /// amount that could be divided.
    #[must_use]
    pub fn memory_for(&self, devices: u32) -> Option<String> {
        if self.memory.is_empty() || devices == self.devices_per_node {
            return Some(self.memory.clone());
        }
        let digits = self.memory.trim_end_matches(|it: char| it.is_ascii_alphabetic());
        let unit = &self.memory[digits.len()..];
        let mib: u64 = match unit {
            "" | "M" => 1,
            "G" => 1 << 10,
            "T" => 1 << 20,
            "K" => {
                return self.part_of(digits.parse().ok()?, devices).map(|part| format!("{part}K"));
            }
            _ => return None,
        };
        let whole = digits.parse::<u64>().ok()?.checked_mul(mib)?;
        self.part_of(whole, devices).map(|part| format!("{part}M"))
    }

    /// The part of a node's amount that goes with so many of its devices, rounded up.
    fn part_of(&self, whole: u64, devices: u32) -> Option<u64> {
        let part = whole.checked_mul(u64::from(devices))?;
        Some(part.div_ceil(u64::from(self.devices_per_node.max(1))))
    }

    /// `--cpus-per-task` for so many of a node's devices; 0: the site's default.
    #[must_use]
    pub fn cpus_for(&self, devices: u32) -> u64 {
        self.part_of(u64::from(self.cpus_per_node), devices).unwrap_or(0)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn pool(more: &str) -> Result<Pool, toml::de::Error> {
        toml::from_str(&format!("name = 'low'\nnodes_max = 3\ndevices_per_node = 4\n{more}"))
    }

    #[test]
    fn a_lease_gets_its_part_of_a_node() {
        let pool = pool("mode = 'job'\nmemory = '10G'\ncpus_per_node = 30").unwrap();
        pool.check().unwrap();
        assert_eq!((pool.memory_for(1).unwrap().as_str(), pool.cpus_for(1)), ("2560M", 8));
        assert_eq!((pool.memory_for(4).unwrap().as_str(), pool.cpus_for(4)), ("10G", 30));
        assert_eq!(Pool { memory: "7K".into(), ..pool }.memory_for(2).unwrap(), "4K");
    }

    #[test]
    fn what_makes_no_sense_in_a_mode_is_named() {
        let check = |more: &str, field: &str| {
            let error = pool(more).unwrap().check().unwrap_err();
            assert_eq!(error.field, field);
            assert!(error.expected.contains("mode = \""), "{error}");
        };
        check("accounts = { ada = 'ml' }", "accounts");
        for (more, field) in [
            ("nodes_min = 1", "nodes_min"),
            ("backlog = 2", "backlog"),
            ("idle_s = 5", "idle_s"),
            ("gres = 'gpu:4'", "gres"),
            ("devices = 'gpu'", "devices"),
            ("devices = 'cpu:2'", "devices"),
            ("memory = 'all'", "memory"),
        ] {
            check(&format!("mode = 'job'\n{more}"), field);
        }
        let error = pool("devices = 'cpu:3'").unwrap().check().unwrap_err();
        assert_eq!((error.field, error.got.as_str()), ("devices", "cpu:3"), "{error}");
        pool("mode = 'job'\ndevices = 'cpu:4'\naccounts = { ada = 'ml' }")
            .unwrap()
            .check()
            .unwrap();
        assert!(pool("mode = 'jobs'").unwrap_err().to_string().contains("pilot"));
    }
}
