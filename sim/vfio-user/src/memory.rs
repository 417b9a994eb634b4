//! The client's memory for DMA: regions by address, with the files behind them.
//!
//! A region with a file is read and written by position, so nothing is mapped and no code is unsafe. QEMU behind an
//! IOMMU maps single pages, each with a descriptor of the same file: descriptors of one file are kept once, or a
//! process would soon have too many. A file that cannot be used in this way is dropped; a client must serve DMA by
//! message in any region ("Read and Write Operations"). Left out: those messages (`host`).

use crate::device::Blocked;
use crate::request::Map;
use crate::version::MAX_REGIONS;
use rustix::fs::{OFlags, fcntl_getfl, fstatfs};
use rustix::io::Errno;
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::{Arc, Weak};

/// Magic number of hugetlbfs (linux/magic.h): its files can be read by position, and not written.
const HUGETLBFS: i64 = 0x9584_58F6;

/// The regions that a client has mapped. They do not overlap.
#[derive(Default, Debug)]
pub(crate) struct Memory {
    /// By first address.
    regions: BTreeMap<u64, Mapped>,
    /// Files of regions. Some may have no region any more.
    files: HashMap<FileKey, Weak<File>>,
}

#[derive(Debug)]
struct Mapped {
    last: u64,
    readable: bool,
    writeable: bool,
    file: Option<(Arc<File>, u64)>,
}

/// A file, whatever the descriptor: device and inode, and how it is open.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct FileKey {
    device: u64,
    inode: u64,
    mode: u32,
}

/// How far a DMA has come at its next address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    /// So many bytes were moved; at least one.
    Done(usize),
    /// So many bytes have to be asked for by message; at least one.
    Ask(usize),
}

/// Where a DMA's next bytes are.
struct Piece<'a> {
    bytes: usize,
    file: Option<(&'a File, u64)>,
}

#[derive(Clone, Copy)]
enum Right {
    Read,
    Write,
}

impl Memory {
    /// Adds a region.
    ///
    /// # Errors
    ///
    /// `EEXIST`: it overlaps another. `ENOSPC`: there are too many.
    pub(crate) fn map(&mut self, map: Map) -> Result<(), Errno> {
        let Map { first, last, readable, writeable, file } = map;
        if self.regions.range(..=last).next_back().is_some_and(|(_, below)| below.last >= first) {
            return Err(Errno::EXIST);
        }
        if self.regions.len() >= MAX_REGIONS {
            return Err(Errno::NOSPC);
        }
        let length = last.saturating_sub(first);
        let file = file.and_then(|(fd, offset)| Some((self.usable(fd, offset, length)?, offset)));
        self.regions.insert(first, Mapped { last, readable, writeable, file });
        Ok(())
    }

    /// Removes all regions inside of `first..=last`; there may be none. The specification asks for the addresses of
    /// exactly one region. QEMU relies on Linux's rule, which is this one: when its IOMMU is switched over, it unmaps
    /// the whole address space in a few large steps.
    ///
    /// # Errors
    ///
    /// `EINVAL`: a region is only partly inside. Nothing is removed.
    pub(crate) fn unmap(&mut self, first: u64, last: u64) -> Result<(), Errno> {
        let is_cut_below = self.regions.range(..first).next_back().is_some_and(|(_, below)| below.last >= first);
        let is_cut_above = self.regions.range(first..=last).next_back().is_some_and(|(_, top)| top.last > last);
        if is_cut_below || is_cut_above {
            return Err(Errno::INVAL);
        }
        let inside: Vec<u64> = self.regions.range(first..=last).map(|(first, _)| *first).collect();
        for first in inside {
            self.regions.remove(&first);
        }
        Ok(())
    }

    /// Reads the first of `bytes` from `iova` on, up to the end of a region.
    pub(crate) fn read(&self, iova: u64, bytes: &mut [u8]) -> Result<Step, Blocked> {
        let piece = self.piece(iova, bytes.len(), Right::Read)?;
        let (Some((file, offset)), Some(bytes)) = (piece.file, bytes.get_mut(..piece.bytes)) else {
            return Ok(Step::Ask(piece.bytes));
        };
        file.read_exact_at(bytes, offset).map_err(|_| Blocked::Refused)?;
        Ok(Step::Done(piece.bytes))
    }

    /// Writes the first of `bytes`, as [`Memory::read`].
    pub(crate) fn write(&self, iova: u64, bytes: &[u8]) -> Result<Step, Blocked> {
        let piece = self.piece(iova, bytes.len(), Right::Write)?;
        let (Some((file, offset)), Some(bytes)) = (piece.file, bytes.get(..piece.bytes)) else {
            return Ok(Step::Ask(piece.bytes));
        };
        file.write_all_at(bytes, offset).map_err(|_| Blocked::Refused)?;
        Ok(Step::Done(piece.bytes))
    }

    /// The part of `iova..iova + wanted` that is in one region or between two. `wanted` is not zero.
    fn piece(&self, iova: u64, wanted: usize, right: Right) -> Result<Piece<'_>, Blocked> {
        let length = u64::try_from(wanted).unwrap_or(u64::MAX).saturating_sub(1);
        let end = iova.checked_add(length).ok_or(Blocked::Refused)?;
        let at = self.regions.range(..=iova).next_back().filter(|(_, region)| region.last >= iova);
        let Some((first, region)) = at else {
            // Only the client knows what is there: QEMU's IOMMU may translate addresses that it does not report.
            let next = self.regions.range(iova..).next().map_or(u64::MAX, |(first, _)| first.saturating_sub(1));
            return Ok(Piece { bytes: bytes_between(iova, end.min(next)), file: None });
        };
        let may = match right {
            Right::Read => region.readable,
            Right::Write => region.writeable,
        };
        if !may {
            return Err(Blocked::Refused);
        }
        let inside = iova.saturating_sub(*first);
        let file = region.file.as_ref().map(|(file, offset)| (&**file, offset.saturating_add(inside)));
        Ok(Piece { bytes: bytes_between(iova, end.min(region.last)), file })
    }

    /// A descriptor to access a region of `length + 1` bytes with, if the file has them and can be accessed by
    /// position.
    fn usable(&mut self, fd: OwnedFd, offset: u64, length: u64) -> Option<Arc<File>> {
        let mode = fcntl_getfl(&fd).ok()? & OFlags::RWMODE;
        let is_hugetlbfs = fstatfs(&fd).ok()?.f_type as i64 == HUGETLBFS;
        let file = File::from(fd);
        let metadata = file.metadata().ok()?;
        let last = offset.saturating_add(length);
        if is_hugetlbfs || !metadata.is_file() || metadata.len() <= last {
            return None;
        }
        let key = FileKey { device: metadata.dev(), inode: metadata.ino(), mode: mode.bits() };
        if let Some(known) = self.files.get(&key).and_then(Weak::upgrade) {
            return Some(known);
        }
        self.files.retain(|_, file| file.strong_count() > 0);
        let file = Arc::new(file);
        self.files.insert(key, Arc::downgrade(&file));
        Some(file)
    }
}

/// Number of addresses in `first..=last`.
fn bytes_between(first: u64, last: u64) -> usize {
    usize::try_from(last.saturating_sub(first).saturating_add(1)).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{MemfdFlags, ftruncate, memfd_create};

    fn memory_file(bytes: u64) -> OwnedFd {
        let fd = memfd_create("memory", MemfdFlags::CLOEXEC).unwrap();
        ftruncate(&fd, bytes).unwrap();
        fd
    }

    fn region(first: u64, bytes: u64, file: Option<(OwnedFd, u64)>) -> Map {
        Map { first, last: first + bytes - 1, readable: true, writeable: true, file }
    }

    #[test]
    fn overlaps_are_refused_and_neighbours_are_not() {
        let mut memory = Memory::default();
        memory.map(region(0x2000, 0x1000, None)).unwrap();
        for (first, bytes) in [(0x2000, 0x1000), (0x1000, 0x1001), (0x2FFF, 1), (0, 0x1_0000), (0x2800, 16)] {
            assert_eq!(memory.map(region(first, bytes, None)), Err(Errno::EXIST), "{first:#x}");
        }
        memory.map(region(0x1000, 0x1000, None)).unwrap();
        memory.map(region(0x3000, 0x1000, None)).unwrap();
        let to_the_end = Map { first: 0x4000, last: u64::MAX, readable: true, writeable: true, file: None };
        memory.map(to_the_end).unwrap();
    }

    #[test]
    fn a_region_is_unmapped_as_a_whole() {
        let mut memory = Memory::default();
        memory.map(region(0x2000, 0x1000, None)).unwrap();
        memory.map(region(0x3000, 0x1000, None)).unwrap();
        for (first, last) in [(0x2000, 0x27FF), (0x2001, 0x2FFF), (0x2800, 0x2801), (0x2000, 0x3FFE), (0x2001, 0x3FFF)]
        {
            assert_eq!(memory.unmap(first, last), Err(Errno::INVAL), "{first:#x}");
        }
        assert_eq!(memory.regions.len(), 2);
        memory.unmap(0x2000, 0x2FFF).unwrap();
        assert_eq!(memory.regions.len(), 1);
    }

    #[test]
    fn an_unmap_may_cover_many_regions_or_none() {
        let mut memory = Memory::default();
        memory.unmap(0, u64::MAX).unwrap();
        memory.map(region(0, 0x1000, None)).unwrap();
        memory.map(region(0x5000, 0x1000, None)).unwrap();
        memory.map(region(0xFFFF_F000, 0x1000, None)).unwrap();
        memory.unmap(0x1000, 0x4FFF).unwrap();
        assert_eq!(memory.regions.len(), 3);
        memory.unmap(0, 0x7FFF_FFFF).unwrap();
        assert_eq!(memory.regions.len(), 1);
        memory.unmap(0x8000_0000, u64::MAX).unwrap();
        assert!(memory.regions.is_empty());
    }

    #[test]
    fn a_dma_goes_on_in_the_next_region() {
        let mut memory = Memory::default();
        memory.map(region(0x1000, 0x1000, Some((memory_file(0x3000), 0x2000)))).unwrap();
        memory.map(region(0x2000, 0x1000, None)).unwrap();
        assert_eq!(memory.write(0x1FFE, b"abcd"), Ok(Step::Done(2)));
        assert_eq!(memory.write(0x2000, b"cd"), Ok(Step::Ask(2)));
        let mut bytes = [0; 4];
        assert_eq!(memory.read(0x1FFE, &mut bytes), Ok(Step::Done(2)));
        assert_eq!(&bytes, b"ab\0\0");
        assert_eq!(memory.read(0x0FFE, &mut bytes), Ok(Step::Ask(2)));
        assert_eq!(memory.read(u64::MAX, &mut bytes), Err(Blocked::Refused));
    }

    #[test]
    fn rights_of_a_region_are_kept() {
        let mut memory = Memory::default();
        memory.map(Map { writeable: false, ..region(0x1000, 0x1000, Some((memory_file(0x1000), 0))) }).unwrap();
        memory.map(Map { readable: false, ..region(0x2000, 0x1000, None) }).unwrap();
        assert_eq!(memory.write(0x1000, &[1]), Err(Blocked::Refused));
        assert_eq!(memory.read(0x1000, &mut [1]), Ok(Step::Done(1)));
        assert_eq!(memory.read(0x2000, &mut [1]), Err(Blocked::Refused));
    }

    #[test]
    fn descriptors_of_one_file_are_kept_once() {
        let mut memory = Memory::default();
        let fd = memory_file(0x10_0000);
        for page in 0..256_u64 {
            let file = Some((fd.try_clone().unwrap(), page * 0x1000));
            memory.map(region(page * 0x1000, 0x1000, file)).unwrap();
        }
        assert_eq!(memory.files.len(), 1);
        let file = memory.files.values().next().unwrap().upgrade().unwrap();
        assert_eq!(Arc::strong_count(&file), 257);
    }

    #[test]
    fn a_file_that_is_too_short_is_not_used() {
        let mut memory = Memory::default();
        memory.map(region(0x1000, 0x1000, Some((memory_file(0x1FFF), 0x1000)))).unwrap();
        assert_eq!(memory.read(0x1000, &mut [1]), Ok(Step::Ask(1)));
        let no_file = rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC).unwrap();
        memory.map(region(0x2000, 0x1000, Some((no_file, 0)))).unwrap();
        assert_eq!(memory.read(0x2000, &mut [1]), Ok(Step::Ask(1)));
    }
}
