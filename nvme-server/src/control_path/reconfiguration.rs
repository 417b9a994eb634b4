//! Reconfiguration: an open session gets another number, depth or class of queue pairs.
//!
//! The policy component asks for it (`shares`), and `control_plane` carries it out in its turn. Queue pairs that have to be
//! deleted take no commands from then on; the data plane reports when the last one in flight has completed. The session's
//! requests wait on its ring meanwhile, and no other session waits. New queue pairs are created before old ones are deleted,
//! and old ones are changed one after another. A refusal of the controller is undone. A controller that fails is brought up
//! with the old queue pairs, and the reconfiguration is tried again.

use crate::control_path::changes::Reconfiguration;
use crate::control_path::identity::Identity;
use crate::control_path::provision::{make, numbers_of};
use crate::control_path::reconcile::{Desired, is_refused, reconcile};
use crate::control_path::requests::Control;
use crate::data_path::io_queue::IoQueue;
use crate::data_path::queues::Allotment;
use crate::data_path::session::Session;
use crate::sessions::shares;
use crate::sessions::slot::completed;
use crate::shared::Shared;
use blk_api::policy::{Refusal, Share as AskedShare};
use blk_api::queue_sharing::QueueSharing;
use core::ops::Range;
use nvme_driver::controller::Health;
use platform::Platform;
use platform::log::{info, warn};
use report::clip;
use scheduler::Share;

/// The outcome of carrying it out.
pub(crate) enum Outcome {
    /// Commands are in flight: retried when they have ended.
    Waits,
    /// It is done, or undone.
    Over(Result<(), Refusal>),
    /// The controller failed, and is brought up with the queue pairs as they were.
    Faulty,
}

impl Reconfiguration {
    /// Reconfigures session `index`, for which `share` was asked, which may have `to` and had `before`.
    pub(crate) const fn new(share: AskedShare, index: usize, to: Allotment, before: Share) -> Self {
        Self { share, index, to, before }
    }

    /// Has the control plane carry it out. No other is under way.
    pub(crate) fn begin<P: Platform>(self, shared: &Shared<P>) {
        shared.changes.reconfiguration.set(Some(self));
        shared.control.pass(Control::Reconfigure);
    }

    /// Undoes it: the session has its old share again.
    fn take_back<P: Platform>(&self, shared: &Shared<P>) {
        // It was allowed before.
        let _ = shared.schedule.borrow_mut().put_share(self.index, self.before, shared.platform.ticks());
    }

    /// The refusal after the controller kept failing.
    pub(crate) const fn failed(&self) -> Refusal {
        Refusal::Device(self.index as u32)
    }

    /// Does what can be done now.
    pub(crate) async fn carry_out<P: Platform>(&self, shared: &Shared<P>, identity: &Identity) -> Outcome {
        let Some((now, old)) = self.compare(shared) else { return Outcome::Over(Err(Refusal::BadRequest)) };
        // The controller may not have been known when it was asked for.
        let asked = (self.to.queue_pairs.into(), self.to.depth.into());
        if let Err(refusal) = shares::judge(shared, self.index, now, asked) {
            return Outcome::Over(Err(refusal));
        }
        let Some(old) = old else { return Outcome::Over(Ok(())) };
        let new = numbers_of(shared, self.index, self.to);
        let was = shared.queues.borrow().get(old.start).map(IoQueue::form);
        let Some(was) = was else { return Outcome::Over(Err(Refusal::BadRequest)) };
        // A depth that does not change may have been more than the controller's largest queue holds.
        let depth = if self.to.depth == now.depth { was.depth } else { self.to.depth };
        let mut desired = Desired::own(shared, self.index, new.clone(), depth);
        // All of them change, or none: the first one shows it.
        let changes = desired.first().is_none_or(|first| first.form != Some(was));
        if (changes || new.end < old.end) && !self.is_drained(shared, &old) {
            return Outcome::Waits;
        }
        let refusal = Refusal::NoQueuePairs { asked: self.to.queue_pairs.into(), has: old.len() as u32 };
        if make(shared, identity, new.clone()).is_err() {
            return Outcome::Over(Err(refusal));
        }
        desired.extend(Desired::absent(new.end..old.end));
        match reconcile(shared, &desired).await {
            Ok(()) => {
                self.hand_over(shared, new);
                Outcome::Over(Ok(()))
            }
            Err(fault) if is_refused(fault) => Outcome::Over(Err(refusal)),
            Err(fault) => {
                shared.fail(fault);
                Outcome::Faulty
            }
        }
    }

    /// The session's allotment, and the numbers of its queue pairs if it is open and stays so.
    fn compare<P: Platform>(&self, shared: &Shared<P>) -> Option<(Allotment, Option<Range<u16>>)> {
        let mut slots = shared.slots.borrow_mut();
        let slot = slots.get_mut(self.index)?;
        let open = slot.phase.serving_mut().filter(|_| shared.config.queue_sharing == QueueSharing::Dedicated);
        Some((slot.allotment, open.map(|session| session.queues.clone())))
    }

    /// Whether the queue pairs have nothing in flight and take nothing more. Otherwise they take nothing from now on, and the
    /// data plane reports when nothing is in flight.
    fn is_drained<P: Platform>(&self, shared: &Shared<P>, numbers: &Range<u16>) -> bool {
        let (mut queues, mut slots) = (shared.queues.borrow_mut(), shared.slots.borrow_mut());
        for number in numbers.clone() {
            queues.get_mut(number).into_iter().for_each(IoQueue::drain);
        }
        let Some(slot) = slots.get_mut(self.index) else { return true };
        if !slot.phase.session().is_some_and(Session::has_commands) {
            return true;
        }
        slot.phase.drain();
        slot.poll();
        shared.wake_data_plane();
        false
    }

    /// Gives the session these queue pairs.
    fn hand_over<P: Platform>(&self, shared: &Shared<P>, numbers: Range<u16>) {
        let (queues, mut slots) = (shared.queues.borrow(), shared.slots.borrow_mut());
        let Some(slot) = slots.get_mut(self.index) else { return };
        let max_transfer = queues.of(numbers.clone()).map(|queue| queue.max_transfer).min();
        if let Some(session) = slot.phase.session_mut() {
            session.set_queues(numbers.clone(), max_transfer.unwrap_or_default());
        }
        slot.listen_to_vectors(shared.controller.vectors.borrow().bits_of(numbers));
        shared.controller.vectors.borrow().restart_count(|bit| completed(&slots, bit));
    }

    /// Ends it: the policy component is notified, and the session goes on.
    pub(crate) fn end<P: Platform>(&self, shared: &Shared<P>, done: Result<(), Refusal>) {
        shared.changes.reconfiguration.set(None);
        match done {
            Ok(()) => {
                info!("session {} has {} queue pairs of depth {}", self.index, self.to.queue_pairs, self.to.depth)
            }
            Err(refusal) => {
                self.take_back(shared);
                let why = clip::<96>(&alloc::format!("{refusal}"));
                warn!("the queue pairs of session {} stay as they are: {}", self.index, why.as_str());
            }
        }
        if let Some(slot) = shared.slots.borrow_mut().get_mut(self.index) {
            if done.is_ok() {
                slot.allotment = self.to;
            }
            slot.phase.go_on();
            slot.poll();
        }
        for number in shared.config.queue_pairs_of(self.index) {
            shared.queues.borrow_mut().get_mut(number).into_iter().for_each(IoQueue::resume);
        }
        shared.wake_data_plane();
        // One that went with its controller is made when that is back.
        let refused = done.err().filter(|_| shared.controller.health.get() != Health::Gone);
        shared.changes.reconfiguration_refused.set(refused.map(|refusal| (self.share, refusal)));
        // Its retry finds the work done.
        shared.notify_policy();
    }
}
