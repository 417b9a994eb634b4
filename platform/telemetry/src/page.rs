//! Pages that one component writes and the build machine reads whole.
//!
//! A page begins with a version, which is odd while its contents are written. A reader that finds the same even version before and
//! after its copy has contents of one moment. A component that dies while it writes leaves an odd version: then the reader keeps what
//! it read before.

use platform::{Memory, OutOfBounds, PAGE_SIZE};
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// Offset of the contents.
pub const CONTENTS: usize = 8;
/// The most bytes of contents.
pub const MOST_BYTES: usize = PAGE_SIZE - CONTENTS;

/// The writer of a page.
#[derive(Debug)]
pub struct Writer<M> {
    memory: M,
    offset: usize,
    version: u32,
}

impl<M: Memory> Writer<M> {
    /// The writer of the page with this number in a region of telemetry.
    ///
    /// # Errors
    /// [`OutOfBounds`] for a page that the region lacks.
    pub fn new(memory: M, number: usize) -> Result<Self, OutOfBounds> {
        let offset = number.checked_mul(PAGE_SIZE).ok_or(OutOfBounds)?;
        // A restarted component finds a page of zeroes, or goes on with an even version after the last whole contents.
        let version = memory.load_acquire_u32(offset)?.next_multiple_of(2);
        Ok(Self { memory, offset, version })
    }

    /// Writes the contents.
    ///
    /// # Errors
    /// [`OutOfBounds`] for contents longer than the page.
    pub fn write<T: IntoBytes + Immutable>(&mut self, contents: &T) -> Result<(), OutOfBounds> {
        const { assert!(size_of::<T>() <= MOST_BYTES, "contents fit in a page") }
        self.memory.store_release_u32(self.offset, self.version.wrapping_add(1))?;
        self.memory.fence();
        self.memory.write(self.offset.wrapping_add(CONTENTS), contents)?;
        self.version = self.version.wrapping_add(2);
        self.memory.store_release_u32(self.offset, self.version)
    }
}

/// Reads the contents of a page whole. `None` while they are being written, before they were first written, and if `copy` fails.
/// `copy` copies the page's bytes from an offset on.
pub fn read<T: FromBytes>(copy: impl Fn(usize, &mut [u8]) -> Option<()>) -> Option<T> {
    let version = || {
        let mut bytes = [0; 4];
        copy(0, &mut bytes)?;
        Some(u32::from_le_bytes(bytes))
    };
    let before = version()?;
    let mut bytes = [0; MOST_BYTES];
    copy(CONTENTS, &mut bytes)?;
    let is_whole = before != 0 && before.is_multiple_of(2) && version()? == before;
    is_whole.then(|| T::read_from_prefix(&bytes).ok().map(|(contents, _)| contents)).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::rc::Rc;
    use core::cell::Cell;
    use platform::fake::Ram;

    type Contents = [u64; 3];

    fn copy_of(ram: &Ram) -> impl Fn(usize, &mut [u8]) -> Option<()> {
        let ram = ram.clone();
        move |offset, bytes| ram.read_bytes(PAGE_SIZE + offset, bytes).ok()
    }

    #[test]
    fn contents_are_read_as_they_were_written_last() {
        let ram = Ram::new(2 * PAGE_SIZE);
        let mut writer = Writer::new(ram.clone(), 1).unwrap();
        assert_eq!(read::<Contents>(copy_of(&ram)), None, "nothing was written");
        for contents in [[1, 2, 3], [4, 5, 6]] {
            writer.write(&contents).unwrap();
            assert_eq!(read::<Contents>(copy_of(&ram)), Some(contents));
        }
        assert_eq!(ram.load_acquire_u32(0), Ok(0), "the page before it is untouched");
        assert!(Writer::new(ram, 2).is_err());
    }

    #[test]
    fn contents_that_change_meanwhile_are_not_read() {
        let ram = Ram::new(2 * PAGE_SIZE);
        let mut writer = Writer::new(ram.clone(), 1).unwrap();
        writer.write(&[1u64, 2, 3]).unwrap();
        let writer = Rc::new(Cell::new(Some(writer)));
        let copy = copy_of(&ram);
        let overtaken = |offset: usize, bytes: &mut [u8]| {
            copy(offset, bytes)?;
            if offset == CONTENTS
                && let Some(mut writer) = writer.take()
            {
                writer.write(&[4u64, 5, 6]).ok()?;
            }
            Some(())
        };
        assert_eq!(read::<Contents>(overtaken), None);
        assert_eq!(read::<Contents>(copy_of(&ram)), Some([4, 5, 6]));
    }

    #[test]
    fn a_writer_that_died_in_between_leaves_nothing_to_read_until_its_successor_writes() {
        let ram = Ram::new(2 * PAGE_SIZE);
        Writer::new(ram.clone(), 1).unwrap().write(&[1u64, 2, 3]).unwrap();
        ram.store_release_u32(PAGE_SIZE, 3).unwrap();
        assert_eq!(read::<Contents>(copy_of(&ram)), None);
        Writer::new(ram.clone(), 1).unwrap().write(&[4u64, 5, 6]).unwrap();
        assert_eq!(read::<Contents>(copy_of(&ram)), Some([4, 5, 6]));
    }
}
