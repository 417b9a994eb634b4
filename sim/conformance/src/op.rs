//! The calls of the kernel that sequences are made of, as data.
//!
//! A call names capabilities by [`Slot`] and places by [`Path`]. Neither depends on where in a machine's CSpace the slots
//! for sequences begin, so the same call can be made on machines whose boot left different slots free.

use platform::{CacheAttributes, CapData, ObjectType, Resume, Rights, TableLevel, Trigger};
use serde::{Deserialize, Serialize};

/// Helper threads beside the root thread, which is thread 0. They are threads 1 to `HELPERS`.
pub const HELPERS: usize = 3;
/// All threads of a sequence.
pub const THREADS: usize = HELPERS + 1;

/// A slot of the calling thread's CSpace.
///
/// The root thread's are numbered from the first of those kept for sequences; numbers from [`Slot::CNODE`] on are the
/// capabilities that it has from boot. A helper's are numbered from 0 of its CNode.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct Slot(pub u16);

impl Slot {
    /// Never filled.
    pub const EMPTY: Self = Self(0);
    /// The root thread's CNode; every other boot capability has a number above.
    pub const CNODE: Self = Self(0x100);
    /// The root thread's VSpace, which the helpers share.
    pub const VSPACE: Self = Self(0x101);
    /// The root thread's TCB.
    pub const TCB: Self = Self(0x102);
    /// The root thread's ASID pool.
    pub const ASID_POOL: Self = Self(0x103);
    /// The right to make ASID pools.
    pub const ASID_CONTROL: Self = Self(0x104);
    /// The right to make interrupt handlers.
    pub const IRQ_CONTROL: Self = Self(0x105);
    /// All I/O ports.
    pub const IO_PORTS: Self = Self(0x106);
    /// The master of all IOSpaces.
    pub const IO_SPACES: Self = Self(0x107);
}

/// A slot as CNode invocations name it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Path {
    /// In the thread's own CNode, at the depth that finds it.
    Own(Slot),
    /// In the thread's own CNode, at this depth.
    OwnAt(Slot, u8),
    /// In another CNode: the capability to it, index, depth.
    In(Slot, u64, u8),
}

/// Content of a thread's registers, as written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Context {
    /// Registers with which helper thread `.0` continues at its call number `.1`.
    Helper(u8, u16),
    /// Instruction pointer, stack pointer and three arguments, for a thread that never runs.
    Plain([u64; 5]),
}

/// The part of a thread's registers that the answer has.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Shown {
    /// All: for threads that have never run, whose registers are as written.
    Values,
    /// None, only whether they could be read: a running helper's depend on its program.
    Success,
}

/// A message to send: `words` words, counted up from `first`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Letter {
    /// The message's label: from [`Letter::FIRST_LABEL`] on, for the lower ones are the kernel's own.
    pub label: u16,
    /// Number of words.
    pub words: u8,
    /// The first word.
    pub first: u64,
    /// The extra capability.
    pub cap: Option<Slot>,
}

impl Letter {
    /// The lowest label of a sequence's own messages: above those of all invocations, in case a message goes to an object.
    pub const FIRST_LABEL: u16 = 128;

    /// A message of one word.
    #[must_use]
    pub const fn new(label: u16, first: u64) -> Self {
        Self { label, words: 1, first, cap: None }
    }

    /// This message with a capability.
    #[must_use]
    pub const fn and_cap(mut self, cap: Slot) -> Self {
        self.cap = Some(cap);
        self
    }

    /// This message with this number of words.
    #[must_use]
    pub const fn long(mut self, words: u8) -> Self {
        self.words = words;
        self
    }
}

/// A call of a sequence. Every one but [`Op::Nothing`] gets one answer, unless its thread never returns from it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[expect(
    missing_docs,
    reason = "the fields are those of the methods of platform::Kernel that the variants are named for"
)]
pub enum Op {
    /// No call: the place of a call that was removed from a sequence.
    Nothing,
    /// `untyped_retype`; slots from `first` on, counted as [`Slot`]s where the CNode is the root thread's.
    Retype { untyped: Slot, object: ObjectType, size_bits: u8, cnode: Slot, first: u16, count: u16 },
    /// `cnode_copy`
    Copy { dest: Path, src: Path, rights: Rights },
    /// `cnode_mint`
    Mint { dest: Path, src: Path, rights: Rights, data: CapData },
    /// `cnode_move`
    Move { dest: Path, src: Path },
    /// `cnode_delete`
    Delete { slot: Path },
    /// `cnode_revoke`
    Revoke { slot: Path },
    /// `cnode_save_caller`
    SaveCaller { slot: Path },
    /// `tcb_configure`
    Configure {
        tcb: Slot,
        fault_endpoint: u16,
        priority: u8,
        cspace: Slot,
        guard_bits: u8,
        vspace: Slot,
        buffer: u64,
        frame: Slot,
    },
    /// `tcb_write_registers`
    WriteRegisters { tcb: Slot, start: Resume, context: Context },
    /// `tcb_read_registers`
    ReadRegisters { tcb: Slot, shown: Shown },
    /// `tcb_resume`
    Resume { tcb: Slot },
    /// `tcb_suspend`
    Suspend { tcb: Slot },
    /// `tcb_bind_notification`
    Bind { tcb: Slot, notification: Slot },
    /// `asid_control_make_pool`
    MakePool { control: Slot, untyped: Slot, dest: Path },
    /// `asid_pool_assign`
    AssignPool { pool: Slot, vspace: Slot },
    /// `translation_table_map`
    MapTable { level: TableLevel, table: Slot, vspace: Slot, vaddr: u64 },
    /// `frame_map`
    MapFrame { frame: Slot, vspace: Slot, vaddr: u64, rights: Rights, cache: CacheAttributes },
    /// `frame_unmap`
    UnmapFrame { frame: Slot },
    /// `frame_get_address`; the answer counts from the start of the memory that sequences are given.
    FrameAddress { frame: Slot },
    /// `frame_map_io`
    MapIo { frame: Slot, space: Slot, rights: Rights, iova: u64 },
    /// `io_page_table_map`
    MapIoTable { table: Slot, space: Slot, iova: u64 },
    /// `io_page_table_unmap`
    UnmapIoTable { table: Slot },
    /// `irq_control_get`, of a line
    GetIoapic { control: Slot, dest: Path, pin: u8, line: Trigger, irq: u8 },
    /// `irq_control_get`, of a message
    GetMsi { control: Slot, dest: Path, requester_id: u16, irq: u8 },
    /// `irq_handler_ack`
    Ack { handler: Slot },
    /// `irq_handler_set_notification`
    SetNotification { handler: Slot, notification: Slot },
    /// `irq_handler_clear`
    ClearHandler { handler: Slot },
    /// `ioport_in8`; the answer has no value, for that is the device's.
    PortIn8 { ports: Slot, port: u16 },
    /// `ioport_in32`
    PortIn32 { ports: Slot, port: u16 },
    /// `signal`
    Signal { notification: Slot },
    /// `send`
    Send { dest: Slot, letter: Letter },
    /// `nb_send`
    NbSend { dest: Slot, letter: Letter },
    /// `call`
    Call { endpoint: Slot, letter: Letter },
    /// `reply`
    Reply { letter: Letter },
    /// `reply`, and then a wait, in one call of the kernel.
    ReplyReceive { letter: Letter, from: Slot },
    /// Waits at an endpoint or a notification.
    Receive { from: Slot },
    /// Takes a message or signal that is already at an endpoint or a notification.
    NbReceive { from: Slot },
    /// Sets the slot for a received capability; none with `None`.
    ReceiveSlot { slot: Option<Path> },
    /// The root thread alone: waits until no helper can run. The answer is the signal that reports this.
    Settle,
    /// Lets threads of the same priority run.
    Yield,
    /// Reads the word at an address of the mapping area; never answered where nothing is mapped.
    Load { vaddr: u64 },
    /// Writes it.
    Store { vaddr: u64, value: u64 },
}
