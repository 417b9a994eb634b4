//! x86_64's timer: the high precision event timer (IA-PC HPET Specification 1.0a): one comparator that interrupts at a deadline.
//!
//! Its interrupt goes to a pin of the I/O APIC. Left out: message-signalled interrupts, which QEMU's HPET has only on
//! request, the other comparators, and the comparator's periodic mode.

use crate::BuildError;
use crate::timer::{OneShot, is_reached};
use platform::{IrqSource, Mmio, OutOfBounds, Paddr, Trigger};

/// General capabilities and id, low and high half (section 2.3.4).
const CAPABILITIES: usize = 0x000;
const PERIOD: usize = 0x004;
/// General configuration (section 2.3.5).
const CONFIGURATION: usize = 0x010;
/// Main counter (section 2.3.7).
const COUNTER: usize = 0x0f0;
/// Of comparator 0: configuration, the pins it can use, the value (sections 2.3.8 and 2.3.9).
const TIMER: usize = 0x100;
const TIMER_PINS: usize = 0x104;
const COMPARATOR: usize = 0x108;

/// [`CONFIGURATION`]: the counter runs.
const ENABLE: u32 = 1 << 0;
/// [`TIMER`]: the comparator interrupts; 32 bits wide.
const INTERRUPT: u32 = 1 << 2;
const NARROW: u32 = 1 << 8;
const ROUTE_SHIFT: u32 = 9;

const FEMTOSECONDS_PER_MICROSECOND: u64 = 1_000_000_000;
/// The slowest counter the specification allows, femtoseconds (section 2.3.4).
const MAX_PERIOD: u32 = 0x05f5_e100;
/// The 8254 timer and comparator 0 of legacy routing share this pin; firmware leaves the 8254 running.
const LEGACY_PIN: u8 = 2;
/// Pins of the ISA interrupts, which no PCI function asserts.
const ISA_PINS: u32 = 16;

/// The timer, halted by [`Hpet::new`].
#[derive(Debug)]
pub struct Hpet<M> {
    registers: M,
    period_fs: u32,
    pin: u8,
}

impl<M: Mmio> Hpet<M> {
    /// Takes the timer over from its previous user and halts it.
    ///
    /// # Errors
    /// One sentence, for registers that are not an HPET's, or for an HPET that lacks a needed feature.
    pub fn new(registers: M) -> Result<Self, &'static str> {
        let read = |offset| registers.read32(offset).map_err(|_| "has registers beyond the page");
        let write = |offset, value| registers.write32(offset, value).map_err(|_| "has registers beyond the page");
        let period_fs = read(PERIOD)?;
        if period_fs == 0 || period_fs > MAX_PERIOD || read(CAPABILITIES)? == 0 {
            return Err("is not where it should be");
        }
        let pin = choose_pin(read(TIMER_PINS)?).ok_or("reaches no pin of the I/O APIC")?;
        write(CONFIGURATION, 0)?;
        write(TIMER, 0)?;
        Ok(Self { registers, period_fs, pin })
    }
}

/// The timer whose registers are at `paddr` and are mapped by `registers`.
///
/// # Errors
/// [`BuildError`] when they cannot be mapped, or are not an HPET's.
pub fn at<M: Mmio>(
    paddr: Paddr,
    registers: impl FnOnce(Paddr) -> Result<M, BuildError>,
) -> Result<Hpet<M>, BuildError> {
    Hpet::new(registers(paddr)?).map_err(|reason| BuildError::specification("HPET", reason))
}

impl<M: Mmio> OneShot for Hpet<M> {
    /// A pin of the I/O APIC, by a rising edge.
    fn source(&self) -> IrqSource {
        IrqSource::Line { line: self.pin, trigger: Trigger::Edge }
    }

    /// Starts the counter from zero, with the comparator interrupting when it is armed.
    fn start(&self) -> Result<(), OutOfBounds> {
        self.registers.write32(COUNTER, 0)?;
        self.registers.write32(COUNTER.wrapping_add(4), 0)?;
        let route = u32::from(self.pin) << ROUTE_SHIFT;
        self.registers.write32(TIMER, route | INTERRUPT | NARROW)?;
        self.registers.write32(CONFIGURATION, ENABLE)
    }

    /// The counter's low half.
    fn now(&self) -> Result<u32, OutOfBounds> {
        self.registers.read32(COUNTER)
    }

    fn arm(&self, deadline: u32) -> Result<bool, OutOfBounds> {
        self.registers.write32(COMPARATOR, deadline)?;
        Ok(is_reached(deadline, self.now()?))
    }

    /// Does nothing, because an edge is over when it came.
    fn disarm(&self) -> Result<(), OutOfBounds> {
        Ok(())
    }

    fn ticks_in(&self, microseconds: u32) -> u32 {
        let femtoseconds = u64::from(microseconds).saturating_mul(FEMTOSECONDS_PER_MICROSECOND);
        let ticks = femtoseconds.checked_div(u64::from(self.period_fs)).unwrap_or(0);
        u32::try_from(ticks).unwrap_or(u32::MAX).clamp(1, i32::MAX as u32)
    }
}

/// The pin to use of those in the mask: an unshared one if there is any.
fn choose_pin(pins: u32) -> Option<u8> {
    let own = pins & !(1 << LEGACY_PIN);
    let isa = own & ((1 << ISA_PINS) - 1);
    let chosen = [isa, own, pins].into_iter().find(|pins| *pins != 0)?;
    u8::try_from(chosen.trailing_zeros()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::rc::Rc;
    use alloc::vec;
    use alloc::vec::Vec;
    use core::cell::RefCell;

    /// Registers that keep what was written, and note it.
    #[derive(Clone)]
    struct Registers {
        values: Rc<RefCell<Vec<u32>>>,
        writes: Rc<RefCell<Vec<(usize, u32)>>>,
    }

    fn all(value: u32) -> Registers {
        Registers { values: Rc::new(RefCell::new(vec![value; 0x50])), writes: Rc::default() }
    }

    impl Mmio for Registers {
        fn len(&self) -> usize {
            0x140
        }
        fn read32(&self, offset: usize) -> Result<u32, OutOfBounds> {
            self.values.borrow().get(offset / 4).copied().ok_or(OutOfBounds)
        }
        fn write32(&self, offset: usize, value: u32) -> Result<(), OutOfBounds> {
            self.writes.borrow_mut().push((offset, value));
            Ok(())
        }
    }

    /// As QEMU's q35 has it: 100 MHz, pins 2, 8, 16 to 23.
    fn q35() -> Registers {
        let registers = all(0);
        let mut values = registers.values.borrow_mut();
        values[CAPABILITIES / 4] = 0x8086_a201;
        values[PERIOD / 4] = 10_000_000;
        values[TIMER / 4] = 0x30;
        values[TIMER_PINS / 4] = 0x00ff_0104;
        drop(values);
        registers
    }

    #[test]
    fn the_comparator_of_a_100_mhz_counter_is_armed_by_deadline() {
        let registers = q35();
        let hpet = Hpet::new(registers.clone()).unwrap();
        assert_eq!(hpet.source(), IrqSource::Line { line: 8, trigger: Trigger::Edge });
        registers.writes.borrow_mut().clear();
        assert_eq!(hpet.ticks_in(50_000), 5_000_000);
        hpet.start().unwrap();
        let writes = registers.writes.borrow().clone();
        assert_eq!(writes[2..], [(0x100, 8 << 9 | 0b1_0000_0100), (0x10, 1)]);
        registers.values.borrow_mut()[COUNTER / 4] = 1000;
        assert_eq!(hpet.arm(1001), Ok(false));
        assert_eq!(hpet.arm(1000), Ok(true), "it may have been passed while it was written");
        assert_eq!(registers.writes.borrow()[4..], [(0x108, 1001), (0x108, 1000)]);
    }

    #[test]
    fn a_deadline_is_reached_across_the_counters_wrap() {
        assert!(!is_reached(5, u32::MAX - 5));
        assert!(is_reached(u32::MAX - 5, 5));
        assert!(is_reached(7, 7) && !is_reached(8, 7));
    }

    #[test]
    fn it_is_halted_before_anything_is_asked_of_it() {
        let registers = q35();
        Hpet::new(registers.clone()).unwrap();
        assert_eq!(*registers.writes.borrow(), [(0x10, 0), (0x100, 0)]);
    }

    #[test]
    fn registers_that_are_all_ones_are_no_timer() {
        assert!(Hpet::new(all(u32::MAX)).is_err());
        assert!(Hpet::new(all(0)).is_err());
    }

    #[test]
    fn a_pin_of_the_legacy_timer_or_of_pci_is_the_last_choice() {
        assert_eq!(choose_pin(0x00ff_0104), Some(8));
        assert_eq!(choose_pin(0x00f0_0004), Some(20));
        assert_eq!(choose_pin(0x0000_0004), Some(2));
        assert_eq!(choose_pin(0), None);
    }
}
