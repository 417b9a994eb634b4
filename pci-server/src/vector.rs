//! An interrupt made for one vector of a claim, or for a line that claims share: a kernel interrupt, its handler,
//! and the line it comes by, if it does.

use crate::bound::Vector;
use crate::resources::{Resources, refused};
use pci_api::Refusal;
use pci_spec::Bdf;
use platform::log::error;
use platform::{Cap, IrqHandler, IrqSource, Kernel, Platform, Trigger};

impl Vector {
    /// Makes the handler of a fresh kernel interrupt: of interrupt line `line`, or of messages. Bound to nothing yet.
    ///
    /// # Errors
    ///
    /// [`Refusal::Exhausted`], [`Refusal::Kernel`].
    pub fn make<P: Platform>(
        resources: &mut Resources<P>,
        index: u16,
        line: Option<u8>,
        requester_id: Bdf,
    ) -> Result<Self, Refusal> {
        let irq = resources.irqs.take()?;
        let made = Self::of_irq(resources, index, irq, line, requester_id);
        made.inspect_err(|_| resources.irqs.put(irq))
    }

    /// Makes the handler of the kernel interrupt `irq`, which the caller has taken and keeps when this fails.
    ///
    /// # Errors
    ///
    /// As [`Vector::make`].
    pub fn of_irq<P: Platform>(
        resources: &mut Resources<P>,
        index: u16,
        irq: u8,
        line: Option<u8>,
        requester_id: Bdf,
    ) -> Result<Self, Refusal> {
        let handler = handler(resources, irq, line, requester_id)?;
        Ok(Self { index, irq, line, handler })
    }

    /// Ends the interrupt and every capability to its handler. An interrupt that the kernel refuses to end is logged and never
    /// used again.
    pub fn unmake<P: Platform>(self, resources: &mut Resources<P>) {
        if let Err(reason) = resources.kernel().irq_handler_clear(self.handler) {
            error!("the kernel refused clearing an interrupt: {}", reason);
        }
        // An interrupt whose handler still exists must not be used again.
        if resources.revoke_and_delete(self.handler.cptr()).is_ok() {
            resources.irqs.put(self.irq);
        }
    }
}

fn handler<P: Platform>(
    resources: &mut Resources<P>,
    irq: u8,
    line: Option<u8>,
    requester_id: Bdf,
) -> Result<Cap<IrqHandler>, Refusal> {
    let cptr = resources.cptrs.take()?;
    let (kernel, control, dest) = (resources.kernel(), resources.irq_control, resources.absolute(cptr));
    let source = match line {
        None => IrqSource::Message { requester_id: requester_id.to_raw() },
        Some(line) => IrqSource::Line { line, trigger: Trigger::LevelLow },
    };
    let made = kernel.irq_control_get(control, dest, source, irq).map_err(refused("making a handler of an interrupt"));
    if let Err(refusal) = made {
        resources.cptrs.put(cptr);
        return Err(refusal);
    }
    Ok(cptr.cast())
}
