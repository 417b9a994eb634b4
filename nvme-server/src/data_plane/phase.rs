//! The phase of a session: one state machine, from its opening to the end of its teardown.
//!
//! ```text
//!            open              end                drained             tear_down            over
//! Closed ----------> Open ----------> Closing ----------> Drained ----------> TearingDown -----> Closed
//!                   |   ^               ^                                          |
//!             drain v   | drained       | end                                      | after Cause::Expelled
//!                  Draining ------------+                                          v
//!                   |                   |                                       Expelled
//!         note_loss v                   | end
//!                  Lost ----------------+
//! ```
//!
//! A session whose namespace goes while the controller works is `Leaving` between `Open` or `Draining` and `Lost`, until it has nothing
//! in flight.
//!
//! The data plane takes entries in `Open` and `Draining` and completions in every phase that has a session; the control plane
//! opens and tears down. Left out: calls of its client that wait for a change of phase (`slot`).

use crate::data_plane::session::Session;
use alloc::boxed::Box;
use blk_api::Status;
use platform::Platform;

/// A session's phase. The tag is a byte of its own: the data path asks for it several times a request.
#[repr(u8)]
pub(crate) enum Phase<P: Platform> {
    /// There is no session, and the client may open one.
    Closed,
    /// Entries are taken.
    Open(Box<Session<P>>),
    /// Open, and the control plane waits until no command is in flight: its queue pairs take none, as they will change.
    Draining(Box<Session<P>>),
    /// The controller came back without something that it needs. Its queue pairs are gone, and the device does not reach its
    /// window. Entries are answered with a status of their own, until its client closes it.
    Lost(Box<Session<P>>, Loss),
    /// The session loses what it needs; entries are not taken any more, and the control plane waits for the commands in flight.
    Leaving(Box<Session<P>>, Loss),
    /// Commands are in flight; entries are not taken any more.
    Closing(Box<Session<P>>, Cause),
    /// No command is in flight, and the control plane was asked to tear the session down.
    Drained(Box<Session<P>>, Cause),
    /// The control plane deletes the queue pairs and takes the window from the device.
    TearingDown(Cause),
    /// The client broke the protocol, and the session is not opened again.
    Expelled,
}

/// Reason for the end of a session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Cause {
    /// The client closed the session, and waits for the answer.
    Closed,
    /// The client died.
    Died,
    /// The client broke the protocol.
    Expelled,
}

/// What a session needs and the controller has no more after a reset.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Loss {
    /// The session's namespace: another one is in its place, or none.
    Namespace,
    /// The session's queue pairs.
    QueuePairs,
    /// The session's namespace, or the data on it, which somebody who may do so took.
    Taken,
}

impl Loss {
    /// The status of its entries.
    pub(crate) const fn status(self) -> Status {
        match self {
            Self::Namespace | Self::Taken => Status::DeviceGone,
            Self::QueuePairs => Status::Closed,
        }
    }

    /// The reason, after `the session ended: `; it fits into a report.
    pub(crate) const fn reason(self) -> &'static str {
        match self {
            Self::Namespace => "another namespace, or none, is there after a reset",
            Self::QueuePairs => "too few queue pairs after a reset",
            Self::Taken => "its namespace is taken or erased on request",
        }
    }
}

/// A wait of the control plane for a session without commands in flight.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Awaited {
    /// No command is in flight on the queue pairs that are to change.
    Reshape,
    /// No command is in flight in a session that ends.
    Teardown,
}

impl<P: Platform> Phase<P> {
    /// The session, while there is one.
    #[inline]
    pub(crate) fn session(&self) -> Option<&Session<P>> {
        match self {
            Self::Open(session)
            | Self::Draining(session)
            | Self::Lost(session, _)
            | Self::Leaving(session, _)
            | Self::Closing(session, _)
            | Self::Drained(session, _) => Some(session),
            Self::Closed | Self::TearingDown(_) | Self::Expelled => None,
        }
    }

    /// The session, while there is one, to be changed.
    #[inline]
    pub(crate) fn session_mut(&mut self) -> Option<&mut Session<P>> {
        match self {
            Self::Open(session)
            | Self::Draining(session)
            | Self::Lost(session, _)
            | Self::Leaving(session, _)
            | Self::Closing(session, _)
            | Self::Drained(session, _) => Some(session),
            Self::Closed | Self::TearingDown(_) | Self::Expelled => None,
        }
    }

    /// The session while its entries are taken.
    #[inline]
    pub(crate) fn serving_mut(&mut self) -> Option<&mut Session<P>> {
        match self {
            Self::Open(session) | Self::Draining(session) => Some(session),
            Self::Closed
            | Self::Lost(..)
            | Self::Leaving(..)
            | Self::Closing(..)
            | Self::Drained(..)
            | Self::TearingDown(_)
            | Self::Expelled => None,
        }
    }

    /// The session while its client may close it.
    pub(crate) fn open_mut(&mut self) -> Option<&mut Session<P>> {
        match self {
            Self::Open(session) | Self::Draining(session) | Self::Lost(session, _) | Self::Leaving(session, _) => {
                Some(session)
            }
            Self::Closed | Self::Closing(..) | Self::Drained(..) | Self::TearingDown(_) | Self::Expelled => None,
        }
    }

    /// The session while it can lose what it needs.
    pub(crate) fn losable_mut(&mut self) -> Option<&mut Session<P>> {
        match self {
            Self::Open(session) | Self::Draining(session) | Self::Leaving(session, _) => Some(session),
            Self::Closed
            | Self::Lost(..)
            | Self::Closing(..)
            | Self::Drained(..)
            | Self::TearingDown(_)
            | Self::Expelled => None,
        }
    }

    /// Whether there is a session whose queue pairs the controller has, or will have after its reset.
    #[inline]
    pub(crate) const fn has_queues(&self) -> bool {
        matches!(self, Self::Open(_) | Self::Draining(_) | Self::Leaving(..) | Self::Closing(..) | Self::Drained(..))
    }

    /// What its session lost.
    pub(crate) const fn loss(&self) -> Option<Loss> {
        match self {
            Self::Lost(_, loss) => Some(*loss),
            Self::Closed
            | Self::Open(_)
            | Self::Draining(_)
            | Self::Leaving(..)
            | Self::Closing(..)
            | Self::Drained(..)
            | Self::TearingDown(_)
            | Self::Expelled => None,
        }
    }

    /// Returns whether the client broke the protocol.
    pub(crate) const fn is_expelled(&self) -> bool {
        match self {
            Self::Closing(_, cause) | Self::Drained(_, cause) | Self::TearingDown(cause) => {
                matches!(cause, Cause::Expelled)
            }
            Self::Expelled => true,
            Self::Closed | Self::Open(_) | Self::Draining(_) | Self::Lost(..) | Self::Leaving(..) => false,
        }
    }

    /// Whether nothing is left of a session.
    pub(crate) const fn is_over(&self) -> bool {
        matches!(self, Self::Closed | Self::Expelled)
    }

    /// Has the data plane wait until no command is in flight, as the queue pairs will change.
    pub(crate) fn begin_to_drain(&mut self) {
        self.change(|phase| match phase {
            Self::Open(session) => Self::Draining(session),
            other => other,
        });
    }

    /// Ends the wait: the queue pairs have changed, or stay as they are.
    pub(crate) fn go_on(&mut self) {
        self.change(|phase| match phase {
            Self::Draining(session) => Self::Open(session),
            other => other,
        });
    }

    /// The controller will lack what an open session needs, which takes no entries from now on.
    pub(crate) fn leave(&mut self, loss: Loss) {
        self.change(|phase| match phase {
            Self::Open(session) | Self::Draining(session) => Self::Leaving(session, loss),
            other => other,
        });
    }

    /// The controller lacks what an open session needs. Nothing of the session is in flight.
    pub(crate) fn note_loss(&mut self, loss: Loss) {
        self.change(|phase| match phase {
            Self::Open(session) | Self::Draining(session) | Self::Leaving(session, _) => Self::Lost(session, loss),
            other => other,
        });
    }

    /// Begins to end the session. One that ends already ends for this cause.
    pub(crate) fn end(&mut self, cause: Cause) {
        self.change(|phase| match phase {
            Self::Open(session)
            | Self::Draining(session)
            | Self::Lost(session, _)
            | Self::Leaving(session, _)
            | Self::Closing(session, _) => Self::Closing(session, cause),
            Self::Drained(session, _) => Self::Drained(session, cause),
            other @ (Self::Closed | Self::TearingDown(_) | Self::Expelled) => other,
        });
    }

    /// The control plane's wait that ends because no command is in flight any more; returned once.
    #[inline]
    pub(crate) fn take_awaited(&mut self) -> Option<Awaited> {
        let session = match self {
            Self::Draining(session) | Self::Closing(session, _) => session,
            Self::Open(_)
            | Self::Lost(..)
            | Self::Leaving(..)
            | Self::Closed
            | Self::Drained(..)
            | Self::TearingDown(_)
            | Self::Expelled => return None,
        };
        if session.has_commands() {
            return None;
        }
        let mut awaited = Awaited::Reshape;
        self.change(|phase| match phase {
            Self::Draining(session) => Self::Open(session),
            Self::Closing(session, cause) => {
                awaited = Awaited::Teardown;
                Self::Drained(session, cause)
            }
            other => other,
        });
        Some(awaited)
    }

    /// Takes out the session that is to be torn down, and the cause.
    pub(crate) fn tear_down(&mut self) -> Option<(Box<Session<P>>, Cause)> {
        match core::mem::replace(self, Self::Closed) {
            Self::Drained(session, cause) => {
                *self = Self::TearingDown(cause);
                Some((session, cause))
            }
            other => {
                *self = other;
                None
            }
        }
    }

    /// Ends the teardown: nothing is left of the session.
    pub(crate) fn over(&mut self) {
        self.change(|phase| match phase {
            Self::TearingDown(Cause::Expelled) => Self::Expelled,
            Self::TearingDown(Cause::Closed | Cause::Died) => Self::Closed,
            other => other,
        });
    }

    fn change(&mut self, to: impl FnOnce(Self) -> Self) {
        let phase = core::mem::replace(self, Self::Closed);
        *self = to(phase);
    }
}
