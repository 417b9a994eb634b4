//! The IOMMU server's interface, for machines whose kernel has no IOSpaces: calls to open, use and close one.
//!
//! Each driver has a domain, a number from 1 on, and a capability with the domain as its badge, which stands for the
//! IOSpace. The capability has no effect until the PCI server, whose badge is [`MASTER`], has opened the domain for a
//! requester id, and again after the PCI server has closed it. For the seam's `Kernel` methods on IOSpaces the platform
//! makes the calls of [`calls`].
//!
//! No message carries a capability, and the server receives none. A driver names a frame by the cptr at which the specification
//! gave it to the driver ([`frames`]), so it can name its own frames and no other object.
//!
//! The kernel does not tie these mappings to capabilities: a component that takes a frame back has to know that its IOSpace
//! was closed. Only the supervisor takes frames back, and after a driver's death it waits for the PCI server's signal.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod blocked;
pub mod calls;
pub mod frames;
pub mod names;

use alloc::vec::Vec;
use platform::{CPtr, Error, Message, Paddr, Rights};
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
/// Maps one of the caller's frames in its domain; carries a [`Map`].
pub const MAP: u32 = 4;
/// Unmaps a page from the caller's domain; carries an [`Unmap`].
pub const UNMAP: u32 = 5;

/// The label of an answer to a call that was carried out; others are [`refusal`]s.
pub const DONE: u32 = 0;
/// The label of an answer to a call that is beyond its client's budget: it is to be repeated, and is carried out after a tick.
pub const BUSY: u32 = Message::ANSWERS + 5;

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
    /// The cptr of the caller's CSpace at which the specification has the frame.
    pub cptr: u64,
    /// 1 when the device is to write, as far as the frame is the caller's to write.
    pub writable: u64,
}

impl Map {
    /// A mapping with these of the frame's rights. No mapping can be written and not read.
    #[must_use]
    pub fn new(iova: u64, frame: CPtr, rights: Rights) -> Self {
        Self { iova, cptr: frame.bits(), writable: rights.write.into() }
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
    /// The page to which functions write their interrupts: mapped in every domain, at the same address.
    pub messages: Paddr,
    /// The drivers, in the order of their domains, from 1 on.
    pub drivers: Vec<Driver>,
}

/// A driver, and the part of the server's pages that is kept for it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Driver {
    /// The driver's name.
    pub name: alloc::string::String,
    /// The most translation tables of its domain: [`tables`] of its arrays of frames.
    pub tables: u32,
    /// Whether the driver is a client, whose calls are bounded from tick to tick.
    pub is_client: bool,
}

/// Pages that a translation table of the last level covers; and tables that one above it covers.
const LEAF_PAGES: u64 = 512;

/// Translation tables that suffice for a driver that maps all of its arrays of frames, of which `arrays` has the lengths in frames.
///
/// Each array lies at consecutive addresses and may begin anywhere in 2 MiB. The first one, the pool, begins with a GiB, and so do the
/// others together, the windows, one after the other. The page of interrupts is in another GiB. So there are the first table, one for
/// each GiB, and one for each 2 MiB that an array or the page of interrupts lies in.
#[must_use]
pub fn tables(arrays: impl IntoIterator<Item = u64>) -> u64 {
    let leaves = |frames: u64| frames.div_ceil(LEAF_PAGES).saturating_add(1);
    let leaves = arrays.into_iter().map(leaves).fold(1u64, u64::saturating_add);
    // That of the page of interrupts, and a second one that is not full.
    let gigabytes = leaves.div_ceil(LEAF_PAGES).saturating_add(2);
    leaves.saturating_add(gigabytes).saturating_add(1)
}

/// Pages of the server for domains of so many [`tables`]: four of its own, and a table of streams for each domain, which may share
/// none.
#[must_use]
pub fn pages(domains: impl IntoIterator<Item = u64>) -> u64 {
    domains.into_iter().fold(OWN_PAGES, |pages, tables| pages.saturating_add(tables).saturating_add(1))
}

/// The server's pages that belong to no domain: the table of streams, the two queues, the context descriptors.
pub const OWN_PAGES: u64 = 4;

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;

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
        assert!(REFUSALS.iter().all(|(label, _)| *label != BUSY));
    }

    #[test]
    fn tables_suffice_for_pools_and_windows_that_fill_gigabytes() {
        const GIGABYTE: u64 = LEAF_PAGES * LEAF_PAGES;
        let lengths = [1, LEAF_PAGES, LEAF_PAGES + 1, GIGABYTE - LEAF_PAGES, GIGABYTE, GIGABYTE + 1];
        for pool in lengths {
            for window in lengths {
                for windows in 1..4u64 {
                    let leaves = |first: u64, frames: u64| first / LEAF_PAGES..=(first + frames - 1) / LEAF_PAGES;
                    let stride = window.next_multiple_of(LEAF_PAGES);
                    let places = (0..windows).map(|number| (4 * GIGABYTE + number * stride, window));
                    // The page of interrupts is in the first GiB.
                    let all = places.chain([(GIGABYTE, pool), (0, 1)]);
                    let used: BTreeSet<u64> = all.flat_map(|(first, frames)| leaves(first, frames)).collect();
                    let gigabytes: BTreeSet<u64> = used.iter().map(|leaf| leaf / LEAF_PAGES).collect();
                    let arrays = core::iter::once(pool).chain((0..windows).map(|_| window));
                    let needed = 1 + gigabytes.len() + used.len();
                    assert!(needed as u64 <= tables(arrays), "{pool}, {windows} of {window}");
                }
            }
        }
    }
}
