//! The address space of a stream: a context descriptor and three levels of tables (section 5.4; DDI 0487, D5).

use crate::error::Error;
use crate::pool::{CONTEXTS, Page, Pool, Role};
use alloc::vec::Vec;
use platform::{Iova, Memory, Paddr};
use smmu_spec::context::Asid;
use smmu_spec::translation::{
    ATTRIBUTE_DEVICE, ATTRIBUTE_NORMAL, Descriptor, FIRST_LEVEL, INPUT_BITS, LAST_LEVEL, Permission, index,
};
use smmu_spec::{ContextDescriptor, StreamId};
use zerocopy::IntoBytes;

/// 64-bit words of a context descriptor.
const CONTEXT_WORDS: usize = 8;
/// Bytes of one.
const CONTEXT_BYTES: u64 = 64;

/// A device's rights to a page. Stage 1 has no page that can be written and not read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rights {
    /// Memory that the device may read.
    Read,
    /// Memory that it may read and write.
    ReadWrite,
    /// Registers that it may write: the page that its interrupt messages go to.
    Messages,
}

impl Rights {
    fn page(self, paddr: Paddr) -> Descriptor {
        let (permission, attribute) = match self {
            Self::Read => (Permission::Read, ATTRIBUTE_NORMAL),
            Self::ReadWrite => (Permission::ReadWrite, ATTRIBUTE_NORMAL),
            Self::Messages => (Permission::ReadWrite, ATTRIBUTE_DEVICE),
        };
        Descriptor::page(paddr.bits(), permission, attribute)
    }
}

/// The address space of one stream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AddressSpace {
    pub(crate) stream: StreamId,
    slot: u8,
    root: Page,
    /// The most tables it may have, the root included.
    most_tables: usize,
}

/// The walk of an address: the existing tables on the way, from the first level on.
struct Path {
    tables: Vec<(Page, usize)>,
    /// The descriptor at the end.
    last: Descriptor,
}

impl AddressSpace {
    /// Makes an empty address space in `slot`, with its context descriptor.
    pub(crate) fn new<M: Memory>(
        pool: &mut Pool<M>,
        stream: StreamId,
        slot: u8,
        ips: u8,
        most_tables: usize,
    ) -> Result<Self, Error> {
        let root = pool.take(Role::Table { owner: slot, level: FIRST_LEVEL, used: 0 })?;
        let space = Self { stream, slot, root, most_tables };
        let descriptor = ContextDescriptor::stage1(pool.paddr(root)?, space.asid(), ips);
        // The word with the valid bit is last.
        for (word, bytes) in descriptor.as_bytes().chunks_exact(size_of::<u64>()).enumerate().skip(1) {
            let value = bytes.try_into().map(u64::from_le_bytes).map_err(|_| Error::OutOfBounds)?;
            pool.write(CONTEXTS, space.context_word(word), value)?;
        }
        pool.fence();
        pool.write(CONTEXTS, space.context_word(0), descriptor.word0.into_bits())?;
        Ok(space)
    }

    /// The ASID: no other address space has it, and 0 is unused.
    pub(crate) fn asid(&self) -> Asid {
        Asid(u16::from(self.slot).saturating_add(1))
    }

    /// The address of the context descriptor.
    pub(crate) fn context<M: Memory>(&self, pool: &Pool<M>) -> Result<u64, Error> {
        let offset = u64::from(self.slot).saturating_mul(CONTEXT_BYTES);
        pool.paddr(CONTEXTS)?.checked_add(offset).ok_or(Error::Address)
    }

    /// Makes the context descriptor invalid and puts all tables into limbo.
    pub(crate) fn end<M: Memory>(&self, pool: &mut Pool<M>) -> Result<(), Error> {
        pool.write(CONTEXTS, self.context_word(0), 0)?;
        pool.fence();
        for page in pool.pages_with(|role| matches!(role, Role::Table { owner, .. } if owner == self.slot)) {
            pool.set_role(page, Role::Limbo);
        }
        Ok(())
    }

    /// Maps a page. Missing tables are linked in when they are complete.
    pub(crate) fn map<M: Memory>(
        &self,
        pool: &mut Pool<M>,
        iova: Iova,
        paddr: Paddr,
        rights: Rights,
    ) -> Result<(), Error> {
        let path = self.walk(pool, iova)?;
        if path.last.valid() {
            return Err(Error::Mapped);
        }
        let present = level_after(path.tables.len());
        let missing = usize::from(LAST_LEVEL.saturating_sub(present));
        if missing > 0 && pool.tables(self.slot).saturating_add(missing) > self.most_tables {
            return Err(Error::Quota);
        }
        if pool.free_pages() < missing {
            return Err(Error::NoPages);
        }
        let mut descriptor = rights.page(paddr);
        for level in (present.saturating_add(1)..=LAST_LEVEL).rev() {
            let table = pool.take(Role::Table { owner: self.slot, level, used: 1 })?;
            pool.write(table, index(iova.bits(), level), descriptor.into_bits())?;
            descriptor = Descriptor::table(pool.paddr(table)?);
        }
        pool.fence();
        let (table, place) = *path.tables.last().ok_or(Error::Corrupt)?;
        pool.write(table, place, descriptor.into_bits())?;
        pool.fence();
        count(pool, table, |used| used.saturating_add(1));
        Ok(())
    }

    /// Removes a page's mapping, and tables that are then empty, which go into limbo. Returns whether there were any.
    pub(crate) fn unmap<M: Memory>(&self, pool: &mut Pool<M>, iova: Iova) -> Result<bool, Error> {
        let path = self.walk(pool, iova)?;
        if level_after(path.tables.len()) != LAST_LEVEL || !path.last.valid() {
            return Err(Error::NotMapped);
        }
        let mut emptied = false;
        for (table, place) in path.tables.iter().rev() {
            pool.write(*table, *place, Descriptor::INVALID.into_bits())?;
            if count(pool, *table, |used| used.saturating_sub(1)) != 0 || *table == self.root {
                break;
            }
            pool.set_role(*table, Role::Limbo);
            emptied = true;
        }
        pool.fence();
        Ok(emptied)
    }

    /// Follows `iova` down to the last existing table.
    fn walk<M: Memory>(&self, pool: &Pool<M>, iova: Iova) -> Result<Path, Error> {
        if iova.page_offset() != 0 || iova.bits() >> INPUT_BITS != 0 {
            return Err(Error::Address);
        }
        let mut path = Path { tables: Vec::with_capacity(usize::from(LAST_LEVEL)), last: Descriptor::INVALID };
        let mut table = self.root;
        for level in FIRST_LEVEL..=LAST_LEVEL {
            let place = index(iova.bits(), level);
            path.tables.push((table, place));
            path.last = Descriptor::from_bits(pool.read(table, place)?);
            if !path.last.valid() || level == LAST_LEVEL {
                break;
            }
            let next = pool.find(path.last.address()).ok_or(Error::Corrupt)?;
            match pool.role(next) {
                Role::Table { owner, level: below, .. } if owner == self.slot && below == level.saturating_add(1) => {
                    table = next;
                }
                _ => return Err(Error::Corrupt),
            }
        }
        Ok(path)
    }

    fn context_word(&self, word: usize) -> usize {
        usize::from(self.slot).saturating_mul(CONTEXT_WORDS).saturating_add(word)
    }
}

/// The level of the last of `tables` tables.
fn level_after(tables: usize) -> u8 {
    u8::try_from(tables).unwrap_or(LAST_LEVEL)
}

/// Changes the number of valid descriptors in a table. Returns the new one.
fn count<M: Memory>(pool: &mut Pool<M>, table: Page, change: impl Fn(u16) -> u16) -> u16 {
    let Role::Table { owner, level, used } = pool.role(table) else { return 0 };
    let used = change(used);
    pool.set_role(table, Role::Table { owner, level, used });
    used
}
