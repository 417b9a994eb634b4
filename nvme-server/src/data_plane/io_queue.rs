//! A queue pair with the in-flight places and list pages of its commands.
//!
//! It turns a piece of a request into a submitted command. Left out: the choice of the queue pair, and the handling of
//! completions (`session`).

use crate::data_plane::in_flight::{Command, InFlight};
use crate::data_plane::ready::Bits;
use blk_api::config::Class;
use blk_api::request::Opcode;
use nvme_driver::command;
use nvme_driver::command_table::Reserved;
use nvme_driver::dma::Window;
use nvme_driver::fault::DeviceFault;
use nvme_driver::plan::Form;
use nvme_driver::prp::PrpLists;
use nvme_driver::queue_pair::QueuePair;
use nvme_driver::split::Piece;
use nvme_spec::Nsid;
use platform::Platform;

/// A queue pair with its commands and their list pages.
pub(crate) struct IoQueue<P: Platform> {
    pub pair: QueuePair<P::Memory, P::Mmio>,
    pub in_flight: InFlight,
    /// The list pages of its commands.
    pub lists: PrpLists<P::Memory>,
    /// The largest transfer, bytes, for which each place's list pages suffice.
    pub max_transfer: u64,
    /// Time at which completions were last taken, in ticks.
    pub last_completion: u64,
    pub state: State,
    /// The class with which the controller weighs it, if it does.
    pub class: Class,
    /// The sessions whose commands go to it.
    pub users: Bits,
    /// Whether one of them found no room in it and waits for it.
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

/// The part of a command that is the same for all commands of a session.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    /// The namespace.
    pub nsid: Nsid,
    /// The window with the data.
    pub window: Window,
}

impl<P: Platform> IoQueue<P> {
    /// Whether it takes another command.
    #[inline(always)]
    pub(crate) fn has_room(&self) -> bool {
        self.in_flight.has_room() && matches!(self.state, State::Serving)
    }

    /// Takes no commands from now on.
    pub(crate) fn drain(&mut self) {
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
        Form { depth: self.pair.entries().saturating_sub(1), class: self.class }
    }

    /// Sets the form of its next creation, with as much of the depth as it has memory for. It has nothing in flight, and the
    /// controller does not have it.
    ///
    /// # Errors
    /// As [`QueuePair::reset`].
    pub(crate) fn set_form(&mut self, form: Form) -> Result<(), DeviceFault> {
        self.class = form.class;
        self.pair.resize(form.depth.saturating_add(1))?;
        self.in_flight.set_depth(self.pair.entries().saturating_sub(1));
        Ok(())
    }

    /// Submits the command for `piece`. The controller sees it after [`QueuePair::ring`].
    ///
    /// # Errors
    /// [`DeviceFault::OwnMemory`]; then nothing is in flight that was not before.
    #[inline(always)]
    pub(crate) fn submit(
        &mut self,
        target: &Target,
        opcode: Opcode,
        piece: Piece,
        command: Command,
    ) -> Result<(), DeviceFault> {
        let reserved = self.in_flight.reserve(command).ok_or(DeviceFault::OwnMemory)?;
        let Target { nsid, window } = target;
        match command::build(&self.lists, *nsid, window.iova, opcode, piece, command.work.bytes(), reserved) {
            Ok(sqe) => {
                self.pair.submit(&sqe);
                Ok(())
            }
            Err(fault) => {
                self.take_back(reserved);
                Err(fault)
            }
        }
    }

    /// Frees the place of a command that was not submitted.
    #[cold]
    fn take_back(&mut self, reserved: Reserved) {
        // It was reserved just now, so it is there.
        let _ = self.in_flight.release(reserved.cid);
    }
}
