//! The IOMMU server's interface, for machines whose kernel has no IOSpaces: calls to open, use and close one.
//!
//! Each driver has a domain, a number from 1 on, and a capability with the domain as its badge, which stands for the
//! IOSpace. The capability has no effect until the PCI server, whose badge is [`MASTER`], has opened the domain for a
//! requester id, and again after the PCI server has closed it. For the seam's `Kernel` methods on IOSpaces the platform
//! makes the calls of [`calls`].
//!
//! The kernel does not tie these mappings to capabilities: a component that takes a frame back has to know that its IOSpace
//! was closed. Only the supervisor takes frames back, and after a driver's death it waits for the PCI server's signal.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod blocked;
pub mod calls;
pub mod names;

use alloc::vec::Vec;
use platform::{Error, Message, Paddr, Rights};
use serde::{Deserialize, Serialize};
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// The PCI server's badge.
pub const MASTER: u64 = 1 << 16;

/// Opens a domain for a function, empty; carries an [`Open`]. The PCI server's alone, as the next two.
pub const OPEN: u32 = 1;
/// Closes a domain: its device reaches nothing any more. Carries a [`Close`].
pub const CLOSE: u32 = 2;
/// Closes all domains.
pub const RESET: u32 = 3;
/// Maps a frame in the caller's domain; carries a [`Map`] and the frame's capability, which is not kept.
pub const MAP: u32 = 4;
/// Unmaps a page from the caller's domain; carries an [`Unmap`].
pub const UNMAP: u32 = 5;

/// The label of an answer to a call that was carried out; others are [`refusal`]s.
pub const DONE: u32 = 0;

/// The domain to open, and its function.
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct Open {
    /// The domain.
    pub domain: u16,
    /// Bus << 8 | device << 3 | function.
    pub requester_id: u16,
    /// Zero.
    pub reserved: u32,
}

/// The domain to close.
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct Close {
    /// The domain.
    pub domain: u64,
}

/// The address and rights of a mapping.
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct Map {
    /// The device's address of the page.
    pub iova: u64,
    /// 1 when the device may write.
    pub writable: u64,
}

impl Map {
    /// A mapping with these rights. No mapping can be written and not read.
    #[must_use]
    pub fn new(iova: u64, rights: Rights) -> Self {
        Self { iova, writable: rights.write.into() }
    }
}

/// The page to unmap.
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct Unmap {
    /// The device's address of the page.
    pub iova: u64,
}

/// Labels of refusals, and the errors for them of a kernel with IOSpaces of its own.
const REFUSALS: [(u32, Error); 6] = [
    (Message::ANSWERS, Error::IllegalOperation),
    (Message::ANSWERS + 1, Error::InvalidCapability(1)),
    (Message::ANSWERS + 2, Error::InvalidArgument(0)),
    (Message::ANSWERS + 3, Error::DeleteFirst),
    (Message::ANSWERS + 4, Error::NotEnoughMemory(0)),
    (Message::NO_CAPABILITY, Error::InvalidCapability(0)),
];

/// The label of a refusal.
#[must_use]
pub fn refusal(error: Error) -> u32 {
    let found = REFUSALS.iter().find(|(_, one)| core::mem::discriminant(one) == core::mem::discriminant(&error));
    found.map_or(Message::ANSWERS, |(label, _)| *label)
}

/// The result in an answer.
///
/// # Errors
/// The refusal; an unknown label counts as [`Error::IllegalOperation`].
pub fn result(answer: &Message) -> platform::Result<()> {
    if answer.label == DONE {
        return Ok(());
    }
    let found = REFUSALS.iter().find(|(label, _)| *label == answer.label);
    Err(found.map_or(Error::IllegalOperation, |(_, error)| *error))
}

/// The server's configuration, written by the system's model.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ServerConfig {
    /// Ordinary memory: its first byte, and the number of bytes. Frames elsewhere are not mapped.
    pub memory: (Paddr, u64),
    /// The page to which functions write their interrupts: mapped in every domain, at the same address.
    pub messages: Paddr,
    /// The names of the drivers, in the order of their domains, from 1 on.
    pub drivers: Vec<alloc::string::String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_the_same_error_at_the_other_end() {
        for (label, error) in REFUSALS {
            assert_eq!(result(&Message::new(label)), Err(error));
        }
        for error in [Error::IllegalOperation, Error::DeleteFirst, Error::NotEnoughMemory(7)] {
            let answer = Message::new(refusal(error));
            assert_eq!(core::mem::discriminant(&result(&answer).unwrap_err()), core::mem::discriminant(&error));
        }
        assert_eq!(result(&Message::new(DONE)), Ok(()));
        assert_eq!(result(&Message::new(77)), Err(Error::IllegalOperation));
    }
}
