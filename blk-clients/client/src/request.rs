//! One request as a future.

use crate::device::Device;
use crate::error::Error;
use crate::slots::Ticket;
use crate::window::Held;
use blk_api::request::Entry;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};
use platform::Platform;

/// A request under way: ends with `()` or why not. It is submitted when it is made, or at the first poll after there is
/// room; [`Device::run`] takes it to the server.
///
/// A finished request keeps its slot until it is polled or dropped: whoever makes more requests than the ring has
/// entries waits for the earlier ones first, or for all together.
///
/// Of two requests that change the same blocks, the one submitted later reaches the server when the earlier one is
/// answered, whether anybody waits for that or not. What its ranges hold stays as it is until it is done itself. Other
/// requests that are under way together have no order.
///
/// Dropping it does not stop it once it was submitted: the request goes on, its slot and its part of the window stay
/// taken until it is done.
#[must_use = "without waiting nobody learns how it ended"]
pub struct Request<P: Platform> {
    device: Device<P>,
    state: State<P>,
}

enum State<P: Platform> {
    /// No slot or no room on the ring so far.
    Unsubmitted(Entry, Held<P::Memory>),
    InFlight(Ticket),
    /// Not a request of this session at all.
    Refused(Error),
    Finished,
}

impl<P: Platform> Request<P> {
    pub(crate) fn new(device: Device<P>, entry: Entry, mut held: Held<P::Memory>) -> Self {
        let state = match device.submit(&entry, &mut held) {
            Ok(Some(ticket)) => State::InFlight(ticket),
            Ok(None) => State::Unsubmitted(entry, held),
            Err(error) => State::Refused(error),
        };
        Self { device, state }
    }

    pub(crate) const fn refused(device: Device<P>, error: Error) -> Self {
        Self { device, state: State::Refused(error) }
    }
}

impl<P: Platform> Future for Request<P> {
    type Output = Result<(), Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        if let State::Unsubmitted(entry, held) = &mut this.state {
            match this.device.submit(entry, held) {
                Ok(Some(ticket)) => this.state = State::InFlight(ticket),
                Ok(None) => {
                    this.device.wait_for_room(context);
                    return Poll::Pending;
                }
                Err(error) => this.state = State::Refused(error),
            }
        }
        let output = match &this.state {
            State::InFlight(ticket) => this.device.poll(*ticket, context),
            State::Refused(error) => Poll::Ready(Err(*error)),
            State::Unsubmitted(..) | State::Finished => Poll::Pending,
        };
        if output.is_ready() {
            this.state = State::Finished;
        }
        output
    }
}

// Nothing in it is pinned: a request may move between polls.
impl<P: Platform> Unpin for Request<P> {}

impl<P: Platform> Drop for Request<P> {
    fn drop(&mut self) {
        if let State::InFlight(ticket) = self.state {
            self.device.abandon(ticket);
        }
    }
}
