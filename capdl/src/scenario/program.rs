//! The programs of tenants' components: one of the project's, or a user's own crate, each with its configuration.
//!
//! ```toml
//! program.name = "bench"          # or program.path = "../my-program", a folder with a crate, from the scenario's own folder
//!
//! [tenant.program.config]         # the program reads it as a type of its own
//! depth = 32
//! ```
//!
//! Configurations of the project's programs are read here too, so that a scenario that contradicts itself is refused before
//! anything runs. Nothing is known of other programs: each of them reports what it does not understand.

use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer};
use std::path::{Path, PathBuf};
use toml::Table;
use workload::{Bench, Digest, Flood, Hostile, Signal, encode};

/// Programs of the system's components, whose names a crate must not have.
const SYSTEMS: [&str; 8] =
    ["root-task", "console", "pci-server", "iommu-server", "nvme-server", "policy", "nvme-probe", "edu-driver"];
/// Longest name of a crate.
const LONGEST: usize = 32;

/// The program of a tenant's component, with its configuration.
#[derive(Clone, PartialEq, Debug)]
pub enum Workload {
    /// Load with verification.
    Bench(Bench),
    /// Read a range and report its SHA-256.
    Digest(Digest),
    /// Misbehave without end.
    Flood(Flood),
    /// Attack.
    Hostile(Hostile),
    /// Signal to and fro with a peer.
    Signal(Signal),
    /// A user's own crate.
    Own(Own),
}

/// A user's own crate.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Own {
    /// Its name: that of its folder.
    pub name: String,
    /// Its folder: as written, and resolved from the scenario's own folder once a file was loaded.
    pub path: PathBuf,
    /// Its configuration, in JSON.
    pub config: String,
}

impl Workload {
    /// The name of the program.
    #[must_use]
    pub fn program(&self) -> &str {
        match self {
            Self::Bench(_) => "bench",
            Self::Digest(_) => "digest",
            Self::Flood(_) => "flood",
            Self::Hostile(_) => "hostile",
            Self::Signal(_) => "signal",
            Self::Own(own) => &own.name,
        }
    }

    /// Its configuration, as the program reads it ([`workload::Client::config`]).
    #[must_use]
    pub fn config(&self) -> String {
        match self {
            Self::Bench(config) => encode(config),
            Self::Digest(config) => encode(config),
            Self::Flood(config) => encode(config),
            Self::Hostile(config) => encode(config),
            Self::Signal(config) => encode(config),
            Self::Own(own) => own.config.clone(),
        }
    }

    /// Resolves a path in the scenario's file from that file's folder.
    pub(super) fn resolve(&mut self, folder: &Path) {
        if let Self::Own(own) = self {
            own.path = folder.join(&own.path);
        }
    }
}

/// A program as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    name: Option<String>,
    path: Option<PathBuf>,
    #[serde(default)]
    config: Table,
}

impl<'de> Deserialize<'de> for Workload {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Written { name, path, config } = Written::deserialize(deserializer)?;
        let program = match (name.as_deref(), path) {
            (Some(name), None) => named(name, config),
            (None, Some(path)) => own(path, &config),
            _ => Err("a program has a name or a path: write program.name = \"bench\"".into()),
        };
        program.map_err(D::Error::custom)
    }
}

fn named(name: &str, config: Table) -> Result<Workload, String> {
    fn read<C: DeserializeOwned>(name: &str, config: Table) -> Result<C, String> {
        config.try_into().map_err(|error: toml::de::Error| {
            format!("the configuration of {name} has an {}", error.message().replace('\n', ", "))
        })
    }
    match name {
        "bench" => read(name, config).map(Workload::Bench),
        "digest" => read(name, config).map(Workload::Digest),
        "flood" => read(name, config).map(Workload::Flood),
        "hostile" => read(name, config).map(Workload::Hostile),
        "signal" => read(name, config).map(Workload::Signal),
        _ => Err(format!(
            "there is no program `{name}`: name bench, digest, flood, hostile or signal, or the folder of your own by program.path"
        )),
    }
}

fn own(path: PathBuf, config: &Table) -> Result<Workload, String> {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
    let good = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let starts = name.starts_with(|first: char| first.is_ascii_lowercase());
    if !starts || name.len() > LONGEST || !name.bytes().all(good) {
        return Err(format!(
            "the path {path:?} does not end in a folder named like a crate, a letter and up to {LONGEST} of a-z, 0-9 and `-` in all: \
             rename it"
        ));
    }
    if SYSTEMS.contains(&name.as_str()) || named(&name, Table::new()).is_ok() {
        return Err(format!("the path {path:?} ends in `{name}`, which is a program of the project: rename it"));
    }
    Ok(Workload::Own(Own { name, path, config: encode(config) }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Workload, String> {
        toml::from_str(text).map_err(|error: toml::de::Error| error.message().to_owned())
    }

    #[test]
    fn a_program_of_the_project_has_its_configuration_read() {
        let Ok(Workload::Bench(bench)) = read("name = \"bench\"\nconfig = { depth = 3 }") else { panic!("a load") };
        assert_eq!((bench.depth, bench.block_bytes), (3, 4096));
        assert_eq!(read("name = \"hostile\""), Ok(Workload::Hostile(Hostile::default())));
        let error = read("name = \"bench\"\nconfig = { dpeth = 3 }").unwrap_err();
        assert!(
            error.starts_with("the configuration of bench has an unknown field `dpeth`, expected one of"),
            "{error}"
        );
    }

    #[test]
    fn a_crate_of_ones_own_gets_what_is_written() {
        let own = read("path = \"../sizer\"\nconfig = { at_least = 7, names = [\"a\"] }").unwrap();
        assert_eq!(own.program(), "sizer");
        assert_eq!(own.config(), r#"{"at_least":7,"names":["a"]}"#);
        let mut resolved = own;
        resolved.resolve(Path::new("/somewhere/scenarios"));
        let Workload::Own(Own { path, .. }) = resolved else { panic!("a crate") };
        assert_eq!(path, Path::new("/somewhere/scenarios/../sizer"));
    }

    #[test]
    fn what_is_no_program_is_refused_with_the_mend() {
        for (text, mend) in [
            ("name = \"bnech\"", "name bench, digest"),
            ("name = \"bench\"\npath = \"x\"", "write program.name"),
            ("config = {}", "write program.name"),
            ("path = \"x/Y\"", "rename it"),
            ("path = \"x/digest\"", "which is a program of the project: rename it"),
            ("path = \"x/console\"", "which is a program of the project: rename it"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(mend), "{text}: {error}");
        }
    }
}
