//! The generic timer's physical half, which the root task's address space alone may touch (kernel fix `timer-owner`): a comparator that
//! interrupts when the counter reaches it (Arm ARM DDI 0487, section D12.2).

use core::arch::asm;

/// The timer's interrupt: the same on every machine with a GIC (Arm Base System Architecture, section 3.8.1).
pub const TIMER_LINE: u8 = 30;

/// `CNTP_CTL_EL0`: the timer interrupts.
const ENABLE: u64 = 1;

/// The registers.
#[derive(Clone, Copy, Debug)]
pub struct TimerRegisters;

impl TimerRegisters {
    /// The counter.
    #[must_use]
    pub fn counter(&self) -> u64 {
        let ticks;
        // SAFETY: reads a register.
        unsafe { asm!("isb", "mrs {}, cntpct_el0", out(reg) ticks, options(nomem, nostack, preserves_flags)) };
        ticks
    }

    /// Ticks of the counter per second.
    #[must_use]
    pub fn ticks_per_second(&self) -> u64 {
        super::syscall::ticks_per_second()
    }

    /// Interrupts no more until another deadline is set.
    pub fn disarm(&self) {
        // SAFETY: as for `set_deadline`.
        unsafe { asm!("msr cntp_ctl_el0, xzr", "isb", options(nomem, nostack, preserves_flags)) };
    }

    /// Interrupts from the moment on at which the counter is at `deadline`, until another deadline is set.
    pub fn set_deadline(&self, deadline: u64) {
        // SAFETY: the timer's registers do nothing but this; where they may not be touched it is an exception.
        unsafe {
            asm!(
                "msr cntp_cval_el0, {deadline}",
                "msr cntp_ctl_el0, {enable}",
                "isb",
                deadline = in(reg) deadline,
                enable = in(reg) ENABLE,
                options(nomem, nostack, preserves_flags),
            );
        }
    }
}
