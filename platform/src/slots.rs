//! Rows of equal structures in shared memory, such as the slots of a ring or the entries of a queue.
//!
//! The place of a row is checked once, when its view is made by [`Memory::reader`] or [`Memory::writer`]. An access is then
//! one comparison of the index and cannot fail. Indices are the caller's own: it never takes one from a peer unchecked, and
//! one beyond the row is the caller's defect, which ends it.

use crate::memory::{Memory, OutOfBounds};
use core::marker::PhantomData;
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// Reads the slots of a row.
///
/// All methods panic for an index beyond the last slot.
pub trait SlotReader<S>: 'static {
    /// Copies a slot out. The bytes may be torn when the other side writes meanwhile; the copy stays as it is.
    fn read(&self, index: u32) -> S;

    /// Copies the first bytes of a slot out, likewise. `T` is no larger than a slot.
    fn read_head<T: FromBytes>(&self, index: u32) -> T;

    /// Loads the last 8 bytes of a slot, as [`Memory::load_acquire_u64`].
    fn load_acquire_end(&self, index: u32) -> u64;
}

/// Writes the slots of a row.
pub trait SlotWriter<S>: 'static {
    /// Copies a slot in. Panics for an index beyond the last slot.
    fn write(&self, index: u32, slot: &S);
}

/// A row in memory that checks each access itself, for models.
#[derive(Debug)]
pub struct CheckedSlots<M, S> {
    memory: M,
    offset: usize,
    count: u32,
    slot: PhantomData<fn() -> S>,
}

impl<M: Memory, S> CheckedSlots<M, S> {
    /// The row of `count` slots from `offset` of `memory` on.
    ///
    /// # Errors
    /// [`OutOfBounds`] when it does not lie inside.
    pub fn new(memory: &M, offset: usize, count: u32) -> Result<Self, OutOfBounds> {
        let end = size_of::<S>().checked_mul(count as usize).and_then(|bytes| bytes.checked_add(offset));
        if end.is_none_or(|end| end > memory.len()) {
            return Err(OutOfBounds);
        }
        Ok(Self { memory: memory.clone(), offset, count, slot: PhantomData })
    }

    fn at(&self, index: u32) -> usize {
        assert!(index < self.count, "slot {index} of {}", self.count);
        (index as usize).wrapping_mul(size_of::<S>()).wrapping_add(self.offset)
    }
}

#[expect(clippy::expect_used, reason = "the row lies inside its memory")]
impl<M: Memory, S: FromBytes + 'static> SlotReader<S> for CheckedSlots<M, S> {
    fn read(&self, index: u32) -> S {
        self.memory.read(self.at(index)).expect("a slot inside")
    }

    fn read_head<T: FromBytes>(&self, index: u32) -> T {
        self.memory.read(self.at(index)).expect("a slot inside")
    }

    fn load_acquire_end(&self, index: u32) -> u64 {
        let end = self.at(index).wrapping_add(size_of::<S>());
        self.memory.load_acquire_u64(end.wrapping_sub(size_of::<u64>())).expect("a slot inside")
    }
}

#[expect(clippy::expect_used, reason = "the row lies inside its memory")]
impl<M: Memory, S: IntoBytes + Immutable + 'static> SlotWriter<S> for CheckedSlots<M, S> {
    fn write(&self, index: u32, slot: &S) {
        self.memory.write(self.at(index), slot).expect("a writable slot inside");
    }
}

/// The views of a [`Memory`] as [`CheckedSlots`].
#[macro_export]
macro_rules! checked_slots {
    () => {
        type Reader<S: ::zerocopy::FromBytes + 'static> = $crate::CheckedSlots<Self, S>;
        type Writer<S: ::zerocopy::IntoBytes + ::zerocopy::Immutable + 'static> = $crate::CheckedSlots<Self, S>;

        fn reader<S: ::zerocopy::FromBytes + 'static>(
            &self,
            offset: usize,
            count: u32,
        ) -> ::core::result::Result<Self::Reader<S>, $crate::OutOfBounds> {
            $crate::CheckedSlots::new(self, offset, count)
        }

        fn writer<S: ::zerocopy::IntoBytes + ::zerocopy::Immutable + 'static>(
            &self,
            offset: usize,
            count: u32,
        ) -> ::core::result::Result<Self::Writer<S>, $crate::OutOfBounds> {
            $crate::CheckedSlots::new(self, offset, count)
        }
    };
}
