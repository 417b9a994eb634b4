//! Operations on queue pairs, for the control plane.

use super::DataPlane;
use crate::data_plane::in_flight::oldest;
use crate::data_plane::io_queue::{IoQueue, State};
use crate::data_plane::slot::SessionSlot;
use alloc::vec::Vec;
use blk_api::Status;
use blk_api::config::ServerConfig;
use core::ops::Range;
use nvme_driver::fault::DeviceFault;
use nvme_driver::plan::{self, Desired, Form, Step};
use nvme_spec::QueueId;
use nvme_spec::admin::CommandName;
use platform::{Iova, Platform};

/// A queue pair that gave no answer in time.
#[derive(Clone, Copy)]
pub(crate) struct Late {
    pub number: u16,
    pub form: Form,
    /// The queue pair's oldest command.
    pub oldest: CommandName,
}

/// A queue pair as the controller is to create it.
#[derive(Clone, Copy)]
pub(crate) struct Prepared {
    pub id: QueueId,
    /// Entries of either queue.
    pub entries: u16,
    pub sq: Iova,
    pub cq: Iova,
}

/// The sessions whose commands go to the queue pair of this number.
pub(crate) fn users(config: &ServerConfig, number: u16) -> impl Iterator<Item = usize> {
    (0..config.sessions.len()).filter(move |index| config.queue_pairs_of(*index).contains(&number))
}

impl<P: Platform> DataPlane<P> {
    /// The queue pairs among these that were not made yet.
    pub(crate) fn not_made(&self, numbers: Range<u16>) -> Vec<u16> {
        numbers.filter(|number| self.queues.get(*number).is_none()).collect()
    }

    /// Keeps queue pairs that were made.
    pub(crate) fn keep_queues(&mut self, made: impl Iterator<Item = (u16, IoQueue<P>)>) {
        made.for_each(|(number, queue)| self.queues.put(number, queue));
    }

    /// The largest transfer, bytes, of one command on any of these queue pairs: `most`, or less.
    pub(crate) fn max_transfer(&self, numbers: Range<u16>, most: u64) -> u64 {
        self.queues.max_transfer(numbers, most)
    }

    /// The form that a queue pair was last created with, or is created with next.
    pub(crate) fn form(&self, number: u16) -> Option<Form> {
        self.queues.get(number).map(IoQueue::form)
    }

    /// Returns whether the controller has the queue pair.
    pub(crate) fn is_created(&self, number: u16) -> bool {
        self.queues.get(number).and_then(IoQueue::created).is_some()
    }

    /// The steps to the desired state.
    pub(crate) fn plan(&self, desired: &[Desired]) -> Vec<Step> {
        plan::plan(|number| self.queues.get(number).and_then(IoQueue::created), desired)
    }

    /// Prepares a queue pair, which the controller does not have and which has nothing in flight, for its creation.
    ///
    /// # Errors
    /// [`DeviceFault::OwnMemory`].
    pub(crate) fn prepare(&mut self, number: u16, form: Form) -> Result<Prepared, DeviceFault> {
        let queue = self.queues.get_mut(number).ok_or(DeviceFault::OwnMemory)?;
        queue.set_form(form)?;
        let pair = &queue.queue.pair;
        Ok(Prepared { id: pair.id(), entries: pair.entries(), sq: pair.sq.iova, cq: pair.cq.iova })
    }

    /// Notes the state of a queue pair at the controller. Returns the controller's identifier of it.
    ///
    /// # Errors
    /// [`DeviceFault::OwnMemory`] for one that was not made.
    pub(crate) fn set_queue_state(&mut self, number: u16, state: State) -> Result<QueueId, DeviceFault> {
        let queue = self.queues.get_mut(number).ok_or(DeviceFault::OwnMemory)?;
        queue.state = state;
        Ok(queue.queue.pair.id())
    }

    /// Has the next bring-up create queue pairs as they were before these steps.
    pub(crate) fn restore_forms(&mut self, steps: &[Step]) {
        for step in steps {
            if let Step::Delete(number, was) = *step
                && let Some(queue) = self.queues.get_mut(number).filter(|queue| queue.form() != was)
            {
                // Its memory was written to before.
                let _ = queue.set_form(was);
            }
        }
    }

    /// Polls the sessions whose queue pairs changed in these steps.
    pub(crate) fn poll_users(&mut self, steps: &[Step]) {
        for step in steps {
            for user in users(&self.config, step.number()) {
                if let Some(slot) = self.slots.get_mut(user).filter(|slot| slot.phase.session().is_some()) {
                    slot.place.wake();
                    self.wake();
                }
            }
        }
    }

    /// Has queue pairs take no commands from now on.
    pub(super) fn stop_queues(&mut self, numbers: Range<u16>) {
        numbers.for_each(|number| self.queues.get_mut(number).into_iter().for_each(IoQueue::stop));
    }

    /// Has queue pairs take commands again, as far as the controller has them.
    pub(super) fn resume_queues(&mut self, numbers: Range<u16>) {
        numbers.for_each(|number| self.queues.get_mut(number).into_iter().for_each(IoQueue::resume));
    }

    /// Resets all queue pairs, after a confirmed reset of the controller, which has none of them any more.
    ///
    /// # Errors
    /// As [`QueuePair::reset`](nvme_driver::QueuePair::reset).
    pub(crate) fn reset_queues(&mut self) -> Result<(), DeviceFault> {
        self.queues.reset()
    }

    /// The queue pairs that the controller is to have now, with the sessions that need them: link ones one by one, or those of each
    /// open session. None is above the controller's grant.
    pub(crate) fn in_use(&self, granted: u16) -> Vec<(Vec<usize>, Vec<Desired>)> {
        let desired = |numbers: Range<u16>| -> Vec<Desired> {
            let granted = numbers.start..numbers.end.min(granted);
            granted.filter_map(|number| Some(Desired { number, form: Some(self.form(number)?) })).collect()
        };
        let has_queues = |index: &usize| self.slots.get(*index).is_some_and(|slot| slot.phase.has_queues());
        if let Some((queue_pairs, _)) = self.config.queue_sharing.common() {
            let one = |number: u16| {
                let users = users(&self.config, number).filter(has_queues);
                (users.collect(), desired(number..number.saturating_add(1)))
            };
            return (0..queue_pairs).map(one).collect();
        }
        let own = |(index, slot): (usize, &SessionSlot<P>)| {
            Some((Vec::from([index]), desired(slot.phase.session()?.queues.clone())))
        };
        self.slots.iter().enumerate().filter(|(index, _)| has_queues(index)).filter_map(own).collect()
    }

    /// A queue pair with an answer overdue.
    pub(crate) fn late(&self) -> Option<Late> {
        let number = self.queues.overdue(self.platform.ticks(), self.platform.ticks_per_second())?;
        let queue = self.queues.get(number)?;
        let oldest = CommandName { sq: queue.queue.pair.id(), cid: oldest(&queue.queue.commands)? };
        Some(Late { number, form: queue.form(), oldest })
    }

    /// Answers the commands that a deleted queue pair had in flight with [`Status::TimedOut`].
    ///
    /// # Errors
    /// [`DeviceFault::OwnMemory`] for one that was not made.
    pub(crate) fn answer_deleted(&mut self, number: u16) -> Result<(), DeviceFault> {
        let Self { platform, slots, queues, schedule, .. } = self;
        let queue = queues.get_mut(number).ok_or(DeviceFault::OwnMemory)?;
        let mut batch = schedule.batch(platform.ticks());
        for (command, accounting) in queue.queue.commands.take_all() {
            batch.aborted(&command, accounting);
            let session = slots.get_mut(usize::from(command.work.session())).and_then(|slot| slot.phase.session_mut());
            session.into_iter().for_each(|session| session.answer_unfinished(command, Status::TimedOut));
        }
        for user in queue.users {
            let session = slots.get_mut(user).and_then(|slot| slot.phase.session_mut());
            session.into_iter().for_each(|session| session.publish().unwrap_or_default());
        }
        Ok(())
    }
}
