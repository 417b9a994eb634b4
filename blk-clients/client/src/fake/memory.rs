//! Memory that two ends share, as a vector.

use alloc::rc::Rc;
use alloc::vec;
use alloc::vec::Vec;
use core::cell::RefCell;
use platform::{Memory, Mmio, OutOfBounds};
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// Shared memory. Clones are the same bytes.
#[derive(Clone, Debug)]
pub struct FakeMemory {
    bytes: Rc<RefCell<Vec<u8>>>,
    writable: bool,
    twice: Rc<RefCell<LastWrite>>,
}

/// The last write that was not of an index, and what it replaced.
#[derive(Debug, Default)]
struct LastWrite {
    offset: usize,
    replaced: Vec<u8>,
    /// The write before went to the same bytes.
    again: bool,
}

impl FakeMemory {
    pub(crate) fn new(bytes: u64) -> Self {
        Self { bytes: Rc::new(RefCell::new(vec![0; bytes as usize])), writable: true, twice: Rc::default() }
    }

    /// What the last write replaced, if the write before it went to the same bytes: what somebody sees who looks at
    /// another moment of a race.
    pub(crate) fn flipped<T: FromBytes>(&self) -> Option<T> {
        let last = self.twice.borrow();
        last.again.then(|| T::read_from_bytes(&last.replaced).ok()).flatten()
    }

    /// Writes; what was there before.
    fn replace(&self, offset: usize, bytes: &[u8]) -> Result<Vec<u8>, OutOfBounds> {
        assert!(self.writable, "a write to read-only memory: a fault on a real machine");
        let mut memory = self.bytes.borrow_mut();
        let place = memory.get_mut(offset..offset + bytes.len()).ok_or(OutOfBounds)?;
        let replaced = place.to_vec();
        place.copy_from_slice(bytes);
        Ok(replaced)
    }

    pub(crate) fn read_only(&self) -> Self {
        Self { writable: false, ..self.clone() }
    }
}

impl Memory for FakeMemory {
    platform::checked_slots!();

    fn len(&self) -> usize {
        self.bytes.borrow().len()
    }

    fn load_acquire_u32(&self, offset: usize) -> Result<u32, OutOfBounds> {
        self.read(offset)
    }

    fn store_release_u32(&self, offset: usize, value: u32) -> Result<(), OutOfBounds> {
        self.replace(offset, value.as_bytes()).map(drop)
    }

    fn fence(&self) {}

    fn read<T: FromBytes>(&self, offset: usize) -> Result<T, OutOfBounds> {
        let bytes = self.bytes.borrow();
        T::read_from_bytes(bytes.get(offset..offset + size_of::<T>()).ok_or(OutOfBounds)?).map_err(|_| OutOfBounds)
    }

    fn write<T: IntoBytes + Immutable>(&self, offset: usize, value: &T) -> Result<(), OutOfBounds> {
        self.write_bytes(offset, value.as_bytes())
    }

    fn read_bytes(&self, offset: usize, bytes: &mut [u8]) -> Result<(), OutOfBounds> {
        bytes.copy_from_slice(self.bytes.borrow().get(offset..offset + bytes.len()).ok_or(OutOfBounds)?);
        Ok(())
    }

    fn write_bytes(&self, offset: usize, bytes: &[u8]) -> Result<(), OutOfBounds> {
        let replaced = self.replace(offset, bytes)?;
        let mut last = self.twice.borrow_mut();
        let again = last.offset == offset && last.replaced.len() == bytes.len();
        *last = LastWrite { offset, replaced, again };
        Ok(())
    }
}

/// No device registers.
#[derive(Clone, Debug)]
pub enum NoMmio {}

impl Mmio for NoMmio {
    fn len(&self) -> usize {
        0
    }
    fn read32(&self, _: usize) -> Result<u32, OutOfBounds> {
        Err(OutOfBounds)
    }
    fn write32(&self, _: usize, _: u32) -> Result<(), OutOfBounds> {
        Err(OutOfBounds)
    }
    fn read64(&self, _: usize) -> Result<u64, OutOfBounds> {
        Err(OutOfBounds)
    }
    fn write64(&self, _: usize, _: u64) -> Result<(), OutOfBounds> {
        Err(OutOfBounds)
    }
}
