//! Memory and registers for the unit tests.

use alloc::rc::Rc;
use alloc::vec;
use alloc::vec::Vec;
use core::cell::RefCell;
use platform::{Memory, Mmio, OutOfBounds};
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// Ordinary memory that clones share.
#[derive(Clone, Debug)]
pub(crate) struct Ram(Rc<RefCell<Vec<u8>>>);

impl Ram {
    pub(crate) fn new(bytes: usize) -> Self {
        Self(Rc::new(RefCell::new(vec![0; bytes])))
    }
}

impl Memory for Ram {
    fn len(&self) -> usize {
        self.0.borrow().len()
    }
    fn load_acquire_u32(&self, offset: usize) -> Result<u32, OutOfBounds> {
        self.read(offset)
    }
    fn store_release_u32(&self, offset: usize, value: u32) -> Result<(), OutOfBounds> {
        self.write(offset, &value)
    }
    fn fence(&self) {}
    fn read<T: FromBytes>(&self, offset: usize) -> Result<T, OutOfBounds> {
        let memory = self.0.borrow();
        T::read_from_bytes(memory.get(offset..offset + size_of::<T>()).ok_or(OutOfBounds)?).map_err(|_| OutOfBounds)
    }
    fn write<T: IntoBytes + Immutable>(&self, offset: usize, value: &T) -> Result<(), OutOfBounds> {
        self.write_bytes(offset, value.as_bytes())
    }
    fn read_bytes(&self, offset: usize, bytes: &mut [u8]) -> Result<(), OutOfBounds> {
        bytes.copy_from_slice(self.0.borrow().get(offset..offset + bytes.len()).ok_or(OutOfBounds)?);
        Ok(())
    }
    fn write_bytes(&self, offset: usize, bytes: &[u8]) -> Result<(), OutOfBounds> {
        self.0.borrow_mut().get_mut(offset..offset + bytes.len()).ok_or(OutOfBounds)?.copy_from_slice(bytes);
        Ok(())
    }
}

/// Registers that keep what is written and remember the writes.
#[derive(Clone, Debug)]
pub(crate) struct Registers(Ram, Rc<RefCell<Vec<(usize, u64)>>>);

impl Registers {
    pub(crate) fn new(bytes: usize) -> Self {
        Self(Ram::new(bytes), Rc::default())
    }

    pub(crate) fn writes(&self) -> Vec<(usize, u64)> {
        self.1.borrow().clone()
    }
}

impl Mmio for Registers {
    fn len(&self) -> usize {
        self.0.len()
    }
    fn read32(&self, offset: usize) -> Result<u32, OutOfBounds> {
        self.0.read(offset)
    }
    fn write32(&self, offset: usize, value: u32) -> Result<(), OutOfBounds> {
        self.1.borrow_mut().push((offset, u64::from(value)));
        self.0.write(offset, &value)
    }
    fn read64(&self, offset: usize) -> Result<u64, OutOfBounds> {
        self.0.read(offset)
    }
    fn write64(&self, offset: usize, value: u64) -> Result<(), OutOfBounds> {
        self.1.borrow_mut().push((offset, value));
        self.0.write(offset, &value)
    }
}
