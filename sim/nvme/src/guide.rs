//! Control of the controller by a test, in place of time and chance: its next step, the end of a command, the entry it
//! posts.
//!
//! For tests of a driver that have few steps in a fixed order. Everything happens at once and through the other
//! modules, so the answers stay those of the model. Left out: everything that a whole simulation needs; [`sim_fault`]
//! has that.

use nvme_spec::admin::QueuePriority;
use nvme_spec::cqe::SqPosition;
use nvme_spec::{Cid, Cqe, QueueId, Status};
use sim_fault::ControllerEffect;

use crate::admin;
use crate::controller::Controller;
use crate::fault::Posting;
use crate::host::Host;

impl Controller {
    /// Hits the controller as by a fault of its configuration.
    pub fn strike(&mut self, effect: ControllerEffect, host: &mut dyn Host) {
        self.with_shared(|controller| {
            controller.suffer(effect, host);
            admin::deliver_events(controller, host);
            controller.look_ahead();
        });
    }

    /// Makes the next stage of a fetched command due. Does nothing when there is no such command.
    pub fn hurry(&mut self, sq: QueueId, cid: Cid) {
        if let Some((slot, command)) = self.fetched(sq, cid).and_then(|slot| Some((slot, *self.commands.get(slot)?))) {
            self.commands.schedule(slot, command.stage, self.clock_ns);
            self.look_ahead();
        }
    }

    /// Ends a fetched command with this status; its remaining work is not done.
    pub fn end(&mut self, sq: QueueId, cid: Cid, status: Status, host: &mut dyn Host) {
        if let Some(slot) = self.fetched(sq, cid) {
            self.abandon(slot, status, host);
            self.look_ahead();
        }
    }

    /// Posts an entry that ends no command. `change` receives one that is valid but for its identifier, 0xffff. An
    /// entry with a stale phase tag is written, and the next entry takes its place. Does nothing when there is no such
    /// CQ with an SQ of the same number, or no room.
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
