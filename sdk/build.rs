//! Passes the folder of libtorch's libraries on to everything that links the SDK, as an rpath.

fn main() {
    // Set by torch-sys, which has found libtorch by LIBTORCH, LIBTORCH_USE_PYTORCH or the system.
    if let Ok(lib) = std::env::var("DEP_TCH_LIBTORCH_LIB") {
        println!("cargo::rustc-link-arg=-Wl,-rpath,{lib}");
        println!("cargo::metadata=LIBTORCH_LIB={lib}");
    }
    println!("cargo::rerun-if-changed=build.rs");
}
