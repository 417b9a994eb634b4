//! Checks the direction of dependencies between the project's crates, from cargo's metadata of the workspace, and the circles of files
//! within each crate ([`circles`]).

mod circles;
mod modules;

use anyhow::{Context, Result, ensure};
use circles::Circle;
use serde_json::Value;
use xtask::cargo::cargo_in;
use xtask::project::Project;

/// Dependencies that each crate of the project may have. Others are errors. A crate that is missing from the table is an error
/// too, so that a new crate gets its place here.
///
/// Programs depend on servers' libraries and `platform-sel4`; libraries on interfaces, specifications and the seam; the seam on
/// no crate of the project. Features count: the programs are their crates' optional side. The simulator stands above all but the
/// programs' optional sides; its models of devices and its checkers know specifications, and no server. `sim-fault` is data, the
/// faults that a scenario names; the system's model reads it. The fuzz targets stand above everything, and nothing depends on
/// them.
const MAY_DEPEND: &[(&str, &[&str])] = &[
    ("platform", &[]),
    ("report", &["platform"]),
    ("telemetry", &["platform"]),
    ("iommu-api", &["platform"]),
    ("sel4-bindings", &[]),
    ("platform-sel4", &["iommu-api", "platform", "report", "sel4-bindings"]),
    ("kernel-loader", &[]),
    ("capdl-spec", &[]),
    ("kernel", &["capdl-spec", "kernel-loader"]),
    ("kernel-regress", &[]),
    ("pci-spec", &[]),
    ("nvme-spec", &[]),
    ("smmu-spec", &[]),
    ("extent-table", &[]),
    ("workload", &[]),
    ("pci-api", &["platform"]),
    ("blk-api", &["platform", "telemetry"]),
    ("control-api", &["blk-api", "platform", "report"]),
    ("nvme-driver", &["blk-api", "nvme-spec", "pci-api", "platform"]),
    ("scheduler", &["blk-api"]),
    ("sim-fault", &[]),
    (
        "capdl-check",
        &[
            "blk-api",
            "capdl-spec",
            "control-api",
            "iommu-api",
            "pci-api",
            "platform",
            "report",
            "telemetry",
            "workload",
        ],
    ),
    (
        "capdl",
        &[
            "blk-api",
            "capdl-check",
            "capdl-spec",
            "control-api",
            "iommu-api",
            "pci-api",
            "platform",
            "report",
            "sim-fault",
            "telemetry",
            "workload",
        ],
    ),
    ("root-task", &["capdl-spec", "control-api", "iommu-api", "pci-api", "platform", "platform-sel4", "report"]),
    ("console", &["platform", "platform-sel4", "report"]),
    ("control", &["blk-api", "control-api", "platform", "platform-sel4", "report"]),
    ("edu-driver", &["pci-api", "platform", "platform-sel4", "report"]),
    ("pci-server", &["pci-api", "pci-spec", "platform", "platform-sel4", "report"]),
    ("iommu-server", &["iommu-api", "platform", "platform-sel4", "report", "smmu-spec"]),
    (
        "nvme-server",
        &[
            "blk-api",
            "extent-table",
            "nvme-driver",
            "nvme-spec",
            "pci-api",
            "platform",
            "platform-sel4",
            "report",
            "scheduler",
            "telemetry",
        ],
    ),
    ("policy", &["blk-api", "platform", "platform-sel4", "report"]),
    ("nvme-probe", &["blk-api", "nvme-driver", "nvme-spec", "platform", "platform-sel4", "report", "workload"]),
    ("blk-client", &["blk-api", "nvme-driver", "nvme-spec", "pci-api", "platform", "report", "telemetry", "workload"]),
    ("bench", &["blk-api", "blk-client", "platform", "platform-sel4", "report", "workload"]),
    ("digest", &["blk-api", "blk-client", "platform", "platform-sel4", "report", "workload"]),
    ("flood", &["blk-api", "blk-client", "platform", "platform-sel4", "report", "workload"]),
    (
        "hostile",
        &[
            "blk-api",
            "blk-client",
            "iommu-api",
            "nvme-driver",
            "nvme-spec",
            "pci-api",
            "platform",
            "platform-sel4",
            "report",
            "workload",
        ],
    ),
    ("fat", &["blk-client", "platform"]),
    ("signal", &["blk-client", "platform", "platform-sel4", "report", "workload"]),
    ("sim-page", &[]),
    ("sim-check", &[]),
    ("sim-kernel", &["capdl-spec", "platform", "sim-page"]),
    ("fake-platform", &["blk-api", "blk-client", "platform", "report", "sim-kernel", "workload"]),
    ("sim-conformance", &["platform", "platform-sel4", "report", "sim-kernel"]),
    ("sim-pci", &["pci-spec", "sim-page"]),
    ("sim-nvme", &["nvme-spec", "sim-fault", "sim-page"]),
    ("sim-smmu", &["platform", "smmu-spec"]),
    ("sim-vfio-user", &[]),
    ("sim-tests", &[]),
    (
        "sim",
        &[
            "bench",
            "blk-api",
            "blk-client",
            "capdl",
            "capdl-spec",
            "console",
            "control",
            "control-api",
            "digest",
            "edu-driver",
            "flood",
            "hostile",
            "iommu-api",
            "iommu-server",
            "nvme-probe",
            "nvme-server",
            "nvme-spec",
            "pci-api",
            "pci-server",
            "pci-spec",
            "platform",
            "policy",
            "report",
            "root-task",
            "signal",
            "sim-check",
            "sim-conformance",
            "sim-fault",
            "sim-kernel",
            "sim-nvme",
            "sim-page",
            "sim-pci",
            "sim-smmu",
            "sim-vfio-user",
            "smmu-spec",
            "workload",
        ],
    ),
    (
        "xtask",
        &[
            "bench",
            "blk-api",
            "capdl",
            "capdl-spec",
            "control-api",
            "kernel",
            "platform",
            "report",
            "sim-fault",
            "sim-page",
            "telemetry",
            "workload",
        ],
    ),
    ("nvme-passthrough", &[]),
    ("nvme-preload", &["nvme-passthrough"]),
    (
        "lab",
        &[
            "blk-api",
            "capdl",
            "control-api",
            "fat",
            "kernel",
            "nvme-passthrough",
            "nvme-spec",
            "platform",
            "report",
            "sim",
            "sim-conformance",
            "sim-fault",
            "sim-vfio-user",
            "telemetry",
            "workload",
            "xtask",
        ],
    ),
    (
        "fuzz",
        &[
            "blk-api",
            "capdl",
            "capdl-spec",
            "nvme-server",
            "nvme-spec",
            "pci-api",
            "pci-server",
            "pci-spec",
            "platform",
            "policy",
            "report",
            "root-task",
            "sim",
            "sim-fault",
            "sim-kernel",
            "sim-nvme",
            "sim-pci",
            "xtask",
        ],
    ),
];

/// Reads the workspace from cargo, compares its dependencies with the table, and judges its circles of files.
pub(crate) fn check(project: &Project) -> Result<()> {
    let metadata = metadata(project)?;
    let wrong = wrong_directions(&metadata);
    ensure!(wrong.is_empty(), "{}; see MAY_DEPEND in lab/src/commands/directions.rs", wrong.join("; "));
    let circles = circles::of_workspace(project, &metadata)?;
    let wrong: Vec<_> = circles.iter().filter(|circle| circle.is_too_large()).map(Circle::explained).collect();
    ensure!(wrong.is_empty(), "{}\n{}", wrong.join("\n"), circles::RULE);
    Ok(())
}

/// All circles of files within the workspace's crates, the largest first.
pub(crate) fn circles(project: &Project) -> Result<Vec<Circle>> {
    circles::of_workspace(project, &metadata(project)?)
}

fn metadata(project: &Project) -> Result<Value> {
    let output = cargo_in(project.root())
        .args(["metadata", "--format-version", "1", "--no-deps"])
        .output()
        .context("cannot run cargo")?;
    ensure!(output.status.success(), "cargo says: {}", String::from_utf8_lossy(&output.stderr).trim());
    serde_json::from_slice(&output.stdout).context("cargo's answer is no JSON")
}

/// Dependencies that the table does not allow. Dependencies of tests alone are left out.
fn wrong_directions(metadata: &Value) -> Vec<String> {
    let empty = Vec::new();
    let packages = metadata["packages"].as_array().unwrap_or(&empty);
    let names: Vec<&str> = packages.iter().filter_map(|package| package["name"].as_str()).collect();
    let mut wrong = Vec::new();
    for package in packages {
        let Some(name) = package["name"].as_str() else { continue };
        let Some((_, allowed)) = MAY_DEPEND.iter().find(|(one, _)| *one == name) else {
            wrong.push(format!("the crate {name} has no place in the order of crates"));
            continue;
        };
        let dependencies = package["dependencies"].as_array().unwrap_or(&empty);
        for dependency in dependencies.iter().filter(|dependency| dependency["kind"] != "dev") {
            let Some(on) = dependency["name"].as_str() else { continue };
            if names.contains(&on) && !allowed.contains(&on) {
                wrong.push(format!("{name} must not depend on {on}"));
            }
        }
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn package(name: &str, dependencies: &[(&str, Option<&str>)]) -> Value {
        let dependencies: Vec<_> =
            dependencies.iter().map(|(name, kind)| json!({"name": name, "kind": kind})).collect();
        json!({"name": name, "dependencies": dependencies})
    }

    #[test]
    fn the_seam_depends_on_nothing_of_ours() {
        let packages =
            [package("platform", &[("report", None), ("serde", None)]), package("report", &[("platform", None)])];
        let wrong = wrong_directions(&json!({ "packages": packages }));
        assert_eq!(wrong, ["platform must not depend on report"]);
    }

    #[test]
    fn tests_may_depend_on_what_they_like() {
        let packages = [package("platform", &[("report", Some("dev"))]), package("report", &[])];
        assert!(wrong_directions(&json!({ "packages": packages })).is_empty());
    }

    #[test]
    fn a_new_crate_needs_a_place() {
        let wrong = wrong_directions(&json!({"packages": [package("new", &[])]}));
        assert_eq!(wrong, ["the crate new has no place in the order of crates"]);
    }

    #[test]
    fn the_order_has_no_circle() {
        // Each crate stands below those it may depend on.
        for (index, (name, allowed)) in MAY_DEPEND.iter().enumerate() {
            for on in *allowed {
                let below = MAY_DEPEND.iter().position(|(one, _)| one == on);
                assert!(below.is_some_and(|below| below < index), "{name} on {on}");
            }
        }
    }
}
