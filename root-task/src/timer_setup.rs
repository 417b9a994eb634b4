//! Start of the machine's timer: its interrupt, and the notification that the interrupt signals.

use crate::boot::Services;
use crate::error::BuildError;
use crate::objects::expect_kind;
use crate::state::Build;
use crate::timer::{OneShot, Timer};
use capdl_spec::ObjectKind;
use platform::{Badge, CPtr, Cap, CapData, IrqHandler, IrqSource, Kernel, Notification, Platform, Rights};

/// The kernel's interrupt it raises. The PCI server's configuration begins after those that are kept for the root task.
const IRQ: u8 = 0;

/// Name of the root task's notification, where it is in the specification.
pub(crate) const EVENT: &str = "root-task.event";

impl<P: Platform> Build<P> {
    /// Binds the root task's notification and starts the timer that signals it, if any component wants ticks.
    pub(crate) fn make_timer<S: Services<P>>(&mut self, services: &S) -> Result<Option<Timer<S::Timer>>, BuildError> {
        let notification = self.own_notification()?.cast::<Notification>();
        let bound = self.kernel().tcb_bind_notification(self.boot.tcb, notification);
        bound.map_err(BuildError::refused("bind", "the root task's notification"))?;
        if self.specification.components.iter().all(|component| component.tick.is_none()) {
            return Ok(None);
        }
        // Without ticks there would be no timeouts: the wait for a controller that does not answer would never end.
        let one_shot = services.timer(|paddr| self.map_own_registers(paddr))?;
        let handler = self.make_handler(one_shot.source())?;
        let timer = Timer::start(handler, one_shot);
        timer.map(Some).map_err(|_| BuildError::OutOfBounds { what: "the timer's registers" })
    }

    /// The root task's notification. It is an object of the specification where a component may signal it, so that the right to
    /// do so stands there, too.
    fn own_notification(&self) -> Result<CPtr, BuildError> {
        match self.find(EVENT) {
            Some(id) => {
                expect_kind(&self.specification, id, ObjectKind::Notification)?;
                Ok(self.objects.cap::<Notification>(id)?.cptr())
            }
            None => Ok(self.objects.own.notification),
        }
    }

    fn make_handler(&mut self, source: IrqSource) -> Result<Cap<IrqHandler>, BuildError> {
        let refused = || BuildError::refused("make the interrupt of", "the timer");
        let cptrs = self.allocator.cptrs(2)?;
        let (handler, badged) = (CPtr::new(cptrs.start), CPtr::new(cptrs.start.saturating_add(1)));
        let kernel = self.kernel();
        let dest = self.boot.absolute(handler);
        kernel.irq_control_get(self.boot.irq_control, dest, source, IRQ).map_err(refused())?;
        let badge = CapData::Badge(Badge(Badge::SIGNAL | Badge::TICK));
        let src = self.boot.absolute(self.own_notification()?);
        kernel.cnode_mint(self.boot.absolute(badged), src, Rights::WRITE, badge).map_err(refused())?;
        kernel.irq_handler_set_notification(handler.cast(), badged.cast()).map_err(refused())?;
        // It is masked until the first acknowledgement.
        kernel.irq_handler_ack(handler.cast()).map_err(refused())?;
        Ok(handler.cast())
    }
}
