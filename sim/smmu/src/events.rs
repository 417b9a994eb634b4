//! Filling the event queue (sections 3.5 and 7).

use platform::{Iova, Paddr};
use smmu_spec::event::{CLASS_INPUT, CLASS_TABLE, EVENT_BYTES_LOG2};
use smmu_spec::registers::{Cr0, Gerror};
use smmu_spec::{EventKind, EventRecord, StreamId};
use zerocopy::IntoBytes;

use crate::faults::Profile;
use crate::smmu::{Direction, PhysicalMemory, Smmu};

impl Smmu {
    /// Records an event, if events are recorded and there is room.
    pub(crate) fn record(
        &mut self,
        memory: &mut dyn PhysicalMemory,
        kind: EventKind,
        stream: StreamId,
        iova: Iova,
        direction: Direction,
    ) {
        let is_unwanted = kind == EventKind::BadStream && !self.state.cr2.record_invalid_streams();
        if !Cr0::from_bits(self.state.cr0.acknowledged).eventq() || is_unwanted {
            return;
        }
        let base = self.state.eventq_base;
        let (prod, cons) = (self.state.eventq_prod, self.state.eventq_cons);
        if prod.index().wrapping_sub(cons.index()) & self.eventq_mask() == 1 << base.entries_log2() {
            return self.lose_event();
        }
        let index = u64::from(prod.index()) & ((1 << base.entries_log2()) - 1);
        let at = Paddr::new(base.address() + (index << EVENT_BYTES_LOG2));
        if memory.write(at, record(kind, stream, iova, direction).as_bytes()).is_err() {
            return self.raise(Gerror::new().with_eventq_abort(true));
        }
        let next = (prod.index() + 1) & self.eventq_mask();
        self.state.eventq_prod = prod.with_index(next);
        // One for each queue that is no longer empty, not for each event (section 3.18).
        let was_empty = prod.index() == cons.index();
        self.interrupts.events |= was_empty && self.irq_enabled().eventq();
    }

    fn lose_event(&mut self) {
        let acknowledged = self.state.eventq_cons.overflow();
        match self.config.profile {
            Profile::Standard => self.state.eventq_prod.set_overflow(!acknowledged),
            Profile::Qemu72 => self.raise(Gerror::new().with_eventq_abort(true)),
        }
    }

    /// Mask of the index and wrap bit of the event queue.
    pub(crate) fn eventq_mask(&self) -> u32 {
        (2 << self.state.eventq_base.entries_log2().min(19)) - 1
    }
}

fn record(kind: EventKind, stream: StreamId, iova: Iova, direction: Direction) -> EventRecord {
    let mut record = EventRecord::new(kind, stream);
    if kind.has_address() {
        let class = if kind == EventKind::WalkAbort { CLASS_TABLE } else { CLASS_INPUT };
        record.address = iova.bits();
        record.word1 = record.word1.with_read(direction == Direction::Read).with_class(class);
    }
    record
}
