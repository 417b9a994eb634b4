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
use platform::Message;
use serde::{Deserialize, Serialize};
use zerocopy::{FromBytes, Immutable, IntoBytes};

mod refusal;

pub use refusal::Refusal;

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

    /// The entitlement of a message.
    ///
    /// # Errors
    /// [`Refusal`] for a value that no entitlement has.
    pub fn entitlement(&self) -> Result<Entitlement, Refusal> {
        let [iops, bandwidth] = self.limits()?;
        let (asked, most) = (self.queue_pairs, u32::from(u16::MAX));
        Ok(Entitlement {
            class: Class::from_number(self.class).ok_or(Refusal::UnknownClass(self.class))?,
            weight: self.weight.try_into().map_err(|_| Refusal::Weight(self.weight))?,
            iops,
            bandwidth,
            queue_pairs: asked.try_into().map_err(|_| Refusal::QueuePairs { asked, most })?,
            depth: self.depth.try_into().map_err(|_| Refusal::Depth { asked: self.depth, most })?,
        })
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

/// A policy component's configuration, written by the system's model.
///
/// Its environment names what belongs to it: capabilities `server` (the NVMe server's endpoint, with [`BADGE`]),
/// `endpoint` and `event` (its own); the region `liveness-server`. With a control component also a signal to that, `control`, and
/// the page `kept`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PolicyConfig {
    /// The sessions, in the server's order; the badge of session i's client on the policy component's endpoint is i + 1.
    pub sessions: Vec<Holder>,
    /// The clients of virtual functions, in the server's order. In changes, client i has the number after those of all sessions
    /// and of the clients before it.
    pub functions: Vec<Holder>,
    /// The shares of the sessions at the start, in their order.
    pub shares: Vec<Entitlement>,
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
