//! The sweep: some 2,600 commands with valid and invalid fields, sent to the model and to QEMU's controller.
//!
//! Their answers must be equal, or differ as `lab/linux/differences.toml` explains. One program in the guest, `lab/linux/send.c`,
//! sends all of them through Linux's passthrough: on an emulated processor a process for each command would take most of the time.

mod commands;

use super::answers::{Answer, Differences};
use super::check::{counted, read, read_job, scenario};
use super::guest::{Run, Tools};
use super::programs;
use crate::commands::counted::Counted;
use crate::parallel;
use anyhow::{Context, Result, ensure};
use std::fmt::Write as _;
use xtask::project::{Project, write_whole};
use xtask::run::Device;

/// Fewest commands that a sweep sends.
const LEAST: usize = 1_900;

/// Sends the commands to both controllers; the failures say what is wrong.
pub(super) fn run(project: &Project, tools: &Tools) -> Result<Counted> {
    let commands = commands::all();
    ensure!(commands.len() >= LEAST, "the sweep has {} commands, and {LEAST} are to be", commands.len());
    let differences = Differences::parse(&read(project, "differences.toml")?)?;
    let mut lines = String::new();
    for command in &commands {
        writeln!(lines, "{command}")?;
    }
    let send = programs::compile(project, "send.c", &["-O2", "-Wall", "-Wextra", "-Werror"])?;
    let (init, job) = (read(project, "init")?, read_job(project, "sweep")?);
    let files = [("init", init.as_bytes()), ("job", job.as_bytes()), ("sweep", lines.as_bytes()), ("send", &send)];
    let scenario = scenario(false, toml::Table::new())?;
    let sweep = |device| {
        let name = if device == Device::Model { "sweep-model" } else { "sweep-qemu" };
        let run = Run {
            name: name.to_owned(),
            scenario: &scenario,
            device,
            kernel: "",
            only_linux: false,
            counter: None,
            files: &files,
        };
        (device, run.reports(project, tools))
    };
    let (mut model, mut qemu) = (None, None);
    parallel::each([Device::Model, Device::Qemu], None, sweep, |(device, reports)| match device {
        Device::Model => model = Some(reports),
        Device::Qemu => qemu = Some(reports),
    });
    let (model, qemu) = (model.context("the model was not asked")??, qemu.context("QEMU was not asked")??);
    let failures = model.failures().into_iter().chain(qemu.failures());
    // The model records that the driver sent what it must not: the sweep does.
    let mut wrong: Vec<_> = failures.filter(|failure| !failure.contains("the standard forbids")).collect();
    let answers = |lines: &[String]| lines.iter().filter_map(|line| answer(line)).collect::<Vec<_>>();
    let (of_model, of_qemu) = (answers(&model.lines), answers(&qemu.lines));
    let pairs = commands.iter().zip(of_model).zip(of_qemu);
    let pairs: Vec<_> = pairs.map(|((command, model), qemu)| (command.label.clone(), model, qemu)).collect();
    let table: String = pairs.iter().map(|(label, model, qemu)| format!("{label},{model},{qemu}\n")).collect();
    write_whole(&project.target_folder("linux")?.join("sweep.csv"), table.as_bytes())?;
    let sent = commands.len();
    ensure!(pairs.len() == sent, "only {} of {sent} commands were answered by both; {}", pairs.len(), wrong.join("; "));
    wrong.extend(differences.judge(&pairs));
    Ok(counted(wrong, model.unsteady().or(qemu.unsteady()).cloned()))
}

/// The answer in a report `answer INDEX TEXT`.
fn answer(line: &str) -> Option<Answer> {
    let (_, said) = line.strip_prefix("answer ")?.split_once(' ')?;
    Some(Answer::of(said))
}
