//! Opening and closing a session: calls on the server's endpoint, whose badge names the session.

use crate::operation::Kind;
use platform::Message;
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// Opens the session: queue pairs are created, the window becomes reachable for the device, the rings start empty.
/// Answered with a [`Geometry`].
pub const OPEN: u32 = 1;
/// Closes it: commands in flight end first, then the queue pairs are deleted and the window is taken from the device.
pub const CLOSE: u32 = 2;

/// The label of an answer to a call that was carried out; other labels are [`Refusal`]s.
pub const DONE: u32 = 0;

/// Reason of a refused call: the label of the answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[repr(u32)]
pub enum Refusal {
    /// Not a call of this interface.
    BadRequest = Message::ANSWERS,
    /// The session is open already.
    AlreadyOpen,
    /// The session is not open.
    NotOpen,
    /// The controller has no queue pair left.
    NoQueuePairs,
    /// The namespace is not there, is another than before, or has fewer blocks than the session.
    NoSuchBlocks,
    /// The controller failed to set it up, or has failed altogether.
    Device,
    /// The session broke the protocol and stays closed.
    Expelled,
    /// A call that the policy component alone may make ([`crate::policy`]).
    PolicyAlone,
    /// The controller is gone: it was removed, is not there yet, or another disk is in its place.
    DeviceGone,
    /// The server stays dead; the kernel answers in its place.
    Dead = Message::NO_CAPABILITY,
}

impl Refusal {
    const ALL: [Self; 10] = [
        Self::BadRequest,
        Self::AlreadyOpen,
        Self::NotOpen,
        Self::NoQueuePairs,
        Self::NoSuchBlocks,
        Self::Device,
        Self::Expelled,
        Self::PolicyAlone,
        Self::DeviceGone,
        Self::Dead,
    ];

    /// The refusal with this label; [`Refusal::BadRequest`] for a label that this interface does not have.
    #[must_use]
    pub fn from_label(label: u32) -> Self {
        Self::ALL.into_iter().find(|refusal| *refusal as u32 == label).unwrap_or(Self::BadRequest)
    }
}

impl core::fmt::Display for Refusal {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::BadRequest => "not a call of this interface",
            Self::AlreadyOpen => "the session is open already",
            Self::NotOpen => "the session is not open",
            Self::NoQueuePairs => "the controller has no queue pair left",
            Self::NoSuchBlocks => "the namespace lacks the session's blocks",
            Self::Device => "the controller failed",
            Self::Expelled => "the session broke the protocol",
            Self::PolicyAlone => "the call is the policy component's alone",
            Self::DeviceGone => "the controller is gone",
            Self::Dead => "the server stays dead",
        })
    }
}

/// Properties of an open session.
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct Geometry {
    /// Blocks of the session: its own numbering runs from 0 to this.
    pub blocks: u64,
    /// Bytes of a block.
    pub block_bytes: u32,
    /// Blocks one request may move.
    pub max_blocks: u32,
    /// Bytes of the window the device reaches.
    pub window_bytes: u64,
    /// Hardware queue pairs.
    pub queue_pairs: u16,
    /// Commands each may hold.
    pub depth: u16,
    /// 1 when it may write.
    pub writable: u32,
    /// Number of the media: another one when the namespace of another controller is there (`nvme_spec::identify::media`).
    pub media: u64,
}

/// The session's counters, answered to [`STATISTICS`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct Statistics {
    /// Requests taken from the ring.
    pub requests: u64,
    /// Requests refused by a check.
    pub refused: u64,
    /// Commands submitted to the controller.
    pub commands: u64,
    /// Bytes of blocks read, compared and verified (as Data Units Read, NVMe base specification 1.4, section 5.14.1.2).
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Commands the controller failed.
    pub errors: u64,
    /// Doorbell writes.
    pub doorbells: u64,
    /// Interrupts handled.
    pub interrupts: u64,
    /// Notifications sent to the client.
    pub notifications: u64,
    /// Requests that ended because no record was installed for some of their blocks.
    pub not_installed: u64,
    /// Requests that ended because a record does not give the right.
    pub forbidden: u64,
}

impl Statistics {
    /// Counts the bytes of commands of one kind.
    #[inline]
    pub const fn count_bytes(&mut self, kind: Kind, bytes: u64) {
        match kind {
            Kind::Read => self.read_bytes = self.read_bytes.wrapping_add(bytes),
            Kind::Write => self.written_bytes = self.written_bytes.wrapping_add(bytes),
            Kind::Other => {}
        }
    }
}

/// Asks for the session's [`Statistics`].
pub const STATISTICS: u32 = 3;
/// Does nothing and answers: the cost of a call.
pub const PING: u32 = 4;

/// A client's call, by its label.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Call {
    /// [`OPEN`].
    Open,
    /// [`CLOSE`].
    Close,
    /// [`STATISTICS`].
    Statistics,
    /// [`PING`].
    Ping,
    /// A call that the policy component alone may make.
    OfPolicy,
    /// Not a call of this interface.
    Unknown(u32),
}

impl Call {
    /// The call with this label.
    #[must_use]
    pub const fn from_label(label: u32) -> Self {
        match label {
            OPEN => Self::Open,
            CLOSE => Self::Close,
            STATISTICS => Self::Statistics,
            PING => Self::Ping,
            _ if crate::policy::Call::has_label(label) => Self::OfPolicy,
            _ => Self::Unknown(label),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_of_clients_and_of_the_policy_component_are_told_apart() {
        let calls = [OPEN, CLOSE, STATISTICS, PING, crate::policy::INSTALL, crate::policy::SET_FUNCTION, 99];
        let known = [Call::Open, Call::Close, Call::Statistics, Call::Ping, Call::OfPolicy, Call::OfPolicy];
        assert_eq!(calls.map(Call::from_label)[..6], known);
        assert_eq!(Call::from_label(99), Call::Unknown(99));
    }

    #[test]
    fn refusal_is_known_by_its_label() {
        for refusal in Refusal::ALL {
            assert_eq!(Refusal::from_label(refusal as u32), refusal);
            assert_eq!((refusal as u32) < Message::ANSWERS, refusal == Refusal::Dead);
        }
        assert_eq!(Refusal::from_label(Message::ANSWERS - 1), Refusal::BadRequest);
    }
}
