//! The name of this machine.

use super::connect::CliError;

/// Checks the name of a machine as the coordinator will.
///
/// # Errors
/// What it is, and what would be right.
pub(super) fn check_node(node: &str) -> Result<(), CliError> {
    if node.is_empty() {
        return Err(CliError::Usage("--node is empty, expected a name".into()));
    }
    let checked = crate::service::check::name("--node", node);
    checked.map_err(|status| CliError::Usage(status.message().to_owned()))
}

/// Name of this machine.
pub(super) fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name = name.trim();
    if name.is_empty() { "localhost".into() } else { name.to_owned() }
}
