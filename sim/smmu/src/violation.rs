//! A driver's breaches of the standard. A clean driver leaves none.

use smmu_spec::StreamId;
use smmu_spec::context::Asid;
use smmu_spec::registers::Register;

/// A breach of the standard by a driver.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Violation {
    /// An access of the wrong size, or where there is no register (section 6.2).
    Access {
        /// Byte offset.
        offset: usize,
    },
    /// A write to a register that can only be read.
    ReadOnly(Register),
    /// A register written while the part that it configures is enabled (section 6.3).
    WhileEnabled(Register),
    /// Reserved bits written as ones, or a value that the SMMU does not support.
    Reserved(Register, u64),
    /// CR0, IRQ_CTRL or GBPA written before the last write took effect.
    HandshakePending(Register),
    /// An index that goes back, or beyond the entries that are free or present.
    QueueIndex(Register, u32),
    /// GERRORN toggled for an error that is not active (section 6.3.19).
    NotActive(u32),
    /// The SMMU enabled before its caches were invalidated once (section 3.11).
    EnabledUninvalidated,
    /// The stream table's registers are unusable when the SMMU is enabled.
    StreamTable,
    /// A command that is illegal here (section 4.1.2).
    Command {
        /// The command's first word.
        word0: u64,
        /// The command's second word.
        word1: u64,
    },
    /// Reserved or unsupported fields in the level 1 descriptor, entry or context descriptor of a stream.
    Structure(StreamId),
    /// A stream whose configuration bypasses translation.
    Bypass(StreamId),
    /// A configuration changed from one that is valid, and cached, to another (section 3.21).
    StreamChanged(StreamId),
    /// A descriptor for an address with reserved or unsupported fields.
    Descriptor {
        /// The descriptor.
        bits: u64,
    },
    /// A descriptor changed from one that is valid, and cached, to another (DDI 0487, D5.10: break before make).
    TranslationChanged {
        /// The address space.
        asid: Asid,
        /// An address it translates.
        iova: u64,
    },
    /// An ASID that two different address spaces use at the same time (section 3.17).
    SharedAsid(Asid),
}
