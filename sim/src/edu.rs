//! A model of QEMU's `edu` device (QEMU's `docs/specs/edu.rst`): registers, an interrupt pin, MSI with one vector, and a
//! computation that raises an interrupt when it ends.
//!
//! As in QEMU's, the pin changes only while MSI is off. Its function is `sim_pci::FunctionConfig::edu`. Left out: its DMA.

use sim_pci::{Device, Interrupts, Level, Reset, Upstream};

/// Registers.
const IDENTIFICATION: u64 = 0x00;
const LIVENESS: u64 = 0x04;
const FACTORIAL: u64 = 0x08;
const STATUS: u64 = 0x20;
const INTERRUPT_STATUS: u64 = 0x24;
const RAISE: u64 = 0x60;
const ACKNOWLEDGE: u64 = 0x64;

/// Version 1.0.
const IDENTITY: u32 = 0x0100_00ed;
/// Bits of the status register: a factorial is being computed; an interrupt is raised at its end.
const COMPUTING: u32 = 0x01;
const INTERRUPT_WHEN_COMPUTED: u32 = 0x80;
/// The bit of the interrupt status that the end of a computation sets.
const COMPUTED: u32 = 0x01;
/// Bytes of an access to these registers.
const ACCESS: u8 = 4;
/// Factorials of this number and larger ones are 0 in 32 bits.
const VANISHES: u32 = 34;

/// The device.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Edu {
    liveness: u32,
    factorial: u32,
    interrupts_when_computed: bool,
    raised: u32,
    /// End of the computation: a nanosecond for each step.
    computed_at_ns: Option<u64>,
}

impl Edu {
    fn raise(&mut self, bits: u32, function: &mut dyn Upstream) {
        self.raised |= bits;
        match function.interrupts() {
            _ if self.raised == 0 => {}
            Interrupts::Pin => function.pin(Level::Asserted),
            Interrupts::Msi | Interrupts::Msix => function.interrupt(0),
        }
    }

    fn acknowledge(&mut self, bits: u32, function: &mut dyn Upstream) {
        self.raised &= !bits;
        if self.raised == 0 && function.interrupts() == Interrupts::Pin {
            function.pin(Level::Deasserted);
        }
    }
}

impl Device for Edu {
    fn read(&mut self, bar: u8, offset: u64, bytes: u8, _now_ns: u64) -> u64 {
        let computing = if self.computed_at_ns.is_some() { COMPUTING } else { 0 };
        let interrupts = if self.interrupts_when_computed { INTERRUPT_WHEN_COMPUTED } else { 0 };
        match offset {
            _ if bar != 0 || bytes != ACCESS => u64::MAX,
            IDENTIFICATION => IDENTITY.into(),
            LIVENESS => (!self.liveness).into(),
            FACTORIAL => self.factorial.into(),
            STATUS => (computing | interrupts).into(),
            INTERRUPT_STATUS => self.raised.into(),
            _ => u64::MAX,
        }
    }

    fn write(&mut self, bar: u8, offset: u64, bytes: u8, value: u64, now_ns: u64, function: &mut dyn Upstream) {
        let value = value as u32;
        match offset {
            _ if bar != 0 || bytes != ACCESS => {}
            LIVENESS => self.liveness = value,
            FACTORIAL if self.computed_at_ns.is_none() => {
                self.factorial = value;
                self.computed_at_ns = Some(now_ns.saturating_add(value.into()));
            }
            STATUS => self.interrupts_when_computed = value & INTERRUPT_WHEN_COMPUTED != 0,
            RAISE => self.raise(value, function),
            ACKNOWLEDGE => self.acknowledge(value, function),
            _ => {}
        }
    }

    fn reset(&mut self, _reset: Reset, _now_ns: u64) {
        *self = Self::default();
    }

    fn advance(&mut self, now_ns: u64, function: &mut dyn Upstream) {
        if self.computed_at_ns.is_some_and(|at_ns| at_ns <= now_ns) {
            self.computed_at_ns = None;
            let of = self.factorial;
            self.factorial = if of < VANISHES { (1..=of).fold(1, u32::wrapping_mul) } else { 0 };
            if self.interrupts_when_computed {
                self.raise(COMPUTED, function);
            }
        }
    }

    fn next_event_ns(&self) -> Option<u64> {
        self.computed_at_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sim_page::SharedPage;
    use sim_pci::Blocked;

    /// Receives the messages and pin changes that the device sends.
    struct Up {
        by: Interrupts,
        messages: u32,
        level: Level,
    }

    impl Upstream for Up {
        fn dma_read(&mut self, _: u64, _: &mut [u8]) -> Result<(), Blocked> {
            Err(Blocked::Refused)
        }

        fn dma_write(&mut self, _: u64, _: &[u8]) -> Result<(), Blocked> {
            Err(Blocked::Refused)
        }

        fn dma_read_pages(&mut self, _: u64, _: usize, _: &mut Vec<SharedPage>) -> Result<(), Blocked> {
            Err(Blocked::Refused)
        }

        fn dma_write_pages(&mut self, _: u64, _: &[SharedPage]) -> Result<(), Blocked> {
            Err(Blocked::Refused)
        }

        fn interrupt(&mut self, _: u16) {
            self.messages += 1;
        }

        fn pin(&mut self, level: Level) {
            self.level = level;
        }

        fn interrupts(&self) -> Interrupts {
            self.by
        }

        fn is_bus_master(&self) -> bool {
            true
        }
    }

    fn up(by: Interrupts) -> Up {
        Up { by, messages: 0, level: Level::Deasserted }
    }

    #[test]
    fn a_pin_falls_with_the_last_bit_and_each_raising_is_a_message() {
        let (mut edu, mut pin, mut msi) = (Edu::default(), up(Interrupts::Pin), up(Interrupts::Msi));
        edu.write(0, RAISE, ACCESS, 3, 0, &mut pin);
        edu.write(0, ACKNOWLEDGE, ACCESS, 1, 0, &mut pin);
        assert_eq!((pin.level, edu.read(0, INTERRUPT_STATUS, ACCESS, 0)), (Level::Asserted, 2));
        edu.write(0, ACKNOWLEDGE, ACCESS, 2, 0, &mut pin);
        assert_eq!((pin.level, pin.messages), (Level::Deasserted, 0));
        edu.write(0, RAISE, ACCESS, 1, 0, &mut msi);
        edu.write(0, RAISE, ACCESS, 2, 0, &mut msi);
        assert_eq!((msi.messages, msi.level), (2, Level::Deasserted));
    }

    #[test]
    fn a_computation_ends_with_an_interrupt_where_it_was_asked_for() {
        let (mut edu, mut msi) = (Edu::default(), up(Interrupts::Msi));
        edu.write(0, FACTORIAL, ACCESS, 5, 100, &mut msi);
        assert_eq!((edu.read(0, STATUS, ACCESS, 100), edu.next_event_ns()), (1, Some(105)));
        edu.advance(105, &mut msi);
        assert_eq!((edu.read(0, FACTORIAL, ACCESS, 105), msi.messages), (120, 0));
        edu.write(0, STATUS, ACCESS, 0x80, 200, &mut msi);
        edu.write(0, FACTORIAL, ACCESS, 34, 200, &mut msi);
        edu.advance(234, &mut msi);
        assert_eq!((edu.read(0, FACTORIAL, ACCESS, 234), msi.messages), (0, 1));
        assert_eq!(edu.read(0, INTERRUPT_STATUS, ACCESS, 234), 1);
    }
}
