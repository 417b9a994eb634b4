//! The doorbell monitor (SEEDS O1, O2; sections 3.1.24 and 3.1.25), and doorbells kept in memory (section 5.7).
//!
//! Tails and heads are handled separately: a tail makes an SQ ready for arbitration; a head frees room in a CQ and
//! releases completions that waited for it. With shadow doorbells the values come from the driver's memory, and the
//! event index shows the driver from which value on it must ring. The admin queues are always rung.

use crate::violation::{Doorbell, DoorbellError, ViolationKind};
use nvme_spec::registers::DOORBELL_BASE;

use crate::admin;
use crate::controller::Controller;
use crate::host::Host;
use crate::queue::distance;

impl Controller {
    /// Handles a write in the doorbells' part of BAR0.
    pub(crate) fn ring(&mut self, offset: u64, value: u32, host: &mut dyn Host) {
        if self.registers.cc.shn() as u8 != 0 {
            return self.violation(ViolationKind::DoorbellAfterShutdown { offset });
        }
        if !self.registers.csts.rdy() {
            if !self.registers.is_reset_unnoticed() {
                self.violation(ViolationKind::DoorbellBeforeReady { offset });
            }
            return;
        }
        if self.registers.csts.cfs() {
            return;
        }
        let Some(doorbell) = self.doorbell_at(offset) else {
            self.violation(ViolationKind::DoorbellOfNoQueue { offset });
            return admin::on_doorbell_error(self, DoorbellError::UnknownQueue, host);
        };
        if value > 0xffff {
            self.violation(ViolationKind::ReservedBits { offset, value: u64::from(value) });
        }
        let value = value & 0xffff;
        let accepted = match doorbell {
            Doorbell::Tail(sq) => self.ring_tail(sq, value, host),
            Doorbell::Head(cq) => self.ring_head(cq, value, host),
        };
        if let Err(kind) = accepted {
            self.violation(kind);
            admin::on_doorbell_error(self, DoorbellError::Value, host);
        }
    }

    /// Returns the doorbell of an existing queue at this offset.
    fn doorbell_at(&self, offset: u64) -> Option<Doorbell> {
        let from_first = offset - DOORBELL_BASE as u64;
        let stride = self.doorbell_stride();
        let index = from_first / stride;
        let queue = u16::try_from(index / 2).ok().filter(|_| from_first.is_multiple_of(stride))?;
        if index.is_multiple_of(2) {
            self.queues.sq(queue).map(|_| Doorbell::Tail(queue))
        } else {
            self.queues.cq(queue).map(|_| Doorbell::Head(queue))
        }
    }

    fn doorbell_stride(&self) -> u64 {
        4 << self.registers.cap.dstrd()
    }

    fn ring_tail(&mut self, sq: u16, value: u32, host: &mut dyn Host) -> Result<(), ViolationKind> {
        match self.shadow_value(Doorbell::Tail(sq), host) {
            Some(_) => self.refresh_tail(sq, host),
            None => self.set_tail(sq, value)?,
        }
        self.wake_fetch();
        Ok(())
    }

    fn ring_head(&mut self, cq: u16, value: u32, host: &mut dyn Host) -> Result<(), ViolationKind> {
        match self.shadow_value(Doorbell::Head(cq), host) {
            Some(_) => self.refresh_head(cq, host),
            None => self.set_head(cq, value, host)?,
        }
        self.post_waiting(cq, host);
        Ok(())
    }

    fn set_tail(&mut self, sq: u16, tail: u32) -> Result<(), ViolationKind> {
        let ams = self.registers.cc.ams();
        let Some(queue) = self.queues.sq_mut(sq) else { return Ok(()) };
        if tail >= queue.entries || tail == queue.tail {
            return Err(ViolationKind::DoorbellValue { doorbell: Doorbell::Tail(sq), value: tail });
        }
        if queue.added_by(tail) > queue.room() {
            return Err(ViolationKind::SubmissionOverrun { sq, tail });
        }
        queue.tail = tail;
        if sq != 0 {
            self.arbiter.set_ready(sq, queue.priority, ams);
        }
        Ok(())
    }

    fn set_head(&mut self, cq: u16, head: u32, host: &mut dyn Host) -> Result<(), ViolationKind> {
        let Some(queue) = self.queues.cq_mut(cq) else { return Ok(()) };
        if head >= queue.entries || head == queue.head {
            return Err(ViolationKind::DoorbellValue { doorbell: Doorbell::Head(cq), value: head });
        }
        let taken = distance(queue.head, head, queue.entries);
        if taken > queue.posted() {
            return Err(ViolationKind::CompletionOverrun { cq, head });
        }
        queue.head = head;
        if let Some(vector) = queue.vector {
            self.interrupts.consumed(vector, taken, host);
        }
        Ok(())
    }

    /// Reads an SQ's shadow tail, and sets the event index so that the driver rings for anything beyond it.
    pub(crate) fn refresh_tail(&mut self, sq: u16, host: &mut dyn Host) {
        // Twice: the driver may have moved on before it could see the event index.
        for _ in 0..2 {
            let Some(tail) = self.shadow_value(Doorbell::Tail(sq), host) else { return };
            let known = self.queues.sq(sq).map(|queue| queue.tail);
            if known != Some(tail)
                && let Err(kind) = self.set_tail(sq, tail)
            {
                self.violation(kind);
                return admin::on_doorbell_error(self, DoorbellError::Value, host);
            }
            self.set_event_index(Doorbell::Tail(sq), tail, host);
        }
    }

    /// Reads a CQ's shadow head, as for a tail.
    pub(crate) fn refresh_head(&mut self, cq: u16, host: &mut dyn Host) {
        for _ in 0..2 {
            let Some(head) = self.shadow_value(Doorbell::Head(cq), host) else { return };
            let known = self.queues.cq(cq).map(|queue| queue.head);
            if known != Some(head)
                && let Err(kind) = self.set_head(cq, head, host)
            {
                self.violation(kind);
                return admin::on_doorbell_error(self, DoorbellError::Value, host);
            }
            self.set_event_index(Doorbell::Head(cq), head, host);
        }
    }

    /// Reads a doorbell from the driver's memory; `None` when it is not kept there or cannot be read.
    fn shadow_value(&mut self, doorbell: Doorbell, host: &mut dyn Host) -> Option<u32> {
        let at = self.shadow_offset(doorbell)?;
        let address = self.settings.shadow?.doorbells.wrapping_add(at);
        let mut bytes = [0; 4];
        if host.read(address, &mut bytes).is_err() {
            self.violation(ViolationKind::DmaBlocked { address });
            return None;
        }
        Some(u32::from_le_bytes(bytes))
    }

    fn set_event_index(&mut self, doorbell: Doorbell, value: u32, host: &mut dyn Host) {
        let (Some(at), Some(shadow)) = (self.shadow_offset(doorbell), self.settings.shadow) else { return };
        let address = shadow.event_indexes.wrapping_add(at);
        if host.write(address, &value.to_le_bytes()).is_err() {
            self.violation(ViolationKind::DmaBlocked { address });
        }
    }

    fn shadow_offset(&self, doorbell: Doorbell) -> Option<u64> {
        let index = match doorbell {
            Doorbell::Tail(0) | Doorbell::Head(0) => return None,
            Doorbell::Tail(sq) => 2 * u64::from(sq),
            Doorbell::Head(cq) => 2 * u64::from(cq) + 1,
        };
        Some(index * self.doorbell_stride())
    }
}
