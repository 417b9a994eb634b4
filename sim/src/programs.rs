//! The components' programs in the simulator: the same libraries, behind images that only name them.
//!
//! A system's specification is made from programs' ELF files. Here each has one executable page with its name and one
//! writable page, at the base it has on the target. The root task loads them as it loads real ones. When a thread first
//! runs, the image at its instruction pointer selects the library. A thread with another instruction pointer, or whose image
//! was not loaded or not mapped, faults as on the target.

mod image;

pub(crate) use image::IMAGE_BYTES;

use crate::component::SimPlatform;
use capdl::programs::own_base;
use capdl::{Arch, Programs};
use platform::Environment;
use std::future::Future;
use std::pin::Pin;
use std::sync::OnceLock;

/// An incarnation of a component.
pub type Incarnation = Pin<Box<dyn Future<Output = ()>>>;

/// The library of a program.
pub type Run = fn(SimPlatform, Environment) -> Incarnation;

/// A program: its name, its base on the target, its library, and the architectures that have it. A name stands for one
/// program per architecture.
pub(crate) struct Program {
    name: &'static str,
    base: u64,
    pub(crate) run: Run,
    on: &'static [Arch],
}

const BOTH: &[Arch] = &Arch::ALL;
const X86_64: &[Arch] = &[Arch::X86_64];
const AARCH64: &[Arch] = &[Arch::Aarch64];

/// The project's programs.
const PROGRAMS: &[Program] = &[
    Program { name: "console", base: 0x0200_0000, run: |p, e| Box::pin(console::ns16550::run(p, e)), on: X86_64 },
    Program { name: "console", base: 0x0200_0000, run: |p, e| Box::pin(console::pl011::run(p, e)), on: AARCH64 },
    Program { name: "pci-server", base: 0x0300_0000, run: |p, e| Box::pin(pci_server::run(p, e)), on: BOTH },
    Program { name: "nvme-server", base: 0x0400_0000, run: |p, e| Box::pin(nvme_server::run(p, e)), on: BOTH },
    Program { name: "bench", base: 0x0500_0000, run: |p, e| Box::pin(bench::run(p, e)), on: BOTH },
    Program { name: "digest", base: 0x0600_0000, run: |p, e| Box::pin(digest::run(p, e)), on: BOTH },
    Program { name: "hostile", base: 0x0700_0000, run: |p, e| Box::pin(hostile::run(p, e)), on: BOTH },
    Program { name: "nvme-probe", base: 0x0800_0000, run: |p, e| Box::pin(nvme_probe::run(p, e)), on: BOTH },
    Program { name: "policy", base: 0x0900_0000, run: |p, e| Box::pin(policy::run(p, e)), on: BOTH },
    Program { name: "flood", base: 0x0a00_0000, run: |p, e| Box::pin(flood::run(p, e)), on: BOTH },
    Program { name: "signal", base: 0x0d00_0000, run: |p, e| Box::pin(signal::run(p, e)), on: BOTH },
    Program { name: "edu-driver", base: 0x0c00_0000, run: |p, e| Box::pin(edu_driver::run(p, e)), on: BOTH },
    Program { name: "iommu-server", base: 0x0b00_0000, run: |p, e| Box::pin(iommu_server::run(p, e)), on: AARCH64 },
];

/// Crates from outside the project that are linked in.
static LINKED: OnceLock<Vec<Program>> = OnceLock::new();

/// Adds crates from outside the project to the programs, by name. Called once, before any simulation.
pub fn link(own: &[(&'static str, Run)]) {
    let program = |(index, (name, run)): (usize, &(&'static str, Run))| {
        Some(Program { name, base: own_base(index)?, run: *run, on: BOTH })
    };
    let linked = own.iter().enumerate().map_while(program).collect();
    assert!(LINKED.set(linked).is_ok(), "programs are linked in once");
}

/// Whether the crate of this name is linked in.
#[must_use]
pub fn is_linked(name: &str) -> bool {
    linked().iter().any(|program| program.name == name)
}

fn linked() -> &'static [Program] {
    LINKED.get().map_or(&[], Vec::as_slice)
}

/// Returns all programs of an architecture.
fn all(arch: Arch) -> impl Iterator<Item = &'static Program> {
    PROGRAMS.iter().chain(linked()).filter(move |program| program.on.contains(&arch))
}

/// The programs' images for an architecture, for `capdl::build`.
#[must_use]
pub fn programs(arch: Arch) -> Programs {
    all(arch).fold(Programs::new(), |programs, program| {
        programs.with(program.name, image::elf(program.name, program.base, arch))
    })
}

/// Returns the program of an architecture whose image begins with `bytes`.
pub(crate) fn of_image(arch: Arch, bytes: &[u8]) -> Option<&'static Program> {
    let name = image::name(bytes)?;
    all(arch).find(|program| program.name.as_bytes() == name)
}
