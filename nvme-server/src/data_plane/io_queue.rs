//! A queue pair of the server's, beside its commands: whether the controller has it, and who uses it.
//!
//! Left out: the choice of the queue pair, and the handling of completions (`session`).

use crate::data_plane::in_flight::{Accounting, Command};
use crate::data_plane::readiness::Bits;
use blk_api::config::Class;
use nvme_driver::fault::DeviceFault;
use nvme_driver::plan::Form;
use nvme_driver::queue::Queue;
use platform::Platform;

/// A queue pair with its state at the controller and its users.
pub(crate) struct IoQueue<P: Platform> {
    pub queue: Queue<P, Command, Accounting>,
    /// Time at which completions were last taken, in ticks.
    pub last_completion: u64,
    pub state: State,
    /// The class with which the controller weighs it, if it does.
    pub class: Class,
    /// The sessions whose commands go to it.
    pub users: Bits,
    /// Whether a session found no room in the queue pair and waits for it.
    pub has_waiter: bool,
}

/// A queue pair's state at the controller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    /// Not created.
    Absent,
    /// Created; it takes commands.
    Serving,
    /// Created; it takes no commands, because it is to be deleted.
    Draining,
}

impl<P: Platform> IoQueue<P> {
    /// Returns whether the queue pair takes another command.
    #[inline(always)]
    pub(crate) fn has_room(&self) -> bool {
        self.queue.commands.has_room() && matches!(self.state, State::Serving)
    }

    /// Takes no commands from now on.
    pub(crate) fn stop(&mut self) {
        if self.state == State::Serving {
            self.state = State::Draining;
        }
    }

    /// Takes commands again, if the controller has it.
    pub(crate) fn resume(&mut self) {
        if self.state == State::Draining {
            self.state = State::Serving;
        }
    }

    /// The form that the controller has created it with, if it has it.
    pub(crate) fn created(&self) -> Option<Form> {
        (self.state != State::Absent).then(|| self.form())
    }

    /// The form that it was last created with, or is created with next.
    pub(crate) fn form(&self) -> Form {
        Form { depth: self.queue.depth(), class: self.class }
    }

    /// Sets the form of its next creation, with as much of the depth as it has memory for. It has nothing in flight, and the
    /// controller does not have it.
    ///
    /// # Errors
    /// As [`Queue::set_depth`].
    pub(crate) fn set_form(&mut self, form: Form) -> Result<(), DeviceFault> {
        self.class = form.class;
        self.queue.set_depth(form.depth)
    }
}
