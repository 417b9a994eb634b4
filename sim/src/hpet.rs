//! The high precision event timer (IA-PC HPET Specification 1.0a), as a driver of one comparator needs it: a 100 MHz
//! counter, and comparator 0. It raises an edge at a pin of the I/O APIC when the counter's low half reaches it.
//!
//! Left out: the other comparators, periodic and 64-bit mode of this one, level-triggered and message-signalled interrupts, legacy routing.

/// Physical address of the registers.
pub(crate) const BASE: u64 = 0xfed0_0000;
/// Bytes of registers.
pub(crate) const BYTES: u64 = 0x1000;

/// Nanoseconds of a tick of the counter.
const TICK_NS: u64 = 10;
const PERIOD_FS: u32 = 10_000_000;
/// Vendor 8086h, one comparator, 64-bit counter, revision 1.
const CAPABILITIES: u32 = 0x8086_2001;
/// Pins comparator 0 can use, as on q35.
const PINS: u32 = 0x00ff_0104;
/// Comparator 0 is 32 bits wide.
const TIMER_CAPABILITIES: u32 = 0;

const ENABLE: u32 = 1 << 0;
const INTERRUPT: u32 = 1 << 2;
const TIMER_WRITABLE: u32 = 0x3e00 | INTERRUPT | 1 << 8;

/// The timer.
#[derive(Debug, Default)]
pub(crate) struct Hpet {
    configuration: u32,
    timer: u32,
    /// Virtual time at which the counter was or would have been zero.
    epoch_ns: u64,
    /// The counter's value while it is halted.
    halted_at: u64,
    comparator: u32,
    /// The counter value at which the comparator matches next, in ticks of the whole counter.
    deadline: Option<u64>,
}

impl Hpet {
    pub(crate) fn read(&self, offset: u64, now_ns: u64) -> u32 {
        match offset {
            0x000 => CAPABILITIES,
            0x004 => PERIOD_FS,
            0x010 => self.configuration,
            0x0f0 => self.counter(now_ns) as u32,
            0x0f4 => (self.counter(now_ns) >> 32) as u32,
            0x100 => self.timer | TIMER_CAPABILITIES,
            0x104 => PINS,
            0x108 => self.comparator,
            _ => 0,
        }
    }

    pub(crate) fn write(&mut self, offset: u64, value: u32, now_ns: u64) {
        match offset {
            0x010 => {
                let counter = self.counter(now_ns);
                self.configuration = value & ENABLE;
                self.set_counter(counter, now_ns);
            }
            0x0f0 => self.set_counter(self.counter(now_ns) >> 32 << 32 | u64::from(value), now_ns),
            0x0f4 => self.set_counter(self.counter(now_ns) & 0xffff_ffff | u64::from(value) << 32, now_ns),
            0x100 => self.timer = value & TIMER_WRITABLE,
            0x108 => {
                self.comparator = value;
                let counter = self.counter(now_ns);
                // A value behind the counter, or equal to it, matches only after the counter's low half has wrapped around.
                let distance = value.wrapping_sub(counter as u32).wrapping_sub(1);
                self.deadline = Some(counter + 1 + u64::from(distance));
            }
            _ => {}
        }
    }

    /// Returns the time of the next interrupt.
    pub(crate) fn next_event_ns(&self) -> Option<u64> {
        let armed = self.configuration & ENABLE != 0 && self.timer & INTERRUPT != 0;
        let deadline = self.deadline.filter(|_| armed)?;
        Some(self.epoch_ns.saturating_add(deadline.saturating_mul(TICK_NS)))
    }

    /// Returns the pin of the interrupt if its time has come. The next match is after the counter's low half has wrapped around.
    pub(crate) fn expire(&mut self, now_ns: u64) -> Option<u8> {
        self.next_event_ns().filter(|at_ns| *at_ns <= now_ns)?;
        self.deadline = self.deadline.map(|deadline| deadline.saturating_add(1 << 32));
        Some((self.timer >> 9 & 0x1f) as u8)
    }

    fn counter(&self, now_ns: u64) -> u64 {
        if self.configuration & ENABLE == 0 { self.halted_at } else { now_ns.saturating_sub(self.epoch_ns) / TICK_NS }
    }

    fn set_counter(&mut self, counter: u64, now_ns: u64) {
        self.halted_at = counter;
        self.epoch_ns = now_ns.saturating_sub(counter.saturating_mul(TICK_NS));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_root_tasks_driver_gets_its_ticks() {
        // The writes of `root_task::hpet` for a tick after 50 ms at pin 8, starting at 7 ns, and then for one after 10 ms.
        let mut hpet = Hpet::default();
        hpet.write(0x010, 0, 5);
        hpet.write(0x0f0, 0, 6);
        hpet.write(0x0f4, 0, 6);
        hpet.write(0x100, 8 << 9 | INTERRUPT | 1 << 8, 6);
        hpet.write(0x010, ENABLE, 7);
        assert_eq!(hpet.next_event_ns(), None);
        hpet.write(0x108, 5_000_000, 7);
        assert_eq!(hpet.next_event_ns(), Some(50_000_007));
        assert_eq!(hpet.expire(50_000_006), None);
        assert_eq!(hpet.expire(50_000_007), Some(8));
        assert_eq!(hpet.read(0x0f0, 50_000_007), 5_000_000);
        hpet.write(0x108, 6_000_000, 50_000_007);
        assert_eq!(hpet.next_event_ns(), Some(60_000_007));
        let wrap_ns = (1u64 << 32) * TICK_NS;
        hpet.write(0x108, 5_999_999, 60_000_007);
        assert_eq!(hpet.next_event_ns(), Some(59_999_997 + wrap_ns), "what was missed comes after the wrap");
    }
}
