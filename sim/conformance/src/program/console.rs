//! QEMU's debug console and its exit device: how answers leave the machine, and how the run ends.

use platform::x86_64::PortIo;
use platform_sel4::{Sel4, initial};
use sim_conformance::wire::{END, FAILURE, JOURNAL};

/// The debug console's port (QEMU, `isa-debugcon`).
const CONSOLE: u16 = 0xe9;
/// The exit device's port (QEMU, `isa-debug-exit`), where the run puts it.
const EXIT: u16 = 0xf4;

/// Sends one sequence's journal.
pub(crate) fn journal(kernel: &Sel4, bytes: &[u8]) {
    record(kernel, JOURNAL, bytes);
}

/// Sends why the run ends early.
pub(crate) fn failure(kernel: &Sel4, reason: &str) {
    record(kernel, FAILURE, reason.as_bytes());
}

/// Says that all was sent, and ends the machine.
pub(crate) fn end(kernel: &Sel4) -> ! {
    record(kernel, END, &[]);
    loop {
        // Without the exit device the build machine ends the run once it has read the end.
        let _ = kernel.ioport_out32(initial::IO_PORTS, EXIT, 0);
    }
}

fn record(kernel: &Sel4, kind: u8, bytes: &[u8]) {
    let len = (bytes.len() as u32).to_le_bytes();
    for byte in [kind].iter().chain(&len).chain(bytes) {
        // There is nobody to tell that nothing can be told.
        let _ = kernel.ioport_out8(initial::IO_PORTS, CONSOLE, *byte);
    }
}
