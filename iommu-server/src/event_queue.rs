//! The event queue (sections 3.5 and 7): one page, 128 events.

use crate::command_queue::{acknowledge, active_errors};
use crate::error::Error;
use crate::pool::{EVENT_QUEUE, Pool};
use crate::registers::Registers;
use platform::{Iova, Memory, Mmio};
use smmu_spec::event::{EventWord0, EventWord1};
use smmu_spec::registers::{EventqIndex, Gerror, QueueBase, Register};
use smmu_spec::{EventKind, EventRecord, StreamId};

/// log2 of the entries.
pub(crate) const ENTRIES_LOG2: u8 = 7;
const ENTRIES: u32 = 1 << ENTRIES_LOG2;
const POSITION_MASK: u32 = (ENTRIES << 1).wrapping_sub(1);
const INDEX_MASK: u32 = ENTRIES.wrapping_sub(1);
/// 64-bit words of a record.
const RECORD_WORDS: u32 = 4;

/// A transaction that the SMMU refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fault {
    /// The device that sent it.
    pub stream: StreamId,
    /// The reason.
    pub kind: FaultKind,
    /// The transaction's address, in faults that have one.
    pub iova: Option<Iova>,
    /// The transaction's direction, in faults that have an address.
    pub direction: Option<Direction>,
}

/// Reason of a refused transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FaultKind {
    /// An event of the standard.
    Known(EventKind),
    /// Another number.
    Other(u8),
}

/// Reads or writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// The device read memory.
    Read,
    /// The device wrote memory.
    Write,
}

/// The outcome of draining the queue once.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Drained {
    /// Faults reported.
    pub faults: u32,
    /// Whether others were lost since the last call: the queue was full, or could not be written.
    pub lost: bool,
    /// Whether others came meanwhile, for which no interrupt may follow.
    pub more: bool,
}

/// The queue as software sees it.
#[derive(Debug, Default)]
pub(crate) struct EventQueue {
    /// Index and wrap bit of the next record to read.
    cons: u32,
    /// OVACKFLG: the last overflow that was seen.
    overflow: bool,
}

impl EventQueue {
    /// The value of EVENTQ_BASE for the pool's event queue.
    pub(crate) fn base<M: Memory>(pool: &Pool<M>) -> Result<u64, Error> {
        Ok(QueueBase::at(pool.paddr(EVENT_QUEUE)?, ENTRIES_LOG2).into_bits())
    }

    /// Sets up an empty queue. CR0.EVENTQEN must be 0.
    pub(crate) fn start<R: Mmio, M: Memory>(registers: &Registers<R>, pool: &Pool<M>) -> Result<Self, Error> {
        registers.write_wide(Register::EventqBase, Self::base(pool)?)?;
        registers.write(Register::EventqProd, 0)?;
        registers.write(Register::EventqCons, 0)?;
        Ok(Self::default())
    }

    /// Passes `each` every fault that is in the queue now, at most as many as it has entries.
    pub(crate) fn drain<R: Mmio, M: Memory>(
        &mut self,
        registers: &Registers<R>,
        pool: &Pool<M>,
        mut each: impl FnMut(Fault),
    ) -> Result<Drained, Error> {
        let prod = EventqIndex::from_bits(registers.read(Register::EventqProd)?);
        let position = prod.index() & POSITION_MASK;
        let mut drained = Drained { lost: prod.overflow() != self.overflow, ..Drained::default() };
        self.overflow = prod.overflow();
        if position.wrapping_sub(self.cons) & POSITION_MASK > ENTRIES {
            // More than the queue holds: the index is impossible, and the records cannot be trusted.
            drained.lost = true;
            self.cons = position;
        }
        while self.cons != position {
            each(read_fault(pool, self.cons)?);
            drained.faults = drained.faults.saturating_add(1);
            self.cons = self.cons.wrapping_add(1) & POSITION_MASK;
        }
        if drained != Drained::default() {
            let cons = EventqIndex::new().with_index(self.cons).with_overflow(self.overflow);
            registers.write(Register::EventqCons, cons.into_bits())?;
            let prod = EventqIndex::from_bits(registers.read(Register::EventqProd)?);
            drained.more = prod.index() & POSITION_MASK != self.cons;
        }
        let active = active_errors(registers)?;
        if active.service_failure() {
            return Err(Error::Unsupported("service: it reports service failure mode"));
        }
        // QEMU reports a full queue in this way.
        drained.lost |= active.eventq_abort();
        acknowledge(registers, |active| active.with_cmdq(false))?;
        Ok(drained)
    }
}

/// Acknowledges all errors, before queues are set up.
pub(crate) fn acknowledge_all<R: Mmio>(registers: &Registers<R>) -> Result<(), Error> {
    acknowledge(registers, |active: Gerror| active)
}

fn read_fault<M: Memory>(pool: &Pool<M>, position: u32) -> Result<Fault, Error> {
    let first = (position & INDEX_MASK).saturating_mul(RECORD_WORDS) as usize;
    let word = |index: usize| pool.read(EVENT_QUEUE, first.saturating_add(index));
    let record = EventRecord {
        word0: EventWord0::from_bits(word(0)?),
        word1: EventWord1::from_bits(word(1)?),
        address: word(2)?,
        second_address: word(3)?,
    };
    Ok(Fault::from_record(&record))
}

impl Fault {
    fn from_record(record: &EventRecord) -> Self {
        let known = record.kind();
        let has_address = known.is_some_and(EventKind::has_address);
        let direction = if record.word1.read() { Direction::Read } else { Direction::Write };
        Self {
            stream: record.stream(),
            kind: known.map_or(FaultKind::Other(record.word0.number()), FaultKind::Known),
            iova: has_address.then(|| Iova::new(record.address)),
            direction: has_address.then_some(direction),
        }
    }
}
