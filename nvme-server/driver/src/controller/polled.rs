//! A queue pair that is polled, with one command at a time: for drivers without a control plane.
//!
//! Left out: interrupts. A driver that polls in a queue pair of many commands uses [`QueuePair`] itself.

use crate::admin::limit_seconds;
use crate::dma::DmaPool;
use crate::fault::DeviceFault;
use crate::queue_pair::QueuePair;
use crate::registers::Registers;
use crate::retry::RetryDelays;
use nvme_spec::admin::{CqInterrupt, CreateIoCq, CreateIoSq, QueueMemory, QueuePriority};
use nvme_spec::{Cid, Cqe, QueueId, Sqe};
use platform::Platform;

/// A queue pair, and the CID of its last command.
pub struct Polled<P: Platform> {
    platform: P,
    /// The queue pair.
    pub pair: QueuePair<P::Memory, P::Mmio>,
    last: Cid,
}

impl<P: Platform> Polled<P> {
    /// Makes a queue pair of `entries` entries, at most a page of SQEs, in two pages of the pool. The controller does not
    /// have it yet.
    ///
    /// # Errors
    /// [`DeviceFault::OwnMemory`] when the pool is used up; and as [`QueuePair::new`].
    pub fn new(
        platform: &P,
        id: QueueId,
        entries: u16,
        pool: &mut DmaPool<P>,
        controller: &Registers<P::Mmio>,
    ) -> Result<Self, DeviceFault> {
        let rings = (pool.take(1)?, pool.take(1)?);
        let mut pair = QueuePair::new(id, entries, rings, controller.registers(), controller.cap().doorbells())?;
        pair.reset()?;
        Ok(Self { platform: platform.clone(), pair, last: Cid(0) })
    }

    /// Submits the command and waits for its completion, successful or not.
    ///
    /// # Errors
    /// [`DeviceFault::TimedOut`] after [`limit_seconds`], [`DeviceFault::UnknownCommand`], and as [`QueuePair::complete`].
    pub async fn execute(&mut self, build: impl FnOnce(Cid) -> Sqe) -> Result<Cqe, DeviceFault> {
        self.last = self.last.next();
        let cid = self.last;
        let sqe = build(cid);
        self.pair.submit(&sqe);
        self.pair.ring()?;
        let limit = self.platform.ticks_per_second().saturating_mul(limit_seconds(&sqe));
        let deadline = self.platform.ticks().saturating_add(limit);
        loop {
            // The time is read first, so that a driver that did not run meanwhile polls once more.
            let is_last = self.platform.ticks() > deadline;
            if let Some(cqe) = self.pair.complete_with_result()? {
                self.pair.ring_head()?;
                return if cqe.cid() == cid { Ok(cqe) } else { Err(DeviceFault::UnknownCommand(cqe.cid().0)) };
            }
            if is_last {
                return Err(DeviceFault::TimedOut);
            }
            self.platform.yield_now().await;
        }
    }

    /// [`Polled::execute`] for a command that must succeed; again where the controller asks for that. Its own delays are not known yet.
    ///
    /// # Errors
    /// [`DeviceFault::Refused`] for a completion that is no success; and as [`Polled::execute`].
    pub async fn must(&mut self, build: impl Fn(Cid) -> Sqe) -> Result<Cqe, DeviceFault> {
        let mut retries = 0u8;
        loop {
            let cqe = self.execute(&build).await?;
            let status = cqe.status();
            if status.is_success() {
                return Ok(cqe);
            }
            let delay_ms = RetryDelays::default().before_retry(status, retries).ok_or(DeviceFault::Refused(status))?;
            let ticks = self.platform.ticks_per_second().saturating_mul(delay_ms.into()) / 1000;
            let until = self.platform.ticks().saturating_add(ticks);
            while self.platform.ticks() < until {
                self.platform.yield_now().await;
            }
            retries = retries.saturating_add(1);
        }
    }

    /// Creates an I/O queue pair by this admin queue pair: the CQ, then the SQ (base specification 1.4, sections 5.3 and 5.4).
    ///
    /// # Errors
    /// As [`Polled::must`]. The CQ may be there after an error.
    pub async fn create(
        &mut self,
        pair: &QueuePair<P::Memory, P::Mmio>,
        interrupt: CqInterrupt,
    ) -> Result<(), DeviceFault> {
        let (qid, qsize_z) = (pair.id(), pair.entries().saturating_sub(1));
        let cq = CreateIoCq { qid, qsize_z, interrupt, memory: QueueMemory::Contiguous(pair.cq.iova.bits()) };
        self.must(|cid| cq.sqe(cid)).await?;
        let (priority, memory) = (QueuePriority::Medium, QueueMemory::Contiguous(pair.sq.iova.bits()));
        let sq = CreateIoSq { qid, qsize_z, cqid: qid, priority, memory };
        self.must(|cid| sq.sqe(cid)).await.map(drop)
    }
}
