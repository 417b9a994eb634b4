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

use crate::programs::TABLE;
use serde::de::Error;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};
use std::path::{Path, PathBuf};
use toml::Spanned;
use toml::de::{self, DeTable, DeValue, ValueDeserializer};
use workload::{Bench, Digest, Flood, Hostile, Signal, encode};

/// Crates of the standard library, keywords (Rust reference, section 2.2), and crates that every program uses: no program of such a name
/// compiles.
#[rustfmt::skip]
const TAKEN: [&str; 58] = [
    "std", "core", "alloc", "test", "proc-macro",
    "as", "break", "const", "continue", "crate", "else", "enum", "extern", "false", "fn", "for", "if", "impl", "in", "let", "loop",
    "match", "mod", "move", "mut", "pub", "ref", "return", "self", "static", "struct", "super", "trait", "true", "type", "unsafe", "use",
    "where", "while",
    "async", "await", "dyn", "gen", "abstract", "become", "box", "do", "final", "macro", "override", "priv", "try", "typeof", "unsized",
    "virtual", "yield",
    "defmt", "serde",
];
/// The way to a program's table in a scenario, as `lists` writes it.
pub(super) const WAY: &str = ".tenant[].program";
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
    /// The program's name: that of its folder.
    pub name: String,
    /// The program's folder: as written, and resolved from the scenario's own folder once a file was loaded.
    pub path: PathBuf,
    /// The program's configuration, in JSON.
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

    /// The workload's configuration, as the program reads it ([`workload::Client::config`]).
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
    /// JSON has all numbers of 64 bits, as the reader of TOML has, and a TOML table less.
    #[serde(default)]
    config: Map<String, Value>,
}

impl<'de> Deserialize<'de> for Workload {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Written { name, path, config } = Written::deserialize(deserializer)?;
        let program = match (name.as_deref(), path) {
            (Some(name), None) => match named(name, Value::Object(config)) {
                Some(read) => read.map_err(|error| error.to_string()),
                None => Err(format!(
                    "there is no program `{name}`: name bench, digest, flood, hostile or signal, or the folder of your own by \
                     program.path"
                )),
            },
            (None, Some(path)) => own(path, &config),
            _ => Err("a program has a name or a path: write program.name = \"bench\"".into()),
        };
        program.map_err(D::Error::custom)
    }
}

/// Checks the configurations of the project's programs in a scenario's document. Only here are their places in the file known. The error
/// has the program's name.
pub(super) fn check<'a>(document: &'a Spanned<DeTable<'_>>) -> Result<(), (&'a str, de::Error)> {
    let Some(DeValue::Array(tenants)) = document.get_ref().get("tenant").map(Spanned::get_ref) else { return Ok(()) };
    for tenant in tenants.iter() {
        let program = tenant.get_ref().get("program").map(Spanned::get_ref);
        let name = program.and_then(|program| program.get("name")?.get_ref().as_str());
        let config = program.and_then(|program| program.get("config"));
        if let (Some(name), Some(config)) = (name, config) {
            let config = ValueDeserializer::from(config.clone());
            named(name, config).transpose().map_err(|error| (name, error))?;
        }
    }
    Ok(())
}

/// The project's program of this name, if there is one.
fn named<'de, D: Deserializer<'de>>(name: &str, config: D) -> Option<Result<Workload, D::Error>> {
    Some(match name {
        "bench" => Bench::deserialize(config).map(Workload::Bench),
        "digest" => Digest::deserialize(config).map(Workload::Digest),
        "flood" => Flood::deserialize(config).map(Workload::Flood),
        "hostile" => Hostile::deserialize(config).map(Workload::Hostile),
        "signal" => Signal::deserialize(config).map(Workload::Signal),
        _ => return None,
    })
}

fn own(path: PathBuf, config: &Map<String, Value>) -> Result<Workload, String> {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
    let good = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let starts = name.starts_with(|first: char| first.is_ascii_lowercase());
    if !starts || name.len() > LONGEST || !name.bytes().all(good) {
        return Err(format!(
            "the path {path:?} does not end in a folder named like a crate, a letter and up to {LONGEST} of a-z, 0-9 and `-` in all: \
             rename it"
        ));
    }
    if TAKEN.contains(&name.as_str()) {
        return Err(format!(
            "the path {path:?} ends in `{name}`, which is a word of Rust or a crate that programs use: rename it, for instance to my-{name}"
        ));
    }
    if TABLE.iter().any(|row| row.name == name) {
        return Err(format!("the path {path:?} ends in `{name}`, which is a program of the project: rename it"));
    }
    Ok(Workload::Own(Own { name, path, config: encode(config) }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use capdl_spec::Role;

    #[test]
    fn a_program_of_clients_has_a_configuration() {
        for row in TABLE {
            let read = named(row.name, Value::Object(Map::new()));
            assert_eq!(read.is_some(), row.role == Some(Role::Client), "{}", row.name);
        }
    }

    fn read(text: &str) -> Result<Workload, String> {
        toml::from_str(text).map_err(|error: toml::de::Error| error.message().to_owned())
    }

    #[test]
    fn a_program_of_the_project_has_its_configuration_read() {
        let Ok(Workload::Bench(bench)) = read("name = \"bench\"\nconfig = { depth = 3 }") else { panic!("a load") };
        assert_eq!((bench.depth, bench.block_bytes), (3, 4096));
        assert_eq!(read("name = \"hostile\""), Ok(Workload::Hostile(Hostile::default())));
        let error = read("name = \"bench\"\nconfig = { dpeth = 3 }").unwrap_err();
        assert!(error.starts_with("unknown field `dpeth`, expected one of"), "{error}");
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
            (
                "path = \"x/fn\"",
                "which is a word of Rust or a crate that programs use: rename it, for instance to my-fn",
            ),
            ("path = \"match\"", "to my-match"),
            ("path = \"../std\"", "to my-std"),
            ("path = \"x/proc-macro\"", "to my-proc-macro"),
            ("path = \"x/serde\"", "to my-serde"),
            ("path = \"x/digest\"", "which is a program of the project: rename it"),
            ("path = \"x/console\"", "which is a program of the project: rename it"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(mend), "{text}: {error}");
        }
    }
}
