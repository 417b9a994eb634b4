//! Violations of the standard by a driver.
//!
//! Each is refused as the standard says, or ignored where it says nothing, and recorded here. A clean driver leaves
//! none. Section numbers are those of the base specification 1.4.

use nvme_spec::Status;

/// Limit of violations kept; later ones are only counted.
const KEPT: usize = 1024;

/// A violation and its time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Violation {
    /// Nanoseconds of virtual time.
    pub at_ns: u64,
    /// The kind of violation.
    pub kind: ViolationKind,
}

/// The kinds of misuse a controller can see.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ViolationKind {
    /// A register access of a size or at an offset that is not allowed (section 3.1).
    AccessSize {
        /// Offset in BAR0.
        offset: u64,
        /// Bytes.
        bytes: u8,
    },
    /// A write where there is no register.
    ReservedRegister {
        /// Offset in BAR0.
        offset: u64,
    },
    /// A write to a register that can only be read.
    ReadOnlyRegister {
        /// Offset in BAR0.
        offset: u64,
    },
    /// Reserved bits written as ones, or a reserved value written to a field.
    ReservedBits {
        /// Offset in BAR0.
        offset: u64,
        /// The value written.
        value: u64,
    },
    /// A field of CC, or AQA, ASQ or ACQ, changed while CC.EN was 1 (sections 3.1.5, 3.1.8 to 3.1.10).
    ChangedWhileEnabled {
        /// Offset in BAR0.
        offset: u64,
    },
    /// CC.EN set before CSTS.RDY was 0, or cleared before it was 1, where it would have been
    /// (section 3.1.5).
    EnableNotFollowed,
    /// CC.EN set with a configuration the controller does not support.
    UnsupportedConfiguration {
        /// The value of CC.
        cc: u32,
    },
    /// CC.EN set with an admin queue of fewer than two entries (section 3.1.8).
    AdminQueueSize,
    /// Something other than the reset signature written to NSSR (section 3.1.7), or NSSR where it is not supported.
    SubsystemReset {
        /// The value written.
        value: u32,
    },
    /// A doorbell was read; the value read is not defined (section 3.1.24).
    DoorbellRead {
        /// Offset in BAR0.
        offset: u64,
    },
    /// A doorbell was written while CSTS.RDY was 0. After a loss of power or a subsystem reset this is a violation only
    /// once the driver has acted on it by clearing or setting CC.EN, or by clearing CSTS.NSSRO.
    DoorbellBeforeReady {
        /// Offset in BAR0.
        offset: u64,
    },
    /// A doorbell was written after a shutdown was requested (section 3.1.5, SHN).
    DoorbellAfterShutdown {
        /// Offset in BAR0.
        offset: u64,
    },
    /// A doorbell of a queue that does not exist.
    DoorbellOfNoQueue {
        /// Offset in BAR0.
        offset: u64,
    },
    /// A value beyond the queue's entries, or the same value again.
    DoorbellValue {
        /// Which doorbell.
        doorbell: Doorbell,
        /// The value written.
        value: u32,
    },
    /// A tail that takes slots the controller has not given back by SQHD.
    SubmissionOverrun {
        /// The SQ.
        sq: u16,
        /// The tail written.
        tail: u32,
    },
    /// A head that frees completions which were never posted.
    CompletionOverrun {
        /// The CQ.
        cq: u16,
        /// The head written.
        head: u32,
    },
    /// A command to create or delete a queue that was refused.
    QueueCommand {
        /// The admin opcode.
        opcode: u8,
        /// The queue it named.
        queue: u16,
        /// The answer.
        status: Status,
    },
    /// A command identifier that is still in use on its SQ.
    CommandId {
        /// The SQ.
        sq: u16,
        /// The identifier.
        cid: u16,
    },
    /// A field of a command that is reserved, or not allowed to hold this value.
    CommandField {
        /// The SQ.
        sq: u16,
        /// The identifier.
        cid: u16,
        /// The opcode.
        opcode: u8,
        /// Which dword of the command: 0 to 15.
        dword: u8,
    },
    /// A command that names more blocks or ranges than the controller's limits for it (NVM command set specification 1.0, section
    /// 4.1.5.2).
    CommandSize {
        /// The identifier.
        cid: u16,
        /// The opcode.
        opcode: u8,
    },
    /// A PRP entry or list pointer with an offset that is not allowed (section 4.3).
    PrpOffset {
        /// The SQ.
        sq: u16,
        /// The identifier.
        cid: u16,
        /// The entry.
        entry: u64,
    },
    /// A PRP entry that the transfer does not use and that is not 0.
    PrpUnused {
        /// The SQ.
        sq: u16,
        /// The identifier.
        cid: u16,
        /// The entry.
        entry: u64,
    },
    /// DMA for a command or a queue that the machine refused.
    DmaBlocked {
        /// The address.
        address: u64,
    },
}

/// A doorbell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Doorbell {
    /// The tail of this SQ.
    Tail(u16),
    /// The head of this CQ.
    Head(u16),
}

/// All violations of a controller.
#[derive(Default, Debug)]
pub(crate) struct Violations {
    kept: Vec<Violation>,
    count: u64,
}

impl Violations {
    pub(crate) fn record(&mut self, at_ns: u64, kind: ViolationKind) {
        self.count = self.count.saturating_add(1);
        if self.kept.len() < KEPT {
            self.kept.push(Violation { at_ns, kind });
        }
    }

    pub(crate) fn kept(&self) -> &[Violation] {
        &self.kept
    }

    pub(crate) const fn count(&self) -> u64 {
        self.count
    }
}

/// A wrong write of a doorbell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum DoorbellError {
    /// The queue does not exist.
    UnknownQueue,
    /// The value is invalid.
    Value,
}
