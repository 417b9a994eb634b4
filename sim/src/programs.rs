//! The components' programs in the simulator: the same libraries, behind images that only name them.
//!
//! A system's specification is made from programs' ELF files. Here each has one executable page with its name and one
//! writable page, at the base it has on the target. The root task loads them as it loads real ones. When a thread first
//! runs, the image at its instruction pointer selects the library. A thread with another instruction pointer, or whose image
//! was not loaded or not mapped, faults as on the target.

use crate::component::SimPlatform;
use capdl::programs::own_base;
use capdl::{Arch, Programs};
use platform::Environment;
use std::future::Future;
use std::pin::Pin;
use std::sync::OnceLock;

/// The beginning of a program's image.
const MARK: &[u8] = b"simulated program ";
/// Bytes of the mark and the name, padded with zeros.
pub(crate) const IMAGE_BYTES: usize = 64;
const PAGE: u64 = 4096;

/// One incarnation of a component.
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
    all(arch).fold(Programs::new(), |programs, program| programs.with(program.name, program.image(arch)))
}

/// Returns the program of an architecture whose image begins with `bytes`.
pub(crate) fn of_image(arch: Arch, bytes: &[u8]) -> Option<&'static Program> {
    let name = bytes.strip_prefix(MARK)?;
    let end = name.iter().position(|byte| *byte == 0)?;
    all(arch).find(|program| program.name.as_bytes() == &name[..end])
}

/// The number of an architecture in an ELF file's header (System V ABI, `e_machine`).
const fn machine(arch: Arch) -> u8 {
    match arch {
        Arch::X86_64 => 62,
        Arch::Aarch64 => 183,
    }
}

impl Program {
    /// An ELF file (System V ABI) with two segments of a page.
    fn image(&self, arch: Arch) -> Vec<u8> {
        const HEADER: u64 = 64;
        const SEGMENT: u64 = 56;
        let mut elf = Vec::new();
        let mut put = |bytes: &[u8]| elf.extend_from_slice(bytes);
        // 64-bit, little endian, version 1; executable, the machine, version 1.
        put(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0");
        put(&[2, 0, machine(arch), 0, 1, 0, 0, 0]);
        put(&self.base.to_le_bytes());
        put(&HEADER.to_le_bytes());
        put(&0u64.to_le_bytes());
        put(&0u32.to_le_bytes());
        // Sizes and numbers: header, program headers, no sections.
        [HEADER as u16, SEGMENT as u16, 2, 0, 0, 0].iter().for_each(|half| put(&half.to_le_bytes()));
        let (executable, writable) = (5u32, 6u32);
        for (flags, vaddr, bytes) in [(executable, self.base, IMAGE_BYTES as u64), (writable, self.base + PAGE, 0)] {
            put(&1u32.to_le_bytes());
            put(&flags.to_le_bytes());
            [PAGE, vaddr, vaddr, bytes, PAGE, PAGE].iter().for_each(|word| put(&word.to_le_bytes()));
        }
        elf.resize(PAGE as usize, 0);
        elf.extend_from_slice(MARK);
        elf.extend_from_slice(self.name.as_bytes());
        elf.resize(PAGE as usize + IMAGE_BYTES, 0);
        elf
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_says_whose_it_is_and_nothing_else_does() {
        for program in PROGRAMS {
            for arch in program.on {
                let image = program.image(*arch);
                let found = of_image(*arch, &image[PAGE as usize..]).expect("its image is known");
                assert_eq!((found.name, found.on), (program.name, program.on));
            }
        }
        assert!(of_image(Arch::X86_64, b"simulated program iommu-server\0").is_none());
        assert!(of_image(Arch::Aarch64, &[0; IMAGE_BYTES]).is_none());
        assert!(of_image(Arch::Aarch64, b"simulated program other\0").is_none());
    }
}
