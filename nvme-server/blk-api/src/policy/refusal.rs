//! The reasons why calls to the NVMe server with the privileged badge, and calls to the policy component, are refused.

use crate::config::{Class, Interrupts};
use core::fmt;
use platform::Message;

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
    /// The session does not number these blocks of its namespace.
    NotNumbered {
        /// The first of them on the namespace.
        lba: u64,
        /// The number of blocks.
        blocks: u64,
    },
    /// Another session has some of the blocks, and one of the two could write them.
    OthersHave {
        /// The first block, on the namespace, of the rights that would overlap.
        lba: u64,
        /// The first block of the other's.
        other_lba: u64,
    },
    /// The client of the virtual function has all of its blocks or none.
    WholeFunction(u64),
    /// The badge lacks the right to this order.
    NotAllowed,
    /// So many orders are kept that no other can be.
    Exhausted,
    /// The policy component was restarted after the last order. It carries out all orders that it kept.
    Restarted,
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
            Self::NotNumbered { lba, blocks } => (24, [lba, blocks, 0]),
            Self::OthersHave { lba, other_lba } => (25, [lba, other_lba, 0]),
            Self::WholeFunction(session) => (26, [session, 0, 0]),
            Self::NotAllowed => (27, [0; 3]),
            Self::Exhausted => (28, [0; 3]),
            Self::Restarted => (29, [0; 3]),
            Self::Dead => return Message::new(Message::NO_CAPABILITY),
        };
        Message::from_words(Message::ANSWERS.saturating_add(number), &values)
    }

    /// Decodes an answer other than [`DONE`](super::DONE); returns [`Refusal::BadRequest`] for an answer that this interface does not have.
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
            24 => Self::NotNumbered { lba: a, blocks: b },
            25 => Self::OthersHave { lba: a, other_lba: b },
            26 => Self::WholeFunction(a),
            27 => Self::NotAllowed,
            28 => Self::Exhausted,
            29 => Self::Restarted,
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
            Self::NotNumbered { lba, blocks } => {
                write!(f, "{blocks} blocks from block {lba} on, which the tenant does not number")
            }
            Self::OthersHave { lba, other_lba } => {
                write!(f, "blocks from {lba} on overlap those from {other_lba} on, which another tenant has")
            }
            Self::WholeFunction(_) => f.write_str("a virtual function's tenant has all of its blocks or none"),
            Self::NotAllowed => f.write_str("the scenario does not allow that"),
            Self::Exhausted => f.write_str("no more orders can be kept"),
            Self::Restarted => f.write_str("the policy component was restarted meanwhile"),
            Self::Busy => f.write_str("asked too often"),
            Self::NoServer => f.write_str("the server is dead"),
            Self::Dead => f.write_str("who would have to answer stays dead"),
        }
    }
}

impl core::error::Error for Refusal {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::DONE;

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
            Refusal::NotNumbered { lba: 1, blocks: 2 },
            Refusal::OthersHave { lba: 1, other_lba: 2 },
            Refusal::WholeFunction(3),
            Refusal::NotAllowed,
            Refusal::Exhausted,
            Refusal::Restarted,
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
