//! The file that QEMU boots on AArch64: one ELF file, in which every segment has its physical address, of the kernel, the loader
//! (`kernel/loader/`) and the root task's image.
//!
//! On x86_64 QEMU's multiboot loader takes kernel and root task as two files, which need no such step.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use kernel_loader::{HANDOVER_ADDRESS, Handover, LOADER_END, PHYSICAL_BASE};
use object::{LittleEndian, U64};

use crate::Arch;
use crate::build::{BuildOptions, Profile, build};
use crate::configure::VIRT_MEMORY_BYTES;
use crate::elf::{self, Segment};
use crate::{complaint, files, qemu};

const LE: LittleEndian = LittleEndian;
const PAGE: u64 = 4096;

/// Builds the loader and returns its path.
///
/// `workspace_root` is the folder of the project's top manifest. Fails when cargo does, for instance because the target is not installed.
pub fn build_loader(workspace_root: &Path) -> Result<PathBuf> {
    let (target, script) = (crate::target(Arch::Aarch64), workspace_root.join("kernel/loader/loader.ld"));
    // A folder of its own: its flags differ from those for the build machine's side.
    let folder = workspace_root.join("target/kernel/loader");
    let output = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .current_dir(workspace_root)
        .args(["build", "--quiet", "--release", "--package", "kernel-loader", "--target", target, "--target-dir"])
        .arg(&folder)
        .env("RUSTFLAGS", format!("-Crelocation-model=static -Clink-arg=-T{}", script.display()))
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .output()
        .context("cannot run cargo")?;
    ensure!(
        output.status.success(),
        "the loader cannot be built, and cargo says: {}; if the target is missing, run: rustup target add {target}",
        complaint::line(&output)
    );
    Ok(folder.join(target).join("release/kernel-loader"))
}

/// The file that QEMU boots, made of the ELF files `kernel`, `loader` and `root_task`.
///
/// Fails for files that are not ELF, and when one reaches into another's place or beyond memory.
pub fn image(kernel: &[u8], loader: &[u8], root_task: &[u8]) -> Result<Vec<u8>> {
    let (kernel_header, kernel) = elf::read(kernel, "the kernel")?;
    let (header, loader) = elf::read(loader, "the loader")?;
    let (root_header, root_task) = elf::read(root_task, "the root task's image")?;
    let (kernel_base, _) =
        *kernel.first().map(|(segment, _)| range(segment)).as_ref().context("the kernel is empty")?;
    let kernel_end = kernel.iter().map(|(segment, _)| end(segment.p_paddr.get(LE), segment)).max().unwrap_or(0);
    ensure!(kernel_end <= HANDOVER_ADDRESS, "the kernel ends at {kernel_end:#x} and reaches into the loader");
    let ranges: Vec<_> = root_task.iter().map(|(segment, _)| range(segment)).collect();
    let start = ranges.iter().map(|range| range.0).min().context("the root task's image is empty")? & !(PAGE - 1);
    let stop = ranges.iter().map(|range| range.1).max().unwrap_or(start).next_multiple_of(PAGE);
    let offset = LOADER_END.wrapping_sub(start);
    let memory_bytes = u64::from(VIRT_MEMORY_BYTES);
    let memory_end = PHYSICAL_BASE + memory_bytes;
    ensure!(
        stop.wrapping_add(offset) <= memory_end,
        "the root task's image has {} MiB, and the machine's memory is {} MiB: use fewer tenants",
        (stop - start) >> 20,
        memory_bytes >> 20
    );
    let handover = Handover {
        memory_bytes,
        kernel_entry: kernel_header.e_entry.get(LE),
        kernel_base,
        image_start: LOADER_END,
        image_end: stop.wrapping_add(offset),
        image_offset: offset,
        image_entry: root_header.e_entry.get(LE),
    }
    .to_bytes();
    let mut parts: Vec<(Segment, &[u8])> = kernel;
    for (mut segment, bytes) in loader {
        let is_handover = segment.p_vaddr.get(LE) == HANDOVER_ADDRESS;
        let bytes = if is_handover { &handover[..] } else { bytes };
        segment.p_filesz = U64::new(LE, bytes.len() as u64);
        segment.p_memsz = U64::new(LE, segment.p_memsz.get(LE).max(bytes.len() as u64));
        parts.push((segment, bytes));
    }
    for (mut segment, bytes) in root_task {
        segment.p_paddr = U64::new(LE, segment.p_vaddr.get(LE).wrapping_add(offset));
        parts.push((segment, bytes));
    }
    Ok(elf::write(header, parts))
}

/// The addresses of a segment: its first byte and the one behind it.
fn range(segment: &Segment) -> (u64, u64) {
    let start = segment.p_vaddr.get(LE);
    (start, end(start, segment))
}

fn end(start: u64, segment: &Segment) -> u64 {
    start.wrapping_add(segment.p_memsz.get(LE))
}

/// Machines that are not the one the kernel was built for, as QEMU's options, and the loader's sentence about each.
const WRONG_MACHINES: &[(&str, &str)] = &[
    ("-M virt,gic-version=2,highmem=off -cpu cortex-a57 -m 128M", "start QEMU with -m 1G"),
    ("-M virt,gic-version=3,highmem=off -cpu cortex-a57 -m 1G", "start QEMU with -M virt,gic-version=2"),
    ("-M virt,gic-version=2 -cpu cortex-a57 -m 1G", "start QEMU with -M virt,highmem=off"),
    ("-M virt,gic-version=2,highmem=off -cpu max -m 1G", "start QEMU with -cpu cortex-a57"),
    ("-M virt,gic-version=2,highmem=off,virtualization=on -cpu cortex-a57 -m 1G", "leave virtualization=on"),
];
/// The right one.
pub const MACHINE: &str = "-M virt,gic-version=2,highmem=off -cpu cortex-a57 -m 1G";
/// Longest time for a machine to reach its sentence.
const LIMIT: Duration = Duration::from_secs(30);

/// Checks that the loader enters the kernel on the right machine, and that on each wrong one it reports the difference and
/// ends.
///
/// `logs` is the folder for the machines' output. The root task is one that ends at once. Fails when a machine's output
/// differs.
pub fn check(workspace_root: &Path, logs: &Path, say: &mut dyn FnMut(&str)) -> Result<()> {
    let options = BuildOptions { arch: Arch::Aarch64, profile: Profile::Debug, ..BuildOptions::default() };
    let kernel = build(workspace_root, &options, say)?;
    let read = |path: &Path| fs::read(path).with_context(|| format!("cannot read {}", path.display()));
    let loader = read(&build_loader(workspace_root)?)?;
    // As a root task the loader's first instruction is one that user level must not execute.
    let image = image(&read(&kernel.elf64)?, &loader, &loader)?;
    fs::create_dir_all(logs).with_context(|| format!("cannot make {}", logs.display()))?;
    let file = logs.join("loader.elf");
    files::write_whole(&file, &image)?;
    let entered = (MACHINE, "Booting all finished, dropped to user space");
    for (number, (machine, sentence)) in std::iter::once(&entered).chain(WRONG_MACHINES).enumerate() {
        let log = logs.join(format!("loader-{number}.log"));
        let text = line_of(machine, &file, &log, sentence)?;
        ensure!(
            text.contains(sentence),
            "on {machine} the line has {text:?} and not {sentence:?}; it is {}",
            log.display()
        );
        say(&format!("{machine}: {sentence}"));
    }
    Ok(())
}

/// The line of a machine that boots `file`, read until it has `sentence`, the machine has ended, or the time is over.
fn line_of(machine: &str, file: &Path, log: &Path, sentence: &str) -> Result<String> {
    let output = File::create(log).with_context(|| format!("cannot write {}", log.display()))?;
    let program = qemu::program(Arch::Aarch64);
    let mut child = Command::new(&program)
        .args(machine.split(' '))
        .args(["-nodefaults", "-display", "none", "-no-reboot", "-serial", "stdio", "-kernel"])
        .arg(file)
        .stdin(Stdio::null())
        .stdout(output)
        .stderr(Stdio::null())
        .spawn()
        .with_context(|| format!("cannot run QEMU ({})", program.display()))?;
    let start = Instant::now();
    let mut text = String::new();
    while !text.contains(sentence) && start.elapsed() < LIMIT {
        let ended = child.try_wait().context("cannot wait for QEMU")?.is_some();
        text = String::from_utf8_lossy(&fs::read(log).unwrap_or_default()).into_owned();
        if ended {
            break;
        }
        sleep(Duration::from_millis(20));
    }
    // It may have ended by itself.
    let _ = child.kill();
    let _ = child.wait();
    Ok(text)
}
