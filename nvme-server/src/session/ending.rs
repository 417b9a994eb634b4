//! How a session ends, or goes through a reset: every request is answered once, whatever became of its commands.
//!
//! Left out: queue pairs and window, which the control plane takes after this.

use super::{Session, Trouble};
use crate::in_flight::Command;
use crate::schedule::Ledger;
use alloc::vec::Vec;
use blk_api::Status;
use blk_api::ring::{Completed, RingError};
use platform::Platform;

impl<P: Platform> Session<P> {
    /// Takes new completions only: the session is being closed. A request not wholly given is answered as
    /// [`Status::Closed`] after its commands in flight.
    pub(crate) fn finish_commands(&mut self, ledger: &mut Ledger<'_>, now: u64) -> Result<(), Trouble> {
        let cut_short = self.current.take();
        if let Some((_, place)) = cut_short {
            self.fail(place, Status::Closed)?;
        }
        if self.take_completions(ledger, now)? || cut_short.is_some() {
            self.publish()?;
        }
        Ok(())
    }

    /// Answers entries with [`Status::Closed`]: there is no controller any more. Whether more of them wait.
    pub(crate) fn turn_away(&mut self) -> Result<bool, RingError> {
        for _ in 0..self.pending.len() {
            if !self.ring.can_answer_one_more(self.outstanding())? {
                break;
            }
            let Some(entry) = self.ring.take()? else { break };
            let status = Status::Closed as u16;
            self.ring.reply(&Completed { user_data: entry.user_data, status, device_status: 0, reserved: 0 })?;
        }
        self.publish()?;
        self.prepare_sleep()
    }

    /// After a confirmed reset: everything in flight is answered with [`Status::ControllerReset`] and the queues start
    /// anew.
    pub(crate) fn abort(&mut self) -> Result<(), Trouble> {
        if let Some((_, place)) = self.current.take() {
            self.fail(place, Status::ControllerReset)?;
        }
        for index in 0..self.queues.len() {
            let Some(queue) = self.queues.get_mut(index) else { break };
            let commands: Vec<Command> = queue.in_flight.drain().collect();
            queue.pair.reset()?;
            queue.stopped = false;
            for command in commands {
                self.fail(command.request, Status::ControllerReset)?;
            }
        }
        self.publish()?;
        Ok(())
    }

    /// After a queue pair was deleted: what it had in flight is answered with [`Status::TimedOut`], and it starts anew.
    pub(crate) fn abandon(&mut self, place: usize, ledger: &mut Ledger<'_>) -> Result<(), Trouble> {
        let Some(queue) = self.queues.get_mut(place) else { return Ok(()) };
        let commands: Vec<Command> = queue.in_flight.drain().collect();
        queue.pair.reset()?;
        for command in commands {
            ledger.aborted(&command);
            self.fail(command.request, Status::TimedOut)?;
        }
        self.publish()?;
        Ok(())
    }

    fn fail(&mut self, place: u16, status: Status) -> Result<(), RingError> {
        if let Some(Some(pending)) = self.pending.get_mut(usize::from(place)) {
            pending.status = status;
        }
        self.close_one(place)
    }
}
