//! A session's end, and its passage through a reset: every request is answered once, whatever became of its commands.
//!
//! Left out: queue pairs and window, which the control plane takes afterwards.

use super::Session;
use crate::data_plane::in_flight::{Command, Served};
use blk_api::Status;
use blk_api::ring::{Completed, RingError};
use blk_api::trace::What;
use platform::Platform;

impl<P: Platform> Session<P> {
    /// Stops submitting the request that was not wholly submitted, and those of which commands wait for a retry: they are answered
    /// with `status` after their commands in flight. Returns whether there was one.
    pub(crate) fn cut_short(&mut self, status: Status) -> bool {
        let waited = self.end_retries(status);
        let Some(answer) = self.engine.cut_short(status) else { return waited };
        self.answer_if(answer);
        true
    }

    /// Answers with `status` the request of a command that will not complete.
    pub(crate) fn answer_unfinished(&mut self, command: Command, status: Status) {
        self.in_flight = self.in_flight.wrapping_sub(1);
        self.overrule(command.request, status);
    }

    /// Sets the request's status, whatever the outcome of its other commands.
    pub(super) fn overrule(&mut self, request: Served, status: Status) {
        match request {
            Served::Whole(user_data) => {
                self.trace_of_all(What::Cut);
                self.answer(user_data, status, 0);
            }
            Served::Part(place) => {
                let answer = self.engine.pending.overrule(place, status);
                self.answer_if(answer);
            }
        }
    }

    /// Answers entries with `status`, because there is no controller any more. Returns whether more of them wait.
    pub(crate) fn answer_ended(&mut self, status: Status) -> Result<bool, RingError> {
        for _ in 0..self.engine.pending.most() {
            if self.ring.answerable(self.outstanding)? == 0 {
                break;
            }
            let Some(entry) = self.ring.take()? else { break };
            let status = status as u16;
            self.ring.reply(&Completed { user_data: entry.user_data, status, device_status: 0, reserved: 0 });
        }
        self.publish()?;
        Ok(self.ring.prepare_sleep()? && self.can_answer()?)
    }
}
