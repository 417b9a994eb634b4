//! Administration of the NVMe server's controller: calls of the one component that may make them.
//!
//! The badge of its capability has the rights ([`Rights::badge`]). A [`Command`] of the admin or an I/O queue passes if the server's list
//! allows it and the badge has its right; otherwise it is refused and no byte of it reaches a queue. Its data are a range of the asker's
//! window, which the controller reaches as it reaches a client's: the server maps none of it. A command is submitted ([`SUBMIT`]), and
//! its [`Completion`] collected ([`COLLECT`]) after a signal; or it is waited for ([`EXECUTE`]). Left out: which commands are on the list,
//! which the server knows, and the right to call, which the authority checker proves.

use core::fmt;
use platform::Message;
use serde::{Deserialize, Serialize};
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// The bit of every badge of an asker on the server's endpoint. Sessions' badges and the policy component's do not have it.
const BADGE: u64 = 1 << 26;
/// Commands and resets of an asker that may be under way or not yet collected.
pub const OUTSTANDING: usize = 8;
/// Pages of the server's pool that administration takes: a list page for each command, and an I/O queue pair.
pub const POOL_PAGES: u64 = OUTSTANDING as u64 + 2;
/// The longest window, bytes.
pub const MOST_WINDOW: u64 = 1 << 20;

/// Submits a [`Command`]. Answered at once; its completion is collected later.
pub const SUBMIT: u32 = 32;
/// Executes a [`Command`], and is answered with its [`Completion`]. One at a time.
pub const EXECUTE: u32 = 33;
/// Collects a [`Completion`] of a command that was submitted.
pub const COLLECT: u32 = 34;
/// Submits a reset ([`Reset`]), whose completion is collected.
pub const RESET: u32 = 35;
/// Asks for the controller's [`Registers`].
pub const REGISTERS: u32 = 36;
/// Asks for the [`Counts`].
pub const COUNTS: u32 = 37;

/// Answer to a call that was carried out; others are [`Refusal`]s.
pub const DONE: u32 = 0;

/// A right to administer the controller.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[repr(u8)]
pub enum Right {
    /// Identify, log pages, values of features and registers.
    Inspect,
    /// Features are set, those on which the server itself relies excepted.
    Features,
    /// Namespaces are created, deleted, attached, detached and formatted.
    Namespaces,
    /// Firmware is downloaded and committed.
    Firmware,
    /// Device self-tests.
    SelfTest,
    /// Sanitize, which erases all data.
    Sanitize,
    /// I/O commands on any namespace that the server serves, whichever tenant's blocks they name.
    Io,
    /// Resets of the controller and of the NVM subsystem.
    Reset,
}

impl Right {
    /// All rights.
    pub const ALL: [Self; 8] = [
        Self::Inspect,
        Self::Features,
        Self::Namespaces,
        Self::Firmware,
        Self::SelfTest,
        Self::Sanitize,
        Self::Io,
        Self::Reset,
    ];

    /// The name in scenarios.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Inspect => "inspect",
            Self::Features => "features",
            Self::Namespaces => "namespaces",
            Self::Firmware => "firmware",
            Self::SelfTest => "self-test",
            Self::Sanitize => "sanitize",
            Self::Io => "io",
            Self::Reset => "reset",
        }
    }

    const fn bit(self) -> u8 {
        1u8.wrapping_shl(self as u32)
    }
}

/// A set of rights.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Rights(u8);

impl Rights {
    /// No right.
    pub const NONE: Self = Self(0);

    /// Whether the set has this right.
    #[must_use]
    pub const fn has(self, right: Right) -> bool {
        self.0 & right.bit() != 0
    }

    /// The rights that are in both sets.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// The badge of an asker with these rights.
    #[must_use]
    pub const fn badge(self) -> u64 {
        BADGE | self.0 as u64
    }

    /// The rights of an asker with this badge. `None` for the badge of somebody else.
    #[must_use]
    pub const fn of_badge(badge: u64) -> Option<Self> {
        if badge & !0xff == BADGE { Some(Self((badge & 0xff) as u8)) } else { None }
    }
}

impl FromIterator<Right> for Rights {
    fn from_iter<T: IntoIterator<Item = Right>>(rights: T) -> Self {
        rights.into_iter().fold(Self::NONE, |Self(bits), right| Self(bits | right.bit()))
    }
}

/// The administration of a server's controller, in the server's configuration.
///
/// The server's environment then names the frames [`crate::names::ADMINISTRATION_WINDOW`] of the asker's window and the notification
/// [`crate::names::ADMINISTRATOR`], by which it signals the asker.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Administration {
    /// Rights that the asker's badge may have.
    pub rights: Rights,
    /// Bytes of the asker's window: whole pages, [`MOST_WINDOW`] at most.
    pub window_bytes: u64,
}

impl Administration {
    /// I/O queue pairs that administration takes beside those of sessions: the one after them.
    #[must_use]
    pub const fn queue_pairs(self) -> u16 {
        if self.rights.has(Right::Io) { 1 } else { 0 }
    }
}

/// The queue of a [`Command`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Queue {
    /// The admin queue.
    Admin = 0,
    /// An I/O queue.
    Io = 1,
}

/// A command, with its data as a range of the asker's window. It is not fused, uses PRPs and has no metadata.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct Command {
    /// The asker's name for it, which its completion has.
    pub token: u64,
    /// First byte of its data in the window; a multiple of 4.
    pub offset: u64,
    /// Bytes of its data, at least as many as the command moves.
    pub bytes: u32,
    /// [`Queue`].
    pub queue: u32,
    /// The opcode, 8 bits.
    pub opcode: u32,
    /// NSID.
    pub nsid: u32,
    /// CDW2 and CDW3.
    pub cdw2: [u32; 2],
    /// CDW10 to CDW15.
    pub cdw10: [u32; 6],
}

const _: () = assert!(size_of::<Command>() == 64);

impl Command {
    /// The queue, if it is one.
    #[must_use]
    pub const fn queue(&self) -> Option<Queue> {
        match self.queue {
            0 => Some(Queue::Admin),
            1 => Some(Queue::Io),
            _ => None,
        }
    }
}

/// The part that a [`RESET`] resets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u64)]
pub enum ResetKind {
    /// The controller.
    Controller = 0,
    /// The NVM subsystem, with all its controllers.
    Subsystem = 1,
}

/// A reset. Commands of sessions that are in flight complete first, if they do so within a second, and others wait for its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct Reset {
    /// The asker's name for it, which its completion has.
    pub token: u64,
    /// [`ResetKind`].
    pub kind: u64,
}

impl Reset {
    /// The kind of reset, if the number is one.
    #[must_use]
    pub const fn kind(&self) -> Option<ResetKind> {
        match self.kind {
            0 => Some(ResetKind::Controller),
            1 => Some(ResetKind::Subsystem),
            _ => None,
        }
    }
}

/// The end of a command or a reset.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Ended {
    /// The controller completed the command, or the reset was done.
    Completed = 0,
    /// The controller was reset first. The command may have been executed.
    Reset = 1,
    /// The controller did not get the command, or was not reset: it failed before, or lacks what is needed.
    NotSubmitted = 2,
}

/// A command or a reset that is over.
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct Completion {
    /// The asker's name for it.
    pub token: u64,
    /// Dwords 0 and 1 of the completion queue entry.
    pub result: u64,
    /// The status of the completion queue entry: SC, SCT, CRD, M and DNR, from bit 0 on.
    pub status: u32,
    /// [`Ended`]; with all but the first there is no status.
    pub ended: u32,
}

impl Completion {
    /// The end of something that the controller did not complete.
    #[must_use]
    pub const fn without_status(token: u64, ended: Ended) -> Self {
        Self { token, result: 0, status: 0, ended: ended as u32 }
    }

    /// How it ended. A number that is none counts as a reset.
    #[must_use]
    pub const fn ended(&self) -> Ended {
        match self.ended {
            0 => Ended::Completed,
            2 => Ended::NotSubmitted,
            _ => Ended::Reset,
        }
    }
}

/// The registers of the controller below offset 70h, as reads return them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct Registers(pub [u32; 28]);

/// The asker's calls so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct Counts {
    /// Commands and resets that were accepted.
    pub accepted: u64,
    /// Of these, those that are over.
    pub ended: u64,
    /// Calls that were refused.
    pub refused: u64,
}

/// A call of the asker.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Call {
    /// [`SUBMIT`].
    Submit(Command),
    /// [`EXECUTE`].
    Execute(Command),
    /// [`COLLECT`].
    Collect,
    /// [`RESET`].
    Reset(Reset),
    /// [`REGISTERS`].
    Registers,
    /// [`COUNTS`].
    Counts,
}

impl Call {
    /// The call that a message makes.
    ///
    /// # Errors
    /// [`Refusal::BadRequest`] for a message that is no call of this interface, or too short.
    pub fn decode(message: &Message) -> Result<Self, Refusal> {
        let call = match message.label {
            SUBMIT => message.payload().map(Self::Submit),
            EXECUTE => message.payload().map(Self::Execute),
            COLLECT => Ok(Self::Collect),
            RESET => message.payload().map(Self::Reset),
            REGISTERS => Ok(Self::Registers),
            COUNTS => Ok(Self::Counts),
            _ => return Err(Refusal::BadRequest),
        };
        call.map_err(|_| Refusal::BadRequest)
    }
}

/// Reason of a refused call, which has changed nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// No call of this interface, or a field of it has an impossible value.
    BadRequest,
    /// The command is not on the server's list.
    NotAllowed {
        /// The [`Queue`].
        queue: u32,
        /// The opcode.
        opcode: u32,
        /// CDW10, which names a feature, a log page or an operation.
        cdw10: u32,
    },
    /// The asker's badge lacks the right.
    NoRight(Right),
    /// The data are not inside of the window, or not aligned to 4 bytes.
    OutsideWindow {
        /// The first byte.
        offset: u64,
        /// The number of bytes.
        bytes: u64,
        /// Bytes of the window.
        has: u64,
    },
    /// The command moves more bytes than its data have.
    TooShort {
        /// Bytes of its data.
        bytes: u64,
        /// Bytes that it moves.
        needed: u64,
    },
    /// As many commands as there may be are under way or not collected, or another one is waited for.
    Busy,
    /// Nothing is to be collected.
    Nothing,
    /// The controller failed or is gone.
    Device,
    /// The namespace belongs to the client of a virtual function.
    OfFunction(u32),
    /// The server does not serve a namespace of this number.
    NoNamespace(u32),
    /// The controller has no queue pair for I/O commands of the asker.
    NoQueuePair,
    /// The controller has no reset of its subsystem (CAP.NSSRS).
    NoSubsystemReset,
    /// The server stays dead; the kernel answers in its place.
    Dead,
}

impl Refusal {
    /// The answer with this refusal.
    #[must_use]
    pub fn message(self) -> Message {
        let (number, values) = match self {
            Self::BadRequest => (1, [0; 3]),
            Self::NotAllowed { queue, opcode, cdw10 } => (2, [queue.into(), opcode.into(), cdw10.into()]),
            Self::NoRight(right) => (3, [right as u64, 0, 0]),
            Self::OutsideWindow { offset, bytes, has } => (4, [offset, bytes, has]),
            Self::TooShort { bytes, needed } => (5, [bytes, needed, 0]),
            Self::Busy => (6, [0; 3]),
            Self::Nothing => (7, [0; 3]),
            Self::Device => (8, [0; 3]),
            Self::OfFunction(nsid) => (9, [nsid.into(), 0, 0]),
            Self::NoNamespace(nsid) => (10, [nsid.into(), 0, 0]),
            Self::NoQueuePair => (11, [0; 3]),
            Self::NoSubsystemReset => (12, [0; 3]),
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
            2 => Self::NotAllowed { queue: a as u32, opcode: b as u32, cdw10: c as u32 },
            3 => Right::ALL.into_iter().find(|right| *right as u64 == a).map_or(Self::BadRequest, Self::NoRight),
            4 => Self::OutsideWindow { offset: a, bytes: b, has: c },
            5 => Self::TooShort { bytes: a, needed: b },
            6 => Self::Busy,
            7 => Self::Nothing,
            8 => Self::Device,
            9 => Self::OfFunction(a as u32),
            10 => Self::NoNamespace(a as u32),
            11 => Self::NoQueuePair,
            12 => Self::NoSubsystemReset,
            _ => Self::BadRequest,
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::BadRequest => f.write_str("not a call of this interface"),
            Self::NotAllowed { queue, opcode, cdw10 } => {
                let queue = if queue == Queue::Admin as u32 { "admin" } else { "I/O" };
                write!(f, "the {queue} command {opcode:02x}h with CDW10 {cdw10:#x} is not on the list")
            }
            Self::NoRight(right) => write!(f, "the right \"{}\" is missing", right.name()),
            Self::OutsideWindow { offset, bytes, has } => {
                write!(f, "{bytes} bytes from byte {offset} on, of a window of {has} bytes")
            }
            Self::TooShort { bytes, needed } => write!(f, "{bytes} bytes of data, for a command that moves {needed}"),
            Self::Busy => f.write_str("too many commands are under way"),
            Self::Nothing => f.write_str("nothing has ended"),
            Self::Device => f.write_str("the controller failed"),
            Self::OfFunction(nsid) => write!(f, "namespace {nsid} belongs to a virtual function"),
            Self::NoNamespace(nsid) => write!(f, "namespace {nsid} is not served"),
            Self::NoQueuePair => f.write_str("the controller has no queue pair for this"),
            Self::NoSubsystemReset => f.write_str("the controller has no subsystem reset"),
            Self::Dead => f.write_str("the server stays dead"),
        }
    }
}

impl core::error::Error for Refusal {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::ServerConfig;
    use crate::policy;

    #[test]
    fn a_refusal_keeps_its_values_on_the_way() {
        let all = [
            Refusal::BadRequest,
            Refusal::NotAllowed { queue: 1, opcode: 0x99, cdw10: u32::MAX },
            Refusal::NoRight(Right::Reset),
            Refusal::OutsideWindow { offset: u64::MAX, bytes: 2, has: 3 },
            Refusal::TooShort { bytes: 1, needed: 4096 },
            Refusal::Busy,
            Refusal::Nothing,
            Refusal::Device,
            Refusal::OfFunction(7),
            Refusal::NoNamespace(u32::MAX),
            Refusal::NoQueuePair,
            Refusal::NoSubsystemReset,
            Refusal::Dead,
        ];
        for refusal in all {
            let answer = refusal.message();
            assert_ne!(answer.label, DONE);
            assert_eq!(answer.label < Message::ANSWERS, refusal == Refusal::Dead, "what the kernel may say as well");
            assert_eq!(Refusal::of(&answer), refusal);
        }
        assert_eq!(Refusal::of(&Refusal::NoRight(Right::Io).message()), Refusal::NoRight(Right::Io));
        assert_eq!(Refusal::of(&Message::from_words(Message::ANSWERS + 3, &[8, 0, 0])), Refusal::BadRequest);
    }

    #[test]
    fn badges_have_the_rights_and_are_nobody_elses() {
        for right in Right::ALL {
            let rights: Rights = [right].into_iter().collect();
            assert_eq!(Rights::of_badge(rights.badge()), Some(rights));
            assert!(Right::ALL.into_iter().all(|other| rights.has(other) == (other == right)));
        }
        let sessions = 0..=ServerConfig::MOST_SESSIONS as u64;
        assert!(sessions.chain([policy::BADGE, policy::BADGE | 1]).all(|badge| Rights::of_badge(badge).is_none()));
        assert_eq!(Rights::of_badge(Rights::NONE.badge() | 1 << 8), None);
    }

    #[test]
    fn calls_of_clients_and_of_the_policy_component_are_none_of_this_interface() {
        for label in (0..SUBMIT).chain([COUNTS + 1]) {
            assert_eq!(Call::decode(&Message::new(label)), Err(Refusal::BadRequest));
        }
        assert_eq!(Call::decode(&Message::new(SUBMIT)), Err(Refusal::BadRequest), "too short");
        assert!((SUBMIT..=COUNTS).all(|label| !policy::Call::has_label(label)));
    }
}
