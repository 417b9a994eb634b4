//! Registers: their offsets and bits (section 6.3). Two pages of 64 KiB; the second has the indexes of the event queue.

use bitfield_struct::bitfield;

/// Bytes of both register pages (section 6.1).
pub const REGISTER_BYTES: usize = 0x2_0000;

/// A register and, as its value, its byte offset (section 6.2). 32 bits wide unless noted otherwise.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u32)]
pub enum Register {
    /// Features: [`Idr0`].
    Idr0 = 0x00,
    /// Sizes: [`Idr1`].
    Idr1 = 0x04,
    /// Address sizes and granules: [`Idr5`].
    Idr5 = 0x14,
    /// Enables: [`Cr0`].
    Cr0 = 0x20,
    /// [`Cr0`] as far as it has taken effect.
    Cr0Ack = 0x24,
    /// Attributes of the SMMU's own accesses: [`Cr1`].
    Cr1 = 0x28,
    /// Controls: [`Cr2`].
    Cr2 = 0x2c,
    /// Global bypass attribute: [`Gbpa`].
    Gbpa = 0x44,
    /// Interrupt enables: [`IrqCtrl`].
    IrqCtrl = 0x50,
    /// [`IrqCtrl`] as far as it has taken effect.
    IrqCtrlAck = 0x54,
    /// Global errors: [`Gerror`]. An error is active while its bit differs from GERRORN's.
    Gerror = 0x60,
    /// Acknowledged global errors.
    Gerrorn = 0x64,
    /// Message address of global errors, 64 bits; 0 sends none.
    GerrorIrqCfg0 = 0x68,
    /// Stream table address, 64 bits.
    StrtabBase = 0x80,
    /// Stream table format: [`StrtabBaseCfg`].
    StrtabBaseCfg = 0x88,
    /// Command queue address and size, 64 bits: [`QueueBase`].
    CmdqBase = 0x90,
    /// Software's index of the command queue, wrap bit above the index.
    CmdqProd = 0x98,
    /// The SMMU's index of the command queue: [`CmdqCons`].
    CmdqCons = 0x9c,
    /// Event queue address and size, 64 bits: [`QueueBase`].
    EventqBase = 0xa0,
    /// Message address of events, 64 bits; 0 sends none.
    EventqIrqCfg0 = 0xb0,
    /// The SMMU's index of the event queue: [`EventqIndex`]. In page 1.
    EventqProd = 0x1_00a8,
    /// Software's index of the event queue: [`EventqIndex`]. In page 1.
    EventqCons = 0x1_00ac,
}

impl Register {
    /// Every register named here.
    pub const ALL: [Self; 22] = [
        Self::Idr0,
        Self::Idr1,
        Self::Idr5,
        Self::Cr0,
        Self::Cr0Ack,
        Self::Cr1,
        Self::Cr2,
        Self::Gbpa,
        Self::IrqCtrl,
        Self::IrqCtrlAck,
        Self::Gerror,
        Self::Gerrorn,
        Self::GerrorIrqCfg0,
        Self::StrtabBase,
        Self::StrtabBaseCfg,
        Self::CmdqBase,
        Self::CmdqProd,
        Self::CmdqCons,
        Self::EventqBase,
        Self::EventqIrqCfg0,
        Self::EventqProd,
        Self::EventqCons,
    ];

    /// Byte offset from the start of the first page.
    #[must_use]
    pub const fn offset(self) -> usize {
        self as usize
    }

    /// The register at a byte offset.
    #[must_use]
    pub fn at(offset: usize) -> Option<Self> {
        Self::ALL.into_iter().find(|register| register.offset() == offset)
    }

    /// Whether the register is 64 bits wide.
    #[must_use]
    pub const fn is_wide(self) -> bool {
        matches!(self, Self::GerrorIrqCfg0 | Self::StrtabBase | Self::CmdqBase | Self::EventqBase | Self::EventqIrqCfg0)
    }
}

/// IDR0, features (section 6.3.1).
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct Idr0 {
    /// S2P: stage 2.
    pub stage2: bool,
    /// S1P: stage 1.
    pub stage1: bool,
    /// TTF: bit 1 is VMSAv8-64, bit 0 VMSAv8-32 LPAE.
    #[bits(2)]
    pub table_formats: u8,
    /// COHACC: the SMMU's own accesses are coherent with processors.
    pub coherent: bool,
    /// BTM: broadcast invalidation.
    pub broadcast: bool,
    /// HTTU: hardware updates of flags in translation tables.
    #[bits(2)]
    pub hardware_update: u8,
    /// DORMHINT.
    pub dormant_hint: bool,
    /// Hyp: the EL2 regimes.
    pub hypervisor: bool,
    /// ATS.
    pub ats: bool,
    /// NS1ATS.
    pub no_stage1_ats: bool,
    /// ASID16: ASIDs of 16 bits, otherwise 8.
    pub asid16: bool,
    /// MSI: interrupts can be messages.
    pub msi: bool,
    /// SEV.
    pub sev: bool,
    /// ATOS.
    pub atos: bool,
    /// PRI.
    pub pri: bool,
    /// VMW.
    pub vmid_wildcard: bool,
    /// VMID16.
    pub vmid16: bool,
    /// CD2L: two-level tables of context descriptors.
    pub two_level_contexts: bool,
    /// VATOS.
    pub vatos: bool,
    /// TTENDIAN: 0 both, 2 little endian only, 3 big endian only.
    #[bits(2)]
    pub endianness: u8,
    __: bool,
    /// STALL_MODEL: 0 stalls or terminates, 1 only terminates, 2 only stalls.
    #[bits(2)]
    pub stall_model: u8,
    /// TERM_MODEL: terminated transactions always abort.
    pub always_aborts: bool,
    /// ST_LEVEL: 1 when two-level stream tables are supported.
    #[bits(2)]
    pub stream_table_levels: u8,
    #[bits(3)]
    __: u8,
}

/// IDR1, sizes (section 6.3.2).
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct Idr1 {
    /// SIDSIZE: bits of a StreamID.
    #[bits(6)]
    pub stream_bits: u8,
    /// SSIDSIZE: bits of a SubstreamID.
    #[bits(5)]
    pub substream_bits: u8,
    /// PRIQS.
    #[bits(5)]
    pub priq_log2: u8,
    /// EVENTQS: log2 of the most entries of an event queue.
    #[bits(5)]
    pub eventq_log2: u8,
    /// CMDQS: log2 of the most entries of a command queue.
    #[bits(5)]
    pub cmdq_log2: u8,
    /// ATTR_PERMS_OVR.
    pub permissions_override: bool,
    /// ATTR_TYPES_OVR.
    pub types_override: bool,
    /// REL: preset addresses are relative.
    pub relative: bool,
    /// QUEUES_PRESET: the addresses of the queues are fixed.
    pub queues_preset: bool,
    /// TABLES_PRESET: the address of the stream table is fixed.
    pub tables_preset: bool,
    /// ECMDQ, added after 3.1.
    pub extended_queues: bool,
}

/// IDR5, output address size and granules (section 6.3.6).
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct Idr5 {
    /// OAS: see [`output_bits`].
    #[bits(3)]
    pub oas: u8,
    __: bool,
    /// GRAN4K.
    pub granule_4k: bool,
    /// GRAN16K.
    pub granule_16k: bool,
    /// GRAN64K.
    pub granule_64k: bool,
    #[bits(3)]
    __: u8,
    /// VAX.
    #[bits(2)]
    pub virtual_extension: u8,
    #[bits(4)]
    __: u8,
    /// STALL_MAX.
    pub stall_max: u16,
}

/// Bits of physical addresses for an encoding of IDR5.OAS or CD.IPS (section 6.3.6). Reserved ones count as the smallest.
#[must_use]
pub const fn output_bits(encoded: u8) -> u32 {
    match encoded {
        1 => 36,
        2 => 40,
        3 => 42,
        4 => 44,
        5 => 48,
        6 => 52,
        _ => 32,
    }
}

/// CR0 and CR0ACK, enables (section 6.3.9).
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct Cr0 {
    /// SMMUEN: streams are translated; otherwise GBPA decides.
    pub smmu: bool,
    /// PRIQEN.
    pub priq: bool,
    /// EVENTQEN: events are recorded.
    pub eventq: bool,
    /// CMDQEN: commands are consumed.
    pub cmdq: bool,
    /// ATSCHK.
    pub ats_check: bool,
    __: bool,
    /// VMW.
    #[bits(3)]
    pub vmid_wildcard: u8,
    #[bits(23)]
    __: u32,
}

/// CR1, attributes of the SMMU's own accesses (section 6.3.11). Cacheability 1 is write-back.
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct Cr1 {
    /// QUEUE_IC.
    #[bits(2)]
    pub queue_inner: u8,
    /// QUEUE_OC.
    #[bits(2)]
    pub queue_outer: u8,
    /// QUEUE_SH.
    #[bits(2)]
    pub queue_shareability: u8,
    /// TABLE_IC.
    #[bits(2)]
    pub table_inner: u8,
    /// TABLE_OC.
    #[bits(2)]
    pub table_outer: u8,
    /// TABLE_SH.
    #[bits(2)]
    pub table_shareability: u8,
    #[bits(20)]
    __: u32,
}

/// CR2, controls (section 6.3.12).
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct Cr2 {
    /// E2H.
    pub e2h: bool,
    /// RECINVSID: transactions of invalid streams are recorded.
    pub record_invalid_streams: bool,
    /// PTM: broadcast invalidation of processors is ignored.
    pub private_tlb: bool,
    #[bits(29)]
    __: u32,
}

/// GBPA, the fate of transactions while CR0.SMMUEN is 0 (section 6.3.14). A write takes effect when UPDATE reads 0.
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct Gbpa {
    /// MemAttr, MTCFG, ALLOCCFG, SHCFG, PRIVCFG, INSTCFG: attributes of transactions that pass.
    #[bits(20)]
    pub attributes: u32,
    /// ABORT: transactions are aborted.
    pub abort: bool,
    #[bits(10)]
    __: u16,
    /// UPDATE: to be written as 1; reads 0 when done.
    pub update: bool,
}

/// IRQ_CTRL and IRQ_CTRLACK, interrupt enables (section 6.3.16).
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct IrqCtrl {
    /// GERROR_IRQEN.
    pub gerror: bool,
    /// PRIQ_IRQEN.
    pub priq: bool,
    /// EVENTQ_IRQEN.
    pub eventq: bool,
    #[bits(29)]
    __: u32,
}

/// GERROR and GERRORN, global errors (section 6.3.18).
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct Gerror {
    /// CMDQ_ERR: the command queue stopped at a command; CMDQ_CONS.ERR has the reason.
    pub cmdq: bool,
    __: bool,
    /// EVENTQ_ABT_ERR: an event was lost at an external abort.
    pub eventq_abort: bool,
    /// PRIQ_ABT_ERR.
    pub priq_abort: bool,
    /// MSI_CMDQ_ABT_ERR.
    pub msi_cmdq_abort: bool,
    /// MSI_EVENTQ_ABT_ERR.
    pub msi_eventq_abort: bool,
    /// MSI_PRIQ_ABT_ERR.
    pub msi_priq_abort: bool,
    /// MSI_GERROR_ABT_ERR.
    pub msi_gerror_abort: bool,
    /// SFM_ERR: the SMMU is in service failure mode; only a reset of it helps.
    pub service_failure: bool,
    #[bits(23)]
    __: u32,
}

/// STRTAB_BASE, address of the stream table (section 6.3.23): bits 51:6 here, aligned to the table's size.
pub const STRTAB_ADDRESS: u64 = 0x000f_ffff_ffff_ffc0;

/// STRTAB_BASE.RA and the queues' RA and WA: an allocation hint.
pub const ALLOCATE: u64 = 1 << 62;

/// STRTAB_BASE_CFG, format of the stream table (section 6.3.24).
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct StrtabBaseCfg {
    /// LOG2SIZE: log2 of the number of StreamIDs covered.
    #[bits(6)]
    pub streams_log2: u8,
    /// SPLIT: a level 2 table has at most 2^SPLIT entries: 6, 8 or 10.
    #[bits(5)]
    pub split: u8,
    #[bits(5)]
    __: u8,
    /// FMT: 0 linear, 1 two levels.
    #[bits(2)]
    pub format: u8,
    #[bits(14)]
    __: u16,
}

/// STRTAB_BASE_CFG.FMT for two levels.
pub const FORMAT_TWO_LEVEL: u8 = 1;

/// CMDQ_BASE and EVENTQ_BASE (sections 6.3.25 and 6.3.28).
#[bitfield(u64)]
#[derive(PartialEq, Eq)]
pub struct QueueBase {
    /// LOG2SIZE: log2 of the number of entries.
    #[bits(5)]
    pub entries_log2: u8,
    /// ADDR, bits 51:5 of the address, aligned to the queue's size.
    #[bits(47)]
    pub frame: u64,
    #[bits(10)]
    __: u16,
    /// RA or WA: an allocation hint.
    pub allocate: bool,
    __: bool,
}

impl QueueBase {
    /// A queue of 2^`entries_log2` entries at `address`, whose bits outside 51:5 are dropped.
    #[must_use]
    pub const fn at(address: u64, entries_log2: u8) -> Self {
        Self::new()
            .with_entries_log2(entries_log2 & 0x1f)
            .with_frame((address >> 5) & 0x7fff_ffff_ffff)
            .with_allocate(true)
    }

    /// The queue's address.
    #[must_use]
    pub const fn address(self) -> u64 {
        self.frame() << 5
    }
}

/// CMDQ_CONS (section 6.3.27).
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct CmdqCons {
    /// RD with its wrap bit above the index.
    #[bits(20)]
    pub index: u32,
    #[bits(4)]
    __: u8,
    /// ERR: why consumption stopped, while GERROR.CMDQ_ERR is active; see [`CommandError`].
    #[bits(7)]
    pub error: u8,
    __: bool,
}

/// CMDQ_CONS.ERR (section 4.1.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum CommandError {
    /// CERROR_NONE.
    None = 0,
    /// CERROR_ILL: the command is illegal.
    Illegal = 1,
    /// CERROR_ABT: the command could not be fetched.
    Abort = 2,
    /// CERROR_ATC_INV_SYNC.
    AtcInvalidate = 3,
}

impl CommandError {
    /// The error of this number, if it has a name.
    #[must_use]
    pub const fn from_raw(raw: u8) -> Option<Self> {
        Some(match raw {
            0 => Self::None,
            1 => Self::Illegal,
            2 => Self::Abort,
            3 => Self::AtcInvalidate,
            _ => return None,
        })
    }
}

/// EVENTQ_PROD and EVENTQ_CONS (sections 6.3.29 and 6.3.30).
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct EventqIndex {
    /// WR or RD with its wrap bit above the index.
    #[bits(20)]
    pub index: u32,
    #[bits(11)]
    __: u16,
    /// OVFLG and OVACKFLG: events were lost while the two differ.
    pub overflow: bool,
}

#[cfg(test)]
#[path = "registers_tests.rs"]
mod tests;
