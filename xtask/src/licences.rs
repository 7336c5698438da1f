//! Licences of all that is linked: only those that go with MIT OR Apache-2.0.

use std::collections::BTreeMap;

use anyhow::Result;
use serde::Deserialize;

use crate::process;

/// Licences that ask for no more than their notice, and one file-wise copyleft.
const ACCEPTED: [&str; 13] = [
    "MIT",
    "MIT-0",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "ISC",
    "Zlib",
    "0BSD",
    "BSL-1.0",
    "Unicode-3.0",
    "CC0-1.0",
    "CDLA-Permissive-2.0",
];

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    version: String,
    license: Option<String>,
}

/// Prints how many packages have which licence; whether all are accepted.
pub(crate) fn check() -> Result<bool> {
    let mut cargo = process::cargo();
    cargo.args(["metadata", "--format-version=1", "--locked"]);
    let metadata: Metadata = serde_json::from_str(&process::stdout_of(&mut cargo)?)?;
    let mut refused = BTreeMap::new();
    for package in &metadata.packages {
        let licence = package.license.as_deref().unwrap_or("none named");
        if !accepts(licence) {
            refused.insert(format!("{} {}", package.name, package.version), licence);
        }
    }
    for (package, licence) in &refused {
        println!("{package}: licence {licence} is not among the accepted ones");
    }
    println!("licences: {} packages, {} refused", metadata.packages.len(), refused.len());
    Ok(refused.is_empty())
}

/// Whether an SPDX expression can be met with accepted licences: every part that AND joins needs
/// one accepted alternative.
fn accepts(expression: &str) -> bool {
    let flat = expression.replace(['(', ')'], " ").replace('/', " OR ");
    let all_parts = flat.split(" AND ");
    all_parts.map(|part| part.split(" OR ").map(str::trim)).all(|mut alternatives| {
        alternatives.any(|licence| {
            ACCEPTED.contains(&licence.split_whitespace().collect::<Vec<_>>().join(" ").as_str())
        })
    })
}

#[cfg(test)]
mod tests {
    use super::accepts;

    #[test]
    fn expressions_are_understood() {
        assert!(accepts("MIT OR Apache-2.0"));
        assert!(accepts("MIT/Apache-2.0"));
        assert!(accepts("(MIT OR Apache-2.0) AND Unicode-3.0"));
        assert!(accepts("GPL-3.0 OR MIT"));
        assert!(!accepts("MIT AND GPL-3.0"));
        assert!(!accepts("none named"));
    }
}
