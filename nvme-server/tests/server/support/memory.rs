//! Memory that several ends share, as a vector. As strict about alignment as [`platform::Memory`] says.

use platform::{Memory, OutOfBounds};
use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// Clones are the same bytes.
#[derive(Clone, Debug)]
pub(crate) struct Ram {
    bytes: Rc<RefCell<Vec<u8>>>,
    writable: bool,
}

impl Ram {
    pub(crate) fn new(bytes: usize) -> Self {
        Self { bytes: Rc::new(RefCell::new(vec![0; bytes])), writable: true }
    }

    /// The same bytes for an end that may only look at them.
    pub(crate) fn read_only(&self) -> Self {
        Self { writable: false, ..self.clone() }
    }

    pub(crate) fn get(&self, range: Range<usize>) -> Vec<u8> {
        self.bytes.borrow()[range].to_vec()
    }

    pub(crate) fn put(&self, offset: usize, bytes: &[u8]) {
        self.bytes.borrow_mut()[offset..offset + bytes.len()].copy_from_slice(bytes);
    }

    fn aligned<T>(offset: usize) -> Result<usize, OutOfBounds> {
        let align = if size_of::<T>().is_multiple_of(8) { 8 } else { 4 };
        if offset.is_multiple_of(align) { Ok(offset) } else { Err(OutOfBounds) }
    }
}

impl Memory for Ram {
    fn len(&self) -> usize {
        self.bytes.borrow().len()
    }

    fn load_acquire_u32(&self, offset: usize) -> Result<u32, OutOfBounds> {
        self.read(offset)
    }

    fn store_release_u32(&self, offset: usize, value: u32) -> Result<(), OutOfBounds> {
        self.write(offset, &value)
    }

    fn fence(&self) {}

    fn read<T: FromBytes>(&self, offset: usize) -> Result<T, OutOfBounds> {
        let offset = Self::aligned::<T>(offset)?;
        let bytes = self.bytes.borrow();
        T::read_from_bytes(bytes.get(offset..offset + size_of::<T>()).ok_or(OutOfBounds)?).map_err(|_| OutOfBounds)
    }

    fn write<T: IntoBytes + Immutable>(&self, offset: usize, value: &T) -> Result<(), OutOfBounds> {
        self.write_bytes(Self::aligned::<T>(offset)?, value.as_bytes())
    }

    fn read_bytes(&self, offset: usize, bytes: &mut [u8]) -> Result<(), OutOfBounds> {
        bytes.copy_from_slice(self.bytes.borrow().get(offset..offset + bytes.len()).ok_or(OutOfBounds)?);
        Ok(())
    }

    fn write_bytes(&self, offset: usize, bytes: &[u8]) -> Result<(), OutOfBounds> {
        assert!(self.writable, "a write to memory that is mapped read-only: a fault on a real machine");
        let mut memory = self.bytes.borrow_mut();
        memory.get_mut(offset..offset + bytes.len()).ok_or(OutOfBounds)?.copy_from_slice(bytes);
        Ok(())
    }
}
