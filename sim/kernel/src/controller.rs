//! The interrupt controllers: the I/O APIC's pins on x86_64, a GICv2 with its GICv2m on AArch64.
//!
//! Both mask an interrupt when the kernel requests it. An I/O APIC loses an edge that comes while its pin is masked
//! (82093AA, section 3.4.2); a GIC keeps it pending (Arm IHI 0048, section 3.2.4). A level raises its interrupt again with
//! either. On x86_64 a message bypasses the pins and cannot be masked there; the GICv2m makes an edge of a shared interrupt
//! of it. Left out: priorities, and the real sender of a message.

use crate::Arch;
use crate::rules::Interface;
use platform::{Error, IrqSource, Result, Trigger};
use std::collections::BTreeSet;

/// Pins of the I/O APIC.
pub const IOAPIC_PINS: u8 = 24;
/// Kernel interrupts for user level on x86_64, and the processor's vector of the first.
const VECTORS: u8 = 108;
const FIRST_VECTOR: u8 = 0x30;
/// The address that a device writes to interrupt the processor with APIC id 0 (Intel SDM volume 3, section 11.11.1).
const APIC_MESSAGES: u64 = 0xfee0_0000;
/// Number of the GIC's interrupts that a capability can name, on 5.0.0 with the project's platform.
const OLD_INTIDS: usize = 256;
/// Number of these on later kernels.
const INTIDS: usize = 160;
/// The one by which the kernel measures time slices.
const KERNEL_TIMER: u8 = 27;
/// The register of the GICv2m that a device writes an interrupt's number to, and the numbers that it takes.
const GICV2M_MESSAGES: u64 = 0x0802_0040;
const GICV2M_INTIDS: core::ops::RangeInclusive<u8> = 80..=143;

/// The state of an interrupt line.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Level {
    /// Not asserted.
    #[default]
    Deasserted,
    /// A device asserts the line, whatever voltage that is.
    Asserted,
}

/// A line of a controller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Line {
    level: Level,
    trigger: Option<Trigger>,
    /// The kernel interrupt it raises.
    irq: u8,
    is_masked: bool,
    /// An edge came and was not delivered.
    has_edge: bool,
}

/// The machine's controller.
#[derive(Clone, Debug)]
pub(crate) struct Controller {
    arch: Arch,
    lines: Vec<Line>,
    /// The line that last raised each kernel interrupt: it is the one to mask, even when the handler is gone.
    last: Vec<Option<u8>>,
    /// The lines that request an interrupt now.
    requests: BTreeSet<u8>,
}

impl Controller {
    pub(crate) fn new(arch: Arch, interface: Interface) -> Self {
        let irqs = match (arch, interface) {
            (Arch::X86_64, _) => VECTORS.into(),
            (Arch::Aarch64, Interface::Old) => OLD_INTIDS,
            (Arch::Aarch64, Interface::Current) => INTIDS,
        };
        let line = |irq, trigger| Line { level: Level::Deasserted, trigger, irq, is_masked: true, has_edge: false };
        let (lines, last) = match arch {
            Arch::X86_64 => (vec![line(0, None); usize::from(IOAPIC_PINS)], vec![None; usize::from(VECTORS)]),
            // The platform sets each interrupt's trigger at boot, and nothing changes it.
            Arch::Aarch64 => (0..=u8::MAX)
                .take(irqs)
                .map(|intid| {
                    let is_message = GICV2M_INTIDS.contains(&intid);
                    let trigger = if is_message { Trigger::Edge } else { Trigger::LevelLow };
                    (line(intid, Some(trigger)), Some(intid))
                })
                .unzip(),
        };
        Self { arch, lines, last, requests: BTreeSet::new() }
    }

    /// Number of kernel interrupts.
    pub(crate) const fn irqs(&self) -> usize {
        self.last.len()
    }

    /// Number of kernel interrupts as the kernel's interface gives it: on AArch64 that of the last one.
    pub(crate) const fn irq_count(&self) -> u8 {
        match self.arch {
            Arch::X86_64 => VECTORS,
            Arch::Aarch64 => (self.last.len() - 1) as u8,
        }
    }

    /// Whether an interrupt is the kernel's own.
    pub(crate) fn is_kernels(&self, irq: u8) -> bool {
        self.arch == Arch::Aarch64 && irq == KERNEL_TIMER
    }

    /// Whether a message stays masked until it is acknowledged.
    pub(crate) fn masks_messages(&self) -> bool {
        self.arch == Arch::Aarch64
    }

    /// The address and data of the message that raises `irq`.
    pub(crate) const fn message_of(&self, irq: u8) -> (u64, u32) {
        match self.arch {
            Arch::X86_64 => (APIC_MESSAGES, FIRST_VECTOR as u32 + irq as u32),
            Arch::Aarch64 => (GICV2M_MESSAGES, irq as u32),
        }
    }

    /// Makes `source` raise `irq` from now on.
    ///
    /// # Errors
    /// [`Error::RangeError`] for a pin that does not exist.
    pub(crate) fn connect(&mut self, source: IrqSource, irq: u8) -> Result<()> {
        if self.arch == Arch::Aarch64 {
            return Ok(());
        }
        let pin = match source {
            IrqSource::Message { .. } => None,
            IrqSource::Line { line, .. } if usize::from(line) >= self.lines.len() => {
                return Err(Error::RangeError { min: 0, max: u64::from(IOAPIC_PINS) - 1 });
            }
            IrqSource::Line { line, trigger } => {
                self.change(line, |pin| (pin.trigger, pin.irq) = (Some(trigger), irq));
                Some(line)
            }
        };
        self.last[usize::from(irq)] = pin;
        Ok(())
    }

    pub(crate) fn set_masked(&mut self, irq: u8, is_masked: bool) {
        if let Some(line) = self.last[usize::from(irq)] {
            self.change(line, |line| line.is_masked = is_masked);
        }
    }

    pub(crate) fn is_line_masked(&self, line: u8) -> bool {
        self.lines.get(usize::from(line)).is_none_or(|line| line.is_masked)
    }

    /// Sets the level of a line; ignores lines that do not exist.
    pub(crate) fn set_level(&mut self, line: u8, level: Level) {
        let keeps_edges = self.arch == Arch::Aarch64;
        self.change(line, |line| {
            let before = core::mem::replace(&mut line.level, level);
            let rose = (before, level) == (Level::Deasserted, Level::Asserted);
            line.has_edge = if keeps_edges { line.has_edge || rose } else { !line.is_masked && rose };
        });
    }

    /// Changes a line, unless it does not exist, and notes whether it requests an interrupt then.
    fn change(&mut self, number: u8, change: impl FnOnce(&mut Line)) {
        let Some(line) = self.lines.get_mut(usize::from(number)) else { return };
        change(line);
        if line.requests() {
            self.requests.insert(number)
        } else {
            self.requests.remove(&number)
        };
    }

    /// Handles a device's write of `data` to `address`: returns the kernel interrupt, if no line is between.
    pub(crate) fn message(&mut self, address: u64, data: u32) -> Option<u8> {
        match self.arch {
            Arch::X86_64 => {
                let vector = (address & !0xfff == APIC_MESSAGES).then_some((data & 0xff) as u8)?;
                vector.checked_sub(FIRST_VECTOR).filter(|irq| *irq < VECTORS)
            }
            Arch::Aarch64 => {
                let intid = u8::try_from(data & 0x3ff).ok().filter(|intid| GICV2M_INTIDS.contains(intid))?;
                if address == GICV2M_MESSAGES {
                    self.set_level(intid, Level::Asserted);
                    self.set_level(intid, Level::Deasserted);
                }
                None
            }
        }
    }

    /// Returns the kernel interrupt of an unmasked line that requests one.
    pub(crate) fn accept(&mut self) -> Option<u8> {
        let number = *self.requests.first()?;
        self.change(number, Line::accept);
        Some(self.lines[usize::from(number)].irq)
    }
}

impl Line {
    /// Whether the line requests its kernel interrupt.
    fn requests(&self) -> bool {
        let asks = match self.trigger {
            None => false,
            Some(Trigger::Edge) => self.has_edge,
            Some(Trigger::LevelLow) => self.level == Level::Asserted,
        };
        asks && !self.is_masked
    }

    /// Raises its interrupt.
    fn accept(&mut self) {
        self.has_edge = false;
        // The kernel masks the line that raised the interrupt last. If that is another line, this one must not raise it for
        // ever.
        self.is_masked = self.trigger == Some(Trigger::LevelLow);
    }
}
