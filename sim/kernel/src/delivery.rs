//! Ways in which threads send and receive, and the results of their operations.

use platform::{Badge, Message, Rights};

/// The way in which a message is sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Send {
    /// The sender waits for a receiver.
    Waiting,
    /// The message is lost without a receiver.
    Polling,
    /// The sender waits for a receiver and then for the reply.
    Call,
}

/// The rights of a sender's capability.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Authority {
    pub(crate) badge: u64,
    /// Whether capabilities go along.
    pub(crate) can_grant: bool,
    /// Whether a call is answered.
    pub(crate) can_be_answered: bool,
}

impl Authority {
    /// The authority of a sender's endpoint capability.
    pub(crate) const fn of(badge: u64, rights: Rights) -> Self {
        Self { badge, can_grant: rights.grant, can_be_answered: rights.grant || rights.grant_reply }
    }
}

/// Whether a receiver that finds nothing waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Receive {
    Waiting,
    Polling,
}

/// The result of a thread's operation. Messages are boxed: signals are many, messages few, and it is passed by value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Delivery {
    /// Signals came: their badges, ORed.
    Signal(Badge),
    /// A message came, through the capability with this badge.
    Message(Badge, Box<Message>),
    /// The answer to a call.
    Reply(Box<Message>),
    /// The call ended without result.
    Nothing,
    /// The call was interrupted: the thread repeats it.
    Restart,
}
