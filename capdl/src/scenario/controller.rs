//! Controllers and namespaces as scenarios name them.

use super::{FUNCTION_QUEUES, When, bytes};
use blk_api::config::{Interrupts, Quirk};
use serde::de::Error;
use serde::{Deserialize, Deserializer};

/// An NVMe controller. Every machine gives controllers, or the bridges they are attached to, ascending device numbers on the
/// root bus: the PCI server finds number i of the scenario as number i in its walk.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Controller {
    /// Name, unique.
    pub name: String,
    /// Serial number, up to 20 characters; its name when empty.
    #[serde(default)]
    pub serial: String,
    /// Where it sits.
    #[serde(default)]
    pub attach: Attach,
    /// Whether the controller can be inserted and removed while the system runs, in the slot of its root port.
    #[serde(default)]
    pub hot_plug: bool,
    /// I/O queue pairs it has, those of its virtual functions included.
    #[serde(default = "default_controller_queue_pairs")]
    pub queue_pairs: u16,
    /// MSI-X vectors it has; 0 for one more than queue pairs. Queue pairs share them where there are fewer.
    #[serde(default)]
    pub vectors: u16,
    /// Bytes of its Controller Memory Buffer, in BAR 2, a power of two from 1 MiB on; 0 for none. Its server does not use it.
    #[serde(default, deserialize_with = "bytes::deserialize")]
    #[cfg_attr(feature = "schema", schemars(with = "super::schema::Size"))]
    pub memory_buffer: u64,
    /// Virtual functions it has (PCIe base specification, section 9), each for a tenant that drives it itself. Its namespaces
    /// beyond the first are then attached to no controller at the start.
    #[serde(default)]
    pub virtual_functions: u16,
    /// Interrupt mode at the start. MSI runs in the simulator alone: QEMU's controller has none.
    #[serde(default)]
    pub interrupts: Interrupts,
    /// Changes of its interrupt mode.
    #[serde(rename = "change", default)]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<WrittenChange>"))]
    pub changes: Vec<ControllerChange>,
    /// Most 4 KiB units a second that its namespaces serve together, after a burst of a tenth of a second's; 0 for no limit. A
    /// larger request counts as so many units. In QEMU and in the simulator.
    #[serde(default)]
    pub iops_limit: u32,
    /// Deviations of the controller from the standard, which its server allows for.
    #[serde(default)]
    pub quirks: Vec<Quirk>,
    /// Properties of the simulator's controller in its place.
    #[serde(default)]
    pub model: Model,
    /// Properties of the controller after later resets, absences and losses of power, in the simulator alone.
    #[serde(default)]
    pub later: Vec<Later>,
    /// Values of features that a driver saved in the simulator's controller before the start.
    #[serde(default)]
    pub saved: Vec<Saved>,
    /// Namespaces; the first has id 1.
    #[serde(rename = "namespace")]
    pub namespaces: Vec<Namespace>,
}

const fn default_controller_queue_pairs() -> u16 {
    64
}

/// Properties of a simulated controller. QEMU's has its own, so only the simulator runs a scenario that names others.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, serde::Serialize))]
#[serde(deny_unknown_fields, default)]
pub struct Model {
    /// The medium of the blocks, which determines the times of reads and writes.
    pub media: Media,
    /// CAP.DSTRD: doorbells are 4 << this bytes apart, 0 to 10 (NVMe base specification 2.0, section 3.1.3.1).
    pub doorbell_stride: u8,
    /// Entries of the largest queue (CAP.MQES + 1), 2 to 65536.
    pub queue_entries: u32,
    /// A transfer has at most 2 to the power of this pages (Identify Controller, MDTS), 1 to 10.
    pub max_transfer: u8,
    /// Bytes of a volatile write cache, 0 for none.
    #[serde(deserialize_with = "bytes::deserialize")]
    #[cfg_attr(feature = "schema", schemars(with = "super::schema::Size"))]
    pub write_cache: u64,
    /// Nanoseconds in which it fetches one command, 1 to 1000000, which bounds its rate of commands; 0 for the medium's time.
    /// Commands that it has not fetched wait in their submission queues.
    pub fetch_ns: u32,
    /// How it can be configured to choose between submission queues.
    pub arbitration: Arbitration,
    /// I/O commands that it holds at once, at least 1; more wait in their queues, where arbitration decides.
    pub outstanding: u16,
    /// The revision of the standard that it follows (VS). Before 1.1 it has no list of active namespaces, before 1.3 no list of
    /// a namespace's identifiers.
    pub version: Version,
    /// Milliseconds that it takes to follow CC.EN with CSTS.RDY, at most `timeout_ms`.
    pub ready_ms: u32,
    /// Milliseconds that it says it takes at most (CAP.TO), in units of 500; above 127500 with revision 2.0 alone, in CRTO.CRWMT,
    /// up to 32767500.
    pub timeout_ms: u32,
    /// A Verify has at most 2 to the power of this pages (VSL), 1 to 10; 0 states no limit. This limit and the next four are
    /// stated from revision 2.0 on.
    pub vsl: u8,
    /// A Write Zeroes has at most 2 to the power of this pages (WZSL), 1 to 10; 0 states no limit.
    pub wzsl: u8,
    /// Ranges of a Dataset Management (DMRL); 0 states no limit.
    pub dmrl: u8,
    /// Blocks of one of its ranges (DMRSL); 0 states no limit.
    pub dmrsl: u32,
    /// Blocks of all its ranges (DMSL); 0 states no limit.
    pub dmsl: u64,
    /// The delays that it may name before a retry (CRDT1 to CRDT3), in units of 100 ms; 0 for none.
    #[serde(deserialize_with = "three_delays")]
    pub retry_delays: [u16; 3],
    /// Whether the port above forwards accesses of all 32 device numbers to it, though only number 0 is there.
    pub ghosts: bool,
    /// Bytes of registers before the MSI-X table, at least; 0 for what the doorbells need. Nothing is behind the doorbells.
    #[serde(deserialize_with = "bytes::deserialize")]
    #[cfg_attr(feature = "schema", schemars(with = "super::schema::Size"))]
    pub register_bytes: u64,
    /// Whether the controller's MSI-X table and pending bits are in BAR 4, and not behind its registers.
    pub table_bar: bool,
    /// Whether the controller's function is in power state D3hot at the start.
    pub d3hot: bool,
    /// Whether the ports and bridges above it are in D3hot at the start.
    pub bridges_d3hot: bool,
    /// Whether those that are in D3hot lose their registers on the way to D0 (No_Soft_Reset is 0).
    pub soft_reset: bool,
    /// Whether the controller has a reset of its NVM subsystem (CAP.NSSRS; NVMe base specification 2.0, section 3.1.3.1).
    pub subsystem_reset: bool,
    /// Whether MSI-X is on and masked as a whole at the start, and every MSI vector masked.
    pub masks_left: bool,
    /// The controller type (CNTRLTYPE), which is reported since revision 1.4. The NVMe server uses a controller for I/O alone.
    pub purpose: Purpose,
}

/// Types of controllers (NVMe base specification 1.4, figure 247, CNTRLTYPE).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, serde::Serialize))]
#[serde(rename_all = "kebab-case")]
pub enum Purpose {
    /// I/O.
    #[default]
    Io,
    /// Discovery of others.
    Discovery,
    /// Administration alone.
    Administration,
}

/// Revisions of the NVM Express base specification.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, serde::Serialize))]
pub enum Version {
    /// Of 2011.
    #[serde(rename = "1.0")]
    V1_0,
    /// Of 2012.
    #[serde(rename = "1.1")]
    V1_1,
    /// Of 2014.
    #[serde(rename = "1.2")]
    V1_2,
    /// Of 2017.
    #[serde(rename = "1.3")]
    V1_3,
    /// Of 2019, that of QEMU's controller.
    #[default]
    #[serde(rename = "1.4")]
    V1_4,
    /// Of 2021.
    #[serde(rename = "2.0")]
    V2_0,
}

impl Version {
    /// Numbers, major and minor.
    #[must_use]
    pub const fn numbers(self) -> (u16, u8) {
        match self {
            Self::V1_0 => (1, 0),
            Self::V1_1 => (1, 1),
            Self::V1_2 => (1, 2),
            Self::V1_3 => (1, 3),
            Self::V1_4 => (1, 4),
            Self::V2_0 => (2, 0),
        }
    }
}

/// Three delays; the reader of arrays would leave out further ones.
fn three_delays<'de, D: Deserializer<'de>>(deserializer: D) -> Result<[u16; 3], D::Error> {
    let delays = Vec::<u16>::deserialize(deserializer)?;
    let count = delays.len();
    delays.try_into().map_err(|_| D::Error::custom(format!("there are {count} delays: write three, 0 for none")))
}

impl Default for Model {
    fn default() -> Self {
        Self {
            media: Media::default(),
            doorbell_stride: 0,
            queue_entries: 2048,
            max_transfer: 7,
            write_cache: 0,
            fetch_ns: 0,
            arbitration: Arbitration::default(),
            outstanding: 256,
            version: Version::default(),
            ready_ms: 1,
            timeout_ms: 7500,
            vsl: 0,
            wzsl: 0,
            dmrl: 0,
            dmrsl: 0,
            dmsl: 0,
            retry_delays: [0; 3],
            ghosts: false,
            register_bytes: 0,
            table_bar: false,
            d3hot: false,
            bridges_d3hot: false,
            soft_reset: false,
            subsystem_reset: false,
            masks_left: false,
            purpose: Purpose::Io,
        }
    }
}

/// A value of a feature that was saved by Set Features (NVMe base specification 2.0, section 5.27).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Saved {
    /// The feature's identifier.
    pub feature: u8,
    /// CDW11. A feature of namespaces has it for all of them.
    pub value: u32,
}

/// Properties that a simulated controller has from one of its enablings on: another disk may be in its place after a reset, an
/// absence or a loss of power, or the same one with less. A property that is left out stays as it was.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Later {
    /// The enabling (CC.EN from 0 to 1), counted from 1, which is its server's start. A controller with virtual functions is enabled
    /// twice then. Without it, namespaces change at the fault `{ event = "namespace-changed" }`, without a reset.
    #[serde(default)]
    pub enabling: Option<u32>,
    /// Serial number, up to 20 characters.
    #[serde(default)]
    pub serial: Option<String>,
    /// A transfer has at most 2 to the power of this pages, 1 to 10.
    #[serde(default)]
    pub max_transfer: Option<u8>,
    /// Most I/O queue pairs that it grants.
    #[serde(default)]
    pub queue_pairs: Option<u16>,
    /// The namespace that the following are about, counted from 1; all of them without a number.
    #[serde(default)]
    pub nsid: Option<u32>,
    /// The last 8 bytes of NGUID, and 0 for none.
    #[serde(default)]
    pub nguid: Option<u64>,
    /// EUI-64; 0 for none.
    #[serde(default)]
    pub eui64: Option<u64>,
    /// Bytes of its blocks together.
    #[serde(default, deserialize_with = "bytes::deserialize_some")]
    #[cfg_attr(feature = "schema", schemars(with = "super::schema::Size"))]
    pub size: Option<u64>,
    /// Whether the blocks are another disk's: all zeroes, whatever was written.
    #[serde(default)]
    pub blank: bool,
}

/// Media that store blocks (SEEDS O4).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, serde::Serialize))]
#[serde(rename_all = "kebab-case")]
pub enum Media {
    /// The controller with the times that OpenExpress gives (SEEDS O5).
    #[default]
    OpenExpress,
    /// DRAM.
    Dram,
    /// Magnetic memory.
    Mram,
    /// Phase change memory.
    Pram,
    /// Flash.
    Flash,
    /// None: every command takes 0.15 ms, as with QEMU's null device on an emulated machine.
    Emulated,
}

/// The arbitration that a controller offers beside round robin, which every controller has (CAP.AMS: NVMe base specification
/// 2.0, section 3.1.3.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, serde::Serialize))]
#[serde(rename_all = "kebab-case")]
pub enum Arbitration {
    /// Nothing.
    #[default]
    RoundRobin,
    /// Weighted round robin with urgent priority class.
    WeightedRoundRobin,
}

/// Where a controller sits.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, serde::Serialize))]
#[serde(rename_all = "kebab-case")]
pub enum Attach {
    /// On the root bus.
    Root,
    /// Behind a PCI Express root port.
    #[default]
    RootPort,
    /// Behind a PCI Express switch (an upstream and a downstream port) behind a root port.
    Switch,
    /// Behind a conventional PCI bridge: its requests carry the bridge's id.
    Bridge,
}

/// Bytes of the largest block that an NVMe server serves.
const PAGE: u32 = 4096;
/// Characters of a serial number (NVMe base specification 2.0, Identify Controller).
pub(super) const MAX_SERIAL: usize = 20;

/// A change of a controller's interrupt mode while the system runs.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(from = "WrittenChange")]
pub struct ControllerChange {
    /// Time of the change.
    pub when: When,
    /// The new interrupt mode.
    pub interrupts: Interrupts,
}

/// A change of a controller's interrupt mode while the system runs.
#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "ControllerChange"))]
#[serde(deny_unknown_fields)]
struct WrittenChange {
    /// The moment of the change; the start of the system without it.
    #[serde(default)]
    at: Option<String>,
    /// Milliseconds after that moment.
    #[serde(default)]
    after_ms: u32,
    /// The new interrupt mode.
    interrupts: Interrupts,
}

impl From<WrittenChange> for ControllerChange {
    fn from(WrittenChange { at, after_ms, interrupts }: WrittenChange) -> Self {
        Self { when: When { at, after_ms }, interrupts }
    }
}

impl Controller {
    /// Interrupt modes in the order of its changes, the initial one first.
    pub fn ways(&self) -> impl Iterator<Item = Interrupts> {
        std::iter::once(self.interrupts).chain(self.changes.iter().map(|change| change.interrupts))
    }

    /// The serial number of another controller that is put into its slot.
    #[must_use]
    pub fn other_serial(&self) -> String {
        let kept = |end: &str| self.serial.chars().take(MAX_SERIAL - end.len()).chain(end.chars()).collect::<String>();
        let other = kept("-2");
        if other == self.serial { kept("-3") } else { other }
    }

    /// MSI-X vectors that it has.
    #[must_use]
    pub const fn vector_count(&self) -> u16 {
        if self.vectors == 0 { self.queue_pairs.saturating_add(1) } else { self.vectors }
    }

    /// Most bytes of its BARs together, in its function.
    #[must_use]
    pub fn bar_bytes(&self) -> u64 {
        let stride = 4u64.checked_shl(self.model.doorbell_stride.into()).unwrap_or(u64::MAX);
        let doorbells = stride.saturating_mul(2 * (u64::from(self.queue_pairs) + 1)).saturating_add(PAGE.into());
        // The table and the pending bits are smaller than what is before them rounded up, or than 64 KiB.
        let registers = doorbells.max(self.model.register_bytes).max(1 << 16);
        let bar = registers.checked_next_power_of_two().and_then(|bytes| bytes.checked_mul(2));
        bar.unwrap_or(u64::MAX).saturating_add(self.memory_buffer)
    }

    /// Queue pairs that its virtual functions have together, and as many interrupt vectors: the flexible resources of the
    /// primary controller (NVMe base specification 1.4, section 8.5).
    #[must_use]
    pub const fn flexible_queues(&self) -> u16 {
        self.virtual_functions.saturating_mul(FUNCTION_QUEUES)
    }

    /// I/O queue pairs that are left for its server.
    #[must_use]
    pub const fn server_queue_pairs(&self) -> u16 {
        self.queue_pairs.saturating_sub(self.flexible_queues())
    }

    /// The controller that a namespace is attached to at the start, if any: 0 for the physical function's, or the number of a
    /// virtual one. Those that a virtual function is to have are attached to none unless an earlier host left them so, and inactive
    /// ones never.
    #[must_use]
    pub fn attachment(&self, nsid: u32) -> Option<u8> {
        let index = nsid.checked_sub(1).and_then(|index| usize::try_from(index).ok());
        let model = index.and_then(|index| self.namespaces.get(index)).map(|namespace| namespace.model);
        let is_own = self.virtual_functions == 0 || nsid == 1;
        match model {
            Some(NamespaceModel { inactive: true, .. }) => None,
            Some(NamespaceModel { left_attached_to: 0, .. }) | None => is_own.then_some(0),
            Some(NamespaceModel { left_attached_to, .. }) => Some(left_attached_to),
        }
    }

    /// Whether a namespace is attached to the physical function's controller at the start.
    #[must_use]
    pub fn is_attached(&self, nsid: u32) -> bool {
        self.attachment(nsid) == Some(0)
    }
}

/// A namespace.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Namespace {
    /// Bytes of its blocks together.
    #[serde(deserialize_with = "bytes::deserialize")]
    #[cfg_attr(feature = "schema", schemars(with = "super::schema::Size"))]
    pub size: u64,
    /// Bytes a block: a power of two, 512 to 65536. The NVMe server refuses blocks larger than a page.
    #[serde(default = "default_block_bytes")]
    pub block_bytes: u32,
    /// Where its blocks are stored.
    #[serde(default)]
    pub backend: Backend,
    /// The initial contents of its blocks.
    #[serde(default)]
    pub content: Content,
    /// The last 8 bytes of its NGUID, and 0 for none, as in QEMU.
    #[serde(default)]
    pub nguid: u64,
    /// EUI-64; 0 for none.
    #[serde(default)]
    pub eui64: u64,
    /// Blocks whose reads fail with a media error.
    #[serde(default)]
    pub media_errors: Vec<u64>,
    /// Properties of the namespace in the simulator's controller.
    #[serde(default)]
    pub model: NamespaceModel,
}

/// Properties of a simulated controller's namespace. QEMU's has its own, so only the simulator runs a scenario that names others.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, serde::Serialize))]
#[serde(deny_unknown_fields, default)]
pub struct NamespaceModel {
    /// Number of LBA formats (NLBAF + 1), 1 to 64. All but the one in use have blocks of 512 bytes, or of 4096 where that one has
    /// 512.
    pub formats: u8,
    /// Index of the format in use (FLBAS), below `formats`.
    pub format_index: u8,
    /// The I/O command set that it claims to have. The NVMe server serves `nvm` alone.
    pub command_set: CommandSet,
    /// Bytes of metadata that it claims to have with each block (LBAF.MS). The NVMe server serves 0 alone.
    pub metadata: u16,
    /// Type of the protection information that it claims to have in use (DPS), 1 to 3; 0 for none. The NVMe server serves 0 alone.
    pub protection: u8,
    /// Whether the namespace is attached to no controller, and its identifier a gap among those of the others.
    pub inactive: bool,
    /// The virtual function that an earlier host left it attached to, from 1 on; 0 for none.
    pub left_attached_to: u8,
}

/// I/O command sets of namespaces (NVMe base specification 2.0, section 5.17.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, serde::Serialize))]
#[serde(rename_all = "kebab-case")]
pub enum CommandSet {
    /// Blocks.
    #[default]
    Nvm,
    /// Keys and values.
    KeyValue,
    /// Zones of blocks.
    Zoned,
}

impl Default for NamespaceModel {
    fn default() -> Self {
        let command_set = CommandSet::Nvm;
        Self {
            formats: 1,
            format_index: 0,
            command_set,
            metadata: 0,
            protection: 0,
            inactive: false,
            left_attached_to: 0,
        }
    }
}

const fn default_block_bytes() -> u32 {
    512
}

impl Namespace {
    /// Whether an NVMe server can serve it: it is there and has blocks of data alone, of a page at most.
    #[must_use]
    pub const fn is_served(&self) -> bool {
        let NamespaceModel { command_set, metadata, protection, inactive, .. } = self.model;
        let has_plain_blocks = matches!(command_set, CommandSet::Nvm) && metadata == 0 && protection == 0;
        has_plain_blocks && !inactive && self.block_bytes <= PAGE
    }

    /// Blocks it has.
    #[must_use]
    pub const fn blocks(&self) -> u64 {
        match self.size.checked_div(self.block_bytes as u64) {
            Some(blocks) => blocks,
            None => 0,
        }
    }
}

/// Where a namespace is stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, serde::Serialize))]
#[serde(rename_all = "kebab-case")]
pub enum Backend {
    /// A raw image file on the build machine.
    #[default]
    File,
    /// Nothing: writes are forgotten, reads give zeroes.
    Null,
}

/// The contents of a file before the run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, serde::Serialize))]
#[serde(rename_all = "kebab-case")]
pub enum Content {
    /// Zeroes.
    #[default]
    Zeroes,
    /// Bytes that differ from place to place, the same in every run.
    Pattern,
}
