//! Memory as a thread has it mapped: every access is translated by its VSpace.

use crate::kernel::Kernel;
use crate::{Access, Invoker};
use core::ops::Range;
use platform::{Memory, OutOfBounds, PAGE_SIZE, Paddr, Region, RegionKind};
use zerocopy::{FromBytes, Immutable, IntoBytes};

type Result<T> = core::result::Result<T, OutOfBounds>;

/// A region of a thread's memory.
///
/// Panics on access to a page that is not mapped for it: nobody would answer the fault.
#[derive(Clone, Debug)]
pub struct MappedMemory {
    invoker: Invoker,
    region: Region,
}

impl MappedMemory {
    /// The region in the VSpace of the invoker's thread.
    #[must_use]
    pub const fn new(invoker: Invoker, region: Region) -> Self {
        Self { invoker, region }
    }

    /// Calls `act` for each piece of `len` bytes from `offset` on that lies in one page, with its physical address and its
    /// place in the `len` bytes.
    fn each(
        &self,
        offset: usize,
        len: usize,
        access: Access,
        mut act: impl FnMut(&mut Kernel, Paddr, Range<usize>),
    ) -> Result<()> {
        let fits = offset.checked_add(len).is_some_and(|end| end <= self.len());
        let allowed = access == Access::Read || self.region.kind == RegionKind::ReadWrite;
        if !fits || !allowed {
            return Err(OutOfBounds);
        }
        let kernel = &mut *self.invoker.kernel().borrow_mut();
        let mut done = 0;
        while done < len {
            let vaddr = self.region.vaddr.checked_add((offset + done) as u64).ok_or(OutOfBounds)?;
            let piece = (PAGE_SIZE - vaddr.page_offset()).min(len - done);
            let at = kernel.translate(self.invoker.thread(), vaddr, access);
            let at = at.unwrap_or_else(|fault| panic!("the thread faults: {fault:?}"));
            act(kernel, at, done..done + piece);
            done += piece;
        }
        Ok(())
    }

    fn aligned<T>(offset: usize) -> Result<usize> {
        let align = if size_of::<T>().is_multiple_of(8) { 8 } else { 4 };
        if offset.is_multiple_of(align) { Ok(offset) } else { Err(OutOfBounds) }
    }
}

impl Memory for MappedMemory {
    platform::checked_slots!();

    fn len(&self) -> usize {
        self.region.len as usize
    }

    fn load_acquire_u32(&self, offset: usize) -> Result<u32> {
        self.read(offset)
    }

    fn store_release_u32(&self, offset: usize, value: u32) -> Result<()> {
        self.write(offset, &value)
    }

    fn fence(&self) {}

    fn read<T: FromBytes>(&self, offset: usize) -> Result<T> {
        let mut bytes = vec![0; size_of::<T>()];
        self.read_bytes(Self::aligned::<T>(offset)?, &mut bytes)?;
        T::read_from_bytes(&bytes).map_err(|_| OutOfBounds)
    }

    fn write<T: IntoBytes + Immutable>(&self, offset: usize, value: &T) -> Result<()> {
        self.write_bytes(Self::aligned::<T>(offset)?, value.as_bytes())
    }

    fn read_bytes(&self, offset: usize, bytes: &mut [u8]) -> Result<()> {
        self.each(offset, bytes.len(), Access::Read, |kernel, at, part| {
            // Device memory that is used as ordinary memory reads as ones.
            if kernel.memory().read(at, &mut bytes[part.clone()]).is_err() {
                bytes[part].fill(u8::MAX);
            }
        })
    }

    fn write_bytes(&self, offset: usize, bytes: &[u8]) -> Result<()> {
        self.each(offset, bytes.len(), Access::Write, |kernel, at, part| {
            // It ignores writes.
            let _ = kernel.memory_mut().write(at, &bytes[part]);
        })
    }
}
