//! The session's blocks as `block_device_driver::BlockDevice`: data are copied through a leased range of the window.
//!
//! File systems pass slices of their own memory, and the controller reaches only the window. So each transfer is copied,
//! in as many requests as the range makes necessary, one after the other.
//!
//! Neighbours: `device` has the requests, `stream` makes bytes of the blocks. Left out: more than one request in flight.
//! A caller with a range of its own needs no copies and uses [`Device`].

use crate::device::Device;
use crate::error::Error;
use crate::request::Request;
use crate::window::WindowRange;
use aligned::{A1, Aligned};
use blk_api::Status;
use block_device_driver::{BlockDevice, blocks_to_slice, blocks_to_slice_mut};
use core::fmt;
use embedded_io_async::ErrorKind;
use platform::{OutOfBounds, Platform};

/// Error of a read or write of a session's blocks or bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IoError {
    /// A request failed.
    Request(Error),
    /// The caller's blocks are not of the session's size.
    BlockSize {
        /// Bytes of a caller's block, or of a transfer that does not consist of whole blocks.
        asked: usize,
        /// Bytes of a session's block.
        has: u32,
    },
    /// The blocks or bytes extend beyond the session's end.
    BeyondEnd,
    /// A position before the first byte, or one that overflows.
    BadSeek,
    /// The window has no free range of the requested size, or that size is less than a block.
    NoWindow,
    /// The copy does not fit the leased range.
    Window(OutOfBounds),
}

impl fmt::Display for IoError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Request(error) => write!(f, "{error}"),
            Self::BlockSize { asked, has } => write!(f, "blocks of {asked} bytes on a session with blocks of {has}"),
            Self::BeyondEnd => f.write_str("beyond the end of the session"),
            Self::BadSeek => f.write_str("position before the start of the session, or too large"),
            Self::NoWindow => f.write_str("no free range of the window to copy through"),
            Self::Window(error) => write!(f, "window: {error}"),
        }
    }
}

impl core::error::Error for IoError {}

impl embedded_io_async::Error for IoError {
    /// Never [`ErrorKind::Interrupted`], for which some callers retry without end.
    fn kind(&self) -> ErrorKind {
        match self {
            Self::Request(error) => match error.outcome() {
                Some(Status::Forbidden) => ErrorKind::PermissionDenied,
                Some(Status::Closed | Status::DeviceGone) => ErrorKind::NotConnected,
                _ => ErrorKind::Other,
            },
            Self::BlockSize { .. } => ErrorKind::Unsupported,
            Self::BeyondEnd | Self::BadSeek => ErrorKind::InvalidInput,
            Self::NoWindow => ErrorKind::OutOfMemory,
            Self::Window(_) => ErrorKind::Other,
        }
    }
}

/// A session whose transfers are copied through a range of the window that it owns.
///
/// It implements [`BlockDevice`] for every block size. With another block size than the session's, all functions fail with
/// [`IoError::BlockSize`]. [`Device::run`] drives their futures.
pub struct CopyingDevice<P: Platform> {
    device: Device<P>,
    buffer: WindowRange<P::Memory>,
    /// Bytes of a request: whole blocks, at most what the buffer holds and the session permits.
    step: usize,
    /// The request that uses the buffer, which outlives a dropped transfer.
    under_way: Option<Request<P>>,
}

impl<P: Platform> CopyingDevice<P> {
    /// Makes a device that copies through at most `bytes` bytes of the window, fewer when the session's requests are smaller.
    ///
    /// # Errors
    /// [`IoError::NoWindow`] when `bytes` are less than a block, or the window has no free range of that size.
    pub fn new(device: &Device<P>, bytes: usize) -> Result<Self, IoError> {
        let geometry = device.geometry();
        let block = geometry.block_bytes as usize;
        let blocks = bytes.checked_div(block).unwrap_or(0).min(geometry.max_blocks as usize);
        let step = blocks.saturating_mul(block);
        let buffer = device.window().lease(step).ok_or(IoError::NoWindow)?;
        Ok(Self { device: device.clone(), buffer, step, under_way: None })
    }

    /// Bytes of a block.
    #[must_use]
    pub fn block_bytes(&self) -> u32 {
        self.device.geometry().block_bytes
    }

    /// Bytes of all the session's blocks.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let geometry = self.device.geometry();
        geometry.blocks.saturating_mul(u64::from(geometry.block_bytes))
    }

    /// Reads the blocks from `lba` on, as many as `bytes` holds.
    ///
    /// # Errors
    /// [`IoError::BlockSize`] unless `bytes` are whole blocks; [`IoError::BeyondEnd`], and nothing is read; the
    /// [`IoError::Request`] of the first part that failed.
    pub async fn read_at(&mut self, lba: u64, bytes: &mut [u8]) -> Result<(), IoError> {
        self.check(lba, bytes.len())?;
        let mut lba = lba;
        for piece in bytes.chunks_mut(self.step) {
            self.wait_for_dropped().await;
            let part = self.buffer.part(0, piece.len()).ok_or(IoError::Window(OutOfBounds))?;
            let request = self.device.read(lba, &[part]);
            self.finish(request).await?;
            self.buffer.read_bytes(0, piece).map_err(IoError::Window)?;
            lba = self.behind(lba, piece.len());
        }
        Ok(())
    }

    /// Writes `bytes` onto the blocks from `lba` on. They are on stable media after a [`CopyingDevice::flush`].
    ///
    /// # Errors
    /// As [`CopyingDevice::read_at`]. Parts before the one that failed are written.
    pub async fn write_at(&mut self, lba: u64, bytes: &[u8]) -> Result<(), IoError> {
        self.check(lba, bytes.len())?;
        let mut lba = lba;
        for piece in bytes.chunks(self.step) {
            self.wait_for_dropped().await;
            self.buffer.write_bytes(0, piece).map_err(IoError::Window)?;
            let part = self.buffer.part(0, piece.len()).ok_or(IoError::Window(OutOfBounds))?;
            let request = self.device.write(lba, &[part]);
            self.finish(request).await?;
            lba = self.behind(lba, piece.len());
        }
        Ok(())
    }

    /// Brings everything written before onto stable media.
    ///
    /// # Errors
    /// [`IoError::Request`].
    pub async fn flush(&mut self) -> Result<(), IoError> {
        self.wait_for_dropped().await;
        let request = self.device.flush();
        self.finish(request).await
    }

    /// Waits for a request whose transfer was dropped: until it is done, the controller may use the buffer. Its result
    /// concerned only the caller that dropped it.
    async fn wait_for_dropped(&mut self) {
        if let Some(request) = &mut self.under_way {
            let _ = request.await;
            self.under_way = None;
        }
    }

    async fn finish(&mut self, request: Request<P>) -> Result<(), IoError> {
        let outcome = self.under_way.insert(request).await;
        self.under_way = None;
        outcome.map_err(IoError::Request)
    }

    /// Checks that `bytes` bytes from `lba` on are whole blocks of the session.
    fn check(&self, lba: u64, bytes: usize) -> Result<(), IoError> {
        let has = self.block_bytes();
        if !bytes.is_multiple_of(has as usize) {
            return Err(IoError::BlockSize { asked: bytes, has });
        }
        if self.behind(lba, bytes) > self.device.geometry().blocks {
            return Err(IoError::BeyondEnd);
        }
        Ok(())
    }

    /// Returns the block that follows `bytes` bytes from `lba` on.
    fn behind(&self, lba: u64, bytes: usize) -> u64 {
        lba.saturating_add((bytes as u64).checked_div(u64::from(self.block_bytes())).unwrap_or(0))
    }

    fn check_size(&self, asked: usize) -> Result<(), IoError> {
        let has = self.block_bytes();
        if asked == has as usize { Ok(()) } else { Err(IoError::BlockSize { asked, has }) }
    }
}

impl<P: Platform, const SIZE: usize> BlockDevice<SIZE> for CopyingDevice<P> {
    type Error = IoError;
    // Any alignment: the controller does not reach the caller's memory.
    type Align = A1;

    async fn read(&mut self, block_address: u32, data: &mut [Aligned<A1, [u8; SIZE]>]) -> Result<(), IoError> {
        self.check_size(SIZE)?;
        self.read_at(u64::from(block_address), blocks_to_slice_mut(data)).await
    }

    async fn write(&mut self, block_address: u32, data: &[Aligned<A1, [u8; SIZE]>]) -> Result<(), IoError> {
        self.check_size(SIZE)?;
        self.write_at(u64::from(block_address), blocks_to_slice(data)).await
    }

    async fn size(&mut self) -> Result<u64, IoError> {
        self.check_size(SIZE)?;
        Ok(self.bytes())
    }
}

impl<P: Platform> fmt::Debug for CopyingDevice<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CopyingDevice({:?}, {} bytes a request)", self.buffer, self.step)
    }
}
