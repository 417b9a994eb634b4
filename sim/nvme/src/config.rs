//! Configuration of a controller: everything that may differ between controllers.
//!
//! [`Config::default`] is a usable controller without namespaces; callers change the fields that they need. An
//! impossible value is replaced by the nearest possible one, as each field says.

use nvme_spec::identify::ControllerType;
use nvme_spec::registers::{Cap, Vs};
use sim_fault::Fault;

use crate::admin::AdminConfig;
use crate::attachment::MOST_SECONDARIES;
use crate::later::Later;
use crate::namespace::NamespaceConfig;
use crate::profile::{Media, Profile};

/// Configuration of a controller.
pub struct Config {
    /// Names and numbers that Identify reports.
    pub identity: Identity,
    /// Limits and optional parts of the admin command set.
    pub admin: AdminConfig,
    /// Capabilities that the registers report.
    pub capabilities: Capabilities,
    /// Number of I/O SQs and of I/O CQs, at least 1.
    pub queue_pairs: u16,
    /// Interrupt vectors, at least 1.
    pub vectors: u16,
    /// MDTS: a transfer is at most 2^MDTS memory pages of the smallest size; 0 is no limit.
    pub mdts: u8,
    /// CNTRLTYPE, which a controller reports since revision 1.4.
    pub purpose: ControllerType,
    /// Limits of commands without data, which a controller states from revision 2.0 on.
    pub limits: CommandLimits,
    /// CRDT1 to CRDT3, in units of 100 ms, 0 for none. With one of them the controller has Host Behavior Support.
    pub retry_delays_100ms: [u16; 3],
    /// I/O commands the controller holds at once, at least 1. More wait in their SQs, where arbitration decides.
    pub outstanding: u16,
    /// Blocks that a power loss keeps or loses as a whole (AWUPF + 1), at least 1.
    pub atomic_blocks: u32,
    /// The volatile write cache; without one every write is durable when it completes.
    pub cache: Option<Cache>,
    /// Namespaces at the start, by NSID from 1 on.
    pub namespaces: Vec<NamespaceConfig>,
    /// Bytes that no namespace has yet, for Namespace Management.
    pub unallocated_bytes: u64,
    /// Virtual functions with secondary controllers; [`crate::Controller::with_secondaries`] creates those.
    pub virtualization: Option<Virtualization>,
    /// Timing.
    pub profile: Profile,
    /// Time from a change of CC.EN to the same change of CSTS.RDY, in nanoseconds.
    pub ready_ns: u64,
    /// Time of a shutdown in addition to flushing, in nanoseconds.
    pub shutdown_ns: u64,
    /// Faults of the controller and of its commands.
    pub faults: Vec<Fault>,
    /// Properties that change when it is enabled again.
    pub later: Vec<Later>,
    /// Values of features that a driver saved before: identifier and CDW11 of its Set Features. One of namespaces is saved for all.
    pub saved: Vec<(u8, u32)>,
    /// Whether events and transfers are recorded for checkers.
    pub recording: Recording,
}

/// Limits of commands that move no data of blocks (NVM command set specification 1.0, section 4.1.5.2); 0 is no limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CommandLimits {
    /// VSL: a Verify has at most 2^VSL memory pages of the smallest size.
    pub vsl: u8,
    /// WZSL: the same of a Write Zeroes.
    pub wzsl: u8,
    /// DMRL: ranges of a Dataset Management.
    pub dmrl: u8,
    /// DMRSL: blocks of a range.
    pub dmrsl: u32,
    /// DMSL: blocks of all its ranges.
    pub dmsl: u64,
}

/// Names and numbers of a controller. Texts are cut to their fields' lengths.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Identity {
    /// PCI vendor.
    pub vendor_id: u16,
    /// PCI subsystem vendor.
    pub subsystem_vendor_id: u16,
    /// Serial number, up to 20 ASCII characters.
    pub serial: String,
    /// Model number, up to 40 ASCII characters.
    pub model: String,
    /// Firmware revision, up to 8 ASCII characters.
    pub firmware: String,
    /// The controller's identifier in its subsystem.
    pub controller_id: u16,
    /// The subsystem's qualified name, up to 223 bytes.
    pub subsystem_name: String,
}

/// Values of CAP and VS.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Capabilities {
    /// VS.
    pub version: Vs,
    /// Entries of the largest I/O queue: 2 to 65536.
    pub queue_entries: u32,
    /// CQR: queues lie in one piece.
    pub contiguous: Contiguous,
    /// Whether weighted round robin with urgent class can be selected.
    pub weighted_arbitration: bool,
    /// TO, in units of 500 ms.
    pub timeout_500ms: u8,
    /// CRTO.CRWMT, in units of 500 ms; `None` for a controller without CRTO, as before revision 2.0.
    pub ready_500ms: Option<u16>,
    /// CAP.CSS bit 43: there are other I/O command sets than the NVM command set, and each namespace says which it has.
    pub other_command_sets: bool,
    /// CAP.CMBS: there is a Controller Memory Buffer, whose BAR is not the model's.
    pub memory_buffer: bool,
    /// DSTRD: doorbells are 4 << DSTRD bytes apart; at most 10.
    pub doorbell_stride: u8,
    /// Whether NSSR resets the subsystem.
    pub subsystem_reset: bool,
    /// MPSMIN: the smallest memory page is 2^(12 + MPSMIN) bytes; at most 15.
    pub page_min: u8,
    /// MPSMAX: the largest memory page is 2^(12 + MPSMAX) bytes; at least `page_min`, at most 15.
    pub page_max: u8,
}

/// How queues may lie in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Contiguous {
    /// In one piece.
    Required,
    /// In one piece or by a list of pages.
    Optional,
}

/// Secondary controllers of a primary controller, and the resources that can be moved between them (section 8.5).
///
/// At power-on the primary controller has all resources.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Virtualization {
    /// Virtual functions, each with one secondary controller: 1 to 127.
    pub functions: u8,
    /// VQFRT: flexible VQ resources. They are part of [`Config::queue_pairs`], of which one pair at least is not flexible.
    pub flexible_queues: u16,
    /// VIFRT: flexible VI resources. They are part of [`Config::vectors`], of which one at least is not flexible.
    pub flexible_interrupts: u16,
    /// VQFRSM: most VQ resources of one secondary controller, its admin queue pair among them; 2 to `flexible_queues`.
    pub secondary_queues: u16,
    /// VIFRSM: most VI resources of one secondary controller; 1 to `flexible_interrupts`.
    pub secondary_interrupts: u16,
}

/// A volatile write cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cache {
    /// Bytes it holds. A write that does not fit waits until there is room.
    pub bytes: u64,
    /// How long data stays only in the cache beyond the time the media take, in nanoseconds.
    pub linger_ns: u64,
}

/// Whether a controller keeps records for checkers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Recording {
    /// Nothing is kept.
    #[default]
    Off,
    /// The [`crate::Event`]s, until they are taken.
    Events,
    /// The events, and a [`crate::Transfer`] for each piece of data.
    On,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            identity: Identity::default(),
            admin: AdminConfig::default(),
            capabilities: Capabilities::default(),
            queue_pairs: 64,
            vectors: 65,
            mdts: 7,
            purpose: ControllerType::Io,
            limits: CommandLimits::default(),
            retry_delays_100ms: [0; 3],
            outstanding: 256,
            atomic_blocks: 1,
            cache: None,
            namespaces: Vec::new(),
            unallocated_bytes: 0,
            virtualization: None,
            profile: Profile::before(Media::DRAM),
            ready_ns: 1_000_000,
            shutdown_ns: 1_000_000,
            faults: Vec::new(),
            later: Vec::new(),
            saved: Vec::new(),
            recording: Recording::Off,
        }
    }
}

impl Default for Identity {
    fn default() -> Self {
        Self {
            vendor_id: 0x1b36,
            subsystem_vendor_id: 0x1af4,
            serial: "SIM00001".into(),
            model: "capnvme simulated controller".into(),
            firmware: "1.0".into(),
            controller_id: 0,
            subsystem_name: "nqn.2026-11.example.capnvme:simulated".into(),
        }
    }
}

impl Default for Capabilities {
    fn default() -> Self {
        Self {
            version: Vs::new().with_mjr(1).with_mnr(4),
            queue_entries: 2048,
            contiguous: Contiguous::Required,
            weighted_arbitration: true,
            timeout_500ms: 15,
            ready_500ms: None,
            memory_buffer: false,
            other_command_sets: false,
            doorbell_stride: 0,
            subsystem_reset: false,
            page_min: 0,
            page_max: 4,
        }
    }
}

impl Capabilities {
    /// Returns the register CAP.
    pub(crate) fn cap(&self) -> Cap {
        Cap::new()
            .with_mqes_z((self.queue_entries.clamp(2, 65_536) - 1) as u16)
            .with_cqr(self.contiguous == Contiguous::Required)
            .with_ams_wrr(self.weighted_arbitration)
            .with_to(self.timeout_500ms)
            .with_dstrd(self.doorbell_stride.min(10))
            .with_nssrs(self.subsystem_reset)
            .with_css_nvm(true)
            .with_css_other(self.other_command_sets)
            .with_cmbs(self.memory_buffer)
            .with_crwms(self.ready_500ms.is_some())
            .with_mpsmin(self.page_min.min(15))
            .with_mpsmax(self.page_max.clamp(self.page_min.min(15), 15))
    }
}

impl Virtualization {
    /// Returns the same with each impossible value replaced by the nearest possible one, for a controller with these
    /// resources. With fewer than three queue pairs or two vectors, no secondary controller can be set online.
    pub(crate) fn sane(self, queue_pairs: u16, vectors: u16) -> Self {
        let flexible_queues = self.flexible_queues.min(queue_pairs.max(1) - 1);
        let flexible_interrupts = self.flexible_interrupts.min(vectors.max(1) - 1);
        Self {
            functions: self.functions.clamp(1, MOST_SECONDARIES),
            flexible_queues,
            flexible_interrupts,
            secondary_queues: self.secondary_queues.max(2).min(flexible_queues),
            secondary_interrupts: self.secondary_interrupts.max(1).min(flexible_interrupts),
        }
    }
}

impl Config {
    /// Bytes of BAR0 that hold the registers and all doorbells: a power of two, at least 8 KiB. MSI-X structures are
    /// not in it.
    #[must_use]
    pub fn bar_bytes(&self) -> u64 {
        self.register_bytes(self.queue_pairs)
    }

    /// As [`bar_bytes`](Self::bar_bytes), for each secondary controller.
    #[must_use]
    pub fn secondary_bar_bytes(&self) -> u64 {
        let queues = self.virtualization.map_or(0, |virtualization| virtualization.secondary_queues);
        self.register_bytes(queues.saturating_sub(1))
    }

    fn register_bytes(&self, queue_pairs: u16) -> u64 {
        let stride = 4_u64 << self.capabilities.doorbell_stride.min(10);
        let doorbells = 2 * (u64::from(queue_pairs.max(1)) + 1) * stride;
        (nvme_spec::registers::DOORBELL_BASE as u64 + doorbells).next_power_of_two().max(8192)
    }
}
