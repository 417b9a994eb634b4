//! Interrupts: the kernel's table of handlers, the invocations on them, and the kernel's reaction to an interrupt.
//!
//! On an interrupt the kernel masks its line until the handler is acknowledged. Neighbour: `controller` has the lines: which
//! of them request an interrupt, and which can be masked.

use crate::arena::ThreadId;
use crate::capability::Capability;
use crate::controller::Level;
use crate::invocation::{Found, Invocation, Outcome, Stop};
use crate::kernel::Kernel;
use crate::slots::SlotId;
use crate::{Arch, label};
use platform::{AbsoluteCPtr, CPtr, Cap, Error, IrqControl, IrqHandler, IrqSource, Notification, Result, Trigger};

impl Kernel {
    /// See [`platform::Kernel::irq_control_get`].
    ///
    /// # Errors
    /// The kernel's errors, as the seam returns them.
    pub fn irq_control_get(
        &mut self,
        thread: ThreadId,
        control: Cap<IrqControl>,
        dest: AbsoluteCPtr,
        source: IrqSource,
        irq: u8,
    ) -> Result<()> {
        let level = |trigger| u64::from(trigger == Trigger::LevelLow);
        let (slot, depth) = (dest.index, u64::from(dest.depth));
        let (label, words, irq) = match (self.arch, source) {
            (Arch::X86_64, IrqSource::Line { line, trigger }) => {
                let pin = [0, line.into(), level(trigger), level(trigger)];
                (label::IRQ_CONTROL_GET_IOAPIC, get_words(dest, pin, irq).to_vec(), irq)
            }
            (Arch::X86_64, IrqSource::Message { requester_id }) => {
                let id = u64::from(requester_id);
                let function = [id >> 8, id >> 3 & 0x1f, id & 7, 0];
                (label::IRQ_CONTROL_GET_MSI, get_words(dest, function, irq).to_vec(), irq)
            }
            (Arch::Aarch64, IrqSource::Line { line, .. }) => {
                (label::IRQ_CONTROL_GET, vec![line.into(), slot, depth], line)
            }
            (Arch::Aarch64, IrqSource::Message { .. }) => (label::IRQ_CONTROL_GET, vec![irq.into(), slot, depth], irq),
        };
        let invocation = Invocation { service: control.cptr(), label, words: &words, caps: &[dest.root.cptr()] };
        let made = self.invoke(thread, &invocation, |kernel, found| {
            let slot = kernel.check_handler(found, dest, irq)?;
            kernel.interrupts.controller.connect(source, irq)?;
            kernel.make_handler(found.slot, slot, irq, source);
            Ok(())
        });
        self.deliver_lines();
        made
    }

    fn check_handler(&self, found: &Found, dest: AbsoluteCPtr, irq: u8) -> Outcome<SlotId> {
        let Capability::IrqControl = found.cap else { return Err(Stop::OtherKind) };
        found.all_words()?;
        let root = found.cap(0)?;
        let irqs = self.interrupts.sources.len();
        if usize::from(irq) >= irqs {
            return Err(Error::RangeError { min: 0, max: irqs as u64 - 1 }.into());
        }
        let is_active =
            self.interrupts.sources[usize::from(irq)].is_some() || self.interrupts.controller.is_kernels(irq);
        let taken = if is_active { Err(Error::RevokeFirst) } else { Ok(()) };
        // The x86_64 kernel of 5.0.0 checks the slot first, the others the interrupt.
        if self.arch == Arch::Aarch64 || self.is_current() {
            taken?;
        }
        let slot = self.resolve(&self.slots[root].cap, dest.index, dest.depth)?;
        self.ensure_empty(slot)?;
        taken?;
        Ok(slot)
    }

    fn make_handler(&mut self, control: SlotId, dest: SlotId, irq: u8, source: IrqSource) {
        self.interrupts.sources[usize::from(irq)] = Some(source);
        self.interrupts.controller.set_masked(irq, false);
        self.insert_derived(Capability::IrqHandler(irq), control, dest);
    }

    /// See [`platform::Kernel::msi_message`].
    #[must_use]
    pub const fn msi_message(&self, irq: u8) -> (u64, u32) {
        self.interrupts.controller.message_of(irq)
    }

    /// See [`platform::Kernel::irq_masks_messages`].
    #[must_use]
    pub fn irq_masks_messages(&self) -> bool {
        self.interrupts.controller.masks_messages()
    }

    /// See [`platform::Kernel::irq_count`].
    #[must_use]
    pub const fn irq_count(&self) -> u8 {
        self.interrupts.controller.irq_count()
    }

    /// See [`platform::Kernel::irq_handler_ack`].
    ///
    /// # Errors
    /// The kernel's errors, as the seam returns them.
    pub fn irq_handler_ack(&mut self, thread: ThreadId, handler: Cap<IrqHandler>) -> Result<()> {
        self.on_handler(thread, handler, (label::IRQ_ACK, &[]), |kernel, _, irq| {
            kernel.interrupts.controller.set_masked(irq, false);
            Ok(())
        })
    }

    /// See [`platform::Kernel::irq_handler_set_notification`].
    ///
    /// # Errors
    /// The kernel's errors, as the seam returns them.
    pub fn irq_handler_set_notification(
        &mut self,
        thread: ThreadId,
        handler: Cap<IrqHandler>,
        notification: Cap<Notification>,
    ) -> Result<()> {
        let caps = [notification.cptr()];
        self.on_handler(thread, handler, (label::IRQ_SET_NOTIFICATION, &caps), |kernel, found, irq| {
            let source = found.cap(0)?;
            let cap = kernel.slots[source].cap;
            match cap {
                Capability::Notification { rights, .. } if rights.write => {}
                _ => return Err(Error::InvalidCapability(0).into()),
            }
            let slot = kernel.irq_slot(irq);
            kernel.delete_simple(slot);
            kernel.insert_derived(cap, source, slot);
            Ok(())
        })
    }

    /// See [`platform::Kernel::irq_handler_clear`].
    ///
    /// # Errors
    /// The kernel's errors, as the seam returns them.
    pub fn irq_handler_clear(&mut self, thread: ThreadId, handler: Cap<IrqHandler>) -> Result<()> {
        self.on_handler(thread, handler, (label::IRQ_CLEAR, &[]), |kernel, _, irq| {
            kernel.delete_simple(kernel.irq_slot(irq));
            Ok(())
        })
    }

    fn on_handler(
        &mut self,
        thread: ThreadId,
        handler: Cap<IrqHandler>,
        (label, caps): (u32, &[CPtr]),
        act: impl FnOnce(&mut Self, &Found, u8) -> Outcome<()>,
    ) -> Result<()> {
        let invocation = Invocation { service: handler.cptr(), label, words: &[], caps };
        let done = self.invoke(thread, &invocation, |kernel, found| match found.cap {
            Capability::IrqHandler(irq) => act(kernel, found, irq),
            _ => Err(Stop::OtherKind),
        });
        self.deliver_lines();
        done
    }

    pub(crate) fn irq_slot(&self, irq: u8) -> SlotId {
        self.interrupts.first.offset(irq.into())
    }

    /// Removes the handler of an interrupt.
    pub(crate) fn release_irq(&mut self, irq: u8) {
        self.interrupts.sources[usize::from(irq)] = None;
        self.interrupts.controller.set_masked(irq, true);
    }

    /// Handles a device's write of `data` to `address`, which may be a message-signalled interrupt of this processor.
    pub fn message_interrupt(&mut self, address: u64, data: u32) {
        match self.interrupts.controller.message(address, data) {
            Some(irq) => self.handle(irq),
            None => self.deliver_lines(),
        }
    }

    /// Sets the level of a line of the interrupt controller: a pin of the I/O APIC, an interrupt of the GIC.
    pub fn line_interrupt(&mut self, line: u8, level: Level) {
        self.interrupts.controller.set_level(line, level);
        self.deliver_lines();
    }

    /// Raises the interrupts that unmasked lines request, until there is none.
    fn deliver_lines(&mut self) {
        while let Some(irq) = self.interrupts.controller.accept() {
            self.handle(irq);
        }
    }

    fn handle(&mut self, irq: u8) {
        if self.interrupts.sources[usize::from(irq)].is_some() {
            match self.slots[self.irq_slot(irq)].cap {
                Capability::Notification { notification, badge, rights } if rights.write => {
                    self.signal_notification(notification, badge);
                }
                _ => self.interrupts.undelivered += 1,
            }
        }
        self.interrupts.controller.set_masked(irq, true);
        self.leave();
    }

    /// The source of each kernel interrupt that has a handler.
    pub fn irq_sources(&self) -> impl Iterator<Item = (u8, IrqSource)> {
        let sources = self.interrupts.sources.iter().zip(0..=u8::MAX);
        sources.filter_map(|(source, irq)| Some((irq, (*source)?)))
    }

    /// Whether a line is masked, so that an edge of it is lost on x86_64. True for lines that do not exist.
    #[must_use]
    pub fn is_line_masked(&self, line: u8) -> bool {
        self.interrupts.controller.is_line_masked(line)
    }

    /// Number of interrupts that had no notification to signal.
    #[must_use]
    pub const fn undelivered_interrupts(&self) -> u64 {
        self.interrupts.undelivered
    }
}

/// The arguments of the invocations that make a handler on x86_64.
fn get_words(dest: AbsoluteCPtr, source: [u64; 4], irq: u8) -> [u64; 7] {
    let [third, fourth, fifth, sixth] = source;
    [dest.index, dest.depth.into(), third, fourth, fifth, sixth, irq.into()]
}
