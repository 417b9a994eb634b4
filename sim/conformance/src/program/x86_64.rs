//! The PC's line and end: QEMU's debug console and its exit device, through I/O ports.

use platform::x86_64::PortIo;
use platform::{AbsoluteCPtr, CPtr, Cap, CapData, Kernel, Platform, Rights};
use platform_sel4::{RootPlatform, Sel4, initial};
use sim_conformance::{Answer, Caller, Op};

/// The debug console's port (QEMU, `isa-debugcon`).
const CONSOLE: u16 = 0xe9;
/// The exit device's port (QEMU, `isa-debug-exit`), where the run puts it.
const EXIT: u16 = 0xf4;

/// The line: capabilities to the ports, at the last cptrs that the kernel left empty.
pub(crate) struct Line {
    kernel: Sel4,
    all_ports: AbsoluteCPtr,
    console: AbsoluteCPtr,
    exit: AbsoluteCPtr,
}

impl Line {
    /// Takes the ports. `None` when there are no cptrs, which can be reported nowhere.
    pub(crate) fn open(root: &RootPlatform) -> Option<Self> {
        let end = root.boot_info().empty_cptrs.end;
        let (console, exit) =
            (root.absolute(CPtr::new(end.checked_sub(1)?)), root.absolute(CPtr::new(end.checked_sub(2)?)));
        let line =
            Self { kernel: root.kernel().clone(), all_ports: root.absolute(initial::IO_PORTS.cptr()), console, exit };
        line.take_ports();
        Some(line)
    }

    /// Sends a byte. A failure could be reported nowhere.
    pub(crate) fn put(&self, byte: u8) {
        let put = || self.kernel.ioport_out8(Cap::from_bits(self.console.index), CONSOLE, byte);
        if put().is_err() {
            // A sequence took all ports back.
            self.take_ports();
            let _ = put();
        }
    }

    /// Ends the machine, if it has the exit device.
    pub(crate) fn stop(&self) {
        let _ = self.kernel.ioport_out32(Cap::from_bits(self.exit.index), EXIT, 0);
    }

    fn take_ports(&self) {
        for (dest, first, last) in [(self.console, CONSOLE, CONSOLE), (self.exit, EXIT, EXIT + 3)] {
            let _ = self.kernel.cnode_mint(dest, self.all_ports, Rights::ALL, CapData::IoPorts(first, last));
        }
    }
}

/// Makes the calls that this architecture alone has.
pub(crate) fn invoke(caller: &Caller<'_>, kernel: &Sel4, op: &Op) -> Option<Answer> {
    caller.read_port(kernel, op)
}
