//! Memory that client and server share.

use platform::fake::Ram;
use platform::{Memory, OutOfBounds};
use std::cell::RefCell;
use std::rc::Rc;
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// Shared memory. Clones are the same bytes.
#[derive(Clone, Debug)]
pub struct FakeMemory {
    ram: Ram,
    twice: Rc<RefCell<LastWrite>>,
}

/// The last write that was not of an index, and the bytes it replaced.
#[derive(Debug, Default)]
struct LastWrite {
    offset: usize,
    replaced: Vec<u8>,
    /// Whether the write before went to the same bytes.
    again: bool,
}

impl FakeMemory {
    pub(crate) fn new(bytes: u64) -> Self {
        Self { ram: Ram::new(bytes as usize), twice: Rc::default() }
    }

    pub(crate) fn read_only(&self) -> Self {
        Self { ram: self.ram.read_only(), ..self.clone() }
    }

    /// The bytes that the last write replaced, if the write before it went to the same place: the other version that a
    /// reader in a race may see.
    pub(crate) fn flipped<T: FromBytes>(&self) -> Option<T> {
        let last = self.twice.borrow();
        last.again.then(|| T::read_from_bytes(&last.replaced).ok()).flatten()
    }
}

impl Memory for FakeMemory {
    platform::checked_slots!();

    fn len(&self) -> usize {
        self.ram.len()
    }

    fn load_acquire_u32(&self, offset: usize) -> Result<u32, OutOfBounds> {
        self.ram.load_acquire_u32(offset)
    }

    fn store_release_u32(&self, offset: usize, value: u32) -> Result<(), OutOfBounds> {
        self.ram.store_release_u32(offset, value)
    }

    fn fence(&self) {}

    fn read<T: FromBytes>(&self, offset: usize) -> Result<T, OutOfBounds> {
        self.ram.read(offset)
    }

    fn write<T: IntoBytes + Immutable>(&self, offset: usize, value: &T) -> Result<(), OutOfBounds> {
        self.write_bytes(offset, value.as_bytes())
    }

    fn read_bytes(&self, offset: usize, bytes: &mut [u8]) -> Result<(), OutOfBounds> {
        self.ram.read_bytes(offset, bytes)
    }

    fn write_bytes(&self, offset: usize, bytes: &[u8]) -> Result<(), OutOfBounds> {
        let mut replaced = vec![0; bytes.len()];
        self.ram.read_bytes(offset, &mut replaced)?;
        self.ram.write_bytes(offset, bytes)?;
        let mut last = self.twice.borrow_mut();
        let again = last.offset == offset && last.replaced.len() == bytes.len();
        *last = LastWrite { offset, replaced, again };
        Ok(())
    }
}
