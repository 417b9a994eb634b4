//! Memory that a peer or a device may change at any moment, and device registers.
//!
//! Neither hands out references: every access is a copy, so that the checked value is the used one. All offsets are
//! checked against the region's length.

use crate::slots::{SlotReader, SlotWriter};
use core::fmt;
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// An access outside a region, or not aligned to its size.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct OutOfBounds;

impl fmt::Display for OutOfBounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("access outside the region or not aligned")
    }
}

impl core::error::Error for OutOfBounds {}

type Result<T> = core::result::Result<T, OutOfBounds>;

/// Mapped memory shared with a peer or a device. Offsets and lengths in bytes.
///
/// Single loads and stores are whole (never torn) and happen in program order as the compiler sees them;
/// `_acquire` and `_release` order them against the other side.
pub trait Memory: Clone + 'static {
    /// Bytes in the region.
    fn len(&self) -> usize;

    /// Whether the region is empty.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Loads a word; later reads are not moved before it.
    ///
    /// # Errors
    /// [`OutOfBounds`] for an offset beyond the region or not a multiple of 4.
    fn load_acquire_u32(&self, offset: usize) -> Result<u32>;

    /// Loads two words, the lower one at `offset`; later reads are not moved before it. The lower word is not older than
    /// the upper one.
    ///
    /// # Errors
    /// [`OutOfBounds`] for an offset beyond the region or not a multiple of 8.
    fn load_acquire_u64(&self, offset: usize) -> Result<u64> {
        if !offset.is_multiple_of(size_of::<u64>()) {
            return Err(OutOfBounds);
        }
        let upper = self.load_acquire_u32(offset.wrapping_add(size_of::<u32>()))?;
        Ok(u64::from(upper) << 32 | u64::from(self.load_acquire_u32(offset)?))
    }

    /// Stores a word; earlier writes are seen before it.
    ///
    /// # Errors
    /// As [`Memory::load_acquire_u32`].
    fn store_release_u32(&self, offset: usize, value: u32) -> Result<()>;

    /// Orders an earlier store of ours before a later load: needed before a sleep, between setting the flag and polling
    /// again.
    fn fence(&self);

    /// Copies a structure out. The bytes may be torn when the other side writes meanwhile; the copy stays as it is.
    ///
    /// # Errors
    /// [`OutOfBounds`] for a structure that does not lie inside the region, or an offset that is not a multiple of 8, or
    /// of 4 for a structure whose size is not a multiple of 8.
    fn read<T: FromBytes>(&self, offset: usize) -> Result<T>;

    /// Copies a structure in.
    ///
    /// # Errors
    /// As [`Memory::read`].
    fn write<T: IntoBytes + Immutable>(&self, offset: usize, value: &T) -> Result<()>;

    /// A row of slots to read.
    type Reader<S: FromBytes + 'static>: SlotReader<S>;

    /// A row of slots to write.
    type Writer<S: IntoBytes + Immutable + 'static>: SlotWriter<S>;

    /// The row of `count` slots from `offset` on, to read.
    ///
    /// # Errors
    /// [`OutOfBounds`] for a row that does not lie inside the region, or an offset to which slots are not aligned: see
    /// [`Memory::read`].
    fn reader<S: FromBytes + 'static>(&self, offset: usize, count: u32) -> Result<Self::Reader<S>>;

    /// The row of `count` slots from `offset` on, to write.
    ///
    /// # Errors
    /// As [`Memory::reader`], and [`OutOfBounds`] for a region that is read-only.
    fn writer<S: IntoBytes + Immutable + 'static>(&self, offset: usize, count: u32) -> Result<Self::Writer<S>>;

    /// Copies bytes out, from any offset.
    ///
    /// # Errors
    /// [`OutOfBounds`] when the range does not lie inside the region.
    fn read_bytes(&self, offset: usize, bytes: &mut [u8]) -> Result<()>;

    /// Copies bytes in, at any offset.
    ///
    /// # Errors
    /// As [`Memory::read_bytes`].
    fn write_bytes(&self, offset: usize, bytes: &[u8]) -> Result<()>;
}

/// Device registers. Each access reaches the device exactly once, in program order. Offsets in bytes.
pub trait Mmio: Clone + 'static {
    /// Bytes in the register range.
    fn len(&self) -> usize;

    /// Whether the range is empty.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Reads a 32-bit register.
    ///
    /// # Errors
    /// [`OutOfBounds`] for an offset beyond the range or not a multiple of the access size; so for all accesses.
    fn read32(&self, offset: usize) -> Result<u32>;

    /// Writes a 32-bit register.
    ///
    /// # Errors
    /// As [`Mmio::read32`].
    fn write32(&self, offset: usize, value: u32) -> Result<()>;

    /// Reads a 64-bit register. By default there are none.
    ///
    /// # Errors
    /// As [`Mmio::read32`].
    fn read64(&self, offset: usize) -> Result<u64> {
        let _ = offset;
        Err(OutOfBounds)
    }

    /// Writes a 64-bit register. By default there are none.
    ///
    /// # Errors
    /// As [`Mmio::read32`].
    fn write64(&self, offset: usize, value: u64) -> Result<()> {
        let _ = (offset, value);
        Err(OutOfBounds)
    }
}
