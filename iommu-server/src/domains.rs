//! The drivers' domains: the function that each was opened for, the frames that its driver may map in it, and the pages of the
//! pool that are kept for it.
//!
//! The pool has room for every domain at once, up to its limit, so no domain can take another's pages.

use crate::{Drained, Error, Fault, Rights, Smmu, StreamId};
use alloc::vec::Vec;
use iommu_api::frames::Frames;
use iommu_api::{OWN_PAGES, ServerConfig};
use platform::{Iova, Memory, Mmio};

/// All domains, and the SMMU behind them.
#[derive(Debug)]
pub struct Domains<R, M> {
    smmu: Smmu<R, M>,
    config: ServerConfig,
    frames: Frames,
    /// By domain, less one.
    streams: Vec<Option<StreamId>>,
}

impl<R: Mmio, M: Memory> Domains<R, M> {
    /// Creates one domain for each driver in `config`, all closed. `frames` has the drivers' frames.
    ///
    /// # Errors
    /// [`Error::NoPages`] when the pool has too few for all of them at once.
    pub fn new(smmu: Smmu<R, M>, config: ServerConfig, frames: Frames) -> Result<Self, Error> {
        let pages = iommu_api::pages(config.drivers.iter().map(|driver| driver.tables.into()));
        if (smmu.free_pages() as u64) < pages.saturating_sub(OWN_PAGES) {
            return Err(Error::NoPages);
        }
        Ok(Self { streams: config.drivers.iter().map(|_| None).collect(), smmu, config, frames })
    }

    /// Opens a domain for a function: it reaches the page of interrupts, and nothing else.
    ///
    /// # Errors
    /// `DeleteFirst` when the domain is open, or another has the function; `InvalidArgument` when there is no such domain or no
    /// such function; `NotEnoughMemory`; `IllegalOperation` when the SMMU is stuck.
    pub fn open(&mut self, domain: u64, requester_id: u16) -> platform::Result<()> {
        let stream = StreamId(u32::from(requester_id));
        if self.place(domain)?.is_some() {
            return Err(platform::Error::DeleteFirst);
        }
        let was_attached = self.smmu.is_attached(stream);
        let attached = self.smmu.attach(stream, self.most_tables(domain));
        if attached.is_err() && (was_attached || !self.smmu.is_attached(stream)) {
            return attached.map_err(as_kernel);
        }
        let messages = self.config.messages;
        let map = |()| self.smmu.map(stream, Iova::new(messages.bits()), messages, Rights::Messages);
        let mapped = attached.and_then(map);
        // Open from here on, so that it is closed as others are after a failure, also of an attachment that was not confirmed.
        *self.place(domain)? = Some(stream);
        mapped.map_err(|reason| {
            // A failure shows when the domain is opened again.
            let _ = self.close(domain);
            as_kernel(reason)
        })
    }

    /// Closes a domain: its function reaches nothing any more when this has succeeded. Closing a domain that is not open
    /// succeeds.
    ///
    /// # Errors
    /// `InvalidArgument` when there is no such domain; `IllegalOperation` when the SMMU is stuck: then the function's memory
    /// must not be given to others, and the call must be retried.
    pub fn close(&mut self, domain: u64) -> platform::Result<()> {
        let Some(stream) = *self.place(domain)? else { return Ok(()) };
        if self.smmu.detach(stream).is_err() {
            // It may have been detached without the SMMU's confirmation, now or at an earlier attempt.
            self.smmu.settle().map_err(as_kernel)?;
        }
        if self.smmu.is_attached(stream) {
            return Err(platform::Error::IllegalOperation);
        }
        *self.place(domain)? = None;
        Ok(())
    }

    /// Closes all of them.
    ///
    /// # Errors
    /// As [`Domains::close`], after all were tried.
    pub fn close_all(&mut self) -> platform::Result<()> {
        let domains = (1..).take(self.streams.len());
        domains.map(|domain| self.close(domain)).fold(Ok(()), platform::Result::and)
    }

    /// Maps the frame that the specification has at `cptr` of the driver's CSpace. The function may write it when `writable`
    /// asks for that and the driver's capability has the right.
    ///
    /// # Errors
    /// `InvalidCapability(1)` when the domain is not open, `InvalidCapability(0)` when there is no frame at the cptr, `DeleteFirst`
    /// when something is mapped there, `InvalidArgument` for an invalid address, `NotEnoughMemory` when the domain has all tables
    /// that it may have, `IllegalOperation`.
    pub fn map(&mut self, domain: u64, iova: Iova, cptr: u64, writable: bool) -> platform::Result<()> {
        let stream = self.open_stream(domain)?;
        let frame = self.frames.find(domain, cptr).ok_or(platform::Error::InvalidCapability(0))?;
        let rights = if writable && frame.is_writable { Rights::ReadWrite } else { Rights::Read };
        self.smmu.map(stream, iova, frame.paddr, rights).map_err(as_kernel)
    }

    /// Unmaps a page: the function does not reach it any more when this has succeeded. Unmapping a page that is not mapped
    /// succeeds.
    ///
    /// # Errors
    /// `InvalidCapability(1)` when the domain is not open, `InvalidArgument` for the page of interrupts, `IllegalOperation` when the
    /// SMMU is stuck.
    pub fn unmap(&mut self, domain: u64, iova: Iova) -> platform::Result<()> {
        let stream = self.open_stream(domain)?;
        if iova.bits() == self.config.messages.bits() {
            return Err(platform::Error::InvalidArgument(0));
        }
        match self.smmu.unmap(stream, iova) {
            Ok(()) | Err(Error::NotMapped) => Ok(()),
            Err(Error::Stuck) => self.smmu.settle().map_err(as_kernel),
            Err(reason) => Err(as_kernel(reason)),
        }
    }

    /// Passes `each` the transactions of devices that were blocked since the last call: see [`Smmu::faults`].
    ///
    /// # Errors
    /// The SMMU's.
    pub fn faults(&mut self, each: impl FnMut(Fault)) -> Result<Drained, Error> {
        self.smmu.faults(each)
    }

    fn most_tables(&self, domain: u64) -> usize {
        let index = usize::try_from(domain).ok().and_then(|domain| domain.checked_sub(1));
        let driver = index.and_then(|index| self.config.drivers.get(index));
        driver.and_then(|driver| usize::try_from(driver.tables).ok()).unwrap_or(0)
    }

    fn place(&mut self, domain: u64) -> platform::Result<&mut Option<StreamId>> {
        let index = usize::try_from(domain).ok().and_then(|domain| domain.checked_sub(1));
        index.and_then(|index| self.streams.get_mut(index)).ok_or(platform::Error::InvalidArgument(0))
    }

    fn open_stream(&mut self, domain: u64) -> platform::Result<StreamId> {
        self.place(domain)?.ok_or(platform::Error::InvalidCapability(1))
    }
}

/// The error of a kernel with IOSpaces of its own.
const fn as_kernel(error: Error) -> platform::Error {
    match error {
        Error::NotAttached => platform::Error::InvalidCapability(1),
        Error::Address | Error::StreamId | Error::NotMapped => platform::Error::InvalidArgument(0),
        Error::Mapped | Error::Attached => platform::Error::DeleteFirst,
        Error::NoPages | Error::Quota | Error::NoAddressSpace => platform::Error::NotEnoughMemory(0),
        Error::OutOfBounds
        | Error::Unsupported(_)
        | Error::Unanswered
        | Error::Unguarded
        | Error::Stuck
        | Error::Corrupt => platform::Error::IllegalOperation,
    }
}
