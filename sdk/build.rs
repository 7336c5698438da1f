//! Passes the folder of libtorch's libraries on to everything that links the SDK, as an rpath, and libtorch's version to
//! the code (a checkpoint tells by which version it was written); builds the C++ shim.

use std::path::{Path, PathBuf};

/// The version in libtorch's own header, or in the file beside its libraries.
fn libtorch_version(lib: &Path) -> Option<String> {
    let root = lib.parent()?;
    let header = root.join("include/torch/headeronly/version.h");
    let older = root.join("include/torch/csrc/api/include/torch/version.h");
    let text = std::fs::read_to_string(header).or_else(|_| std::fs::read_to_string(older)).ok()?;
    let number = |part: &str| {
        let define = format!("#define TORCH_VERSION_{part} ");
        text.lines().find_map(|l| l.strip_prefix(&define)).map(|n| n.trim().to_owned())
    };
    Some(format!("{}.{}.{}", number("MAJOR")?, number("MINOR")?, number("PATCH")?))
}

/// Builds shim/, the C++ over what tch does not bind, against the libtorch that torch-sys has found.
fn build_shim(lib: &Path) {
    let root = std::env::var("LIBTORCH_INCLUDE").map(PathBuf::from);
    let root = root.ok().or_else(|| lib.parent().map(Path::to_path_buf)).unwrap_or_default();
    let include = root.join("include");
    cc::Build::new()
        .cpp(true)
        .std("c++17")
        .files(["shim/group.cpp", "shim/precision.cpp", "shim/random.cpp"])
        .include("shim/gloo-declarations")
        // As system headers: their warnings are not ours.
        .flag(format!("-isystem{}", include.display()))
        .flag(format!("-isystem{}", include.join("torch/csrc/api/include").display()))
        .define("USE_C10D_GLOO", None)
        .warnings(true)
        .compile("shockwave_shim");
    println!("cargo::rerun-if-changed=shim");
    println!("cargo::rerun-if-env-changed=LIBTORCH_INCLUDE");
}

fn main() {
    // Set by torch-sys, which has found libtorch by LIBTORCH, LIBTORCH_USE_PYTORCH or the system.
    let mut version = None;
    if let Ok(lib) = std::env::var("DEP_TCH_LIBTORCH_LIB") {
        println!("cargo::rustc-link-arg=-Wl,-rpath,{lib}");
        println!("cargo::metadata=LIBTORCH_LIB={lib}");
        version = libtorch_version(Path::new(&lib));
        build_shim(Path::new(&lib));
    }
    let version = version.unwrap_or_else(|| "unknown".to_owned());
    println!("cargo::rustc-env=SHOCKWAVE_LIBTORCH_VERSION={version}");
    println!("cargo::rerun-if-changed=build.rs");
}
