//! Cargo, as the commands call it.

use std::path::Path;
use std::process::Command;

/// Cargo in this folder: the one that runs this program, or else the one of the search path.
pub(crate) fn cargo_in(folder: &Path) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    // The settings of this cargo run must not reach the inner one.
    command.current_dir(folder).env_remove("CARGO_MANIFEST_DIR");
    command
}
