//! Where the kernel's source comes from: the folder `seL4/` of the crate `sel4-sys`, fetched by cargo into its own
//! store and only read there.
//!
//! The package in `kernel/source/` names the crate and pins its version and checksum. The crate's Rust code is never
//! built.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

/// The crate that carries the source.
const CRATE: &str = "sel4-sys";

/// The version of seL4 for which the fixes and the configuration are written.
pub const SEL4_VERSION: &str = "5.0.0";

/// The kernel's source on this machine.
#[derive(Clone, Debug)]
pub struct Source {
    /// The folder with the kernel's makefile. Not ours: only read.
    pub folder: PathBuf,
    /// Crate and version it came in, and the kernel's own version.
    pub version: String,
}

/// Fetches the source if it is not there yet, and says where it is.
///
/// `workspace_root` is the folder of the project's top manifest. Fails when cargo cannot fetch the crate (no network and
/// nothing stored), or when what it fetched is not the kernel this crate knows.
pub fn source(workspace_root: &Path) -> Result<Source> {
    let manifest = workspace_root.join("kernel/source/Cargo.toml");
    // Without network the store may still have it, so the offline way is tried first; it is also the quick one.
    let metadata = match metadata(&manifest, &["--offline"]) {
        Ok(metadata) => metadata,
        Err(_) => {
            cargo(&manifest, "fetch", &[]).context("cannot fetch seL4's source from crates.io")?;
            metadata(&manifest, &[])?
        }
    };
    let (folder, crate_version) = locate(&metadata)?;
    let version_file = folder.join("VERSION");
    let version =
        std::fs::read_to_string(&version_file).with_context(|| format!("cannot read {}", version_file.display()))?;
    ensure!(
        version.trim() == SEL4_VERSION,
        "{} is seL4 {} instead of {SEL4_VERSION}",
        folder.display(),
        version.trim()
    );
    Ok(Source { folder, version: format!("{CRATE} {crate_version}, seL4 {SEL4_VERSION}") })
}

fn metadata(manifest: &Path, arguments: &[&str]) -> Result<Value> {
    let mut all = vec!["--format-version", "1"];
    all.extend_from_slice(arguments);
    let output = cargo(manifest, "metadata", &all)?;
    serde_json::from_slice(&output).context("cargo metadata wrote something that is not JSON")
}

fn cargo(manifest: &Path, command: &str, arguments: &[&str]) -> Result<Vec<u8>> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .arg(command)
        .arg("--locked")
        .arg("--manifest-path")
        .arg(manifest)
        .args(arguments)
        .output()
        .context("cannot run cargo")?;
    if !output.status.success() {
        bail!("cargo {command} for {} failed: {}", manifest.display(), String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(output.stdout)
}

/// The source folder and the crate's version in the output of `cargo metadata`.
fn locate(metadata: &Value) -> Result<(PathBuf, String)> {
    let package = metadata["packages"]
        .as_array()
        .and_then(|packages| packages.iter().find(|package| package["name"] == CRATE))
        .with_context(|| format!("cargo metadata does not list {CRATE}"))?;
    let manifest = package["manifest_path"].as_str().context("cargo metadata gives no manifest path")?;
    let version = package["version"].as_str().context("cargo metadata gives no version")?;
    let folder = Path::new(manifest).parent().context("a manifest has a folder")?.join("seL4");
    Ok((folder, version.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_is_found_in_the_metadata() {
        let metadata = serde_json::json!({ "packages": [
            { "name": "other", "version": "1.0.0", "manifest_path": "/store/other/Cargo.toml" },
            { "name": "sel4-sys", "version": "0.0.28", "manifest_path": "/store/sel4-sys-0.0.28/Cargo.toml" },
        ]});
        let (folder, version) = locate(&metadata).unwrap();
        assert_eq!(folder, Path::new("/store/sel4-sys-0.0.28/seL4"));
        assert_eq!(version, "0.0.28");
    }

    #[test]
    fn metadata_without_the_crate_is_an_error_that_names_it() {
        let error = locate(&serde_json::json!({ "packages": [] })).unwrap_err().to_string();
        assert!(error.contains("sel4-sys"), "{error}");
    }
}
