//! Finds the built programs.

use std::path::PathBuf;

/// The built program `name`, from the folder that holds the running test.
///
/// # Panics
/// When it is not built: the message says how to build it.
#[must_use]
pub fn program(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap_or_default();
    // target/debug/deps/test-0123 -> target/debug; a program of its own lies there already.
    let folder = test.parent().unwrap_or(&test);
    let folder = if folder.ends_with("deps") { folder.parent().unwrap_or(folder) } else { folder };
    let path = folder.join(name);
    assert!(
        path.is_file(),
        "{} is not built; build the whole workspace first: cargo build --workspace{}",
        path.display(),
        if folder.ends_with("release") { " --release" } else { "" }
    );
    path
}

/// The CIFAR-10 subset beside the checkout (`../shared`), if it is there.
#[must_use]
pub fn cifar_subset() -> Option<PathBuf> {
    let workspace = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..");
    let path = workspace.join("../shared/data/cifar-10-subset").canonicalize().ok();
    if path.is_none() {
        eprintln!("skipped: ../shared/data/cifar-10-subset is not there");
    }
    path
}
