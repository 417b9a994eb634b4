//! The components' programs in the simulator: the same libraries, behind images that only name them.
//!
//! A system's specification is made from programs' ELF files (table: `capdl::programs`). Here each has one executable page with its name and one
//! writable page, at the base it has on the target. The root task loads them as it loads real ones. When a thread first
//! runs, the image at its instruction pointer selects the library. A thread with another instruction pointer, or whose image
//! was not loaded or not mapped, faults as on the target.

mod image;

pub(crate) use image::IMAGE_BYTES;

use crate::component::SimPlatform;
use capdl::programs::{TABLE, own_base};
use capdl::{Arch, Programs};
use platform::Environment;
use std::future::Future;
use std::pin::Pin;
use std::sync::OnceLock;

/// An incarnation of a component.
pub type Incarnation = Pin<Box<dyn Future<Output = ()>>>;

/// The library of a program.
pub type Run = fn(SimPlatform, Environment) -> Incarnation;

/// The library of a program of the project. A name stands for one library per architecture.
fn library(name: &str, arch: Arch) -> Option<Run> {
    Some(match (name, arch) {
        ("console", Arch::X86_64) => |p, e| Box::pin(console::ns16550::run(p, e)),
        ("console", Arch::Aarch64) => |p, e| Box::pin(console::pl011::run(p, e)),
        ("pci-server", _) => |p, e| Box::pin(pci_server::run(p, e)),
        ("nvme-server", _) => |p, e| Box::pin(nvme_server::run(p, e)),
        ("bench", _) => |p, e| Box::pin(bench::run(p, e)),
        ("digest", _) => |p, e| Box::pin(digest::run(p, e)),
        ("hostile", _) => |p, e| Box::pin(hostile::run(p, e)),
        ("nvme-probe", _) => |p, e| Box::pin(nvme_probe::run(p, e)),
        ("policy", _) => |p, e| Box::pin(policy::run(p, e)),
        ("flood", _) => |p, e| Box::pin(flood::run(p, e)),
        ("iommu-server", Arch::Aarch64) => |p, e| Box::pin(iommu_server::run(p, e)),
        ("edu-driver", _) => |p, e| Box::pin(edu_driver::run(p, e)),
        ("control", _) => |p, e| Box::pin(control::run(p, e)),
        ("signal", _) => |p, e| Box::pin(signal::run(p, e)),
        _ => return None,
    })
}

/// A crate from outside the project: its name, its base on the target, and its library.
struct Linked {
    name: &'static str,
    base: u64,
    run: Run,
}

/// Crates from outside the project that are linked in.
static LINKED: OnceLock<Vec<Linked>> = OnceLock::new();

/// Adds crates from outside the project to the programs, by name. Called once, before any simulation.
pub fn link(own: &[(&'static str, Run)]) {
    let program =
        |(index, (name, run)): (usize, &(&'static str, Run))| Some(Linked { name, base: own_base(index)?, run: *run });
    let linked = own.iter().enumerate().map_while(program).collect();
    assert!(LINKED.set(linked).is_ok(), "programs are linked in once");
}

/// Whether the crate of this name is linked in.
#[must_use]
pub fn is_linked(name: &str) -> bool {
    linked().iter().any(|program| program.name == name)
}

fn linked() -> &'static [Linked] {
    LINKED.get().map_or(&[], Vec::as_slice)
}

/// The programs' images for an architecture, for `capdl::build`.
#[must_use]
pub fn programs(arch: Arch) -> Programs {
    let here = TABLE.iter().filter(|row| row.on.contains(&arch) && library(row.name, arch).is_some());
    let all = here.map(|row| (row.name, row.base)).chain(linked().iter().map(|own| (own.name, own.base)));
    all.fold(Programs::new(), |programs, (name, base)| programs.with(name, image::elf(name, base, arch)))
}

/// Returns the library of the program of an architecture whose image begins with `bytes`.
pub(crate) fn of_image(arch: Arch, bytes: &[u8]) -> Option<Run> {
    let name = image::name(bytes)?;
    let own = linked().iter().find(|own| own.name.as_bytes() == name).map(|own| own.run);
    own.or_else(|| library(str::from_utf8(name).ok()?, arch))
}
