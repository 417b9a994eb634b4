//! Completes commands and answers the client.

use super::run::Run;
use super::{PollResult, ServeError, Session};
use crate::data_plane::in_flight::{Command, Served, Work};
use crate::data_plane::queues::Queues;
use blk_api::Status;
use blk_api::ring::{Completed, RingError};
use blk_api::trace::What;
use nvme_driver::command::failure;
use nvme_driver::fault::DeviceFault;
use nvme_driver::pending::Answer;
use nvme_spec::{Cid, QueueId};
use platform::{Kernel, Platform};

impl<P: Platform> Session<P> {
    /// Rings for the submitted commands and publishes the answers: each doorbell and signal at most once.
    ///
    /// # Errors
    /// As [`Session::take_turn`].
    #[inline]
    pub(crate) fn end_poll(&mut self, queues: &mut Queues<P>, polled: PollResult) -> Result<(), ServeError> {
        if polled == PollResult::Turn {
            self.ring(queues)?;
            self.trace_of_all(What::Rung);
        }
        if polled != PollResult::Nothing {
            self.publish()?;
        }
        Ok(())
    }

    /// Rings for the commands submitted in this pass.
    #[inline]
    fn ring(&mut self, queues: &mut Queues<P>) -> Result<(), DeviceFault> {
        for number in self.queues.clone() {
            let Some(queue) = queues.get_mut(number) else { continue };
            let rung = queue.queue.pair.ring()?;
            self.statistics.doorbells = self.statistics.doorbells.wrapping_add(u64::from(rung));
            if rung && number == self.next_queue {
                self.advance_queue();
            }
        }
        Ok(())
    }

    /// Publishes the answers, and how far the client's entries were taken.
    pub(crate) fn publish(&mut self) -> Result<(), RingError> {
        if self.run.count > 0 {
            self.end_run();
        }
        self.ring.publish_taken()?;
        if self.ring.has_unpublished() {
            self.trace_of_all(What::Answered);
        }
        if self.ring.publish()? {
            self.statistics.notifications = self.statistics.notifications.wrapping_add(1);
            self.kernel.signal(self.client);
        }
        Ok(())
    }

    /// Handles the completion of the command with this identifier on this queue pair, taken `now`.
    #[inline(always)]
    pub(crate) fn completed<const TRACED: bool>(
        &mut self,
        command: &Command,
        status: nvme_spec::Status,
        id: (QueueId, Cid),
        now: u64,
    ) {
        self.in_flight = self.in_flight.wrapping_sub(1);
        if !status.is_success() {
            return self.fail(command, status, id, now);
        }
        match command.request {
            Served::Whole(user_data) => {
                let Run { work, submitted, .. } = self.run;
                if work != command.work || submitted != command.submitted {
                    if self.run.count > 0 {
                        self.end_run();
                    }
                    self.run = Run { work: command.work, submitted: command.submitted, completed: now, count: 0 };
                }
                self.run.count = self.run.count.wrapping_add(1);
                if TRACED && let Some(trace) = &mut self.trace {
                    trace.completed(id.1.0);
                }
                self.answer(user_data, Status::Success, 0);
            }
            Served::Part(place) => self.completed_part(command, id, place, now),
        }
    }

    /// Handles the completion of a command that did a part of the request in `place`.
    #[inline]
    fn completed_part(&mut self, command: &Command, id: (QueueId, Cid), place: u16, now: u64) {
        self.trace_completed(What::PartCompleted, id, place, now);
        self.count(command.work, 1);
        let answer = self.engine.pending.end_one(place, Status::Success, 0);
        if let (Some(latencies), Some(_)) = (&mut self.latencies, answer) {
            latencies.answered(command.work.kind(), place, now);
        }
        self.answer_if(answer);
    }

    /// Counts the requests of the run that ends.
    #[inline(never)]
    fn end_run(&mut self) {
        // Requests of the same submission that are completed later are another run.
        let Run { work, submitted, completed, count } = core::mem::replace(&mut self.run, Run::NONE);
        self.count(work, count);
        if let Some(latencies) = &mut self.latencies {
            latencies.record(work.kind(), completed.wrapping_sub(submitted), count);
        }
    }

    /// Counts the bytes of this number of commands.
    #[inline]
    fn count(&mut self, work: Work, commands: u32) {
        let bytes = u64::from(work.bytes()).wrapping_mul(commands.into());
        self.statistics.count_bytes(work.kind(), bytes);
    }

    /// Records the failure of a command, or keeps it for a retry.
    #[cold]
    fn fail(&mut self, command: &Command, status: nvme_spec::Status, id: (QueueId, Cid), now: u64) {
        self.statistics.errors = self.statistics.errors.wrapping_add(1);
        let kept = self.keep(command, status, now);
        self.trace_failed(command, status, id, kept, now);
        if kept.is_some() {
            return;
        }
        let (status, device_status) = (failure(command.work.opcode(), status), status.without_more().to_raw());
        match command.request {
            Served::Whole(user_data) => self.answer(user_data, status, device_status),
            Served::Part(place) => self.close_one(place, status, device_status),
        }
    }

    /// Answers a request that was taken off the ring.
    #[inline(always)]
    pub(super) fn answer(&mut self, user_data: u64, status: Status, device_status: u16) {
        self.outstanding = self.outstanding.wrapping_sub(1);
        self.ring.reply(&Completed { user_data, status: status as u16, device_status, reserved: 0 });
    }

    /// Counts one open command less, which ended with this status; replies when none is open.
    #[inline]
    pub(super) fn close_one(&mut self, place: u16, status: Status, device_status: u16) {
        let answer = self.engine.pending.end_one(place, status, device_status);
        self.answer_if(answer);
    }

    /// Answers a request that was taken off the ring, if its last command has ended.
    #[inline]
    pub(super) fn answer_if(&mut self, answer: Option<Answer>) {
        if let Some(Answer { place, user_data, status, device_status }) = answer {
            self.trace_ended(place, status);
            self.answer(user_data, status, device_status);
        }
    }
}
