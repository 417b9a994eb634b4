//! The kernel's source: the folder `seL4/` of the crate `sel4-sys`, fetched by cargo into its own store and only read there.
//!
//! The package in `kernel/source/` names the crate and pins its version and checksum. The crate's Rust code is never
//! built.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::complaint;

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

/// Fetches the source if it is not there yet, and returns where it is.
///
/// `workspace_root` is the folder of the project's top manifest. Fails when cargo cannot fetch the crate (no network and
/// nothing stored), or when it fetched another kernel than this crate is written for. The error is one sentence with the
/// remedy.
pub fn source(workspace_root: &Path) -> Result<Source> {
    let manifest = workspace_root.join("kernel/source/Cargo.toml");
    // Without network the store may still have it, so the offline way is tried first; it is also the quick one.
    let metadata = match metadata(&manifest, &["--offline"]) {
        Ok(metadata) => metadata,
        Err(_) => {
            fetch(&manifest)?;
            metadata(&manifest, &[])?
        }
    };
    let (folder, crate_version) = locate(&metadata)?;
    let version = std::fs::read_to_string(folder.join("VERSION")).with_context(|| {
        let stored = folder.parent().unwrap_or(&folder).display();
        format!("seL4's source in {stored} is not whole; remove that folder, and cargo fetches it again")
    })?;
    ensure_known(version.trim(), &manifest)?;
    Ok(Source { folder, version: format!("{CRATE} {crate_version}, seL4 {SEL4_VERSION}") })
}

fn ensure_known(version: &str, manifest: &Path) -> Result<()> {
    ensure!(
        version == SEL4_VERSION,
        "the crate {CRATE} that {} names has seL4 {version}, and the fixes are for {SEL4_VERSION}: name the version of \
         the crate that has it",
        manifest.display()
    );
    Ok(())
}

fn fetch(manifest: &Path) -> Result<()> {
    let output = cargo(manifest, "fetch", &[])?;
    if !output.status.success() {
        bail!(
            "seL4's source, the crate {CRATE}, cannot be fetched, and cargo says: {}; once crates.io can be reached, \
             run this again, or fetch it yourself with: cargo fetch --locked --manifest-path {}",
            complaint::line(&output),
            manifest.display()
        );
    }
    Ok(())
}

fn metadata(manifest: &Path, arguments: &[&str]) -> Result<Value> {
    let mut all = vec!["--format-version", "1"];
    all.extend_from_slice(arguments);
    let output = cargo(manifest, "metadata", &all)?;
    if !output.status.success() {
        bail!(
            "cargo cannot read {} and says: {}; bring that folder back to what the repository has",
            manifest.display(),
            complaint::line(&output)
        );
    }
    serde_json::from_slice(&output.stdout)
        .context("cargo metadata wrote something that is not JSON; bring Rust up to date with: rustup update stable")
}

fn cargo(manifest: &Path, command: &str, arguments: &[&str]) -> Result<Output> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    Command::new(cargo)
        .arg(command)
        .arg("--locked")
        .arg("--manifest-path")
        .arg(manifest)
        .args(arguments)
        .output()
        .context("cannot run cargo; install Rust from https://rustup.rs")
}

/// The source folder and the crate's version in the output of `cargo metadata`.
fn locate(metadata: &Value) -> Result<(PathBuf, String)> {
    let package = metadata["packages"]
        .as_array()
        .and_then(|packages| packages.iter().find(|package| package["name"] == CRATE))
        .with_context(|| format!("kernel/source/Cargo.toml does not name the crate {CRATE}: bring it back"))?;
    let manifest = package["manifest_path"].as_str().context("cargo metadata gives no manifest path: is it cargo?")?;
    let version = package["version"].as_str().context("cargo metadata gives no version: is it cargo?")?;
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

    #[test]
    fn another_kernel_is_refused_in_one_sentence_with_the_fix() {
        let error = ensure_known("12.1.0", Path::new("kernel/source/Cargo.toml")).unwrap_err().to_string();
        assert!(error.contains("has seL4 12.1.0") && error.contains("name the version"), "{error}");
        assert!(ensure_known(SEL4_VERSION, Path::new("m")).is_ok());
    }

    #[test]
    fn what_cargo_cannot_read_is_reported_in_one_line_with_the_fix() {
        let manifest = Path::new("/nonexistent/Cargo.toml");
        for error in [metadata(manifest, &[]).unwrap_err(), fetch(manifest).unwrap_err()] {
            let error = format!("{error:#}");
            assert!(error.contains("/nonexistent/Cargo.toml") && !error.contains('\n'), "{error}");
            assert!(error.contains("bring that folder back") || error.contains("run this again"), "{error}");
        }
    }
}
