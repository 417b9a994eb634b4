//! Records of the root task, the PCI server and the IOMMU server.

use crate::Name;
use serde::{Deserialize, Serialize};

/// The machine.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Machine {
    /// Ticks of the time stamp counter a second.
    pub ticks_per_second: u64,
    /// Bytes of ordinary memory the kernel gave the root task.
    pub memory_bytes: u64,
    /// Bytes of it left after the system was built.
    pub memory_left_bytes: u64,
    /// Kernel objects made for the specification.
    pub objects: u32,
    /// Levels of the IOMMU's page tables, 0 without an IOMMU.
    pub iommu_levels: u8,
    /// Nanoseconds of machine time when the first component was started.
    pub started_at_ns: u64,
}

/// A started component.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Component {
    /// The component's number.
    pub component: u16,
    /// The component's name.
    #[cfg_attr(feature = "schema", schemars(with = "&'static str"))]
    pub name: Name,
    /// The component's scheduling priority.
    pub priority: u8,
    /// Capabilities installed in its CSpace.
    pub capabilities: u32,
    /// Pages mapped in its VSpace.
    pub pages: u32,
}

/// Capabilities of one kind at consecutive cptrs.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Installed {
    /// The component's number.
    pub component: u16,
    /// First cptr.
    pub cptr: u64,
    /// Cptrs.
    pub count: u32,
    /// Name of the object, as in the specification.
    #[cfg_attr(feature = "schema", schemars(with = "&'static str"))]
    pub object: heapless::String<48>,
    /// The badge, 0 for none.
    pub badge: u64,
    /// The rights: bit 0 read, bit 1 write, bit 2 grant, bit 3 grant-reply.
    pub rights: u8,
}

/// A fault.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Fault {
    /// The component's number.
    pub component: u16,
    /// The component's name.
    #[cfg_attr(feature = "schema", schemars(with = "&'static str"))]
    pub name: Name,
    /// Kind of the fault.
    pub kind: FaultKind,
    /// The address or cptr it was about.
    pub address: u64,
    /// The instruction.
    pub instruction: u64,
}

/// The kernel's kinds of fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum FaultKind {
    /// A read of memory that is not mapped, or not mapped for reading.
    Read,
    /// A write, likewise.
    Write,
    /// Execution of memory that is not mapped.
    Execute,
    /// A missing capability was used.
    Capability,
    /// A system call the kernel does not know.
    UnknownSyscall,
    /// An exception of the processor: its number.
    Exception(u64),
    /// Not a kernel fault: the component used its fault endpoint itself.
    OwnFaultEndpoint,
    /// The scenario had it stopped, wherever it was.
    Killed,
    /// A component that it depends on died, and it is ended with that one. So a driver ends with the PCI server, which alone can
    /// silence its device.
    ServerDied,
}

/// A component's restart.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Restart {
    /// The component's name.
    #[cfg_attr(feature = "schema", schemars(with = "&'static str"))]
    pub name: Name,
    /// Number of its restarts, with this one.
    pub times: u16,
    /// Nanoseconds of machine time when its fault was seen.
    pub ended_at_ns: u64,
    /// Nanoseconds from then until it could run again.
    pub took_ns: u64,
    /// Bytes of memory that the root task has not used for objects: the same number after every restart.
    pub memory_left_bytes: u64,
}

/// Consecutive pages of a component's telemetry that lie one behind the other in the machine's memory.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TelemetryPages {
    /// The component's name.
    #[cfg_attr(feature = "schema", schemars(with = "&'static str"))]
    pub component: Name,
    /// Number of the first page in the component's region.
    pub first: u32,
    /// The number of pages.
    pub count: u32,
    /// Physical address of the first one.
    pub paddr: u64,
}

/// Transactions of a function that an IOMMU blocked between two polls of the supervisor.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Blocked {
    /// The function: bus << 8 | device << 3 | function.
    pub requester_id: u16,
    /// The first one's address, unless the function has no address space at all.
    pub address: Option<u64>,
    /// Whether the blocked transaction was a write.
    pub is_write: bool,
    /// The number of blocked transactions.
    pub times: u32,
}

/// Memory BARs of a function: index, bus address, bytes.
pub type Bars = heapless::Vec<(u8, u64, u64), 6>;

/// A function on the PCI bus. Addresses are bus << 8 | device << 3 | function.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PciFunction {
    /// The function's address on the bus.
    pub bdf: u16,
    /// The bridge above it.
    pub parent: Option<u16>,
    /// Vendor id.
    pub vendor: u16,
    /// Device id.
    pub device: u16,
    /// Class, subclass, programming interface.
    pub class_code: [u8; 3],
    /// The function's memory BARs: index, bus address, bytes.
    #[cfg_attr(feature = "schema", schemars(with = "alloc::vec::Vec<(u8, u64, u64)>"))]
    pub bars: Bars,
    /// MSI-X vectors it has.
    pub msix_vectors: u16,
    /// For a bridge, the buses behind it: secondary and subordinate.
    pub buses: Option<(u8, u8)>,
}
