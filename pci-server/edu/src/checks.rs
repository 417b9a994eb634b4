//! The checks of one interrupt mode of the claimed function.

use crate::device::Device;
use crate::failure::Failure;
use crate::interrupts::{Counts, Mode, no_interrupt};
use crate::pci::Pci;
use platform::log::info;
use platform::{Cap, Environment, IrqHandler, Kernel, Platform};

/// Interrupts that are raised one after the other in each mode, each with a bit of its own.
const ROUNDS: u32 = 8;
/// Two bits that are raised together.
const FIRST: u32 = 1 << 16;
const SECOND: u32 = 1 << 17;

/// The driver and the function that it claimed.
pub(crate) struct Driver<'a, P: Platform> {
    platform: &'a P,
    pci: Pci<'a, P>,
    device: Device<P::Mmio>,
    mode: Mode,
    handler: Cap<IrqHandler>,
    counts: &'a mut Counts,
}

impl<'a, P: Platform> Driver<'a, P> {
    /// Claims the function. Interrupts that come are added to `counts`.
    pub(crate) async fn claim(
        platform: &'a P,
        environment: &'a Environment,
        mode: Mode,
        counts: &'a mut Counts,
    ) -> Result<Self, Failure> {
        let pci = Pci::new(platform, environment)?;
        let device = Device::new(pci.claim(mode).await?)?;
        let handler = pci.vector().await?;
        Ok(Self { platform, pci, device, mode, handler, counts })
    }

    /// Has the PCI server change the interrupt mode.
    pub(crate) async fn change(&mut self, mode: Mode) -> Result<(), Failure> {
        self.pci.change(mode).await?;
        self.handler = self.pci.vector().await?;
        self.mode = mode;
        Ok(())
    }

    /// Releases the function.
    pub(crate) async fn release(self) -> Result<(), Failure> {
        self.pci.release().await
    }

    /// Checks the mode.
    pub(crate) async fn check_mode(&mut self) -> Result<(), Failure> {
        self.no_interrupt("before one was raised").await?;
        self.one_by_one().await?;
        self.without_acknowledging_the_device().await?;
        self.second_before_an_acknowledgement().await?;
        info!("interrupts by {} arrive as they must", self.mode.name());
        Ok(())
    }

    /// Checks that each raised interrupt arrives once.
    async fn one_by_one(&mut self) -> Result<(), Failure> {
        for round in 0..ROUNDS {
            let bit = 1u32.wrapping_shl(round);
            self.device.raise(bit)?;
            self.interrupt("after one was raised").await?;
            self.is_raised(bit)?;
            self.device.acknowledge(bit)?;
            self.is_raised(0)?;
            self.acknowledge()?;
        }
        self.no_interrupt("after all were acknowledged").await
    }

    /// Checks that a pin interrupts for as long as the device is not acknowledged, and a message once.
    async fn without_acknowledging_the_device(&mut self) -> Result<(), Failure> {
        self.device.raise(FIRST)?;
        self.interrupt("after one was raised").await?;
        self.acknowledge()?;
        match self.mode {
            Mode::Pin => self.interrupt("of a pin that is still asserted").await?,
            Mode::Message => self.no_interrupt("of a message that had arrived before").await?,
        }
        self.device.acknowledge(FIRST)?;
        self.acknowledge()?;
        self.no_interrupt("after the device was acknowledged").await
    }

    /// Checks that a second interrupt, raised before anything was acknowledged, is not lost. It waits if the kernel masks an
    /// interrupt until it is acknowledged.
    async fn second_before_an_acknowledgement(&mut self) -> Result<(), Failure> {
        self.device.raise(FIRST)?;
        self.interrupt("after one was raised").await?;
        self.device.raise(SECOND)?;
        self.is_raised(FIRST | SECOND)?;
        let is_masked = self.mode == Mode::Pin || self.platform.kernel().irq_masks_messages();
        if is_masked {
            self.no_interrupt("while it was masked").await?;
            // The pin has to show the second one alone.
            self.device.acknowledge(FIRST)?;
            self.acknowledge()?;
        }
        self.interrupt("after a second one was raised").await?;
        self.device.acknowledge(FIRST | SECOND)?;
        self.is_raised(0)?;
        self.acknowledge()?;
        self.no_interrupt("after both were acknowledged").await
    }

    async fn interrupt(&mut self, when: &'static str) -> Result<(), Failure> {
        self.counts.interrupt(self.platform, self.mode, when).await
    }

    async fn no_interrupt(&self, when: &'static str) -> Result<(), Failure> {
        no_interrupt(self.platform, self.mode, when).await
    }

    /// Acknowledges the interrupt at the kernel.
    fn acknowledge(&self) -> Result<(), Failure> {
        Ok(self.platform.kernel().irq_handler_ack(self.handler)?)
    }

    fn is_raised(&self, raised: u32) -> Result<(), Failure> {
        let read = self.device.raised()?;
        if read == raised { Ok(()) } else { Err(Failure::Status { raised, read }) }
    }
}
