//! Completion: pairing a command with its CQ, posting, interrupts (SEEDS O1; sections 4.1 and 4.6).
//!
//! A CQ without room holds completions back until a head doorbell frees some. Faults of completions take effect here.

use nvme_spec::cqe::SqPosition;
use nvme_spec::{Cid, Cqe, QueueId};
use sim_fault::ControllerEffect;
use zerocopy::IntoBytes;

use crate::admin;
use crate::command::Finished;
use crate::controller::Controller;
use crate::fault::Posting;
use crate::host::Host;
use crate::record::{Event, Record};
use crate::violation::ViolationKind;

impl Controller {
    /// Frees the slot of a finished command and posts its completion.
    pub(crate) fn complete(&mut self, slot: u16, host: &mut dyn Host) {
        let Some(mut command) = self.commands.end(slot) else { return };
        if !command.status.is_success() {
            admin::on_error(self, &mut command);
        }
        let cid = command.sqe.cdw0.cid();
        let posting = command.effects.posting;
        crate::io::completed(self, &command);
        if self.journal.is_on() {
            self.journal.event(Event::Over(Record {
                sq: command.sq,
                cid,
                opcode: command.sqe.opcode(),
                nsid: command.sqe.nsid,
                slba: u64::from(command.sqe.cdw10) | u64::from(command.sqe.cdw11) << 32,
                blocks: (command.sqe.cdw12 & 0xffff) + 1,
                status: command.status,
                fetched_ns: command.fetched_ns,
                completed_ns: self.clock_ns,
                postings: posting.count(),
            }));
        }
        let finished = Finished { sq: command.sq, cid, dw0: command.dw0, status: command.status, posting };
        self.post_for(finished, host);
        self.wake_fetch();
    }

    /// Posts to the CQ of the command's SQ.
    pub(crate) fn post_for(&mut self, finished: Finished, host: &mut dyn Host) {
        let Some(sq) = self.queues.sq_mut(finished.sq) else { return };
        sq.in_use.remove(finished.cid);
        let cq = sq.cq;
        if finished.posting.dropped.is_some() {
            return self.faults.show(finished.posting.dropped);
        }
        self.post(cq, finished, host);
        if finished.posting.duplicated.is_some() {
            self.faults.show(finished.posting.duplicated);
            self.post(cq, finished, host);
        }
    }

    /// Posts to a CQ, or queues the completion behind those that already wait for room.
    fn post(&mut self, cq: u16, finished: Finished, host: &mut dyn Host) {
        if self.queues.cq(cq).is_some_and(crate::queue::CompletionQueue::is_full) && self.settings.shadow.is_some() {
            self.refresh_head(cq, host);
        }
        let Some(queue) = self.queues.cq_mut(cq) else { return };
        if queue.stuck {
            self.faults.met(|effect| effect == ControllerEffect::StuckQueuePair { pair: cq });
        }
        if queue.is_full() || !queue.waiting.is_empty() {
            queue.waiting.push_back(finished);
        } else {
            self.write_entry(cq, finished, host);
        }
        if self.queues.cq(cq).is_some_and(|queue| !queue.waiting.is_empty()) {
            self.post_waiting(cq, host);
        }
    }

    /// Posts completions that waited for room, as far as there is some.
    pub(crate) fn post_waiting(&mut self, cq: u16, host: &mut dyn Host) {
        while let Some(queue) = self.queues.cq_mut(cq)
            && !queue.is_full()
            && let Some(finished) = queue.waiting.pop_front()
        {
            self.write_entry(cq, finished, host);
        }
    }

    fn write_entry(&mut self, cq: u16, finished: Finished, host: &mut dyn Host) {
        let head = self.reported_head(&finished);
        let cid = self.reported_cid(&finished);
        let Some(queue) = self.queues.cq_mut(cq) else { return };
        let phase = if finished.posting.stale_phase.is_some() { queue.phase.flipped() } else { queue.phase };
        self.faults.show(finished.posting.stale_phase);
        let from = SqPosition { sq: QueueId(finished.sq), head };
        let entry = Cqe::new(finished.dw0, from, Cid(cid), finished.status, phase);
        let address = queue.next_address();
        queue.advance();
        self.put_entry(cq, address, &entry, finished.posting, host);
    }

    /// Puts an entry at its place in the CQ and interrupts.
    pub(crate) fn put_entry(&mut self, cq: u16, address: u64, entry: &Cqe, posting: Posting, host: &mut dyn Host) {
        let vector = self.queues.cq(cq).and_then(|queue| queue.vector);
        if host.write(address, entry.as_bytes()).is_err() {
            self.violation(ViolationKind::DmaBlocked { address });
            return self.fail();
        }
        self.counters.posted += 1;
        if let Some(vector) = vector {
            self.notify(vector, cq, posting, host);
        }
    }

    fn notify(&mut self, vector: u16, cq: u16, posting: Posting, host: &mut dyn Host) {
        if posting.no_interrupt.is_some() {
            self.faults.show(posting.no_interrupt);
            self.interrupts.posted_silently(vector);
        } else {
            self.interrupts.posted(vector, cq, &self.settings, self.clock_ns, host);
        }
    }

    /// Returns SQHD, which a fault falsifies. From here on the driver may use the slots before the head: a completion shows that
    /// its command was fetched, and so were those before it.
    fn reported_head(&mut self, finished: &Finished) -> u16 {
        let Some(sq) = self.queues.sq_mut(finished.sq) else { return 0 };
        let before = std::mem::replace(&mut sq.given_back, sq.head);
        let (by, head) = match finished.posting {
            // Just beyond the tail nothing can have been submitted.
            Posting { wrong_head: by @ Some(_), .. } => (by, (sq.tail + 1) % sq.entries),
            Posting { late_head: by @ Some(_), .. } => (by, before),
            _ => (None, sq.head),
        };
        if head != sq.head {
            self.faults.show(by);
        }
        head as u16
    }

    /// Returns the identifier, or with the fault one that no command of the SQ has. It is far from the real one:
    /// commands that wait unread in the SQ have identifiers too, and drivers count upwards.
    fn reported_cid(&mut self, finished: &Finished) -> u16 {
        let by = finished.posting.wrong_cid;
        if by.is_none() {
            return finished.cid;
        }
        self.faults.show(by);
        let free = |cid: &u16| self.queues.sq(finished.sq).is_none_or(|sq| !sq.in_use.contains(*cid));
        let far = finished.cid ^ 0x8000;
        (0..0x8000).map(|step| far.wrapping_sub(step)).find(free).unwrap_or(finished.cid)
    }
}
