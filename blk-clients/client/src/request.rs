//! A request as a future.

use crate::completion::Completion;
use crate::device::Device;
use crate::error::Error;
use crate::slots::Ticket;
use alloc::boxed::Box;
use blk_api::request::Entry;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};
use platform::Platform;

/// A request in progress, which ends with `()` or an error. It is submitted when it is made, or at the first poll after
/// there is room. [`Device::run`] publishes it to the server.
///
/// A finished request keeps its slot until it is polled or dropped. A caller that makes more requests than the ring has
/// entries waits for the earlier ones first, or for all together.
///
/// Of two requests that change the same blocks, the later one reaches the server when the earlier one is answered, whether
/// a task waits for that or not. The content of its ranges must not change until it is done itself. Other concurrent
/// requests have no order.
///
/// Dropping a submitted request does not stop it: its slot and its part of the window stay taken until it is done.
#[must_use = "without waiting nobody learns how it ended"]
pub struct Request<P: Platform> {
    device: Device<P>,
    state: State,
}

enum State {
    /// Without a slot, or without room on the ring so far. Its segments are held.
    Unsubmitted(Box<Unsubmitted>),
    InFlight(Ticket),
    /// Not a valid request of this session.
    Refused(Error),
    Finished,
}

/// A request that is not submitted, and the choice how its completion is awaited.
struct Unsubmitted {
    entry: Entry,
    completion: Option<Completion>,
}

impl<P: Platform> Request<P> {
    /// Chooses how the completion is awaited; without this, the session's options decide. The choice is made where the request is
    /// made, since the time that it takes is measured from here: `device.flush().by(Completion::Automatic)`.
    pub fn by(mut self, completion: Completion) -> Self {
        match &mut self.state {
            State::InFlight(ticket) => self.device.await_by(*ticket, completion),
            State::Unsubmitted(unsubmitted) => unsubmitted.completion = Some(completion),
            State::Refused(_) | State::Finished => {}
        }
        self
    }

    #[inline]
    pub(crate) const fn in_flight(device: Device<P>, ticket: Ticket) -> Self {
        Self { device, state: State::InFlight(ticket) }
    }

    pub(crate) fn unsubmitted(device: Device<P>, entry: Entry) -> Self {
        Self { device, state: State::Unsubmitted(Box::new(Unsubmitted { entry, completion: None })) }
    }

    pub(crate) const fn refused(device: Device<P>, error: Error) -> Self {
        Self { device, state: State::Refused(error) }
    }

    /// Polls a request that is not in flight yet.
    #[cold]
    fn poll_other(&mut self, context: &Context<'_>) -> Poll<Result<(), Error>> {
        if !self.submit() {
            self.device.wait_for_room(context);
            return Poll::Pending;
        }
        let output = match &self.state {
            State::InFlight(ticket) => self.device.poll(*ticket, context),
            State::Refused(error) => Poll::Ready(Err(*error)),
            State::Unsubmitted(_) | State::Finished => Poll::Pending,
        };
        if output.is_ready() {
            self.state = State::Finished;
        }
        output
    }

    /// Submits the request if it is not submitted yet and there is room. Returns whether it needs no room any more.
    fn submit(&mut self) -> bool {
        let State::Unsubmitted(unsubmitted) = &self.state else { return true };
        let Unsubmitted { entry, completion } = &**unsubmitted;
        match self.device.submit_again(entry) {
            Ok(Some(ticket)) => {
                completion.iter().for_each(|completion| self.device.await_by(ticket, *completion));
                self.state = State::InFlight(ticket);
            }
            Ok(None) => return false,
            Err(error) => {
                self.device.let_go(entry);
                self.state = State::Refused(error);
            }
        }
        true
    }
}

impl<P: Platform> Future for Request<P> {
    type Output = Result<(), Error>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let State::InFlight(ticket) = this.state else { return this.poll_other(context) };
        let output = this.device.poll(ticket, context);
        if output.is_ready() {
            this.state = State::Finished;
        }
        output
    }
}

// Nothing in it is pinned: a request may move between polls.
impl<P: Platform> Unpin for Request<P> {}

impl<P: Platform> Drop for Request<P> {
    #[inline]
    fn drop(&mut self) {
        match &self.state {
            State::InFlight(ticket) => self.device.detach(*ticket),
            State::Unsubmitted(unsubmitted) => self.device.let_go(&unsubmitted.entry),
            State::Refused(_) | State::Finished => {}
        }
    }
}
