//! A queue pair: entries submitted and rung, completions taken by phase tag and released.
//!
//! Indices are private. A queue has one slot more than it holds commands, so a submission never finds it full: completed commands
//! were fetched in the order of their slots (section 4.1), so behind the last of these are only commands in flight. SQHD, by which a
//! controller says the same (section 4.6), is not used: some report a late one, or an older one than before.

use crate::fault::DeviceFault;
use nvme_spec::cqe::{Cqe, CqeEnd, Phase};
use nvme_spec::registers::DoorbellLayout;
use nvme_spec::{QueueId, Sqe};
use platform::{Iova, Memory, Mmio, SlotReader, SlotWriter};

/// Place of a queue: its entries from `offset` of `memory`, at `iova` for the controller.
#[derive(Clone, Debug)]
pub struct Ring<M> {
    /// The memory it lies in.
    pub memory: M,
    /// Bytes from its beginning.
    pub offset: usize,
    /// The queue's address for the controller.
    pub iova: Iova,
}

/// A submission queue and its completion queue.
pub struct QueuePair<M: Memory, R> {
    id: QueueId,
    /// Entries of either queue.
    entries: u16,
    /// The most there is memory for.
    most_entries: u16,
    /// Place of the SQ.
    pub sq: Ring<M>,
    /// Place of the CQ.
    pub cq: Ring<M>,
    sq_slots: M::Writer<Sqe>,
    cq_slots: M::Reader<Cqe>,
    registers: R,
    sq_doorbell: usize,
    cq_doorbell: usize,
    tail: u16,
    rung: u16,
    head: u16,
    released: u16,
    /// The SQ and the phase tag of the next completion.
    expected: CqeEnd,
}

impl<M: Memory, R: Mmio> QueuePair<M, R> {
    /// A queue pair that holds up to `entries - 1` commands. Nothing is written yet; see [`QueuePair::reset`].
    pub fn new(
        id: QueueId,
        entries: u16,
        (sq, cq): (Ring<M>, Ring<M>),
        registers: R,
        doorbells: DoorbellLayout,
    ) -> Result<Self, DeviceFault> {
        let sq_doorbell = doorbells.sq_tail(id).ok_or(DeviceFault::OwnMemory)?;
        let cq_doorbell = doorbells.cq_head(id).ok_or(DeviceFault::OwnMemory)?;
        if cq_doorbell.saturating_add(4) > registers.len() {
            return Err(DeviceFault::Unusable("doorbell beyond the mapped registers"));
        }
        Ok(Self {
            id,
            entries,
            most_entries: entries,
            sq_slots: sq.memory.writer(sq.offset, u32::from(entries))?,
            cq_slots: cq.memory.reader(cq.offset, u32::from(entries))?,
            sq,
            cq,
            registers,
            sq_doorbell,
            cq_doorbell,
            tail: 0,
            rung: 0,
            head: 0,
            released: 0,
            expected: CqeEnd::of(id, Phase::FIRST),
        })
    }

    /// The queue pair's identifier.
    pub fn id(&self) -> QueueId {
        self.id
    }

    /// Entries of either queue.
    pub fn entries(&self) -> u16 {
        self.entries
    }

    /// Changes the number of entries, at least 2, and at most as many as it was made with; resets it to the state in which a
    /// controller creates it.
    ///
    /// # Errors
    /// As [`QueuePair::reset`].
    pub fn resize(&mut self, entries: u16) -> Result<(), DeviceFault> {
        self.entries = entries.max(2).min(self.most_entries);
        self.reset()
    }

    /// Resets it to the state in which a controller creates it: indices at 0, no completion that looks new.
    pub fn reset(&mut self) -> Result<(), DeviceFault> {
        let Self { id, entries, cq, tail, rung, head, released, expected, .. } = self;
        (*tail, *rung, *head, *released, *expected) = (0, 0, 0, 0, CqeEnd::of(*id, Phase::FIRST));
        let slots = cq.memory.writer::<Cqe>(cq.offset, u32::from(*entries))?;
        (0..u32::from(*entries)).for_each(|index| slots.write(index, &Cqe::default()));
        Ok(())
    }

    /// Writes an entry. The controller sees it after [`QueuePair::ring`].
    #[inline(always)]
    pub fn submit(&mut self, sqe: &Sqe) {
        self.sq_slots.write(u32::from(self.tail), sqe);
        self.tail = self.tail.wrapping_add(1);
        if self.tail == self.entries {
            self.tail = 0;
        }
    }

    /// Rings the tail doorbell if there are new entries; returns whether it did.
    #[inline(always)]
    pub fn ring(&mut self) -> Result<bool, DeviceFault> {
        if self.tail == self.rung {
            return Ok(false);
        }
        self.registers.write32(self.sq_doorbell, u32::from(self.tail))?;
        self.rung = self.tail;
        Ok(true)
    }

    /// Takes the next completion, if one is there.
    ///
    /// # Errors
    /// [`DeviceFault::WrongQueue`].
    #[inline(always)]
    pub fn complete(&mut self) -> Result<Option<CqeEnd>, DeviceFault> {
        let end = CqeEnd::from_bits(self.cq_slots.load_acquire_end(u32::from(self.head)));
        if !end.is_in_phase_and_queue_of(self.expected) {
            let is_new = end.is_in_phase_of(self.expected);
            return if is_new { Err(DeviceFault::WrongQueue(end.sq().0)) } else { Ok(None) };
        }
        self.head = self.head.wrapping_add(1);
        if self.head == self.entries {
            self.head = 0;
            self.expected = self.expected.next_phase();
        }
        Ok(Some(end))
    }

    /// Whether a completion is there to be taken.
    #[inline]
    pub fn has_completion(&self) -> bool {
        let end = CqeEnd::from_bits(self.cq_slots.load_acquire_end(u32::from(self.head)));
        end.is_in_phase_of(self.expected)
    }

    /// Takes the next completion with the command's own result, if one is there.
    ///
    /// # Errors
    /// As [`QueuePair::complete`].
    pub fn complete_with_result(&mut self) -> Result<Option<Cqe>, DeviceFault> {
        let slot = u32::from(self.head);
        let Some(end) = self.complete()? else { return Ok(None) };
        Ok(Some(end.with_result(self.cq_slots.read(slot).dw0)))
    }

    /// Rings the head doorbell if completions were taken; returns whether it did.
    #[inline(always)]
    pub fn ring_head(&mut self) -> Result<bool, DeviceFault> {
        if self.head == self.released {
            return Ok(false);
        }
        self.registers.write32(self.cq_doorbell, u32::from(self.head))?;
        self.released = self.head;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nvme_spec::cqe::SqPosition;
    use nvme_spec::registers::Cap;
    use nvme_spec::{Cid, Nsid, Status, nvm};
    use platform::fake::{Ram, Registers};

    const ID: QueueId = QueueId(3);

    fn pair() -> (QueuePair<Ram, Registers>, Ram, Registers) {
        let cq = Ram::new(4096);
        let registers = Registers::new(8192);
        let ring = |memory: Ram| Ring { memory, offset: 0, iova: Iova::new(0) };
        let rings = (ring(Ram::new(4096)), ring(cq.clone()));
        let pair = QueuePair::new(ID, 4, rings, registers.clone(), Cap::new().doorbells()).unwrap();
        (pair, cq, registers)
    }

    fn flush(cid: u16) -> Sqe {
        nvm::flush(Cid(cid), Nsid(1))
    }

    fn post(cq: &Ram, slot: usize, head: u16, cid: u16, phase: bool) {
        let from = SqPosition { sq: ID, head };
        cq.write(slot * size_of::<Cqe>(), &Cqe::new(0, from, Cid(cid), Status::SUCCESS, Phase::from_bit(phase)))
            .unwrap();
    }

    #[test]
    fn one_doorbell_rings_a_batch() {
        let (mut pair, _, registers) = pair();
        pair.submit(&flush(1));
        pair.submit(&flush(2));
        assert_eq!(pair.ring(), Ok(true));
        assert_eq!(pair.ring(), Ok(false));
        assert_eq!(registers.writes(), [(0x1000 + 2 * 3 * 4, 2)]);
    }

    #[test]
    fn completions_are_taken_by_phase_over_the_end_of_the_queue() {
        let (mut pair, cq, _) = pair();
        for round in 0..10u16 {
            let (slot, phase) = (usize::from(round) % 4, (round / 4) % 2 == 0);
            pair.submit(&flush(round));
            pair.ring().unwrap();
            assert_eq!(pair.complete(), Ok(None), "a stale phase is no completion");
            post(&cq, slot, (round + 1) % 4, round, phase);
            assert_eq!(pair.complete().unwrap().unwrap().cid(), Cid(round));
            assert_eq!(pair.ring_head(), Ok(true));
        }
    }

    #[test]
    fn completion_of_another_queue_is_a_fault() {
        let (mut pair, cq, _) = pair();
        let from = SqPosition { sq: QueueId(7), head: 0 };
        cq.write(0, &Cqe::new(0, from, Cid(0), Status::SUCCESS, Phase::One)).unwrap();
        assert_eq!(pair.complete(), Err(DeviceFault::WrongQueue(7)));
    }

    #[test]
    fn old_entry_of_another_queue_is_no_completion() {
        let (mut pair, cq, _) = pair();
        let from = SqPosition { sq: QueueId(7), head: 0 };
        cq.write(0, &Cqe::new(0, from, Cid(0), Status::SUCCESS, Phase::from_bit(false))).unwrap();
        assert_eq!(pair.complete(), Ok(None));
        assert!(!pair.has_completion());
    }

    #[test]
    fn completions_count_whatever_head_they_report() {
        let (mut pair, cq, _) = pair();
        (1..=3).for_each(|cid| pair.submit(&flush(cid)));
        pair.ring().unwrap();
        for (slot, head, cid) in [(0, 2, 1), (1, 1, 2), (2, 9, 3)] {
            post(&cq, slot, head, cid, true);
            assert_eq!(pair.complete().unwrap().unwrap().cid(), Cid(cid));
        }
    }

    #[test]
    fn resized_queue_wraps_at_its_new_end() {
        let (mut pair, cq, _) = pair();
        pair.resize(3).unwrap();
        for round in 0..7u16 {
            pair.submit(&flush(round));
            pair.ring().unwrap();
            post(&cq, usize::from(round) % 3, (round + 1) % 3, round, (round / 3) % 2 == 0);
            assert_eq!(pair.complete().unwrap().unwrap().cid(), Cid(round));
        }
        pair.resize(100).unwrap();
        assert_eq!((pair.entries(), pair.complete()), (4, Ok(None)));
    }

    #[test]
    fn reset_forgets_old_completions() {
        let (mut pair, cq, _) = pair();
        post(&cq, 0, 0, 1, true);
        pair.reset().unwrap();
        assert_eq!(pair.complete(), Ok(None));
    }
}
