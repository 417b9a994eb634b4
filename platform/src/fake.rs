//! Memory, registers, environments and parts of a kernel, for tests on the build machine.

mod partial;
mod start;

pub use partial::{Nobody, Partial};
pub use start::Start;

use crate::{Memory, Mmio, OutOfBounds};
use alloc::rc::Rc;
use alloc::vec;
use alloc::vec::Vec;
use core::cell::RefCell;
use core::fmt;
use zerocopy::{FromBytes, Immutable, IntoBytes};

type Result<T> = core::result::Result<T, OutOfBounds>;

/// Ordinary memory, with the checks of [`Memory`]; clones are the same bytes.
#[derive(Clone)]
pub struct Ram {
    bytes: Rc<RefCell<Vec<u8>>>,
    writable: bool,
    watch: Option<Rc<dyn Fn(usize, usize)>>,
}

impl fmt::Debug for Ram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ram").field("bytes", &self.bytes.borrow().len()).finish_non_exhaustive()
    }
}

impl Ram {
    /// `bytes` bytes of zeroes.
    #[must_use]
    pub fn new(bytes: usize) -> Self {
        Self { bytes: Rc::new(RefCell::new(vec![0; bytes])), writable: true, watch: None }
    }

    /// These bytes, mapped read-only.
    #[must_use]
    pub fn read_only(&self) -> Self {
        Self { writable: false, ..self.clone() }
    }

    /// A view of these bytes. Each write through the result is announced to `watch` before, with its offset and bytes.
    #[must_use]
    pub fn watched(&self, watch: impl Fn(usize, usize) + 'static) -> Self {
        Self { watch: Some(Rc::new(watch)), ..self.clone() }
    }

    /// `offset`, if a structure of `T`'s size may lie there.
    fn aligned<T>(offset: usize) -> Result<usize> {
        let align = if size_of::<T>().is_multiple_of(8) { 8 } else { 4 };
        if offset.is_multiple_of(align) { Ok(offset) } else { Err(OutOfBounds) }
    }
}

impl Memory for Ram {
    crate::checked_slots!();

    fn len(&self) -> usize {
        self.bytes.borrow().len()
    }

    fn load_acquire_u32(&self, offset: usize) -> Result<u32> {
        self.read(offset)
    }

    fn store_release_u32(&self, offset: usize, value: u32) -> Result<()> {
        self.write(offset, &value)
    }

    fn fence(&self) {}

    fn read<T: FromBytes>(&self, offset: usize) -> Result<T> {
        let memory = self.bytes.borrow();
        let offset = Self::aligned::<T>(offset)?;
        let end = offset.checked_add(size_of::<T>()).ok_or(OutOfBounds)?;
        T::read_from_bytes(memory.get(offset..end).ok_or(OutOfBounds)?).map_err(|_| OutOfBounds)
    }

    fn write<T: IntoBytes + Immutable>(&self, offset: usize, value: &T) -> Result<()> {
        self.write_bytes(Self::aligned::<T>(offset)?, value.as_bytes())
    }

    fn read_bytes(&self, offset: usize, bytes: &mut [u8]) -> Result<()> {
        let end = offset.checked_add(bytes.len()).ok_or(OutOfBounds)?;
        bytes.copy_from_slice(self.bytes.borrow().get(offset..end).ok_or(OutOfBounds)?);
        Ok(())
    }

    fn write_bytes(&self, offset: usize, bytes: &[u8]) -> Result<()> {
        let end = offset.checked_add(bytes.len()).filter(|_| self.writable).ok_or(OutOfBounds)?;
        self.watch.iter().for_each(|watch| watch(offset, bytes.len()));
        self.bytes.borrow_mut().get_mut(offset..end).ok_or(OutOfBounds)?.copy_from_slice(bytes);
        Ok(())
    }
}

/// Registers that keep what is written and remember the writes.
#[derive(Clone, Debug)]
pub struct Registers {
    kept: Ram,
    writes: Rc<RefCell<Vec<(usize, u64)>>>,
}

impl Registers {
    /// `bytes` bytes of registers that read as zero.
    #[must_use]
    pub fn new(bytes: usize) -> Self {
        Self { kept: Ram::new(bytes), writes: Rc::default() }
    }

    /// All writes, oldest first: offset and value.
    #[must_use]
    pub fn writes(&self) -> Vec<(usize, u64)> {
        self.writes.borrow().clone()
    }
}

impl Mmio for Registers {
    fn len(&self) -> usize {
        self.kept.len()
    }

    fn read32(&self, offset: usize) -> Result<u32> {
        self.kept.read(offset)
    }

    fn write32(&self, offset: usize, value: u32) -> Result<()> {
        self.writes.borrow_mut().push((offset, u64::from(value)));
        self.kept.write(offset, &value)
    }

    fn read64(&self, offset: usize) -> Result<u64> {
        self.kept.read(offset)
    }

    fn write64(&self, offset: usize, value: u64) -> Result<()> {
        self.writes.borrow_mut().push((offset, value));
        self.kept.write(offset, &value)
    }
}
