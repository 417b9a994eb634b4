//! Instruction counter: a plugin of QEMU's emulator, and the parser of its output.
//!
//! The plugin (`plugin/count.c`) is compiled on demand, for each QEMU. It writes its counts at every marker; this module turns the markers
//! around a measured part into instructions by component.

use crate::project::Project;
use crate::run::Device;
use anyhow::{Context, Result, ensure};
use capdl::programs::TABLE;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Ids of the markers around a measured part, as the platform defines them.
const BEGIN: u64 = 1;
const END: u64 = 2;
/// Parts of the address space, as the plugin defines them.
const KERNEL: u64 = 256;
const ELSEWHERE: u64 = 257;
const PART_BITS: u32 = 24;

/// The kernel's name among the components.
pub const KERNEL_NAME: &str = "kernel";

/// Instructions by component.
pub type Instructions = BTreeMap<String, u64>;

/// The plugin, for each QEMU.
pub struct Plugins {
    machine: PathBuf,
    vfio_user: PathBuf,
}

impl Plugins {
    /// Compiles them.
    pub fn compile(project: &Project) -> Result<Self> {
        let of_machine = compile(project, "count.so", "-DINTERFACE=1")?;
        Ok(Self { machine: of_machine, vfio_user: compile(project, "count-vfio-user.so", "-DINTERFACE=7")? })
    }

    /// The plugin of the QEMU which has these controllers.
    pub fn of(&self, device: Device) -> &Path {
        match device {
            Device::Qemu => &self.machine,
            Device::Model => &self.vfio_user,
        }
    }
}

fn compile(project: &Project, name: &str, interface: &str) -> Result<PathBuf> {
    let folder = project.target_folder("plugin")?;
    let (made, part) = (folder.join(name), folder.join(format!("{name}.part-{}", std::process::id())));
    let output = Command::new("gcc")
        .args([interface, "-shared", "-fPIC", "-O2", "-Wall", "-Wextra", "-Werror", "-fvisibility=hidden", "-o"])
        .arg(&part)
        .args(["count.c", "histogram.c"].map(|source| project.path("xtask/plugin").join(source)))
        .output()
        .context("cannot run gcc; install it with: cargo xtask setup --yes")?;
    ensure!(
        output.status.success(),
        "the instruction counter cannot be compiled: {}",
        String::from_utf8_lossy(&output.stderr).trim()
    );
    std::fs::rename(&part, &made).with_context(|| format!("cannot write {}", project.shown(&made)))?;
    Ok(made)
}

/// Instructions from the first begin marker to the last end marker: several components may measure together.
pub fn between_markers(text: &str) -> Result<Instructions> {
    let mut begin = None;
    let mut end = None;
    for line in text.lines() {
        let (id, counts) = parse(line).with_context(|| format!("the counter wrote a strange line: '{line}'"))?;
        match id {
            BEGIN => begin = begin.or(Some(counts)),
            END if begin.is_some() => end = Some(counts),
            _ => {}
        }
    }
    let between = begin.zip(end).map(|(begin, end)| difference(&end, &begin));
    between.context("no measured part began and ended: the counter saw no pair of markers")
}

/// Instructions between each marker and the next.
pub fn by_marker(text: &str) -> Result<Vec<Instructions>> {
    let of_line = |line| parse(line).with_context(|| format!("the counter wrote a strange line: '{line}'"));
    let counts = text.lines().map(of_line).collect::<Result<Vec<_>>>()?;
    let pairs = counts.iter().zip(counts.iter().skip(1));
    Ok(pairs.map(|((_, begin), (_, end))| difference(end, begin)).collect())
}

/// Counts by part of the address space.
type Counts = BTreeMap<u64, u64>;

fn parse(line: &str) -> Option<(u64, Counts)> {
    let mut words = line.split(' ');
    let id = words.next()?.parse().ok()?;
    let count = |word: &str| {
        let (part, count) = word.split_once(':')?;
        Some((part.parse().ok()?, count.parse().ok()?))
    };
    Some((id, words.map(count).collect::<Option<_>>()?))
}

fn difference(end: &Counts, begin: &Counts) -> Instructions {
    let mut instructions = Instructions::new();
    for (part, count) in end {
        let executed = count.saturating_sub(begin.get(part).copied().unwrap_or(0));
        if executed > 0 {
            *instructions.entry(name(*part)).or_default() += executed;
        }
    }
    instructions
}

/// The component whose program contains an address.
pub fn component(address: u64) -> String {
    name(match address {
        address if address >> 63 == 1 => KERNEL,
        address if address >> 32 != 0 => ELSEWHERE,
        address => address >> PART_BITS,
    })
}

/// The component whose program is in a part of the address space.
fn name(part: u64) -> String {
    if part == KERNEL {
        return KERNEL_NAME.to_owned();
    }
    let here = TABLE.iter().find(|row| row.base >> PART_BITS == part);
    here.map_or("elsewhere", |row| row.name).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counts_between_two_markers_are_given_to_components() {
        let text = "1 0:100 4:50 5:10 256:1000\n7 5:11\n2 0:100 4:90 5:25 256:1500 257:3\n";
        let expected = [("bench", 15), ("elsewhere", 3), ("kernel", 500), ("nvme-server", 40)];
        let expected = expected.map(|(name, count)| (name.to_owned(), count));
        assert_eq!(between_markers(text).unwrap(), Instructions::from(expected));
    }

    #[test]
    fn joint_measurement_spans_first_start_to_last_end() {
        let text = "2 5:1\n1 5:10\n1 5:20\n2 5:35\n2 5:50\n";
        assert_eq!(between_markers(text).unwrap(), Instructions::from([("bench".to_owned(), 40)]));
    }

    #[test]
    fn successive_markers_have_counts_between_them() {
        let parts = by_marker("3 256:10\n3 256:30 257:1\n3 256:35 257:5\n").unwrap();
        let shown: Vec<Vec<_>> = parts.iter().map(|part| part.values().copied().collect()).collect();
        assert_eq!(shown, [[1, 20], [4, 5]]);
    }

    #[test]
    fn a_part_that_did_not_end_is_an_error() {
        assert!(between_markers("1 5:10\n").unwrap_err().to_string().contains("no pair"));
        assert!(between_markers("").is_err());
        assert!(between_markers("1 5-10\n").unwrap_err().to_string().contains("'1 5-10'"));
    }
}
