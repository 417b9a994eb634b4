//! Rights and shares of sessions: the policy component's calls to the NVMe server, and clients' calls to the policy
//! component.
//!
//! The policy component knows which blocks of a namespace each session has, and with which rights. The server enforces
//! that by a table of records, which may evict installed records. The policy component alone calls with [`BADGE`]; a client
//! that makes one of its calls is refused (`session::Refusal::PolicyAlone`). A client whose request ended with
//! [`crate::Status::NotInstalled`] asks the policy component ([`ASK`]), which installs the record, and retries the request.
//! Left out: the right to call, which the authority checker proves, and overlaps between extents of two sessions, which the
//! policy component checks, because it knows all extents.

use crate::config::{Class, Interrupts, RateLimit};
use crate::extent::{Blocks, Extent};
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use platform::Message;
use serde::{Deserialize, Serialize};
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// The policy component's badge on the server's endpoint; sessions' are below.
pub const BADGE: u64 = 1 << 27;

/// Installs a [`Record`]. Installing it again changes nothing.
pub const INSTALL: u32 = 16;
/// Takes the rights to a [`Range`]: no command that is submitted from now on reaches its blocks. Answered with the [`Removal`].
pub const REMOVE: u32 = 17;
/// Takes the rights to all blocks of a session, whose number is sent, a `u64`.
pub const CLEAR: u32 = 18;

/// Changes a session's [`Share`], whether it is open or not, for as long as the server runs. Answered at once. If queue pairs
/// are recreated for it, the answer is [`Refusal::Busy`]; at the end the policy component is signalled, and learns the
/// outcome by a retry.
pub const SET_SHARE: u32 = 19;

/// Asks whether the blocks of a [`Removal`] are out of reach for the commands in flight, too. Answered at once:
/// [`Refusal::Busy`] if they are not, and the policy component is signalled when they are.
pub const DRAINED: u32 = 20;

/// Changes the controller's interrupt mode to the one of this number ([`Interrupts::number`], a `u64`). Answered at once:
/// [`Refusal::Busy`] until the change is over; then the policy component is signalled, and learns the outcome by a retry.
pub const SET_INTERRUPTS: u32 = 21;

/// Grants the client of a virtual function its function, or revokes it ([`FunctionRight`]). Without a call no function is granted.
/// Answered at once: [`Refusal::Busy`] until the function is online for a live client, or reaches nothing; then the policy
/// component is signalled, and learns the outcome by a retry.
pub const SET_FUNCTION: u32 = 22;

/// A client's call to the policy component for records of the blocks in [`Asked`]. Answered with [`Covered`].
pub const ASK: u32 = 1;

/// Answer to a call that was carried out; others are [`Refusal`]s.
pub const DONE: u32 = 0;

/// Records that one [`ASK`] installs at most.
pub const RECORDS_AN_ASK: usize = 16;

/// A session may read.
pub const READ: u32 = 1;
/// A session may write, discard and zero.
pub const WRITE: u32 = 2;

/// Consecutive blocks of a session, their place on its namespace, and its rights to them. A record without any right is a
/// standing refusal.
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct Record {
    /// The session, from 0.
    pub session: u32,
    /// [`READ`], [`WRITE`], both or none.
    pub rights: u32,
    /// First block in the session's numbering.
    pub first: u64,
    /// First block on the namespace.
    pub lba: u64,
    /// Blocks, at least 1.
    pub blocks: u64,
}

/// Consecutive blocks of a session.
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct Range {
    /// The session, from 0.
    pub session: u64,
    /// First block in its numbering.
    pub first: u64,
    /// Blocks, at least 1.
    pub blocks: u64,
}

/// Whether the client of a virtual function may have it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct FunctionRight {
    /// The function, by its place in [`ServerConfig::functions`](crate::config::ServerConfig::functions).
    pub function: u32,
    /// 0 if its client may not have it.
    pub granted: u32,
}

/// Rights that were taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct Removal {
    /// The session, from 0.
    pub session: u64,
    /// Time of the removal, by the server's clock. Commands submitted after it asked the table after it.
    pub since: u64,
}

/// A session has a limit of commands per second.
pub const IOPS: u32 = 1;
/// A session has a limit of bytes per second.
pub const BANDWIDTH: u32 = 2;

/// A session's share of the controller, in force from this call on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct Share {
    /// The session, from 0.
    pub session: u32,
    /// The session's class, by [`Class::number`].
    pub class: u32,
    /// The session's weight against the other sessions of its class; 1 to 65535.
    pub weight: u32,
    /// [`IOPS`], [`BANDWIDTH`], both or none: which limits there are.
    pub limits: u32,
    /// Commands a second, and at once.
    pub iops: [u64; 2],
    /// Bytes a second, and at once.
    pub bandwidth: [u64; 2],
    /// Hardware queue pairs of its own, 1 to [`SessionConfig::most_queue_pairs`]; what it has already where it shares some.
    ///
    /// [`SessionConfig::most_queue_pairs`]: crate::config::SessionConfig::most_queue_pairs
    pub queue_pairs: u32,
    /// Commands each of them may hold, 1 to [`SessionConfig::most_depth`]; likewise.
    ///
    /// [`SessionConfig::most_depth`]: crate::config::SessionConfig::most_depth
    pub depth: u32,
}

impl Share {
    /// The message with a session's entitlement.
    #[must_use]
    pub fn new(session: u32, entitlement: &Entitlement) -> Self {
        let Entitlement { class, weight, iops, bandwidth, queue_pairs, depth } = *entitlement;
        let words = |limit: Option<RateLimit>| limit.map_or([0; 2], |limit| [limit.per_second, limit.burst]);
        let bit = |limit: Option<RateLimit>, bit| if limit.is_some() { bit } else { 0 };
        Self {
            session,
            class: class.number(),
            weight: u32::from(weight),
            limits: bit(iops, IOPS) | bit(bandwidth, BANDWIDTH),
            iops: words(iops),
            bandwidth: words(bandwidth),
            queue_pairs: u32::from(queue_pairs),
            depth: u32::from(depth),
        }
    }

    /// The limits of commands and of bytes.
    ///
    /// # Errors
    /// [`Refusal::UnknownLimits`].
    pub fn limits(&self) -> Result<[Option<RateLimit>; 2], Refusal> {
        if self.limits & !(IOPS | BANDWIDTH) != 0 {
            return Err(Refusal::UnknownLimits(self.limits));
        }
        let limit =
            |bit, [per_second, burst]: [u64; 2]| (self.limits & bit != 0).then_some(RateLimit { per_second, burst });
        Ok([limit(IOPS, self.iops), limit(BANDWIDTH, self.bandwidth)])
    }
}

/// A call of the policy component.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Call {
    /// [`INSTALL`].
    Install(Record),
    /// [`REMOVE`].
    Remove(Range),
    /// [`CLEAR`], for the session of this number.
    Clear(u64),
    /// [`DRAINED`].
    Drained(Removal),
    /// [`SET_SHARE`].
    SetShare(Share),
    /// [`SET_INTERRUPTS`], to the mode of this number.
    SetInterrupts(u64),
    /// [`SET_FUNCTION`].
    SetFunction(FunctionRight),
}

impl Call {
    /// Returns whether a call of the policy component has this label.
    #[must_use]
    pub const fn has_label(label: u32) -> bool {
        matches!(label, INSTALL | REMOVE | CLEAR | DRAINED | SET_SHARE | SET_INTERRUPTS | SET_FUNCTION)
    }

    /// The call that a message makes.
    ///
    /// # Errors
    /// [`Refusal::BadRequest`] for a message that is no call of this interface, or too short.
    pub fn decode(message: &Message) -> Result<Self, Refusal> {
        let call = match message.label {
            INSTALL => message.payload().map(Self::Install),
            REMOVE => message.payload().map(Self::Remove),
            CLEAR => message.payload().map(Self::Clear),
            DRAINED => message.payload().map(Self::Drained),
            SET_SHARE => message.payload().map(Self::SetShare),
            SET_INTERRUPTS => message.payload().map(Self::SetInterrupts),
            SET_FUNCTION => message.payload().map(Self::SetFunction),
            _ => return Err(Refusal::BadRequest),
        };
        call.map_err(|_| Refusal::BadRequest)
    }
}

/// Blocks of the caller's that it wants records for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct Asked {
    /// First block in its numbering.
    pub first: u64,
    /// Blocks, at least 1.
    pub blocks: u64,
}

/// Blocks that have records now.
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct Covered {
    /// Blocks from the first one on, at least 1; it may be more than was asked for.
    pub blocks: u64,
}

/// Reason of a refused call, which has changed nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// No call of this interface, or too short.
    BadRequest,
    /// There is no session of this number.
    NoSession(u64),
    /// The session of this number is not open: it has no records, and gets none.
    NotOpen(u64),
    /// No blocks, from this number on.
    Empty {
        /// The number where the blocks would begin.
        first: u64,
    },
    /// Blocks beyond those that the session numbers.
    BeyondSession {
        /// The first of them.
        first: u64,
        /// The number of blocks.
        blocks: u64,
        /// Blocks the session has.
        has: u64,
    },
    /// Blocks beyond those that the namespace has.
    BeyondNamespace {
        /// The first of them, on the namespace.
        lba: u64,
        /// The number of blocks.
        blocks: u64,
        /// Blocks the namespace has.
        has: u64,
    },
    /// Invalid rights.
    UnknownRights(u32),
    /// Another record of the session has some of the blocks elsewhere or with other rights: remove it first.
    Contradicts {
        /// The other record's first block in the session's numbering.
        first: u64,
        /// The other record's first block on the namespace.
        lba: u64,
        /// The other record's blocks.
        blocks: u64,
    },
    /// A class that does not exist.
    UnknownClass(u32),
    /// Limits that do not exist.
    UnknownLimits(u32),
    /// A weight that is not 1 to 65535.
    Weight(u32),
    /// A limit under which not one request passes.
    BelowOneRequest {
        /// Commands, or bytes, a second.
        per_second: u64,
        /// Commands, or bytes, at once.
        burst: u64,
        /// Amount that one request takes.
        request: u64,
    },
    /// A class above the most urgent one that the session may have.
    ClassNotAllowed {
        /// The class that was asked for.
        asked: Class,
        /// The most urgent one.
        highest: Class,
    },
    /// A number of queue pairs that the session cannot have.
    QueuePairs {
        /// The number that was asked for.
        asked: u32,
        /// The most it may have, by the specification and by what the controller granted; 1 is the least.
        most: u32,
    },
    /// A depth that the session's queue pairs cannot have.
    Depth {
        /// The depth that was asked for, commands.
        asked: u32,
        /// The most, by the specification and by the controller's largest queue (CAP.MQES); 1 is the least.
        most: u32,
    },
    /// The session of this number shares its queue pairs: they do not change with it.
    SharesQueuePairs(u32),
    /// The controller refused to create the queue pairs. The session has those it had.
    NoQueuePairs {
        /// Queue pairs that were asked for.
        asked: u32,
        /// Queue pairs that it has.
        has: u32,
    },
    /// The controller failed, again and again, while the session's queue pairs were recreated. It has those it had.
    Device(u32),
    /// An interrupt mode that does not exist.
    UnknownInterrupts(u64),
    /// The controller cannot have this interrupt mode: its function lacks it, or the PCI server refuses it. It keeps the old one.
    NoInterrupts(Interrupts),
    /// Too many calls since the last tick, or a change is under way, this one or another. Retry after the next tick, or when
    /// signalled.
    Busy,
    /// There is no virtual function of this number.
    NoFunction(u32),
    /// The policy component cannot install anything: its NVMe server is dead, and may be restarted soon.
    NoServer,
    /// The component that would have to answer stays dead; the kernel answers in its place.
    Dead,
}

impl Refusal {
    /// The answer with this refusal.
    #[must_use]
    pub fn message(self) -> Message {
        let (number, values) = match self {
            Self::BadRequest => (1, [0; 3]),
            Self::NoSession(session) => (2, [session, 0, 0]),
            Self::NotOpen(session) => (3, [session, 0, 0]),
            Self::Empty { first } => (4, [first, 0, 0]),
            Self::BeyondSession { first, blocks, has } => (5, [first, blocks, has]),
            Self::BeyondNamespace { lba, blocks, has } => (6, [lba, blocks, has]),
            Self::UnknownRights(rights) => (7, [u64::from(rights), 0, 0]),
            Self::Contradicts { first, lba, blocks } => (8, [first, lba, blocks]),
            Self::Busy => (9, [0; 3]),
            Self::UnknownClass(class) => (10, [u64::from(class), 0, 0]),
            Self::UnknownLimits(limits) => (11, [u64::from(limits), 0, 0]),
            Self::Weight(weight) => (12, [u64::from(weight), 0, 0]),
            Self::BelowOneRequest { per_second, burst, request } => (13, [per_second, burst, request]),
            Self::ClassNotAllowed { asked, highest } => {
                (14, [u64::from(asked.number()), u64::from(highest.number()), 0])
            }
            Self::QueuePairs { asked, most } => (15, [u64::from(asked), u64::from(most), 0]),
            Self::Depth { asked, most } => (16, [u64::from(asked), u64::from(most), 0]),
            Self::SharesQueuePairs(session) => (17, [u64::from(session), 0, 0]),
            Self::NoQueuePairs { asked, has } => (18, [u64::from(asked), u64::from(has), 0]),
            Self::Device(session) => (19, [u64::from(session), 0, 0]),
            Self::NoServer => (20, [0; 3]),
            Self::UnknownInterrupts(number) => (21, [number, 0, 0]),
            Self::NoInterrupts(asked) => (22, [asked.number(), 0, 0]),
            Self::NoFunction(function) => (23, [u64::from(function), 0, 0]),
            Self::Dead => return Message::new(Message::NO_CAPABILITY),
        };
        Message::from_words(Message::ANSWERS.saturating_add(number), &values)
    }

    /// Decodes an answer other than [`DONE`]; returns [`Refusal::BadRequest`] for an answer that this interface does not have.
    #[must_use]
    pub fn of(answer: &Message) -> Self {
        let [a, b, c] = answer.payload::<[u64; 3]>().unwrap_or_default();
        if answer.label == Message::NO_CAPABILITY {
            return Self::Dead;
        }
        match answer.label.saturating_sub(Message::ANSWERS) {
            2 => Self::NoSession(a),
            3 => Self::NotOpen(a),
            4 => Self::Empty { first: a },
            5 => Self::BeyondSession { first: a, blocks: b, has: c },
            6 => Self::BeyondNamespace { lba: a, blocks: b, has: c },
            7 => Self::UnknownRights(a as u32),
            8 => Self::Contradicts { first: a, lba: b, blocks: c },
            9 => Self::Busy,
            10 => Self::UnknownClass(a as u32),
            11 => Self::UnknownLimits(a as u32),
            12 => Self::Weight(a as u32),
            13 => Self::BelowOneRequest { per_second: a, burst: b, request: c },
            14 => match (Class::from_number(a as u32), Class::from_number(b as u32)) {
                (Some(asked), Some(highest)) => Self::ClassNotAllowed { asked, highest },
                _ => Self::BadRequest,
            },
            15 => Self::QueuePairs { asked: a as u32, most: b as u32 },
            16 => Self::Depth { asked: a as u32, most: b as u32 },
            17 => Self::SharesQueuePairs(a as u32),
            18 => Self::NoQueuePairs { asked: a as u32, has: b as u32 },
            19 => Self::Device(a as u32),
            20 => Self::NoServer,
            21 => Self::UnknownInterrupts(a),
            22 => Interrupts::from_number(a).map_or(Self::BadRequest, Self::NoInterrupts),
            23 => Self::NoFunction(a as u32),
            _ => Self::BadRequest,
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::BadRequest => f.write_str("not a call of this interface"),
            Self::NoSession(session) => write!(f, "there is no session {session}"),
            Self::NotOpen(session) => write!(f, "session {session} is not open"),
            Self::Empty { first } => write!(f, "no blocks, from block {first} on"),
            Self::BeyondSession { first, blocks, has } => {
                write!(f, "{blocks} blocks from block {first} on, of a session that has {has}")
            }
            Self::BeyondNamespace { lba, blocks, has } => {
                write!(f, "{blocks} blocks from LBA {lba} on, of a namespace that has {has}")
            }
            Self::UnknownRights(rights) => write!(f, "rights {rights:#x}, which are none"),
            Self::Contradicts { first, lba, blocks } => {
                write!(f, "another record has {blocks} blocks from block {first} on, at LBA {lba}")
            }
            Self::UnknownClass(class) => write!(f, "class {class}, which is none"),
            Self::UnknownLimits(limits) => write!(f, "limits {limits:#x}, which are none"),
            Self::Weight(weight) => write!(f, "a weight of {weight}, which is not 1 to 65535"),
            Self::BelowOneRequest { per_second, burst, request } => {
                write!(f, "a limit of {per_second} a second and {burst} at once, below the {request} of one request")
            }
            Self::ClassNotAllowed { asked, highest } => {
                write!(f, "class {}, of a session that may have {} at most", asked.name(), highest.name())
            }
            Self::QueuePairs { asked, most } => {
                write!(f, "{asked} queue pairs, of a session that may have 1 to {most}")
            }
            Self::Depth { asked, most } => {
                write!(f, "a depth of {asked}, of queue pairs that may have 1 to {most}")
            }
            Self::SharesQueuePairs(session) => write!(f, "session {session} shares its queue pairs"),
            Self::NoQueuePairs { asked, has } => {
                write!(f, "the controller refuses {asked} queue pairs to a session that has {has}")
            }
            Self::Device(session) => write!(f, "the controller failed while session {session} was changed"),
            Self::UnknownInterrupts(number) => write!(f, "interrupts of number {number}, which are none"),
            Self::NoInterrupts(asked) => write!(f, "the controller cannot interrupt by {}", asked.name()),
            Self::NoFunction(function) => write!(f, "there is no virtual function {function}"),
            Self::Busy => f.write_str("asked too often"),
            Self::NoServer => f.write_str("the server is dead"),
            Self::Dead => f.write_str("who would have to answer stays dead"),
        }
    }
}

impl core::error::Error for Refusal {}

/// A policy component's configuration, written by the system's model.
///
/// Its environment names what belongs to it: capabilities `server` (the NVMe server's endpoint, with [`BADGE`]),
/// `endpoint` and `event` (its own); the region `liveness-server`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PolicyConfig {
    /// The sessions, in the server's order; the badge of session i's client on the policy component's endpoint is i + 1.
    pub sessions: Vec<Holder>,
    /// The clients of virtual functions, in the server's order. In changes, client i has the number after those of all sessions
    /// and of the clients before it.
    pub functions: Vec<Holder>,
    /// Changes of rights and shares while the system runs, in their order: each follows those before it.
    pub changes: Vec<Change>,
    /// Changes of the controller's interrupt mode, in their order.
    pub interrupts: Vec<InterruptsChange>,
}

/// A change of the controller's interrupt mode.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct InterruptsChange {
    /// The number of its moment in the specification, which the supervisor announces (`report::milestones`).
    pub moment: u16,
    /// The new mode.
    pub to: Interrupts,
}

/// A change of a session's rights or share, and its time.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Change {
    /// The number of its moment in the specification, which the supervisor announces (`report::milestones`).
    pub moment: u16,
    /// The session.
    pub session: u32,
    /// The change.
    pub what: What,
}

/// A change of a session's rights, or of its share. Its numbering stays as it is.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum What {
    /// The session may neither read nor write these blocks of its namespace any more.
    Revoke(Vec<Blocks>),
    /// The session has these rights to these extents from now on. It numbers them already.
    Grant(Vec<Extent>),
    /// The session has this share of the controller from now on ([`SET_SHARE`]).
    Entitle(Entitlement),
}

/// A session's share of the controller.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Entitlement {
    /// The session's class.
    pub class: Class,
    /// The session's weight within its class.
    pub weight: u16,
    /// Commands a second.
    pub iops: Option<RateLimit>,
    /// Bytes a second.
    pub bandwidth: Option<RateLimit>,
    /// Hardware queue pairs of its own; 0 where it shares some.
    pub queue_pairs: u16,
    /// Commands each of its queue pairs may hold.
    pub depth: u16,
}

/// A session that holds extents.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Holder {
    /// The tenant.
    pub tenant: String,
    /// The namespace.
    pub nsid: u32,
    /// The session's blocks, in the order of its own numbering.
    pub extents: Vec<Extent>,
    /// Whether the session may write. If not, none of its extents may be written.
    pub writable: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_keeps_its_values_on_the_way() {
        let all = [
            Refusal::BadRequest,
            Refusal::NoSession(u64::MAX),
            Refusal::NotOpen(3),
            Refusal::Empty { first: 7 },
            Refusal::BeyondSession { first: 1, blocks: 2, has: 3 },
            Refusal::BeyondNamespace { lba: 1, blocks: 2, has: 3 },
            Refusal::UnknownRights(9),
            Refusal::Contradicts { first: 1, lba: 2, blocks: 3 },
            Refusal::Busy,
            Refusal::Dead,
            Refusal::UnknownClass(4),
            Refusal::UnknownLimits(8),
            Refusal::Weight(70_000),
            Refusal::BelowOneRequest { per_second: 1, burst: 2, request: 4096 },
            Refusal::ClassNotAllowed { asked: Class::Urgent, highest: Class::Low },
            Refusal::QueuePairs { asked: 70_000, most: 4 },
            Refusal::Depth { asked: 0, most: 63 },
            Refusal::SharesQueuePairs(7),
            Refusal::NoQueuePairs { asked: 4, has: 2 },
            Refusal::Device(5),
            Refusal::NoServer,
            Refusal::UnknownInterrupts(u64::MAX),
            Refusal::NoInterrupts(Interrupts::Msi),
            Refusal::NoFunction(6),
        ];
        for refusal in all {
            let answer = refusal.message();
            assert_ne!(answer.label, DONE);
            assert_eq!(answer.label < Message::ANSWERS, refusal == Refusal::Dead, "what the kernel may say as well");
            assert_eq!(Refusal::of(&answer), refusal);
        }
        assert_eq!(Refusal::of(&Message::new(0xffff)), Refusal::BadRequest);
        let class_not_allowed = Refusal::ClassNotAllowed { asked: Class::Urgent, highest: Class::Low }.message().label;
        assert_eq!(Refusal::of(&Message::from_words(class_not_allowed, &[0, 4, 0])), Refusal::BadRequest);
        let beyond = Refusal::BeyondSession { first: 1, blocks: 2, has: 3 }.message().label;
        assert_eq!(Refusal::of(&Message::new(beyond)), Refusal::BeyondSession { first: 0, blocks: 0, has: 0 });
    }
}
