//! The bring-up of a claimed controller, as far as it knows no session: reach, reset, admin queues, description, number of queues (NVM
//! Express base specification 1.4, section 7.6.1). The same steps follow a fault.

use crate::admin;
use crate::controller::Controller;
use crate::fault::DeviceFault;
use crate::pci;
use crate::queue_pair::QueuePair;
use crate::reset::{disable, wait_ready};
use nvme_spec::QueueId;
use nvme_spec::feature::NumberOfQueues;
use nvme_spec::registers::Arbitration;
use platform::Platform;

/// Seconds, at least, that a controller has to come back after its registers read as all ones. A function must answer within
/// the same time after a reset (PCI Express base specification 4.0, section 6.6.1).
const AWAY_LIMIT_SECONDS: u64 = 1;

impl<P: Platform> Controller<P> {
    /// Waits until the controller can be read, and checks that this driver can drive it and that it is the same as before.
    ///
    /// # Errors
    /// [`DeviceFault::Absent`] for one that stayed away for longer than allowed; and as
    /// [`Registers::identify`](crate::registers::Registers::identify).
    pub async fn reach(&self) -> Result<(), DeviceFault> {
        let limit = self.platform.ticks_per_second().saturating_mul(AWAY_LIMIT_SECONDS);
        let deadline = self.platform.ticks().saturating_add(limit);
        loop {
            // The time is read first, so that a driver that did not run meanwhile polls once more.
            let is_last = self.platform.ticks() >= deadline;
            match self.registers.identify() {
                // In a slot it is known sooner.
                Err(DeviceFault::Absent) if !is_last && !self.is_gone() => {}
                outcome => return outcome,
            }
            self.next_tick().await;
        }
    }

    /// Resets the controller and waits until it is reset.
    ///
    /// # Errors
    /// As [`disable`].
    pub async fn disable(&self) -> Result<(), DeviceFault> {
        disable(&self.platform, &self.registers, || self.tick.wait()).await
    }

    /// Resets the NVM subsystem, and waits until the controller can be read.
    ///
    /// # Errors
    /// As [`Controller::reach`].
    pub async fn reset_subsystem(&self) -> Result<(), DeviceFault> {
        self.registers.reset_subsystem()?;
        self.reach().await
    }

    /// Resets the controller and enables it, with its admin queues and this arbitration.
    ///
    /// # Errors
    /// Whatever is wrong with the controller.
    pub async fn start(&self, arbitration: Arbitration) -> Result<(), DeviceFault> {
        self.disable().await?;
        self.let_master_bus().await?;
        let (sq, cq) = self.admin.start(|| self.admin_queue())?;
        self.registers.enable(&sq, &cq, admin::ENTRIES, arbitration)?;
        wait_ready(&self.platform, &self.registers, || self.tick.wait(), true).await?;
        self.registers.check().map(drop)
    }

    /// Lets the controller master the bus, the first time: it was reset, so nothing that firmware left is in flight.
    async fn let_master_bus(&self) -> Result<(), DeviceFault> {
        if !self.masters_bus.get() {
            let started = pci::start(&self.platform, self.server).await;
            started.map_err(|_| DeviceFault::Unusable("the PCI server does not let it master the bus"))?;
            self.masters_bus.set(true);
        }
        Ok(())
    }

    fn admin_queue(&self) -> Result<QueuePair<P::Memory, P::Mmio>, DeviceFault> {
        let mut pool = self.pool.borrow_mut();
        let rings = (pool.take(1)?, pool.take(1)?);
        let (registers, doorbells) = (self.registers.registers(), self.registers.cap().doorbells());
        QueuePair::new(QueueId::ADMIN, admin::ENTRIES, rings, registers, doorbells)
    }

    /// Asks for this number of I/O queue pairs, at least one. Returns the number that the controller grants: fewer, or more.
    ///
    /// # Errors
    /// As [`Controller::execute`].
    pub async fn number_of_queues(&self, wanted: u16) -> Result<u16, DeviceFault> {
        let ask = NumberOfQueues::pairs(wanted.max(1)).ok_or(DeviceFault::OwnMemory)?;
        let granted = NumberOfQueues::from_bits(self.execute(|cid| ask.set(cid)).await?.dw0);
        let granted = u16::try_from(granted.sqs().min(granted.cqs())).unwrap_or(u16::MAX);
        self.granted.set(granted);
        Ok(granted)
    }
}
