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

mod client;
pub mod frame;
pub mod milestones;
pub mod names;
pub mod ring;
mod storage;
mod system;

pub use client::*;
pub use storage::*;
pub use system::*;

/// A component's or tenant's name.
pub type Name = heapless::String<32>;
/// A sentence.
pub type Text = heapless::String<160>;

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

/// A record of results.
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
        /// The session's tenant.
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
        /// The client's tenant.
        tenant: Name,
        /// Nanoseconds of machine time since the time stamp counter was zero.
        at_ns: u64,
    },
    /// A load generator's measurements.
    Load(Load),
    /// Result of the digest reader.
    Digest(Digest),
    /// An attack and its outcome.
    Attack(Attack),
    /// A measured part of the benchmark: operations between two markers of the instruction counter.
    Measured(Measured),
    /// A number that a client program found, of its own choice.
    Value(Value),
    /// A check failed: the expected and the observed value.
    Failure {
        /// The component that checked.
        component: Name,
        /// The reason, in one sentence.
        reason: Text,
    },
    /// A client's work is over.
    Done {
        /// The client's tenant.
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
    /// Where pages of a component's telemetry are in the machine's memory (root task).
    TelemetryPages(TelemetryPages),
    /// Interrupts that a driver without sessions took (edu driver).
    Interrupted {
        /// The driver.
        driver: Name,
        /// The number of interrupts by mode.
        interrupts: Interrupts,
    },
    /// A driver claimed a function (PCI server).
    Claimed {
        /// The driver.
        driver: Name,
        /// The function's requester id: bus << 8 | device << 3 | function.
        requester_id: u16,
        /// Empty cptrs of the server's CSpace: no fewer when the driver claims the function again, beside the same other claims.
        cptrs_left: u32,
    },
    /// A controller reported an asynchronous event, and the server acted on it (NVMe server).
    Event {
        /// The server.
        server: Name,
        /// DW0 of the event's completion: type, information and log page.
        event: u32,
        /// The event and what its log page says, in words.
        text: Text,
    },
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
