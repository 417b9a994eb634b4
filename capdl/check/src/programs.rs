//! The programs of components: which one each role runs, and that the memory a component starts with is that program's.

use super::layout::PAGE;
use super::{Role, Rule, System, environments};
use capdl_spec::{Arch, Fill, Mapping};

/// The program of the console.
pub const CONSOLE: &str = "console";
/// The program of the PCI server.
pub const PCI_SERVER: &str = "pci-server";
/// The program of the IOMMU server.
pub const IOMMU_SERVER: &str = "iommu-server";
/// The program of NVMe servers.
pub const NVME_SERVER: &str = "nvme-server";
/// The program of policy components.
pub const POLICY: &str = "policy";
/// The program of the probe.
pub const PROBE: &str = "nvme-probe";
/// The program of the edu device's driver.
pub const EDU_DRIVER: &str = "edu-driver";

/// The program that components of this role run; a client runs its tenant's.
#[must_use]
pub const fn of(role: Role) -> Option<&'static str> {
    match role {
        Role::Console => Some(CONSOLE),
        Role::PciServer => Some(PCI_SERVER),
        Role::IommuServer => Some(IOMMU_SERVER),
        Role::NvmeServer => Some(NVME_SERVER),
        Role::Policy => Some(POLICY),
        Role::Probe => Some(PROBE),
        Role::EduDriver => Some(EDU_DRIVER),
        Role::Client => None,
    }
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
