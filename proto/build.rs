//! Generates the messages and services from proto/*.proto with protox: no protoc is needed.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let files = protox::compile(["proto/shockwave.proto"], ["proto"])?;
    // Ordered maps: the same message has the same bytes.
    tonic_prost_build::configure().btree_map(".").compile_fds(files)?;
    println!("cargo::rerun-if-changed=proto");
    Ok(())
}
