//! Passes the folder of libtorch's libraries on to everything that links the SDK, as an rpath, and libtorch's version to
//! the code (a checkpoint tells by which version it was written).

use std::path::Path;

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

fn main() {
    // Set by torch-sys, which has found libtorch by LIBTORCH, LIBTORCH_USE_PYTORCH or the system.
    let mut version = None;
    if let Ok(lib) = std::env::var("DEP_TCH_LIBTORCH_LIB") {
        println!("cargo::rustc-link-arg=-Wl,-rpath,{lib}");
        println!("cargo::metadata=LIBTORCH_LIB={lib}");
        version = libtorch_version(Path::new(&lib));
    }
    let version = version.unwrap_or_else(|| "unknown".to_owned());
    println!("cargo::rustc-env=SHOCKWAVE_LIBTORCH_VERSION={version}");
    println!("cargo::rerun-if-changed=build.rs");
}
