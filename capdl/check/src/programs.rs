//! The programs of components: which one each role runs, and that the memory a component starts with is that program's.

use super::layout::PAGE;
use super::{Role, Rule, System, environments};
use capdl_spec::{Arch, Fill, Mapping};

/// A program of the project that systems run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Row {
    /// Name of its crate, its file, and its image in the simulator.
    pub name: &'static str,
    /// Address at which it is linked. Programs are 16 MiB apart: instructions are counted by address.
    pub base: u64,
    /// Role of the components that run it; `None` for the root task, which builds the others.
    pub role: Option<Role>,
    /// Architectures whose systems may run it.
    pub on: &'static [Arch],
}

/// Name of the root task's program.
pub const ROOT_TASK: &str = "root-task";

/// Every program of the project that systems run. The addresses from `0x0f00_0000` on are those of users' own programs.
pub const TABLE: &[Row] = &[
    Row { name: ROOT_TASK, base: 0x0040_0000, role: None, on: &Arch::ALL },
    Row { name: "console", base: 0x0200_0000, role: Some(Role::Console), on: &Arch::ALL },
    Row { name: "pci-server", base: 0x0300_0000, role: Some(Role::PciServer), on: &Arch::ALL },
    Row { name: "nvme-server", base: 0x0400_0000, role: Some(Role::NvmeServer), on: &Arch::ALL },
    Row { name: "bench", base: 0x0500_0000, role: Some(Role::Client), on: &Arch::ALL },
    Row { name: "digest", base: 0x0600_0000, role: Some(Role::Client), on: &Arch::ALL },
    Row { name: "hostile", base: 0x0700_0000, role: Some(Role::Client), on: &Arch::ALL },
    Row { name: "nvme-probe", base: 0x0800_0000, role: Some(Role::Probe), on: &Arch::ALL },
    Row { name: "policy", base: 0x0900_0000, role: Some(Role::Policy), on: &Arch::ALL },
    Row { name: "flood", base: 0x0a00_0000, role: Some(Role::Client), on: &Arch::ALL },
    Row { name: "iommu-server", base: 0x0b00_0000, role: Some(Role::IommuServer), on: &[Arch::Aarch64] },
    Row { name: "edu-driver", base: 0x0c00_0000, role: Some(Role::EduDriver), on: &Arch::ALL },
    Row { name: "signal", base: 0x0d00_0000, role: Some(Role::Client), on: &Arch::ALL },
    Row { name: "control", base: 0x0e00_0000, role: Some(Role::Control), on: &Arch::ALL },
];

/// The program that components of this role run; a client runs its tenant's.
#[must_use]
pub fn of(role: Role) -> Option<&'static str> {
    let rows = TABLE.iter().filter(|_| role != Role::Client);
    rows.into_iter().find(|row| row.role == Some(role)).map(|row| row.name)
}

/// A program to load.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Program {
    /// The program's architecture.
    pub arch: Arch,
    /// First instruction.
    pub entry: u64,
    /// Ascending, no two on one page.
    pub segments: Vec<Segment>,
}

/// Consecutive pages with the same rights.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Segment {
    /// First byte.
    pub vaddr: u64,
    /// Bytes in memory.
    pub len: u64,
    /// Contents of the first bytes; the others are zero.
    pub bytes: Vec<u8>,
    /// Whether the segment may be written.
    pub writable: bool,
    /// Whether code runs from it.
    pub executable: bool,
}

impl Segment {
    /// Address of its first page.
    #[must_use]
    pub const fn first_page(&self) -> u64 {
        self.vaddr & !(PAGE - 1)
    }

    /// Pages it covers.
    #[must_use]
    pub const fn pages(&self) -> u64 {
        (self.vaddr % PAGE + self.len).div_ceil(PAGE)
    }

    /// The memory that it becomes.
    const fn memory(&self) -> Memory<'_> {
        let Self { vaddr, len: _, bytes, writable, executable } = self;
        let skip = if bytes.is_empty() { 0 } else { *vaddr % PAGE };
        (self.first_page(), self.pages(), *writable, *executable, skip, bytes.as_slice())
    }

    /// Address behind its last page.
    #[must_use]
    pub const fn end_page(&self) -> u64 {
        self.first_page() + self.pages() * PAGE
    }
}

/// Memory of a program: the first page, the number of pages, whether it is writable, whether it is executable, the bytes of the
/// first page before its contents, and these.
type Memory<'a> = (u64, u64, bool, bool, u64, &'a [u8]);

impl System<'_> {
    /// Checks that each component runs the program of its role, or of its tenant.
    pub(super) fn programs(&mut self) {
        for index in self.indices() {
            let component = &self.specification.components[index];
            let tenant = self.declaration.tenant(&component.name).map(|tenant| tenant.program.as_str());
            let wanted = of(self.roles[index]).or(tenant);
            if wanted != Some(component.program.as_str()) {
                let (who, is) = (self.who(index), &component.program);
                let path = format!("{who} runs the program {is}, and its role runs {}", wanted.unwrap_or("none"));
                self.refuse(Rule::ConfiguredAsDeclared, path);
                continue;
            }
            let program = self.declaration.programs.iter().find(|(name, _)| *name == component.program);
            let is_its = |program: &Program| {
                let memory: Vec<_> = program.segments.iter().map(Segment::memory).collect();
                program.arch == self.specification.arch
                    && program.entry == component.entry
                    && self.memory_of(index) == memory
            };
            if !program.is_some_and(|(_, program)| is_its(program)) {
                let (who, is) = (self.who(index), &component.program);
                let path = format!("{who} starts with other memory, or elsewhere, than the program {is}");
                self.refuse(Rule::ConfiguredAsDeclared, path);
            }
        }
    }

    /// The memory that the component has of its program.
    fn memory_of(&self, index: usize) -> Vec<Memory<'_>> {
        let parts: Vec<_> = self.parts_of_program(index).collect();
        let own = self.frames[index].iter().filter(|mapping| parts.contains(&mapping.object));
        let memory = |mapping: &Mapping| {
            let Mapping { object, vaddr, writable, executable, .. } = *mapping;
            let object = self.object(object);
            let (skip, bytes) = object
                .fill
                .map_or((0, None), |fill: Fill| (u64::from(fill.skip), environments::bytes(self.data, &fill)));
            (vaddr, u64::from(object.count), writable, executable, skip, bytes.unwrap_or_default())
        };
        let mut all: Vec<_> = own.map(|mapping| memory(mapping)).collect();
        all.sort_unstable_by_key(|(vaddr, ..)| *vaddr);
        all
    }
}
