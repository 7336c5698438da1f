//! Lets the programs find libtorch's libraries where the SDK found them.

fn main() {
    if let Ok(lib) = std::env::var("DEP_SHOCKWAVE_SDK_LIBTORCH_LIB") {
        println!("cargo::rustc-link-arg=-Wl,-rpath,{lib}");
    }
    println!("cargo::rerun-if-changed=build.rs");
}
