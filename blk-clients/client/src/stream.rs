//! The session's blocks as a stream of bytes: `Read`, `Write` and `Seek` of `embedded-io-async`.
//!
//! File systems read and write a few bytes at a time, and the next ones mostly lie beside them. So one block is cached. It
//! is read before some of its bytes are written, and written when another one is needed or at a flush. Runs of whole
//! blocks bypass it. Blocks are written in the order of their bytes' writes.
//!
//! Neighbours: `copying` moves the blocks. Left out: more blocks than one. `block-device-adapters` has such a stream too,
//! but for an earlier `embedded-io-async`; it counts from the end in the wrong direction and has no end to read to.

use crate::copying::{CopyingDevice, IoError};
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;
use embedded_io_async::{ErrorType, Read, Seek, SeekFrom, Write};
use platform::Platform;

/// The bytes of a session, from a position on. One read or write moves part of a block, or a run of whole blocks.
///
/// Written bytes are on stable media only after [`Write::flush`]; dropping the stream without it loses some. A block that
/// could not be written stays cached, and the next call that needs its place tries again.
pub struct ByteStream<P: Platform> {
    device: CopyingDevice<P>,
    position: u64,
    /// The bytes of the cached block.
    block: Vec<u8>,
    /// The block's address, if there is one.
    kept: Option<u64>,
    /// The cached block differs from the session's.
    is_unwritten: bool,
    last_error: Option<IoError>,
}

/// Position of a byte.
#[derive(Clone, Copy)]
struct Place {
    lba: u64,
    /// Bytes from the block's start.
    offset: usize,
}

impl<P: Platform> ByteStream<P> {
    /// Makes a stream of the device's blocks, at the first byte.
    #[must_use]
    pub fn new(device: CopyingDevice<P>) -> Self {
        let block = vec![0; device.block_bytes() as usize];
        Self { device, position: 0, block, kept: None, is_unwritten: false, last_error: None }
    }

    /// Bytes of a block: reads and writes of its multiples are the most efficient.
    #[must_use]
    pub fn block_bytes(&self) -> u32 {
        self.device.block_bytes()
    }

    /// Bytes of the whole stream.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.device.bytes()
    }

    /// The error of the last call that failed: a file system passes on its kind at most.
    #[must_use]
    pub const fn last_error(&self) -> Option<IoError> {
        self.last_error
    }

    async fn read_some(&mut self, bytes: &mut [u8]) -> Result<usize, IoError> {
        let Some(bytes) = bytes.get_mut(..self.reachable(bytes.len())).filter(|bytes| !bytes.is_empty()) else {
            return Ok(0);
        };
        let place = self.place();
        let read = match bytes.get_mut(..self.whole_blocks(place, bytes.len())) {
            Some(run) if !run.is_empty() => {
                self.write_kept().await?;
                self.device.read_at(place.lba, run).await?;
                run.len()
            }
            _ => {
                self.keep(place.lba).await?;
                let there = self.block.iter().skip(place.offset);
                bytes.iter_mut().zip(there).map(|(byte, there)| *byte = *there).count()
            }
        };
        self.advance(read);
        Ok(read)
    }

    async fn write_some(&mut self, bytes: &[u8]) -> Result<usize, IoError> {
        if bytes.is_empty() {
            return Ok(0);
        }
        let bytes = bytes.get(..self.reachable(bytes.len())).filter(|bytes| !bytes.is_empty());
        let bytes = bytes.ok_or(IoError::BeyondEnd)?;
        let place = self.place();
        let written = match bytes.get(..self.whole_blocks(place, bytes.len())) {
            Some(run) if !run.is_empty() => {
                self.write_kept().await?;
                // The cached block may be in the run.
                self.kept = None;
                self.device.write_at(place.lba, run).await?;
                run.len()
            }
            _ => {
                self.keep(place.lba).await?;
                self.is_unwritten = true;
                let there = self.block.iter_mut().skip(place.offset);
                bytes.iter().zip(there).map(|(byte, there)| *there = *byte).count()
            }
        };
        self.advance(written);
        Ok(written)
    }

    async fn flush_all(&mut self) -> Result<(), IoError> {
        self.write_kept().await?;
        self.device.flush().await
    }

    /// Caches the block at `lba`.
    async fn keep(&mut self, lba: u64) -> Result<(), IoError> {
        if self.kept == Some(lba) {
            return Ok(());
        }
        self.write_kept().await?;
        self.kept = None;
        self.device.read_at(lba, &mut self.block).await?;
        self.kept = Some(lba);
        Ok(())
    }

    /// Writes the cached block, if it differs from the session's.
    async fn write_kept(&mut self) -> Result<(), IoError> {
        if let Some(lba) = self.kept.filter(|_| self.is_unwritten) {
            self.device.write_at(lba, &self.block).await?;
            self.is_unwritten = false;
        }
        Ok(())
    }

    /// Returns how many of `bytes` bytes from the position on exist.
    fn reachable(&self, bytes: usize) -> usize {
        let left = self.bytes().saturating_sub(self.position);
        usize::try_from(left).unwrap_or(usize::MAX).min(bytes)
    }

    fn place(&self) -> Place {
        let block = u64::from(self.device.block_bytes());
        Place {
            lba: self.position.checked_div(block).unwrap_or(0),
            // Less than a block.
            offset: self.position.checked_rem(block).unwrap_or(0) as usize,
        }
    }

    /// Returns how many of `bytes` bytes from `place` on are in whole blocks that begin there.
    fn whole_blocks(&self, place: Place, bytes: usize) -> usize {
        let rest = bytes.checked_rem(self.device.block_bytes() as usize).unwrap_or(bytes);
        if place.offset == 0 { bytes.saturating_sub(rest) } else { 0 }
    }

    fn advance(&mut self, bytes: usize) {
        self.position = self.position.saturating_add(bytes as u64);
    }

    fn note<T>(&mut self, outcome: Result<T, IoError>) -> Result<T, IoError> {
        outcome.inspect_err(|error| self.last_error = Some(*error))
    }
}

impl<P: Platform> ErrorType for ByteStream<P> {
    type Error = IoError;
}

impl<P: Platform> Read for ByteStream<P> {
    /// Returns `Ok(0)` behind the session's last block.
    async fn read(&mut self, buf: &mut [u8]) -> Result<usize, IoError> {
        let outcome = self.read_some(buf).await;
        self.note(outcome)
    }
}

impl<P: Platform> Write for ByteStream<P> {
    /// Fails with [`IoError::BeyondEnd`] behind the session's last block.
    async fn write(&mut self, buf: &[u8]) -> Result<usize, IoError> {
        let outcome = self.write_some(buf).await;
        self.note(outcome)
    }

    async fn flush(&mut self) -> Result<(), IoError> {
        let outcome = self.flush_all().await;
        self.note(outcome)
    }
}

impl<P: Platform> Seek for ByteStream<P> {
    /// Accepts any position that does not overflow, behind the end too.
    async fn seek(&mut self, pos: SeekFrom) -> Result<u64, IoError> {
        let position = match pos {
            SeekFrom::Start(position) => Some(position),
            SeekFrom::End(by) => self.bytes().checked_add_signed(by),
            SeekFrom::Current(by) => self.position.checked_add_signed(by),
        };
        let position = self.note(position.ok_or(IoError::BadSeek))?;
        self.position = position;
        Ok(position)
    }
}

impl<P: Platform> fmt::Debug for ByteStream<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { device, position, kept, is_unwritten, .. } = self;
        write!(f, "ByteStream({device:?}, at {position}, keeps {kept:?}, unwritten: {is_unwritten})")
    }
}
