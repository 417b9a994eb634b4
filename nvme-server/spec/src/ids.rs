//! The identifiers of commands, queues, namespaces and blocks, each a type of its own.

use core::fmt;

/// A command identifier: unique among the commands outstanding on one SQ (section 4.2).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[repr(transparent)]
pub struct Cid(pub u16);

/// The identifier of an SQ or a CQ; 0 names the admin queues (section 1.6).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[repr(transparent)]
pub struct QueueId(pub u16);

/// A namespace identifier. 0 is none, all ones is every namespace (section 6.1).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[repr(transparent)]
pub struct Nsid(pub u32);

/// A logical block address, in blocks of the namespace's format.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[repr(transparent)]
pub struct Lba(pub u64);

impl Cid {
    /// No command: entries of the error log that belong to none have it, so a host names no command so (section 5.14.1.1; base
    /// specification 2.0, figure 87).
    pub const NONE: Self = Self(u16::MAX);

    /// The identifier after this one, in a circle of all that may name a command.
    #[must_use]
    pub const fn next(self) -> Self {
        match self.0.checked_add(1) {
            Some(next) if next != Self::NONE.0 => Self(next),
            _ => Self(0),
        }
    }
}

impl QueueId {
    /// The admin submission or completion queue.
    pub const ADMIN: Self = Self(0);
}

impl Nsid {
    /// No namespace, in commands that concern none.
    pub const NONE: Self = Self(0);
    /// The broadcast value: every namespace, or the controller as a whole.
    pub const ALL: Self = Self(u32::MAX);
}

impl Lba {
    /// The address `blocks` further on, or `None` if it does not fit into 64 bits.
    #[must_use]
    pub const fn checked_add(self, blocks: u64) -> Option<Self> {
        match self.0.checked_add(blocks) {
            Some(lba) => Some(Self(lba)),
            None => None,
        }
    }
}

impl fmt::Display for Cid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#06x}", self.0)
    }
}

impl fmt::Display for QueueId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Nsid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::ALL { f.write_str("all") } else { self.0.fmt(f) }
    }
}

impl fmt::Display for Lba {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
