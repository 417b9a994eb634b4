//! The supervisor's timer: an HPET comparator, its interrupt, and the notification it arrives at.

use crate::BuildError;
use crate::build::Build;
use crate::hpet::Hpet;
use platform::{Badge, CPtr, Cap, CapData, IrqHandler, Kernel, Mmio, Notification, Platform, Rights, Trigger};

/// Ticks a second.
pub(crate) const TICKS_PER_SECOND: u32 = 20;

/// The kernel's interrupt it raises. The PCI server's configuration begins after those that are kept for the root task.
const IRQ: u8 = 0;

/// The root task's notification, where it is in the specification.
const EVENT: &str = "root-task.event";

/// A running timer.
#[derive(Debug)]
pub(crate) struct Timer {
    /// Its interrupt, acknowledged after every tick.
    pub(crate) handler: Cap<IrqHandler>,
}

impl<P: Platform> Build<P> {
    /// Binds the root task's notification and starts the timer that signals it, if any component wants ticks.
    pub(crate) fn make_timer(&mut self) -> Result<Option<Timer>, BuildError> {
        let notification = self.own_notification()?.cast::<Notification>();
        let bound = self.kernel().tcb_bind_notification(self.boot.tcb, notification);
        bound.map_err(BuildError::refused("bind", "the root task's notification"))?;
        if self.specification.components.iter().all(|component| component.tick.is_none()) {
            return Ok(None);
        }
        // Without ticks nothing would ever time out: a controller that does not answer would be waited for without end.
        let without = || BuildError::specification("HPET", "is not there, and components are to be ticked by it");
        let paddr = self.boot.hpet.ok_or_else(without)?;
        let registers = self.map_own_registers(paddr)?;
        let hpet = Hpet::new(registers).map_err(|reason| BuildError::specification("HPET", reason))?;
        let handler = self.make_handler(&hpet)?;
        let failed = |_| BuildError::OutOfBounds { what: "the HPET's registers" };
        hpet.start_periodic(TICKS_PER_SECOND).map_err(failed)?;
        Ok(Some(Timer { handler }))
    }

    /// The root task's notification is an object like everybody's where a component may signal it, so that its right to do
    /// so stands in the specification.
    fn own_notification(&self) -> Result<CPtr, BuildError> {
        match self.find(EVENT) {
            Some(id) => Ok(self.objects.cap::<Notification>(id)?.cptr()),
            None => Ok(self.objects.own.notification),
        }
    }

    fn make_handler<M: Mmio>(&mut self, hpet: &Hpet<M>) -> Result<Cap<IrqHandler>, BuildError> {
        let refused = || BuildError::refused("make the interrupt of", "the HPET");
        let slots = self.allocator.slots(2)?;
        let (handler, badged) = (CPtr::new(slots.start), CPtr::new(slots.start.saturating_add(1)));
        let kernel = self.kernel();
        let dest = self.boot.slot(handler);
        kernel.irq_control_get_ioapic(self.boot.irq_control, dest, hpet.pin(), Trigger::Edge, IRQ).map_err(refused())?;
        let badge = CapData::Badge(Badge(Badge::SIGNAL | Badge::TICK));
        let src = self.boot.slot(self.own_notification()?);
        kernel.cnode_mint(self.boot.slot(badged), src, Rights::WRITE, badge).map_err(refused())?;
        kernel.irq_handler_set_notification(handler.cast(), badged.cast()).map_err(refused())?;
        // The pin is masked until the first of these.
        kernel.irq_handler_ack(handler.cast()).map_err(refused())?;
        Ok(handler.cast())
    }
}
