//! Entry of the loader: from QEMU's jump to the kernel's.

use crate::machine;
use core::arch::{asm, global_asm};
use core::cell::UnsafeCell;
use core::panic::PanicInfo;
use kernel_loader::{
    DEBUG_CONTROL, HANDOVER_ADDRESS, Handover, MEMORY_ATTRIBUTES, PHYSICAL_BASE, Root, SYSTEM_CONTROL,
    TRANSLATION_CONTROL, Tables,
};

// The stack, then a table of vectors in which every entry leads to the same place: here only an access to absent hardware
// may raise an exception. Vectors of EL1 can be set from EL2 as well.
global_asm!(
    ".section .text.first",
    ".global _start",
    "_start:",
    "adrp x1, loader_stack_top",
    "mov sp, x1",
    "adr x1, loader_vectors",
    "msr vbar_el1, x1",
    "isb",
    "b {enter}",
    ".balign 2048",
    "loader_vectors:",
    ".rept 16",
    "b {stop}",
    ".balign 128",
    ".endr",
    ".section .bss.stack, \"aw\", @nobits",
    ".balign 4096",
    ".skip 16384",
    "loader_stack_top:",
    enter = sym enter,
    stop = sym machine::stop,
);

struct Place(UnsafeCell<Tables>);

// SAFETY: one core, and one function that names it.
unsafe impl Sync for Place {}

static TABLES: Place = Place(UnsafeCell::new(Tables::EMPTY));

extern "C" fn enter() -> ! {
    // SAFETY: the build machine put it there, and nothing changes it.
    let handover = unsafe { &*(HANDOVER_ADDRESS as *const Handover) };
    machine::check(handover);
    let here = TABLES.0.get();
    // SAFETY: this function runs once, and translation has not begun.
    unsafe { (*here).fill(here as u64, PHYSICAL_BASE, handover.kernel_base) };
    let here = here as u64;
    // SAFETY: the tables map the running code at its own address, and the kernel is where the handover puts it.
    unsafe {
        asm!(
            "dsb sy",
            "msr mair_el1, {attributes}",
            "msr tcr_el1, {control}",
            "msr ttbr0_el1, {lower}",
            "msr ttbr1_el1, {upper}",
            "isb",
            "tlbi vmalle1",
            "ic iallu",
            "dsb sy",
            "isb",
            // User level counts no events.
            "msr pmuserenr_el0, xzr",
            "msr mdscr_el1, {debug}",
            "msr sctlr_el1, {system}",
            "isb",
            "br {kernel}",
            attributes = in(reg) MEMORY_ATTRIBUTES,
            control = in(reg) TRANSLATION_CONTROL,
            system = in(reg) SYSTEM_CONTROL,
            debug = in(reg) DEBUG_CONTROL,
            lower = in(reg) Tables::address(here, Root::Lower),
            upper = in(reg) Tables::address(here, Root::Upper),
            kernel = in(reg) handover.kernel_entry,
            in("x0") handover.image_start,
            in("x1") handover.image_end,
            in("x2") handover.image_offset,
            in("x3") handover.image_entry,
            // Kernels newer than 5.0.0 take a device tree here, address and size. There is none.
            in("x4") 0u64,
            in("x5") 0u64,
            options(noreturn, nostack),
        )
    }
}

#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    machine::stop()
}
