//! Typed records that components send to the build machine: the only way a result leaves the machine.
//!
//! A record is encoded in postcard and put into the component's log ring beside its log frames; the console sends
//! both over the serial port, and xtask turns them into tables, JSON and verdicts. Text for people alone goes into the log
//! instead.

#![no_std]
#![forbid(unsafe_code)]
#![warn(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::arithmetic_side_effects
)]

extern crate alloc;

use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

pub mod frame;
pub mod names;
pub mod ring;

/// A component's or tenant's name.
pub type Name = heapless::String<32>;
/// A sentence.
pub type Text = heapless::String<160>;

/// Memory BARs of a function: index, bus address, bytes.
pub type Bars = heapless::Vec<(u8, u64, u64), 6>;

/// `text`, cut to `N` bytes.
#[must_use]
pub fn clip<const N: usize>(text: &str) -> heapless::String<N> {
    let mut clipped = heapless::String::new();
    for c in text.chars() {
        if clipped.push(c).is_err() {
            break;
        }
    }
    clipped
}

/// One record.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum Report {
    /// The machine as the kernel describes it (root task).
    Machine(Machine),
    /// A component was built and started (root task).
    Component(Component),
    /// A run of capabilities was installed in a component's CSpace (root task, on request of the scenario).
    Installed(Installed),
    /// A component faulted and was ended (root task).
    Fault(Fault),
    /// A component that had ended was restarted (root task).
    Restart(Restart),
    /// A change of a session's rights or share was carried out (policy component).
    Change(Change),
    /// A controller's interrupt mode changed (policy component).
    InterruptsChange(InterruptsChange),
    /// A client has its session again, after its server was restarted (client).
    Reconnected(Reconnected),
    /// A PCI function was found (PCI server).
    PciFunction(PciFunction),
    /// A controller is ready (NVMe server).
    Controller(Controller),
    /// A namespace is there (NVMe server).
    Namespace(Namespace),
    /// The NVMe server's work for one session, sent when it closes.
    Session(Session),
    /// A session is open (NVMe server).
    Opened {
        /// Its tenant.
        tenant: Name,
        /// Pages of its own memory that the server has not handed out: no fewer for a session that is opened again.
        pages_left: u32,
        /// IO page tables that it has not used, likewise.
        io_tables_left: u32,
    },
    /// A load generator's work since its last report, while it runs.
    Progress(Progress),
    /// A client's first verified transfer.
    FirstIo {
        /// Its tenant.
        tenant: Name,
        /// Nanoseconds of machine time since the time stamp counter was zero.
        at_ns: u64,
    },
    /// A load generator's measurements.
    Load(Load),
    /// Result of the digest reader.
    Digest(Digest),
    /// One attack and its outcome.
    Attack(Attack),
    /// A measured part of the benchmark: operations between two markers of the instruction counter.
    Measured(Measured),
    /// A number that a client program found, of its own choice.
    Value(Value),
    /// A check failed: the expected and the observed value.
    Failure {
        /// The component that checked.
        component: Name,
        /// One sentence.
        reason: Text,
    },
    /// A client's work is over.
    Done {
        /// Its tenant.
        tenant: Name,
        /// Everything it checked held.
        passed: bool,
    },
    /// Transactions of a function were blocked by the IOMMU, as its server recorded (root task).
    Blocked(Blocked),
    /// A client was refused its session.
    Refused(Refused),
    /// The server gave up a part of a faulty controller, or all of it, and recreated it (NVMe server).
    Reset {
        /// The server.
        server: Name,
        /// The part that was recreated.
        scope: ResetScope,
        /// The controller's fault.
        reason: Text,
    },
    /// Interrupts that a driver without sessions took (edu driver).
    Interrupted {
        /// The driver.
        driver: Name,
        /// Their number by mode.
        interrupts: Interrupts,
    },
    /// A driver claimed a function (PCI server).
    Claimed {
        /// The driver.
        driver: Name,
        /// The function's requester id: bus << 8 | device << 3 | function.
        requester_id: u16,
    },
}

/// Transactions of a function that an IOMMU blocked between two polls of the supervisor.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Blocked {
    /// The function: bus << 8 | device << 3 | function.
    pub requester_id: u16,
    /// The first one's address, unless the function has no address space at all.
    pub address: Option<u64>,
    /// Whether that one was a write.
    pub is_write: bool,
    /// Their number.
    pub times: u32,
}

/// A client that has its session again, after its server was restarted.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Reconnected {
    /// Its tenant.
    pub tenant: Name,
    /// Nanoseconds of machine time when the session was open again.
    pub at_ns: u64,
    /// Unanswered requests that were resubmitted.
    pub reissued: u32,
}

/// A number that a client program found.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Value {
    /// Its tenant.
    pub tenant: Name,
    /// Name of the quantity.
    pub name: Name,
    /// The number.
    pub number: f64,
    /// Its unit; empty for none.
    pub unit: Name,
}

/// A measured part of a benchmark.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Measured {
    /// The benchmark's name, as in the JSON output.
    pub name: Name,
    /// Operations between the markers.
    pub operations: u64,
    /// Doorbell writes between the markers.
    pub doorbells: u64,
}

/// Part of a controller that is given up and recreated.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ResetScope {
    /// One command was aborted.
    Command,
    /// A queue pair was recreated.
    QueuePair,
    /// The controller was reset.
    Controller,
}

impl Report {
    /// The record in postcard.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        // A Vec grows as needed and these types have no unsized maps, so postcard does not fail here.
        postcard::to_allocvec(self).unwrap_or_default()
    }

    /// The record in `bytes`, unless they are not one.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        postcard::from_bytes(bytes).ok()
    }
}

/// A record with its time, which the platform adds, so that components need not.
#[derive(Clone, PartialEq, Debug)]
pub struct Stamped {
    /// Nanoseconds of machine time when it was made.
    pub at_ns: u64,
    /// The record.
    pub report: Report,
}

impl Stamped {
    /// The time, little endian, and the record in postcard.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = self.at_ns.to_le_bytes().to_vec();
        bytes.extend_from_slice(&self.report.encode());
        bytes
    }

    /// The record in `bytes`, unless they are not one.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (at_ns, record) = bytes.split_first_chunk()?;
        Some(Self { at_ns: u64::from_le_bytes(*at_ns), report: Report::decode(record)? })
    }
}

/// The machine.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
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
pub struct Component {
    /// Its number.
    pub component: u16,
    /// Its name.
    pub name: Name,
    /// Its scheduling priority.
    pub priority: u8,
    /// Capabilities installed in its CSpace.
    pub capabilities: u32,
    /// Pages mapped in its VSpace.
    pub pages: u32,
}

/// Capabilities of one kind in consecutive slots.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Installed {
    /// The component's number.
    pub component: u16,
    /// First slot.
    pub slot: u64,
    /// Slots.
    pub count: u32,
    /// Name of the object, as in the specification.
    pub object: heapless::String<48>,
    /// The badge, 0 for none.
    pub badge: u64,
    /// The rights: bit 0 read, bit 1 write, bit 2 grant.
    pub rights: u8,
}

/// A fault.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Fault {
    /// The component's number.
    pub component: u16,
    /// Its name.
    pub name: Name,
    /// Kind of the fault.
    pub kind: FaultKind,
    /// The address or capability slot it was about.
    pub address: u64,
    /// The instruction.
    pub instruction: u64,
}

/// A component's restart.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Restart {
    /// Its name.
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

/// A change while the system runs. A policy component that was restarted carries out all due changes again, and reports them
/// again.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Change {
    /// The policy component.
    pub policy: Name,
    /// The tenant that it affects.
    pub tenant: Name,
    /// Kind of the change.
    pub what: Changed,
    /// Nanoseconds of machine time when it was decided.
    pub at_ns: u64,
    /// Nanoseconds from then until it was in force and no command submitted before was in flight.
    pub took_ns: u64,
}

/// A change of a controller's interrupt mode while the system runs. A policy component that was restarted has the last one
/// carried out again.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct InterruptsChange {
    /// The policy component beside the controller's server.
    pub policy: Name,
    /// The mode it has now.
    pub to: Name,
    /// Nanoseconds of machine time when it was decided.
    pub at_ns: u64,
    /// Nanoseconds from then until commands were submitted again.
    pub took_ns: u64,
}

/// Kind of a change.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Changed {
    /// Rights were taken.
    Revoked {
        /// Number of the blocks.
        blocks: u64,
    },
    /// Rights were given.
    Granted {
        /// Number of the blocks.
        blocks: u64,
    },
    /// A share was changed.
    Entitled,
}

/// The kernel's kinds of fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
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

/// A function on the PCI bus. Addresses are bus << 8 | device << 3 | function.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PciFunction {
    /// Its address on the bus.
    pub bdf: u16,
    /// The bridge above it.
    pub parent: Option<u16>,
    /// Vendor id.
    pub vendor: u16,
    /// Device id.
    pub device: u16,
    /// Class, subclass, programming interface.
    pub class_code: [u8; 3],
    /// Its memory BARs: index, bus address, bytes.
    pub bars: Bars,
    /// MSI-X vectors it has.
    pub msix_vectors: u16,
    /// For a bridge, the buses behind it: secondary and subordinate.
    pub buses: Option<(u8, u8)>,
}

/// A controller and its properties.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Controller {
    /// The server that owns it.
    pub server: Name,
    /// Its address on the bus.
    pub bdf: u16,
    /// PCI vendor id from its identity.
    pub vendor: u16,
    /// Model number.
    pub model: heapless::String<40>,
    /// Serial number.
    pub serial: heapless::String<20>,
    /// Firmware revision.
    pub firmware: heapless::String<8>,
    /// Version: major, minor, tertiary.
    pub version: [u8; 3],
    /// I/O queue pairs it granted.
    pub queue_pairs: u16,
    /// Entries a queue can have.
    pub max_queue_entries: u32,
    /// Largest transfer of one command, bytes.
    pub max_transfer_bytes: u64,
    /// Interrupt mode of completions.
    pub interrupts: Name,
}

/// A namespace.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Namespace {
    /// The server that serves it.
    pub server: Name,
    /// Its id.
    pub nsid: u32,
    /// Blocks.
    pub blocks: u64,
    /// Bytes of a block.
    pub block_bytes: u32,
}

/// A server's work for a session.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Session {
    /// Its tenant.
    pub tenant: Name,
    /// Reason of its end: empty for an orderly close.
    pub ended_by: Text,
    /// Requests taken from its ring.
    pub requests: u64,
    /// Requests refused by a check.
    pub refused: u64,
    /// Commands submitted to the controller.
    pub commands: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Commands the controller failed.
    pub errors: u64,
    /// Doorbell writes.
    pub doorbells: u64,
    /// Interrupts handled.
    pub interrupts: Interrupts,
    /// Notifications sent to the client.
    pub notifications: u64,
    /// Requests for which a record of an extent was not installed.
    pub not_installed: u64,
    /// Requests to which a record did not give the right.
    pub forbidden: u64,
    /// Hardware queue pairs it had in the end.
    pub queue_pairs: u16,
    /// Commands each of them could hold then.
    pub depth: u16,
}

/// Interrupts by mode.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Interrupts {
    /// By messages of the table.
    pub msix: u64,
    /// By messages of the capability.
    pub msi: u64,
    /// By the pin.
    pub intx: u64,
}

impl Interrupts {
    /// All of them.
    #[must_use]
    pub const fn total(&self) -> u64 {
        let Self { msix, msi, intx } = *self;
        msix.saturating_add(msi).saturating_add(intx)
    }
}

/// A session that was not opened, reported by the client that asked for it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Refused {
    /// The client's tenant.
    pub tenant: Name,
    /// The label of the server's answer: a refusal of `blk-api`.
    pub label: u32,
    /// Meaning of the label.
    pub reason: Text,
}

/// A load generator's measurements, times in nanoseconds.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Load {
    /// Its tenant.
    pub tenant: Name,
    /// Its class.
    pub class: Name,
    /// Its hardware queue pairs.
    pub queue_pairs: u16,
    /// Requests it kept in flight.
    pub depth: u16,
    /// Bytes of a request.
    pub block_bytes: u32,
    /// Reads done.
    pub reads: u64,
    /// Writes done.
    pub writes: u64,
    /// Bytes compared and found correct.
    pub verified_bytes: u64,
    /// Bytes compared and found wrong.
    pub wrong_bytes: u64,
    /// Requests that failed.
    pub errors: u64,
    /// Requests that were forbidden, of a load whose rights are taken.
    pub forbidden: u64,
    /// From the first request to the last completion.
    pub elapsed_ns: u64,
    /// Median latency.
    pub p50_ns: u64,
    /// 99th percentile.
    pub p99_ns: u64,
    /// 99.9th percentile.
    pub p999_ns: u64,
    /// The longest.
    pub max_ns: u64,
}

/// A load generator's work from one time to another.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Progress {
    /// Its tenant.
    pub tenant: Name,
    /// Nanoseconds of machine time when the interval began: the last one's end, or the load's begin.
    pub since_ns: u64,
    /// Nanoseconds of machine time when it ended. The record may have been made later, after others ran.
    pub until_ns: u64,
    /// Requests done in it.
    pub operations: u64,
    /// Bytes they carried.
    pub bytes: u64,
    /// The longest latency among them, nanoseconds.
    pub max_ns: u64,
}

/// A digest of a range.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Digest {
    /// The tenant that read.
    pub tenant: Name,
    /// First byte of the range on the namespace.
    pub first_byte: u64,
    /// Bytes.
    pub bytes: u64,
    /// SHA-256 of them.
    pub sha256: [u8; 32],
}

/// An attack.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Attack {
    /// The attacker.
    pub tenant: Name,
    /// The attempt.
    pub attack: Text,
    /// Whether it was stopped.
    pub refused: bool,
    /// The obstacle that stopped it, in the attacker's words.
    pub stopped_by: Text,
}
