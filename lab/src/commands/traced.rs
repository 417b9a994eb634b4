//! Tests that other programs read traces: Perfetto's Python package the file for Perfetto, and Debian's blkparse and btt the records.
//!
//! Perfetto's slices must nest, its flows end, and the parts of a request add up to its latency. Btt's mean from the queue to the
//! completion must be that of the server's statistics. Each within 1 %.

use crate::commands::counted::Counted;
use anyhow::{Context, Result, bail, ensure};
use kernel::Arch;
use serde_json::Value;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use xtask::project::{Project, write_whole};
use xtask::telemetry::saved::{BLKTRACE_FILE, PERFETTO_FILE, SUMMARY_FILE};

/// A scenario with traces, with a tenant whose requests are one command each, and its number among the devices of the records.
struct Traced {
    scenario: &'static str,
    tenant: &'static str,
    device: u32,
}

/// A tenant with a session, and one with a virtual function of its own.
const TRACED: [Traced; 2] = [
    Traced { scenario: "trace", tenant: "alice", device: 259 << 20 },
    Traced { scenario: "trace-functions", tenant: "frida", device: 259 << 20 | 1 },
];
/// Name of the tenant's records, as blkparse takes it, and bytes of a record.
const DUMP: &str = "one";
const RECORD_BYTES: usize = 48;
/// Perfetto's package and what it imports, with their hashes.
const REQUIREMENTS: &str = include_str!("../../perfetto/requirements.txt");
/// The program that judges the file for Perfetto.
const JUDGE: &str = include_str!("../../perfetto/judge.py");
/// The most by which two means may differ.
const TOLERANCE: f64 = 0.01;

/// The sentence for a machine without blktrace's programs.
const MISSING: &str = "blkparse and btt are missing: install them with apt-get install blktrace";

/// The world in which the system runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum World {
    /// The simulator.
    Simulator,
    /// QEMU's machine of an architecture.
    Qemu(Arch),
}

impl fmt::Display for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Simulator => f.write_str("traces of the simulator are read by Perfetto and btt"),
            Self::Qemu(arch) => write!(f, "traces of {arch} are read by Perfetto and btt"),
        }
    }
}

impl World {
    /// All worlds.
    pub(crate) const ALL: [Self; 3] = [Self::Simulator, Self::Qemu(Arch::X86_64), Self::Qemu(Arch::Aarch64)];
}

/// Runs the scenarios as a user does, and lets the programs read their traces.
pub(crate) fn check(project: &Project, world: World) -> Result<Counted> {
    TRACED.iter().try_for_each(|traced| judge(project, world, traced).context(traced.scenario))?;
    Ok(Counted::one())
}

fn judge(project: &Project, world: World, Traced { scenario, tenant, device }: &Traced) -> Result<()> {
    let scratch = project.target_folder("traced")?;
    let folder = run(project, &scratch, world, scenario)?;
    let read = |name: &str| fs::read(folder.join(name)).with_context(|| format!("the run has left no {name}"));
    let summary: Value = serde_json::from_slice(&read(SUMMARY_FILE)?).context("the summary of the trace is no JSON")?;
    ensure!(summary["lost"] == 0, "events of the trace were lost: {summary}");
    let requests = summary["requests"].as_u64().unwrap_or_default();
    ensure!(requests > 1_000, "the trace has {requests} requests");
    perfetto(&scratch, &folder.join(PERFETTO_FILE), requests)?;
    let mean =
        summary["latencies"][tenant][0].as_f64().with_context(|| format!("{tenant} has no latency: {summary}"))?;
    let q2c = q2c(&scratch, &read(BLKTRACE_FILE)?, *device)?;
    ensure!(
        (q2c - mean).abs() <= TOLERANCE * mean,
        "btt has {q2c} ns from queue to completion, and the statistics {mean}"
    );
    Ok(())
}

/// Runs the scenario; returns the run's folder.
fn run(project: &Project, scratch: &Path, world: World, scenario: &str) -> Result<PathBuf> {
    let json = scratch.join("run.json");
    let mut command = Command::new(std::env::current_exe().context("this program cannot be found")?);
    command.current_dir(project.root());
    match world {
        World::Simulator => command.args(["sim", scenario]),
        World::Qemu(arch) => command.args(["demo", scenario, "--arch", arch.name()]),
    };
    said(command.arg("--json").arg(&json), "the scenario")?;
    let results: Value = serde_json::from_slice(&fs::read(&json)?).context("the results are no JSON")?;
    let folder =
        results["files"]["folder"].as_str().with_context(|| format!("the results have no folder: {results}"))?;
    Ok(project.path(folder))
}

/// Has Perfetto's package read the file.
fn perfetto(scratch: &Path, file: &Path, requests: u64) -> Result<()> {
    let programs = kernel::python::environment(&scratch.join("python"), REQUIREMENTS, "Perfetto", &mut |_| {})?;
    let judge = scratch.join("judge.py");
    write_whole(&judge, JUDGE.as_bytes())?;
    let output = said(Command::new(programs.join("python")).arg(&judge).arg(file), "the judge of Perfetto's file")?;
    let found = String::from_utf8_lossy(&output.stdout).trim().parse::<u64>().unwrap_or_default();
    ensure!(found == requests, "Perfetto's file has {found} requests, and the trace {requests}");
    Ok(())
}

/// The mean time from the queue to the completion of a device's commands by btt, in nanoseconds.
fn q2c(scratch: &Path, records: &[u8], device: u32) -> Result<f64> {
    fs::write(scratch.join(format!("{DUMP}.blktrace.0")), of_device(records, device)?)?;
    let binary = format!("{DUMP}.bin");
    said(Command::new("blkparse").current_dir(scratch).args(["-i", DUMP, "-d", &binary, "-O", "-q"]), MISSING)?;
    let output = said(Command::new("btt").current_dir(scratch).args(["-i", &binary]), MISSING)?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = text.lines().find(|line| line.starts_with("Q2C"));
    let mean = line.and_then(|line| line.split_whitespace().nth(2)?.parse::<f64>().ok());
    Ok(mean.with_context(|| format!("btt finds no completion: {text}"))? * 1e9)
}

/// Returns the records of one device with new numbers, because btt's means are of all devices.
fn of_device(records: &[u8], device: u32) -> Result<Vec<u8>> {
    let (mut rest, mut all, mut sequence) = (records, Vec::new(), 0u32);
    while let Some((record, behind)) = rest.split_at_checked(RECORD_BYTES) {
        let name_bytes = usize::from(u16::from_le_bytes([record[46], record[47]]));
        let (name, behind) = behind.split_at_checked(name_bytes).context("a record ends too early")?;
        rest = behind;
        if record[36..40] == device.to_le_bytes() {
            sequence += 1;
            let mut record = record.to_vec();
            record[4..8].copy_from_slice(&sequence.to_le_bytes());
            all.extend(record);
            all.extend(name);
        }
    }
    ensure!(rest.is_empty() && sequence > 0, "the records have no end, or none is of the device {device:#x}");
    Ok(all)
}

/// Runs a command, which must succeed.
fn said(command: &mut Command, what: &str) -> Result<Output> {
    let output = command.output().with_context(|| what.to_owned())?;
    if !output.status.success() {
        bail!("{what}: {}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    }
    Ok(output)
}
