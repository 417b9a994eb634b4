//! The PC's line and end: QEMU's debug console and its exit device, through I/O ports.

use platform::Platform;
use platform::x86_64::PortIo;
use platform_sel4::{RootPlatform, Sel4, initial};
use sim_conformance::{Answer, Caller, Op};

/// The debug console's port (QEMU, `isa-debugcon`).
const CONSOLE: u16 = 0xe9;
/// The exit device's port (QEMU, `isa-debug-exit`), where the run puts it.
const EXIT: u16 = 0xf4;

/// The line.
pub(crate) struct Line(Sel4);

impl Line {
    /// The line, which is always there.
    pub(crate) fn open(root: &RootPlatform) -> Option<Self> {
        Some(Self(root.kernel().clone()))
    }

    /// Sends a byte. A failure could be reported nowhere.
    pub(crate) fn put(&self, byte: u8) {
        let _ = self.0.ioport_out8(initial::IO_PORTS, CONSOLE, byte);
    }

    /// Ends the machine, if it has the exit device.
    pub(crate) fn stop(&self) {
        let _ = self.0.ioport_out32(initial::IO_PORTS, EXIT, 0);
    }
}

/// Makes the calls that this architecture alone has.
pub(crate) fn invoke(caller: &Caller<'_>, kernel: &Sel4, op: &Op) -> Option<Answer> {
    caller.read_port(kernel, op)
}
