//! The drivers' domains: the function that each was opened for, and the checks of mappings in it.

use crate::{Drained, Error, Fault, Rights, Smmu, StreamId};
use alloc::vec::Vec;
use iommu_api::ServerConfig;
use platform::{Iova, Memory, Mmio, Paddr};

/// All domains, and the SMMU behind them.
#[derive(Debug)]
pub struct Domains<R, M> {
    smmu: Smmu<R, M>,
    config: ServerConfig,
    /// By domain, less one.
    streams: Vec<Option<StreamId>>,
}

impl<R: Mmio, M: Memory> Domains<R, M> {
    /// Creates one domain for each driver in `config`, all closed.
    pub fn new(smmu: Smmu<R, M>, config: ServerConfig) -> Self {
        Self { streams: config.drivers.iter().map(|_| None).collect(), smmu, config }
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
        self.smmu.attach(stream).map_err(as_kernel)?;
        let messages = self.config.messages;
        let mapped = self.smmu.map(stream, Iova::new(messages.bits()), messages, Rights::Messages);
        // Open from here on, so that it is closed as others are after a failure.
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

    /// Maps the page of ordinary memory at `paddr`.
    ///
    /// # Errors
    /// `InvalidCapability(1)` when the domain is not open, `InvalidCapability(0)` when the page is a device's, `DeleteFirst` when
    /// something is mapped there, `InvalidArgument` for another invalid address, `NotEnoughMemory`, `IllegalOperation`.
    pub fn map(&mut self, domain: u64, iova: Iova, paddr: Paddr, writable: bool) -> platform::Result<()> {
        let stream = self.open_stream(domain)?;
        let (first, bytes) = self.config.memory;
        if paddr.bits().checked_sub(first.bits()).is_none_or(|offset| offset >= bytes) {
            return Err(platform::Error::InvalidCapability(0));
        }
        let rights = if writable { Rights::ReadWrite } else { Rights::Read };
        self.smmu.map(stream, iova, paddr, rights).map_err(as_kernel)
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
        Error::NoPages | Error::NoAddressSpace => platform::Error::NotEnoughMemory(0),
        Error::OutOfBounds
        | Error::Unsupported(_)
        | Error::Unanswered
        | Error::Unguarded
        | Error::Stuck
        | Error::Corrupt => platform::Error::IllegalOperation,
    }
}
