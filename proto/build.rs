//! Generates the messages and services from proto/*.proto with protox: no protoc is needed.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let files = protox::compile(["proto/shockwave.proto"], ["proto"])?;
    // Ordered maps: the same message has the same bytes.
    tonic_prost_build::configure()
        .btree_map(".")
        // The coordinator's log keeps messages as JSON; a field that an older one lacks is its default.
        .message_attribute(".", "#[derive(serde::Serialize, serde::Deserialize)]")
        .message_attribute(".", "#[serde(default)]")
        .enum_attribute(".", "#[derive(serde::Serialize, serde::Deserialize)]")
        .compile_fds(files)?;
    println!("cargo::rerun-if-changed=proto");
    Ok(())
}
