//! Which crate of the workspace may see which, and what the core may depend on.

use anyhow::Result;
use serde::Deserialize;

use super::Finding;
use crate::process;

/// Dependencies go one way: examples -> sdk -> proto <- coordinator -> core.
const WALLS: [(&str, &[&str]); 5] = [
    ("shockwave-proto", &[]),
    ("shockwave-core", &[]),
    ("shockwave", &["shockwave-core", "shockwave-proto"]),
    ("shockwave-sdk", &["shockwave-proto"]),
    ("shockwave-examples", &["shockwave-sdk"]),
];
/// What the core may not depend on, were it only for a type.
const NOT_IN_CORE: [&str; 9] =
    ["tokio", "tch", "torch-sys", "tonic", "axum", "rusqlite", "libc", "indicatif", "tracing"];

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    dependencies: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Dependency {
    name: String,
    kind: Option<String>,
}

/// Finds dependencies through a wall. Those of tests alone are free.
pub(super) fn check() -> Result<Vec<Finding>> {
    let mut cargo = process::cargo();
    cargo.args(["metadata", "--format-version=1", "--no-deps"]);
    let metadata: Metadata = serde_json::from_str(&process::stdout_of(&mut cargo)?)?;
    Ok(judge(&metadata))
}

fn judge(metadata: &Metadata) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in &metadata.packages {
        let wall = WALLS.iter().find(|(name, _)| *name == package.name);
        let Some((_, allowed)) = wall else { continue };
        for dependency in package.dependencies.iter().filter(|d| d.kind.as_deref() != Some("dev")) {
            let name = dependency.name.as_str();
            let ours = name == "shockwave" || name.starts_with("shockwave-");
            let linked = package.name == "shockwave-core" && dependency.kind.is_none();
            let impure = linked && NOT_IN_CORE.contains(&name);
            if (ours && !allowed.contains(&name)) || impure {
                findings.push(Finding {
                    path: "Cargo.toml".into(),
                    line: 1,
                    rule: "walls",
                    message: format!("{} must not depend on {name}", package.name),
                });
            }
        }
    }
    findings
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn dependencies_through_a_wall_are_found() {
        let text = r#"{"packages": [
            {"name": "shockwave-sdk", "dependencies": [
                {"name": "shockwave-proto", "kind": null}, {"name": "shockwave-core", "kind": null},
                {"name": "shockwave", "kind": "dev"}]},
            {"name": "shockwave-core", "dependencies": [
                {"name": "libc", "kind": "build"}, {"name": "tokio", "kind": null}]}]}"#;
        let found = judge(&serde_json::from_str(text).unwrap());
        let messages: Vec<&str> = found.iter().map(|finding| finding.message.as_str()).collect();
        assert_eq!(
            messages,
            [
                "shockwave-sdk must not depend on shockwave-core",
                "shockwave-core must not depend on tokio"
            ]
        );
    }
}
