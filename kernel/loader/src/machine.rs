//! Check of the machine: it is the one that kernel and loader were built for, or the line gets a sentence with the difference.
//!
//! An access to nothing is an exception (Arm ARM DDI 0487, section D1.3); its handler reports the check that was running.

use core::arch::asm;
use core::sync::atomic::{AtomicU8, Ordering};
use kernel_loader::{Handover, PHYSICAL_BASE};

/// PL011's data register.
const LINE: *mut u32 = 0x0900_0000 as *mut u32;
/// The GIC distributor's peripheral identification, in which bits 7:4 are the architecture's version (IHI 0048, section 4.3.18).
const GIC_VERSION: *const u32 = 0x0800_0fe8 as *const u32;
/// Configuration space of the function 0:0.0 with `highmem=off`.
const CONFIGURATION: *const u32 = 0x3f00_0000 as *const u32;
/// Part numbers in `MIDR_EL1` of processors whose timers, caches and address sizes the kernel is built for: Cortex-A53, A57, A72.
const PARTS: [u64; 3] = [0xd03, 0xd07, 0xd08];

/// A property of the machine that the loader checks.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Check {
    Level,
    Processor,
    InterruptController,
    Configuration,
    Memory,
    Kernel,
}

impl Check {
    const ALL: [Self; 6] =
        [Self::Level, Self::Processor, Self::InterruptController, Self::Configuration, Self::Memory, Self::Kernel];

    const fn sentence(self) -> &'static str {
        match self {
            Self::Level => "the machine starts beside EL1: leave virtualization=on and secure=on out of QEMU's -M",
            Self::Processor => "the kernel is not built for this processor: start QEMU with -cpu cortex-a57",
            Self::InterruptController => "the interrupt controller is no GICv2: start QEMU with -M virt,gic-version=2",
            Self::Configuration => "PCI is not where it should be: start QEMU with -M virt,highmem=off",
            Self::Memory => "the machine has less memory than the kernel was built for: start QEMU with -m 1G",
            Self::Kernel => "an exception before the kernel's own tables were in place",
        }
    }
}

static CHECK: AtomicU8 = AtomicU8::new(0);

/// Runs all checks; ends the machine with a sentence if one fails.
pub(crate) fn check(handover: &Handover) {
    require(Check::Level, || current_level() == 1);
    require(Check::Processor, || PARTS.contains(&part()));
    // SAFETY: a register that is read without effect, or an exception.
    require(Check::InterruptController, || unsafe { GIC_VERSION.read_volatile() } >> 4 & 0xf == 2);
    // SAFETY: likewise.
    require(Check::Configuration, || unsafe { CONFIGURATION.read_volatile() } != u32::MAX);
    let last = (PHYSICAL_BASE + handover.memory_bytes - 8) as *const u64;
    require(Check::Memory, || {
        // SAFETY: reads memory and changes nothing, or raises an exception.
        let _ = unsafe { last.read_volatile() };
        true
    });
    CHECK.store(Check::Kernel as u8, Ordering::Relaxed);
}

fn require(at: Check, holds: impl FnOnce() -> bool) {
    CHECK.store(at as u8, Ordering::Relaxed);
    if !holds() {
        stop();
    }
}

/// Reports the check that was running and turns the machine off.
pub(crate) extern "C" fn stop() -> ! {
    let check = Check::ALL.get(usize::from(CHECK.load(Ordering::Relaxed))).copied().unwrap_or(Check::Kernel);
    for part in ["loader: ", check.sentence(), "\n"] {
        for byte in part.bytes() {
            // SAFETY: a store to the line's data register sends the byte and does nothing else.
            unsafe { LINE.write_volatile(byte.into()) };
        }
    }
    power_off()
}

fn current_level() -> u64 {
    let level: u64;
    // SAFETY: reads a register.
    unsafe { asm!("mrs {}, CurrentEL", out(reg) level, options(nomem, nostack)) };
    level >> 2 & 3
}

fn part() -> u64 {
    let id: u64;
    // SAFETY: reads a register.
    unsafe { asm!("mrs {}, midr_el1", out(reg) id, options(nomem, nostack)) };
    id >> 4 & 0xfff
}

/// Uses the power interface of the machine (Arm DEN 0022, section 5.10): a call of the level above, which is QEMU itself.
fn power_off() -> ! {
    const SYSTEM_OFF: u64 = 0x8400_0008;
    if current_level() == 1 {
        // SAFETY: the call does not return.
        unsafe { asm!("hvc #0", in("x0") SYSTEM_OFF, options(nomem, nostack)) };
    } else {
        // SAFETY: likewise.
        unsafe { asm!("smc #0", in("x0") SYSTEM_OFF, options(nomem, nostack)) };
    }
    loop {
        core::hint::spin_loop();
    }
}
