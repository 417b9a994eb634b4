//! Mapped memory and device registers.
//!
//! Peers and devices change this memory while it is read. So it is never behind a reference: accesses are volatile or
//! atomic, through raw pointers, inside bounds that are checked once an access and not once a word.

use core::mem::MaybeUninit;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use platform::{Memory, Mmio, OutOfBounds, SlotReader, SlotWriter};
use zerocopy::{FromBytes, Immutable, IntoBytes};

type Result<T> = core::result::Result<T, OutOfBounds>;

const WORD: usize = size_of::<u64>();
const HALF: usize = size_of::<u32>();

/// The component's access to a range.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Access {
    /// Read and write.
    ReadWrite,
    /// Read: writing would fault.
    ReadOnly,
}

/// A range of memory mapped into the component.
#[derive(Clone, Debug)]
pub struct Sel4Memory {
    base: NonNull<u8>,
    len: usize,
    access: Access,
}

impl Sel4Memory {
    /// The range of `len` bytes at `vaddr`.
    ///
    /// # Errors
    /// [`OutOfBounds`] when it starts at no multiple of 8, at zero, or leaves the address space.
    ///
    /// # Safety
    /// Nothing that Rust knows of (a reference, a static, the heap, a stack) ever lies in the range. It need not be
    /// mapped: an access is then a fault, which ends the component, and nothing worse.
    pub(crate) unsafe fn new(vaddr: u64, len: u64, access: Access) -> Result<Self> {
        let (base, len) = range(vaddr, len, WORD)?;
        Ok(Self { base, len, access })
    }

    /// The address of `len` bytes at `offset`, which is a multiple of `align`.
    #[inline(always)]
    fn at(&self, offset: usize, len: usize, align: usize) -> Result<*mut u8> {
        inside(self.base, self.len, offset, len, align)
    }

    #[inline(always)]
    fn at_writable(&self, offset: usize, len: usize, align: usize) -> Result<*mut u8> {
        if self.access != Access::ReadWrite {
            return Err(OutOfBounds);
        }
        self.at(offset, len, align)
    }
}

/// A row of slots: `count` of them lie inside the region that `base` is in.
#[derive(Debug)]
pub struct Sel4Slots<S> {
    base: NonNull<S>,
    count: u32,
}

impl<S> Sel4Slots<S> {
    fn new(base: *mut u8, count: u32) -> Result<Self> {
        const { assert!(alignment::<S>() == WORD, "slots are made of whole words") };
        Ok(Self { base: NonNull::new(base.cast()).ok_or(OutOfBounds)?, count })
    }

    #[inline(always)]
    fn at(&self, index: u32) -> *mut u8 {
        assert!(index < self.count, "a slot of the row");
        self.base.as_ptr().wrapping_add(index as usize).cast()
    }
}

/// Bytes of `count` slots.
fn row_bytes<S>(count: u32) -> Result<usize> {
    size_of::<S>().checked_mul(count as usize).ok_or(OutOfBounds)
}

impl<S: FromBytes + 'static> SlotReader<S> for Sel4Slots<S> {
    #[inline(always)]
    fn read(&self, index: u32) -> S {
        self.read_head(index)
    }

    #[inline(always)]
    fn read_head<T: FromBytes>(&self, index: u32) -> T {
        const { assert!(size_of::<T>() <= size_of::<S>() && alignment::<T>() == WORD, "whole words of a slot") };
        let mut value = MaybeUninit::<T>::uninit();
        // SAFETY: the slot lies inside the region and is aligned (`Memory::reader` checked both for the row), `T` is no
        // larger, and `value` overlaps nothing. Every byte of it is written, and a `FromBytes` is valid whatever they are.
        unsafe {
            copy_words_out::<T>(self.at(index).cast(), &mut value);
            value.assume_init()
        }
    }

    #[inline(always)]
    fn load_acquire_end(&self, index: u32) -> u64 {
        let at = self.at(index).wrapping_add(size_of::<S>() - WORD);
        // SAFETY: the last word of a slot inside the region, aligned as its slot; otherwise as in `load_acquire_u32`.
        unsafe { AtomicU64::from_ptr(at.cast()) }.load(Ordering::Acquire)
    }
}

impl<S: IntoBytes + Immutable + 'static> SlotWriter<S> for Sel4Slots<S> {
    #[inline(always)]
    fn write(&self, index: u32, slot: &S) {
        // SAFETY: the slot lies inside the region, is aligned and may be written (`Memory::writer` checked all three for the
        // row); `slot` has as many bytes, all initialised, and lies elsewhere.
        unsafe { copy_words_in(slot, self.at(index).cast()) };
    }
}

impl Memory for Sel4Memory {
    type Reader<S: FromBytes + 'static> = Sel4Slots<S>;
    type Writer<S: IntoBytes + Immutable + 'static> = Sel4Slots<S>;

    fn reader<S: FromBytes + 'static>(&self, offset: usize, count: u32) -> Result<Sel4Slots<S>> {
        Sel4Slots::new(self.at(offset, row_bytes::<S>(count)?, WORD)?, count)
    }

    fn writer<S: IntoBytes + Immutable + 'static>(&self, offset: usize, count: u32) -> Result<Sel4Slots<S>> {
        Sel4Slots::new(self.at_writable(offset, row_bytes::<S>(count)?, WORD)?, count)
    }

    #[inline]
    fn len(&self) -> usize {
        self.len
    }

    #[inline]
    fn load_acquire_u32(&self, offset: usize) -> Result<u32> {
        let at = self.at(offset, HALF, HALF)?;
        // SAFETY: `at` is inside the range and aligned (the base is, and the offset), and by `new`'s contract nothing
        // else in this program accesses it but by such atomic and volatile accesses.
        Ok(unsafe { AtomicU32::from_ptr(at.cast()) }.load(Ordering::Acquire))
    }

    #[inline]
    fn load_acquire_u64(&self, offset: usize) -> Result<u64> {
        let at = self.at(offset, WORD, WORD)?;
        // SAFETY: as in `load_acquire_u32`.
        Ok(unsafe { AtomicU64::from_ptr(at.cast()) }.load(Ordering::Acquire))
    }

    #[inline]
    fn store_release_u32(&self, offset: usize, value: u32) -> Result<()> {
        let at = self.at_writable(offset, HALF, HALF)?;
        // SAFETY: as in `load_acquire_u32`.
        unsafe { AtomicU32::from_ptr(at.cast()) }.store(value, Ordering::Release);
        Ok(())
    }

    #[inline]
    fn fence(&self) {
        fence(Ordering::SeqCst);
    }

    #[inline]
    fn read<T: FromBytes>(&self, offset: usize) -> Result<T> {
        let from = self.at(offset, size_of::<T>(), alignment::<T>())?;
        let mut value = MaybeUninit::<T>::uninit();
        // SAFETY: `from` has `size_of::<T>()` bytes inside the range; `value` has as many and overlaps nothing. Every byte
        // of it is written, and a `FromBytes` is valid whatever the bytes are.
        unsafe {
            if alignment::<T>() == WORD {
                copy_words_out::<T>(from.cast(), &mut value);
            } else {
                copy_out(from, value.as_mut_ptr().cast(), size_of::<T>());
            }
            Ok(value.assume_init())
        }
    }

    #[inline]
    fn write<T: IntoBytes + Immutable>(&self, offset: usize, value: &T) -> Result<()> {
        let to = self.at_writable(offset, size_of::<T>(), alignment::<T>())?;
        // SAFETY: `to` has `size_of::<T>()` writable bytes inside the range; `value` has as many, all initialised
        // (`IntoBytes`), and lies elsewhere.
        unsafe {
            if alignment::<T>() == WORD {
                copy_words_in(value, to.cast());
            } else {
                copy_in(value.as_bytes().as_ptr(), to, size_of::<T>());
            }
        }
        Ok(())
    }

    fn read_bytes(&self, offset: usize, bytes: &mut [u8]) -> Result<()> {
        let from = self.at(offset, bytes.len(), 1)?;
        // SAFETY: `from` has as many bytes inside the range as `bytes` has room, elsewhere.
        unsafe { copy_out(from, bytes.as_mut_ptr(), bytes.len()) };
        Ok(())
    }

    fn write_bytes(&self, offset: usize, bytes: &[u8]) -> Result<()> {
        let to = self.at_writable(offset, bytes.len(), 1)?;
        // SAFETY: `to` has as many writable bytes inside the range as `bytes`, which lie elsewhere.
        unsafe { copy_in(bytes.as_ptr(), to, bytes.len()) };
        Ok(())
    }
}

/// Alignment of structures of `T`'s size in shared memory: a word if they consist of whole words, else half a word.
const fn alignment<T>() -> usize {
    if size_of::<T>().is_multiple_of(WORD) { WORD } else { HALF }
}

/// Copies a structure of whole words out of shared memory.
///
/// # Safety
/// `from` is aligned and has as many words of shared memory as a `T`.
#[inline(always)]
unsafe fn copy_words_out<T>(from: *const u64, value: &mut MaybeUninit<T>) {
    let to = value.as_mut_ptr().cast::<u64>();
    let mut done = 0;
    while done < size_of::<T>() / WORD {
        // SAFETY: `done` stays below the words of a `T`; the aligned write is made where a `T` is aligned as words are.
        unsafe {
            let word = from.add(done).read_volatile();
            // For a processor of strict alignment an unaligned word is eight bytes.
            if align_of::<T>() >= WORD { to.add(done).write(word) } else { to.add(done).write_unaligned(word) }
        }
        done = done.wrapping_add(1);
    }
}

/// Copies a structure of whole words into shared memory.
///
/// # Safety
/// `to` is aligned and has as many words of writable shared memory as a `T`. All bytes of `value` are initialised.
#[inline(always)]
unsafe fn copy_words_in<T>(value: &T, to: *mut u64) {
    let from = core::ptr::from_ref(value).cast::<u64>();
    let mut done = 0;
    while done < size_of::<T>() / WORD {
        // SAFETY: as in `copy_words_out`, the other way.
        unsafe {
            let word = if align_of::<T>() >= WORD { from.add(done).read() } else { from.add(done).read_unaligned() };
            to.add(done).write_volatile(word);
        }
        done = done.wrapping_add(1);
    }
}

/// A word at any address: the processor moves it with one instruction wherever it lies.
#[derive(Clone, Copy)]
#[repr(C, packed)]
struct Word(u64);

/// Half a word, likewise.
#[derive(Clone, Copy)]
#[repr(C, packed)]
struct HalfWord(u32);

/// Copies out of shared memory, in whole words and then in bytes.
///
/// # Safety
/// `from` has `len` bytes of shared memory; `to` has room for them and does not overlap.
#[inline(always)]
unsafe fn copy_out(from: *const u8, to: *mut u8, len: usize) {
    let mut done = 0;
    // SAFETY: every step stays below `len`. A `Word` needs no alignment, and any bytes are one.
    unsafe {
        while done < len & !(WORD - 1) {
            to.add(done).cast::<Word>().write(from.add(done).cast::<Word>().read_volatile());
            done = done.wrapping_add(WORD);
        }
        if len & HALF != 0 {
            to.add(done).cast::<HalfWord>().write(from.add(done).cast::<HalfWord>().read_volatile());
            done = done.wrapping_add(HALF);
        }
        while done < len {
            to.add(done).write(from.add(done).read_volatile());
            done = done.wrapping_add(1);
        }
    }
}

/// Copies into shared memory, likewise.
///
/// # Safety
/// `to` has `len` writable bytes of shared memory; `from` has as many, initialised, elsewhere.
#[inline(always)]
unsafe fn copy_in(from: *const u8, to: *mut u8, len: usize) {
    let mut done = 0;
    // SAFETY: as in `copy_out`, the other way.
    unsafe {
        while done < len & !(WORD - 1) {
            to.add(done).cast::<Word>().write_volatile(from.add(done).cast::<Word>().read());
            done = done.wrapping_add(WORD);
        }
        if len & HALF != 0 {
            to.add(done).cast::<HalfWord>().write_volatile(from.add(done).cast::<HalfWord>().read());
            done = done.wrapping_add(HALF);
        }
        while done < len {
            to.add(done).write_volatile(from.add(done).read());
            done = done.wrapping_add(1);
        }
    }
}

/// A range of device registers mapped into the component.
#[derive(Clone, Debug)]
pub struct Sel4Mmio {
    base: NonNull<u8>,
    len: usize,
}

impl Sel4Mmio {
    /// The registers in `len` bytes at `vaddr`.
    ///
    /// # Errors
    /// [`OutOfBounds`] when the range starts at no multiple of 8, at zero, or leaves the address space.
    ///
    /// # Safety
    /// As [`Sel4Memory::new`].
    pub(crate) unsafe fn new(vaddr: u64, len: u64) -> Result<Self> {
        let (base, len) = range(vaddr, len, WORD)?;
        Ok(Self { base, len })
    }

    #[inline(always)]
    fn at<T>(&self, offset: usize) -> Result<*mut T> {
        inside(self.base, self.len, offset, size_of::<T>(), size_of::<T>()).map(<*mut u8>::cast)
    }
}

impl Mmio for Sel4Mmio {
    #[inline]
    fn len(&self) -> usize {
        self.len
    }

    #[inline]
    fn read32(&self, offset: usize) -> Result<u32> {
        let at = self.at::<u32>(offset)?;
        // SAFETY: inside the range and aligned; by `new`'s contract no memory of Rust's. One access of the full width.
        Ok(unsafe { at.read_volatile() })
    }

    #[inline]
    fn write32(&self, offset: usize, value: u32) -> Result<()> {
        let at = self.at::<u32>(offset)?;
        // SAFETY: as in `read32`.
        unsafe { at.write_volatile(value) };
        Ok(())
    }

    #[inline]
    fn read64(&self, offset: usize) -> Result<u64> {
        let at = self.at::<u64>(offset)?;
        // SAFETY: as in `read32`.
        Ok(unsafe { at.read_volatile() })
    }

    #[inline]
    fn write64(&self, offset: usize, value: u64) -> Result<()> {
        let at = self.at::<u64>(offset)?;
        // SAFETY: as in `read32`.
        unsafe { at.write_volatile(value) };
        Ok(())
    }
}

/// A range of addresses as pointer and length, if it starts aligned and does not wrap.
fn range(vaddr: u64, len: u64, align: usize) -> Result<(NonNull<u8>, usize)> {
    let base = usize::try_from(vaddr).map_err(|_| OutOfBounds)?;
    let len = usize::try_from(len).map_err(|_| OutOfBounds)?;
    // No larger than pointer arithmetic allows, nor beyond the end.
    if !base.is_multiple_of(align) || len > isize::MAX as usize || base.checked_add(len).is_none() {
        return Err(OutOfBounds);
    }
    Ok((NonNull::new(base as *mut u8).ok_or(OutOfBounds)?, len))
}

/// The address of `len` bytes at `offset` of the range, if they lie inside and `offset` is a multiple of `align`.
#[inline(always)]
fn inside(base: NonNull<u8>, whole: usize, offset: usize, len: usize, align: usize) -> Result<*mut u8> {
    // Written so that with a constant `len` one comparison and one test are left.
    if len > whole || offset > whole - len || !offset.is_multiple_of(align) {
        return Err(OutOfBounds);
    }
    Ok(base.as_ptr().wrapping_add(offset))
}
