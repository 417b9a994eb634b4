//! The first instruction, and the tests for this architecture alone.

use core::arch::global_asm;
use core::sync::atomic::Ordering;

use super::devices::{FW_CFG, FW_CFG_PAGE, UART, UART_PAGE};
use super::{fpu_owner, frame_without_table, timer_owner};
use crate::machine::{Machine, PAGE};
use crate::sys::{STACK, STACK_BYTES};
use crate::verdict::{Check, Failure};

// The kernel starts the root task without a stack, with the boot information in x0, where a C function expects its
// first argument.
global_asm!(
    ".pushsection .text._start, \"ax\"",
    ".global _start",
    "_start:",
    "adrp x1, {stack} + {size}",
    "mov sp, x1",
    "mov x29, xzr",
    "bl {main}",
    "udf #0",
    ".popsection",
    stack = sym STACK,
    size = const STACK_BYTES,
    main = sym crate::entry::main,
);

/// Maps the devices.
pub(crate) fn open(machine: &mut Machine) -> Check {
    for (device, page) in [(UART, &UART_PAGE), (FW_CFG, &FW_CFG_PAGE)] {
        let (untyped, _) = machine.device_untyped(device..device + PAGE as u64, PAGE.ilog2() as u8)?;
        page.store(machine.map_device(untyped)?, Ordering::Relaxed);
    }
    Ok(())
}

/// Runs the test `name`, one of those for this architecture alone.
pub(crate) fn run(name: &[u8], machine: &mut Machine) -> Check {
    match name {
        b"timer-owner" => timer_owner::run(machine),
        b"frame-remap" => frame_without_table::remap(machine),
        b"frame-flush" => frame_without_table::flush(machine),
        b"fpu-owner" => fpu_owner::run(machine),
        _ => Err(Failure::Broken("no test of that name", 0)),
    }
}
