//! The high precision event timer as far as a driver of one periodic comparator sees it (IA-PC HPET Specification 1.0a):
//! a 100 MHz counter and comparator 0, which can be periodic and interrupts at a pin of the I/O APIC by an edge.
//!
//! Left out: the other comparators, level-triggered and message-signalled interrupts, legacy routing.

/// Where the registers lie in physical memory.
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
/// Comparator 0 can be periodic and is 64 bits wide.
const TIMER_CAPABILITIES: u32 = 1 << 4 | 1 << 5;

const ENABLE: u32 = 1 << 0;
const INTERRUPT: u32 = 1 << 2;
const PERIODIC: u32 = 1 << 3;
const SET_VALUE: u32 = 1 << 6;
const TIMER_WRITABLE: u32 = 0x3e00 | INTERRUPT | PERIODIC | SET_VALUE | 1 << 8;

/// The timer.
#[derive(Debug, Default)]
pub(crate) struct Hpet {
    configuration: u32,
    timer: u32,
    /// When the counter was or would have been zero.
    epoch_ns: u64,
    /// What the counter shows while it is halted.
    halted_at: u64,
    period: u64,
    /// The next match, in ticks of the counter.
    comparator: u64,
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
            0x108 => self.comparator as u32,
            0x10c => (self.comparator >> 32) as u32,
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
            // With SET_VALUE the first write is the deadline, and the next one the distance of the later ones.
            0x108 if self.timer & SET_VALUE != 0 => {
                self.comparator = u64::from(value);
                self.timer &= !SET_VALUE;
            }
            0x108 if self.timer & PERIODIC != 0 => self.period = u64::from(value),
            0x108 => self.comparator = u64::from(value),
            _ => {}
        }
    }

    /// When it interrupts next.
    pub(crate) fn next_event_ns(&self) -> Option<u64> {
        let armed = self.configuration & ENABLE != 0 && self.timer & INTERRUPT != 0;
        armed.then(|| self.epoch_ns.saturating_add(self.comparator.saturating_mul(TICK_NS)))
    }

    /// The pin it interrupts at if its time has come; it is then set for the next time.
    pub(crate) fn expire(&mut self, now_ns: u64) -> Option<u8> {
        self.next_event_ns().filter(|at_ns| *at_ns <= now_ns)?;
        if self.timer & PERIODIC != 0 && self.period != 0 {
            self.comparator = self.comparator.saturating_add(self.period);
        } else {
            self.timer &= !INTERRUPT;
        }
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
        // What `root_task::hpet` writes for 20 a second at pin 8, starting at 7 ns.
        let mut hpet = Hpet::default();
        hpet.write(0x010, 0, 5);
        hpet.write(0x0f0, 0, 6);
        hpet.write(0x0f4, 0, 6);
        hpet.write(0x100, 8 << 9 | INTERRUPT | PERIODIC | SET_VALUE | 1 << 8, 6);
        hpet.write(0x108, 5_000_000, 6);
        hpet.write(0x108, 5_000_000, 6);
        assert_eq!(hpet.next_event_ns(), None);
        hpet.write(0x010, ENABLE, 7);
        assert_eq!(hpet.next_event_ns(), Some(50_000_007));
        assert_eq!(hpet.expire(50_000_006), None);
        assert_eq!(hpet.expire(50_000_007), Some(8));
        assert_eq!(hpet.next_event_ns(), Some(100_000_007));
        assert_eq!(hpet.read(0x0f0, 50_000_007), 5_000_000);
    }
}
