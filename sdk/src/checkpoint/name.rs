//! Names of checkpoint folders.

/// Identifies a checkpoint; newer ones are greater.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Name {
    /// The epoch of the lease under which it was written; 0 without a coordinator.
    pub generation: u64,
    /// The number of the checkpoint in this training, from 1.
    pub number: u64,
}

impl Name {
    /// Reads a folder's name; `None` when it is not a checkpoint's.
    pub fn parse(folder: &str) -> Option<Self> {
        let (generation, number) = folder.strip_prefix("ckpt-g")?.split_once("-n")?;
        let digits = |s: &str| {
            let plain = !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit());
            plain.then(|| s.parse().ok()).flatten()
        };
        Some(Self { generation: digits(generation)?, number: digits(number)? })
    }
}

impl std::fmt::Display for Name {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ckpt-g{:06}-n{:08}", self.generation, self.number)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip_and_others_are_ignored() {
        for (generation, number) in [(0, 1), (3, 12), (1_234_567, 1_234_567_890)] {
            let name = Name { generation, number };
            assert_eq!(Name::parse(&name.to_string()), Some(name));
        }
        let others = [
            "ckpt-g1",
            "ckpt-g1-nx",
            ".tmp-ckpt-g1-n1",
            "ckpt-g000001-n1.corrupt",
            "ckpt-g-n",
            "ckpt-g+1-n1",
        ];
        assert!(others.iter().all(|o| Name::parse(o).is_none()));
        assert!(Name { generation: 2, number: 1 } > Name { generation: 1, number: 9 });
    }
}
