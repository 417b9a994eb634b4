//! A test in the place of time and chance: what the controller does next, which command is over, what it posts.
//!
//! For tests of a driver, whose steps are few and in an order that matters. Everything is done now and with the machinery
//! of the other modules, so the answers stay those of the model. Left out: anything that a whole simulation needs, which has
//! [`sim_fault`].

use nvme_spec::admin::QueuePriority;
use nvme_spec::cqe::SqPosition;
use nvme_spec::{Cid, Cqe, QueueId, Status};
use sim_fault::ControllerEffect;

use crate::controller::Controller;
use crate::fault::Posting;
use crate::host::Host;

impl Controller {
    /// The controller is hit as by a fault of its configuration.
    pub fn strike(&mut self, effect: ControllerEffect, host: &mut dyn Host) {
        self.suffer(effect, host);
        self.look_ahead();
    }

    /// A command that was fetched waits no longer: its next stage is due. Nothing happens where there is no such command.
    pub fn hurry(&mut self, sq: QueueId, cid: Cid) {
        if let Some((slot, command)) = self.fetched(sq, cid).and_then(|slot| Some((slot, *self.commands.get(slot)?))) {
            self.commands.schedule(slot, command.stage, self.clock_ns);
            self.look_ahead();
        }
    }

    /// A command that was fetched ends with this status, and what of it is not done yet will not be.
    pub fn end(&mut self, sq: QueueId, cid: Cid, status: Status, host: &mut dyn Host) {
        if let Some(slot) = self.fetched(sq, cid) {
            self.abandon(slot, status, host);
            self.look_ahead();
        }
    }

    /// Posts an entry that ends no command: `change` makes it of one that is sound but for its identifier, 0xffff. One
    /// with a stale phase tag is written, and its place is taken by the next. Nothing happens where there is no such CQ
    /// with an SQ of the same number, or no room.
    pub fn forge(&mut self, cq: QueueId, change: impl FnOnce(&mut Cqe), host: &mut dyn Host) {
        let Some(head) = self.queues.sq(cq.0).map(|queue| queue.head as u16) else { return };
        let Some(queue) = self.queues.cq_mut(cq.0).filter(|queue| !queue.is_full()) else { return };
        let mut entry = Cqe::new(0, SqPosition { sq: cq, head }, Cid(0xffff), Status::SUCCESS, queue.phase);
        change(&mut entry);
        let address = queue.next_address();
        if entry.phase() == queue.phase {
            queue.advance();
        }
        self.put_entry(cq.0, address, &entry, Posting::default(), host);
        self.look_ahead();
    }

    /// The SQs that exist, ascending, with their priorities. That of the admin queue means nothing.
    pub fn submission_queues(&self) -> impl Iterator<Item = (QueueId, QueuePriority)> + '_ {
        (0..).zip(&self.queues.sqs).filter_map(|(id, queue)| Some((QueueId(id), queue.as_ref()?.priority)))
    }

    /// The CQs that exist, ascending.
    pub fn completion_queues(&self) -> impl Iterator<Item = QueueId> + '_ {
        (0..).zip(&self.queues.cqs).filter_map(|(id, queue)| queue.as_ref().map(|_| QueueId(id)))
    }

    fn fetched(&self, sq: QueueId, cid: Cid) -> Option<u16> {
        let is_wanted = |command: &crate::command::Command| command.sq == sq.0 && command.sqe.cid() == cid;
        self.commands.find(is_wanted).first().copied()
    }
}
