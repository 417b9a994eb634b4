//! Interrupts: pins of the I/O APIC and message-signalled ones, their handlers, and what the kernel does when one
//! comes.
//!
//! The kernel masks a pin at its interrupt until the handler is acknowledged; messages it cannot mask. An edge that
//! comes while its pin is masked is lost, as the I/O APIC has it (82093AA), and a level asks again. Left out: the local
//! APIC's priorities, and who a message really came from.

use crate::Kernel;
use crate::arena::ThreadId;
use crate::capability::Capability;
use crate::invocation::{Found, Invocation, Outcome, Stop};
use crate::label;
use crate::slots::SlotId;
use platform::{AbsoluteCPtr, CPtr, Cap, Error, IrqControl, IrqHandler, IrqSource, Notification, Result, Trigger};

/// Kernel interrupts for user level, and log2 of the slots they take.
const IRQS: u8 = 108;
const IRQ_SLOT_BITS: u8 = 7;
/// The processor's vector of the first.
const FIRST_VECTOR: u8 = 0x30;
/// Pins of the I/O APIC.
pub const IOAPIC_PINS: u8 = 24;
/// Where a device writes to interrupt the processor with APIC id 0 (Intel SDM volume 3, section 11.11.1).
const MSI_ADDRESS: u64 = 0xfee0_0000;

/// What an interrupt line says.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Level {
    /// Nothing.
    #[default]
    Deasserted,
    /// Somebody asks for attention, whatever voltage that is.
    Asserted,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Pin {
    level: Level,
    trigger: Option<Trigger>,
    vector: u8,
    is_masked: bool,
    /// An edge just came.
    has_edge: bool,
}

/// The interrupt controllers and the kernel's table of handlers.
#[derive(Clone, Debug)]
pub(crate) struct Interrupts {
    /// The notifications to signal, a slot for each interrupt.
    first: SlotId,
    /// What raises those that have a handler.
    sources: [Option<IrqSource>; IRQS as usize],
    /// What raised them last: masking goes there even when there is no handler any more.
    last: [Option<IrqSource>; IRQS as usize],
    pins: [Pin; IOAPIC_PINS as usize],
    undelivered: u64,
}

impl Interrupts {
    pub(crate) fn new(slots: &mut crate::slots::Slots) -> Self {
        let masked = Pin { is_masked: true, ..Pin::default() };
        Self {
            first: slots.add(IRQ_SLOT_BITS),
            sources: [None; IRQS as usize],
            last: [None; IRQS as usize],
            pins: [masked; IOAPIC_PINS as usize],
            undelivered: 0,
        }
    }
}

impl Kernel {
    /// See [`platform::Kernel::irq_control_get`].
    ///
    /// # Errors
    /// The kernel's, as the seam gives them.
    pub fn irq_control_get(
        &mut self,
        thread: ThreadId,
        control: Cap<IrqControl>,
        dest: AbsoluteCPtr,
        source: IrqSource,
        irq: u8,
    ) -> Result<()> {
        let (label, [third, fourth, fifth, sixth]) = match source {
            IrqSource::Line { line, trigger } => {
                let level = u64::from(trigger == Trigger::LevelLow);
                (label::IRQ_CONTROL_GET_IOAPIC, [0, line.into(), level, level])
            }
            IrqSource::Message { requester_id } => {
                let id = u64::from(requester_id);
                (label::IRQ_CONTROL_GET_MSI, [id >> 8, id >> 3 & 0x1f, id & 7, 0])
            }
        };
        let words = [dest.index, dest.depth.into(), third, fourth, fifth, sixth, irq.into()];
        let invocation = Invocation { service: control.cptr(), label, words: &words, caps: &[dest.root.cptr()] };
        let made = self.invoke(thread, &invocation, |kernel, found| {
            let slot = kernel.check_handler(found, dest, irq)?;
            if let IrqSource::Line { line, trigger } = source {
                if line >= IOAPIC_PINS {
                    return Err(Error::RangeError { min: 0, max: u64::from(IOAPIC_PINS) - 1 }.into());
                }
                let controller = &mut kernel.interrupts.pins[usize::from(line)];
                controller.trigger = Some(trigger);
                controller.vector = FIRST_VECTOR + irq;
            }
            kernel.make_handler(found.slot, slot, irq, source);
            Ok(())
        });
        if matches!(source, IrqSource::Line { .. }) {
            self.deliver_pins();
        }
        made
    }

    fn check_handler(&self, found: &Found, dest: AbsoluteCPtr, irq: u8) -> Outcome<SlotId> {
        let Capability::IrqControl = found.cap else { return Err(Stop::OtherKind) };
        found.all_words()?;
        let root = found.cap(0)?;
        if irq >= IRQS {
            return Err(Error::RangeError { min: 0, max: u64::from(IRQS) - 1 }.into());
        }
        let slot = self.resolve(&self.slots[root].cap, dest.index, dest.depth)?;
        self.ensure_empty(slot)?;
        if self.interrupts.sources[usize::from(irq)].is_some() {
            return Err(Error::RevokeFirst.into());
        }
        Ok(slot)
    }

    fn make_handler(&mut self, control: SlotId, dest: SlotId, irq: u8, source: IrqSource) {
        self.interrupts.sources[usize::from(irq)] = Some(source);
        self.interrupts.last[usize::from(irq)] = Some(source);
        self.set_masked(irq, false);
        self.insert_derived(Capability::IrqHandler(irq), control, dest);
    }

    /// See [`platform::Kernel::msi_message`].
    #[must_use]
    pub const fn msi_message(&self, irq: u8) -> (u64, u32) {
        (MSI_ADDRESS, FIRST_VECTOR as u32 + irq as u32)
    }

    /// See [`platform::Kernel::irq_count`].
    #[must_use]
    pub const fn irq_count(&self) -> u8 {
        IRQS
    }

    /// See [`platform::Kernel::irq_handler_ack`].
    ///
    /// # Errors
    /// The kernel's, as the seam gives them.
    pub fn irq_handler_ack(&mut self, thread: ThreadId, handler: Cap<IrqHandler>) -> Result<()> {
        self.on_handler(thread, handler, (label::IRQ_ACK, &[]), |kernel, _, irq| {
            kernel.set_masked(irq, false);
            Ok(())
        })
    }

    /// See [`platform::Kernel::irq_handler_set_notification`].
    ///
    /// # Errors
    /// The kernel's, as the seam gives them.
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
    /// The kernel's, as the seam gives them.
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
        self.deliver_pins();
        done
    }

    pub(crate) fn irq_slot(&self, irq: u8) -> SlotId {
        self.interrupts.first.offset(irq.into())
    }

    /// An interrupt has no handler any more.
    pub(crate) fn release_irq(&mut self, irq: u8) {
        self.interrupts.sources[usize::from(irq)] = None;
        self.set_masked(irq, true);
    }

    fn set_masked(&mut self, irq: u8, is_masked: bool) {
        if let Some(IrqSource::Line { line: pin, .. }) = self.interrupts.last[usize::from(irq)] {
            self.interrupts.pins[usize::from(pin)].is_masked = is_masked;
        }
    }

    /// A device wrote `data` to `address`, which may be a message-signalled interrupt of this processor.
    pub fn message_interrupt(&mut self, address: u64, data: u32) {
        if address & !0xfff == MSI_ADDRESS {
            self.handle_vector((data & 0xff) as u8);
        }
    }

    /// A line at a pin of the I/O APIC says something else. Pins that there are not are nobody's.
    pub fn pin_interrupt(&mut self, pin: u8, level: Level) {
        let Some(controller) = self.interrupts.pins.get_mut(usize::from(pin)) else { return };
        let before = core::mem::replace(&mut controller.level, level);
        controller.has_edge = !controller.is_masked && (before, level) == (Level::Deasserted, Level::Asserted);
        self.deliver_pins();
    }

    /// Raises what unmasked pins ask for, until none does.
    fn deliver_pins(&mut self) {
        while let Some(vector) = self.interrupts.pins.iter_mut().find_map(Pin::accept) {
            self.handle_vector(vector);
        }
    }

    fn handle_vector(&mut self, vector: u8) {
        let Some(irq) = vector.checked_sub(FIRST_VECTOR).filter(|irq| *irq < IRQS) else { return };
        if self.interrupts.sources[usize::from(irq)].is_some() {
            match self.slots[self.irq_slot(irq)].cap {
                Capability::Notification { notification, badge, rights } if rights.write => {
                    self.signal_notification(notification, badge);
                }
                _ => self.interrupts.undelivered += 1,
            }
        }
        self.set_masked(irq, true);
        self.leave();
    }

    /// What raises each kernel interrupt that has a handler.
    pub fn irq_sources(&self) -> impl Iterator<Item = (u8, IrqSource)> {
        let sources = self.interrupts.sources.iter().zip(0u8..);
        sources.filter_map(|(source, irq)| Some((irq, (*source)?)))
    }

    /// Interrupts that came and had nobody to signal.
    #[must_use]
    pub const fn undelivered_interrupts(&self) -> u64 {
        self.interrupts.undelivered
    }
}

impl Pin {
    /// The vector to raise, if the pin asks for it now.
    fn accept(&mut self) -> Option<u8> {
        let asks = match self.trigger? {
            Trigger::Edge => self.has_edge,
            Trigger::LevelLow => self.level == Level::Asserted,
        };
        if !asks || self.is_masked {
            return None;
        }
        self.has_edge = false;
        // Whoever handles the vector masks its pin; should that be another, this one must not ask for ever.
        self.is_masked = self.trigger == Some(Trigger::LevelLow);
        Some(self.vector)
    }
}
