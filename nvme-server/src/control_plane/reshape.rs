//! Another number, depth or class of queue pairs for an open session.
//!
//! The policy component asks for it (`shares`), and the control plane carries it out in its turn. Queue pairs that have to be
//! deleted take no commands from then on; the data plane reports when the last one in flight has completed. The session's
//! requests wait on its ring meanwhile, and no other session waits. New queue pairs are created before old ones are deleted,
//! and old ones are changed one after another. A refusal of the controller is undone. A controller that fails is brought up
//! with the old queue pairs, and the change is tried again.

use crate::control_plane::changes::Reconfiguration;
use crate::control_plane::provision::{make, numbers_of};
use crate::control_plane::reconcile::{is_refused, own_queues, reconcile};
use crate::control_plane::shares;
use crate::data_plane::queues::Allotment;
use crate::jobs::Job;
use crate::link::Link;
use blk_api::policy::{Refusal, Share as AskedShare};
use blk_api::queue_sharing::QueueSharing;
use nvme_driver::Health;
use nvme_driver::plan::Desired;
use platform::Platform;
use platform::log::{info, warn};
use report::clip;
use scheduler::Share;

/// The outcome of carrying it out.
pub(crate) enum Outcome {
    /// Commands are in flight: retried when they have ended.
    Waits,
    /// The change is done, or undone.
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
    pub(crate) fn begin<P: Platform>(self, link: &Link<P>) {
        link.changes.reconfiguration.set(Some(self));
        link.jobs.pass(Job::Reshape);
    }

    /// Undoes it: the session has its old share again.
    fn take_back<P: Platform>(&self, link: &Link<P>) {
        link.with(|data| data.restore_share(self.index, self.before));
    }

    /// The refusal after the controller kept failing.
    pub(crate) const fn failed(&self) -> Refusal {
        Refusal::Device(self.index as u32)
    }

    /// Does what can be done now, for a controller whose commands may move `max_transfer` bytes.
    pub(super) async fn carry_out<P: Platform>(&self, link: &Link<P>, max_transfer: u64) -> Outcome {
        let Some(now) = link.with(|data| data.allotment(self.index)) else {
            return Outcome::Over(Err(Refusal::BadRequest));
        };
        // The controller may not have been known when it was asked for.
        let asked = (self.to.queue_pairs.into(), self.to.depth.into());
        if let Err(refusal) = shares::judge(link, self.index, now, asked) {
            return Outcome::Over(Err(refusal));
        }
        let is_own = link.config.queue_sharing == QueueSharing::Dedicated;
        let Some(old) = link.with(|data| data.queues_of(self.index)).filter(|_| is_own) else {
            return Outcome::Over(Ok(()));
        };
        let new = numbers_of(&link.config, self.index, self.to);
        let Some(was) = link.with(|data| data.form(old.start)) else {
            return Outcome::Over(Err(Refusal::BadRequest));
        };
        // A depth that does not change may have been more than the controller's largest queue holds.
        let depth = if self.to.depth == now.depth { was.depth } else { self.to.depth };
        let mut desired = own_queues(link, self.index, new.clone(), depth);
        // All of them change, or none: the first one shows it.
        let changes = desired.first().is_none_or(|first| first.form != Some(was));
        if (changes || new.end < old.end) && !link.with(|data| data.quiesce(self.index, old.clone())) {
            return Outcome::Waits;
        }
        let refusal = Refusal::NoQueuePairs { asked: self.to.queue_pairs.into(), has: old.len() as u32 };
        if make(link, max_transfer, new.clone()).is_err() {
            return Outcome::Over(Err(refusal));
        }
        desired.extend(Desired::absent(new.end..old.end));
        match reconcile(link, &desired).await {
            Ok(()) => {
                link.with(|data| data.replace_queues(self.index, new));
                Outcome::Over(Ok(()))
            }
            Err(fault) if is_refused(fault) => Outcome::Over(Err(refusal)),
            Err(fault) => {
                link.fail(fault);
                Outcome::Faulty
            }
        }
    }

    /// Ends it: the policy component is notified, and the session goes on.
    pub(crate) fn end<P: Platform>(&self, link: &Link<P>, done: Result<(), Refusal>) {
        link.changes.reconfiguration.set(None);
        match done {
            Ok(()) => {
                info!("session {} has {} queue pairs of depth {}", self.index, self.to.queue_pairs, self.to.depth)
            }
            Err(refusal) => {
                self.take_back(link);
                let why = clip::<96>(&alloc::format!("{refusal}"));
                warn!("the queue pairs of session {} stay as they are: {}", self.index, why.as_str());
            }
        }
        link.with(|data| data.end_change(self.index, done.ok().map(|()| self.to)));
        // One that went with its controller is made when that is back.
        let refused = done.err().filter(|_| link.controller.health.get() != Health::Gone);
        link.changes.reconfiguration_refused.set(refused.map(|refusal| (self.share, refusal)));
        // Its retry finds the work done.
        link.notify_policy();
    }
}
