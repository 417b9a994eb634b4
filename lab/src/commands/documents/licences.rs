//! The table of `docs/licences.md`: direct dependencies of the project's crates, from cargo's metadata.

use super::parts::replace_part;
use super::texts::Texts;
use anyhow::{Context, Result, ensure};
use capdl::programs::TABLE;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use xtask::cargo::cargo_in;
use xtask::project::Project;

/// Writes the table.
pub(super) fn make(project: &Project, texts: &mut Texts) -> Result<()> {
    // One platform, so that every build machine has the same table.
    let output = cargo_in(project.root())
        .args(["metadata", "--format-version", "1", "--all-features", "--locked"])
        .args(["--filter-platform", "x86_64-unknown-linux-gnu"])
        .output()
        .context("cannot run cargo")?;
    ensure!(output.status.success(), "cargo says: {}", String::from_utf8_lossy(&output.stderr).trim());
    let metadata: Value = serde_json::from_slice(&output.stdout).context("cargo's answer is no JSON")?;
    replace_part(texts, "docs/licences.md", "licences", &table(&metadata))
}

/// The optional dependency of crates that are in programs, too, which only the build machine turns on.
const TOOLS_ALONE: &str = "#schemars@";

/// Uses of a crate, in the order of the table's words.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Use {
    Programs,
    Tools,
    Fuzzers,
    Building,
    Tests,
}

impl Use {
    const fn name(self) -> &'static str {
        match self {
            Self::Programs => "programs on seL4",
            Self::Tools => "tools",
            Self::Fuzzers => "fuzzers",
            Self::Building => "building",
            Self::Tests => "tests",
        }
    }
}

fn table(metadata: &Value) -> String {
    let ours: BTreeMap<&str, &str> = list(&metadata["packages"])
        .filter(|package| package["source"].is_null())
        .filter_map(|package| Some((package["id"].as_str()?, package["name"].as_str()?)))
        .collect();
    let nodes: BTreeMap<&str, &Value> =
        list(&metadata["resolve"]["nodes"]).filter_map(|node| Some((node["id"].as_str()?, node))).collect();
    let programs = in_programs(&ours, &nodes);
    let mut uses = BTreeMap::<&str, BTreeSet<Use>>::new();
    for (id, name) in &ours {
        for (on, kind) in nodes.get(id).into_iter().flat_map(|node| dependencies(node)) {
            let used = match kind {
                Some("dev") => Use::Tests,
                Some("build") => Use::Building,
                _ if programs.contains(id) && !on.contains(TOOLS_ALONE) => Use::Programs,
                _ if *name == "fuzz" => Use::Fuzzers,
                _ => Use::Tools,
            };
            uses.entry(on).or_default().insert(used);
        }
    }
    let row = |package: &Value| {
        let uses = uses.get(package["id"].as_str()?).filter(|_| !package["source"].is_null())?;
        // Tests use many crates that are listed for another use anyway.
        let shown = uses.iter().filter(|used| **used != Use::Tests || uses.len() == 1);
        let used = shown.map(|used| used.name()).collect::<Vec<_>>().join(", ");
        let [name, version, licence] =
            ["name", "version", "license"].map(|key| package[key].as_str().unwrap_or_default());
        // The SPDX form; the oldest manifests have a form of their own.
        let licence = licence.replace('/', " OR ");
        let version = version.split('+').next().unwrap_or_default();
        Some(format!("| {name} | {version} | {licence} | {used} |\n"))
    };
    let rows: BTreeSet<_> = list(&metadata["packages"]).filter_map(row).collect();
    "| crate | version | licence | used in |\n|---|---|---|---|\n".to_owned() + &rows.into_iter().collect::<String>()
}

/// The project's crates that are linked into programs for seL4.
fn in_programs<'a>(ours: &BTreeMap<&'a str, &str>, nodes: &BTreeMap<&'a str, &'a Value>) -> BTreeSet<&'a str> {
    let is_program = |name: &str| TABLE.iter().any(|row| row.name == name);
    let mut next: Vec<&str> = ours.iter().filter(|(_, name)| is_program(name)).map(|(id, _)| *id).collect();
    let mut found = BTreeSet::new();
    while let Some(id) = next.pop() {
        if found.insert(id) {
            let on = nodes.get(id).into_iter().flat_map(|node| dependencies(node)).filter(|(_, kind)| kind.is_none());
            next.extend(on.filter_map(|(on, _)| ours.get_key_value(on)).map(|(id, _)| *id));
        }
    }
    found
}

/// Dependencies of a crate, each with its kind; no kind means a normal dependency, which is linked.
fn dependencies(node: &Value) -> impl Iterator<Item = (&str, Option<&str>)> {
    list(&node["deps"])
        .flat_map(|on| list(&on["dep_kinds"]).filter_map(|kind| Some((on["pkg"].as_str()?, kind["kind"].as_str()))))
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn node(id: &str, on: &[(&str, Option<&str>)]) -> Value {
        let on: Vec<_> = on.iter().map(|(pkg, kind)| json!({"pkg": pkg, "dep_kinds": [{"kind": kind}]})).collect();
        json!({"id": id, "deps": on})
    }

    #[test]
    fn direct_dependencies_have_their_licence_and_their_use() {
        let ours = ["console", "platform", "xtask"].map(|name| json!({"id": name, "name": name, "source": null}));
        let others = ["a", "b", "c", "d"]
            .map(|name| json!({"id": name, "name": name, "source": "registry", "version": "1.0.0+spec", "license": "MIT/Unlicense"}));
        let nodes = [
            node("console", &[("platform", None)]),
            node("platform", &[("a", None), ("c", Some("dev"))]),
            node("xtask", &[("a", None), ("a", Some("dev")), ("b", Some("build"))]),
            node("a", &[("d", None)]),
        ];
        let packages: Vec<_> = ours.into_iter().chain(others).collect();
        assert_eq!(
            table(&json!({"packages": packages, "resolve": {"nodes": nodes}})),
            "| crate | version | licence | used in |\n|---|---|---|---|\n\
             | a | 1.0.0 | MIT OR Unlicense | programs on seL4, tools |\n| b | 1.0.0 | MIT OR Unlicense | building |\n| c | 1.0.0 | MIT OR Unlicense | tests |\n"
        );
    }
}
