//! `cargo xtask linux bench`: Linux's own cost beside ours.
//!
//! Instructions of a read are counted as for our benchmarks, on QEMU's controller with a namespace that stores nothing: fio reads some
//! blocks, then twice as many, so that its start is in both and the difference is what the reads cost. The noisy neighbour is that
//! of the experiment of this name. Throughput compares the model with QEMU's controller.

use super::check::{read, read_job, scenario};
use super::guest::{COUNTS, Reports, Run, Tools};
use super::programs;
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::fs;
use std::path::Path;
use xtask::machine::counts::{self, Instructions, KERNEL_NAME, Plugins};
use xtask::out;
use xtask::progress::Step;
use xtask::project::Project;
use xtask::reports::sheet::Sheet;
use xtask::run::Device;

/// Reads between two markers, as `jobs/instructions.sh` has them: these, then twice as many.
const FEW: f64 = 20_000.0;
/// A waiting processor halts: it does not poll first.
const KERNEL: &str = "cpuidle.off=1";
/// The loads of that job, in its order.
const READS: [&str; 4] = ["pread-qd1", "io_uring-qd1", "io_uring-qd32", "io_uring-fixed-qd32"];

/// Measures, and prints the tables.
pub(super) fn run(project: &Project, tools: &Tools) -> Result<()> {
    instructions(project, tools)?;
    neighbour(project, tools)?;
    throughput(project, tools)
}

fn instructions(project: &Project, tools: &Tools) -> Result<()> {
    let step = Step::new("counting instructions of reads");
    let plugins = Plugins::compile(project)?;
    let mark = programs::compile(project, "mark.S", &["-nostdlib"])?;
    let null = toml::from_str("namespace = [{ size = \"64M\", backend = \"null\" }]")?;
    let (_, folder) = measure(
        project,
        tools,
        Job {
            name: "instructions",
            controller: null,
            device: Device::Qemu,
            counter: Some((plugins.of(Device::Qemu), &mark)),
        },
    )?;
    let text = fs::read_to_string(folder.join(COUNTS)).context("the instruction counter wrote nothing")?;
    let parts = counts::by_marker(&text)?;
    // Two parts of each load, and one between its last marker and the next load's first.
    let parts: Vec<_> = parts.chunks(3).collect();
    ensure!(parts.len() == READS.len(), "the guest passed {} of {} loads", parts.len(), READS.len());
    let mut sheet = Sheet::new(["4 KiB random read", "kernel", "fio", "all"]);
    for (name, parts) in READS.iter().zip(parts) {
        let [few, many, ..] = parts else { anyhow::bail!("{name} has no two parts") };
        let sums = |part: &Instructions| (part.get(KERNEL_NAME).copied().unwrap_or(0), part.values().sum::<u64>());
        let ((few_kernel, few_all), (many_kernel, many_all)) = (sums(few), sums(many));
        let each = |few: u64, many: u64| many.saturating_sub(few) as f64 / FEW;
        let (kernel, all) = (each(few_kernel, many_kernel), each(few_all, many_all));
        sheet.numbers(name, [kernel, all - kernel, all].map(|number| format!("{number:.0}")));
    }
    drop(step);
    out::line(format_args!("Instructions of a read, Linux {}\n{}", tools.guest.version(), sheet.fit(out::columns())))?;
    Ok(())
}

fn neighbour(project: &Project, tools: &Tools) -> Result<()> {
    let step = Step::new("measuring a noisy neighbour");
    let limited = toml::from_str("iops_limit = 4000\nnamespace = [{ size = \"64M\" }]")?;
    let job = Job { name: "neighbour", controller: limited, device: Device::Qemu, counter: None };
    let (reports, _) = measure(project, tools, job)?;
    let mut sheet = Sheet::new(["victim", "p50 ms", "p99 ms", "p99.9 ms", "reads/s"]);
    for (name, json) in results(&reports)? {
        let read = &json["jobs"][0]["read"];
        let ms = |percentile: &str| {
            format!("{:.2}", read["clat_ns"]["percentile"][percentile].as_f64().unwrap_or(0.0) / 1e6)
        };
        let iops = read["iops"].as_f64().unwrap_or(0.0);
        sheet.numbers(&name, [ms("50.000000"), ms("99.000000"), ms("99.900000"), format!("{iops:.0}")]);
    }
    drop(step);
    let shown = sheet.fit(out::columns());
    out::line(format_args!("A victim beside a neighbour, 4,000 blocks of 4 KiB a second\n{shown}"))?;
    Ok(())
}

fn throughput(project: &Project, tools: &Tools) -> Result<()> {
    let step = Step::new("measuring throughput");
    let of = |device| -> Result<Vec<(String, f64)>> {
        let job = Job { name: "throughput", controller: toml::Table::new(), device, counter: None };
        let (reports, _) = measure(project, tools, job)?;
        let iops =
            |json: &Value| ["read", "write"].iter().filter_map(|kind| json["jobs"][0][kind]["iops"].as_f64()).sum();
        Ok(results(&reports)?.into_iter().map(|(name, json)| (name, iops(&json))).collect())
    };
    let (model, qemu) = (of(Device::Model)?, of(Device::Qemu)?);
    let mut sheet = Sheet::new(["load", "model", "QEMU's", "ratio"]);
    for ((name, model), (_, qemu)) in model.into_iter().zip(qemu) {
        sheet.numbers(&name, [format!("{model:.0}"), format!("{qemu:.0}"), format!("{:.2}", model / qemu)]);
    }
    drop(step);
    let shown = sheet.fit(out::columns());
    out::line(format_args!("Requests a second, by the clock of a busy or idle machine\n{shown}"))?;
    Ok(())
}

/// A job that measures.
struct Job<'a> {
    name: &'a str,
    controller: toml::Table,
    device: Device,
    /// The instruction counter's plugin, and the program that executes its marker.
    counter: Option<(&'a Path, &'a [u8])>,
}

/// Runs a job; returns its reports, and its folder.
fn measure(project: &Project, tools: &Tools, job: Job<'_>) -> Result<(Reports, std::path::PathBuf)> {
    let (init, script) = (read(project, "init")?, read_job(project, job.name)?);
    let mut files = vec![("init", init.as_bytes()), ("job", script.as_bytes())];
    files.extend(job.counter.map(|(_, mark)| ("mark", mark)));
    let scenario = scenario(false, job.controller)?;
    let name = format!("bench-{}-{}", job.name, if job.device == Device::Model { "model" } else { "qemu" });
    let (device, counter) = (job.device, job.counter.map(|(plugin, _)| plugin));
    let run = Run {
        name: name.clone(),
        scenario: &scenario,
        device,
        kernel: KERNEL,
        only_linux: false,
        counter,
        files: &files,
    };
    let reports = run.reports(project, tools)?;
    let failures = reports.failures();
    ensure!(failures.is_empty(), "{}", failures.join("; "));
    Ok((reports, project.target_folder(&format!("linux/{name}"))?))
}

/// The results of fio by name, from reports `json NAME LINE`.
fn results(reports: &Reports) -> Result<Vec<(String, Value)>> {
    let mut texts: Vec<(String, String)> = Vec::new();
    for line in reports.lines.iter().filter_map(|line| line.strip_prefix("json ")) {
        let (name, line) = line.split_once(' ').unwrap_or((line, ""));
        match texts.last_mut() {
            Some((last, text)) if last == name => text.push_str(line),
            _ => texts.push((name.to_owned(), line.to_owned())),
        }
    }
    let parsed = |(name, text): (String, String)| {
        let json = serde_json::from_str(&text).with_context(|| format!("fio's results of {name} are no JSON"))?;
        Ok((name, json))
    };
    texts.into_iter().map(parsed).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_put_together_from_their_lines() {
        let lines = ["json a {\"x\":", "passed: a", "json a  1}", "json b {}"].map(str::to_owned).to_vec();
        let results = results(&Reports::of(lines)).unwrap();
        assert_eq!(results, [("a".to_owned(), serde_json::json!({"x": 1})), ("b".to_owned(), serde_json::json!({}))]);
    }
}
