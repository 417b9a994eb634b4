//! The request engine: cuts requests into commands and gathers the commands' outcomes, for whoever drives a controller's queues.
//!
//! A request that one command does needs none of it. For any other one, [`Engine::begin`] takes a place among the [`pending`]
//! requests and a [`cursor`], [`Engine::next`] returns the next piece, for which the driver submits a [`command`], and the answer is
//! there when the last command has ended. The NVMe server has an engine for each session; a client that drives a virtual function has
//! one of its own. Left out: the choice of the queue pair, and the right to blocks.

pub mod command;
pub mod cursor;
pub mod pending;

use crate::fault::DeviceFault;
use blk_api::Status;
use blk_api::operation::Right;
use blk_api::request::{Opcode, Request};
use cursor::{CommandLimits, Cursor, Piece, Run};
use pending::{Answer, Pending};

/// A table of pending requests, and the one that is being cut into commands.
pub struct Engine {
    /// The requests that were not submitted as one command.
    pub pending: Pending,
    /// The request that is being cut, and its place among the pending.
    current: Option<(Cursor, u16)>,
}

impl Engine {
    /// An engine for this number of pending requests.
    #[must_use]
    pub fn new(requests: u16) -> Self {
        Self { pending: Pending::new(requests), current: None }
    }

    /// Returns whether a request is being cut.
    #[inline(always)]
    #[must_use]
    pub const fn is_cutting(&self) -> bool {
        self.current.is_some()
    }

    /// Begins to cut a request whose answer has this user data, and returns its place. None is being cut.
    ///
    /// # Errors
    /// [`DeviceFault::OwnMemory`] for more requests than there are places.
    pub fn begin(&mut self, request: Request, user_data: u64) -> Result<u16, DeviceFault> {
        let place = self.pending.begin(user_data).ok_or(DeviceFault::OwnMemory)?;
        self.current = Some((Cursor::new(request), place));
        Ok(place)
    }

    /// Begins to cut what is left of the request in `place`, whose answer waits for it. None is being cut.
    pub fn resume(&mut self, request: Request, place: u16) {
        self.current = Some((Cursor::new(request), place));
    }

    /// The operation of the request that is being cut, unless all of its commands were submitted.
    #[inline]
    #[must_use]
    pub fn to_submit(&self) -> Option<Opcode> {
        self.current.as_ref().filter(|(cursor, _)| !cursor.finished()).map(|(cursor, _)| cursor.opcode())
    }

    /// The next piece of the request that is being cut, and the request's place; the command for it is open from now on. `locate` finds
    /// the run of blocks, as [`Cursor::next`] says.
    ///
    /// # Errors
    /// An error of `locate`; then nothing has changed.
    #[inline]
    pub fn next<E>(
        &mut self,
        locate: impl FnOnce(Right, u64, u64) -> Result<Run, E>,
        limits: CommandLimits,
    ) -> Result<Option<(Piece, u16)>, E> {
        let Some((cursor, place)) = &mut self.current else { return Ok(None) };
        let Some(piece) = cursor.next(locate, limits)? else { return Ok(None) };
        self.pending.add(*place);
        Ok(Some((piece, *place)))
    }

    /// Ends the cutting, with a status for the request unless one of its commands failed before. Returns the answer, if no command is
    /// open.
    #[inline]
    pub fn end(&mut self, status: Status) -> Option<Answer> {
        let (_, place) = self.current.take()?;
        self.pending.end_one(place, status, 0)
    }

    /// Ends the cutting with a status for the request, whatever became of its commands. Returns whether one was being cut, and the
    /// answer, if none of its commands is open.
    pub fn cut_short(&mut self, status: Status) -> Option<Option<Answer>> {
        let (_, place) = self.current.take()?;
        Some(self.pending.overrule(place, status))
    }
}
