//! I/O ports, which x86_64 alone has.

use crate::{Cap, IoPort, Result};

/// Accesses to I/O ports by capabilities to ranges of them (seL4 manual, section 8.2): a further part of
/// [`Kernel`](crate::Kernel) on this architecture. Errors are the kernel's.
#[expect(clippy::missing_errors_doc, reason = "all errors are the kernel's own, see crate::Error")]
pub trait PortIo {
    /// Reads an 8-bit port.
    fn ioport_in8(&self, ports: Cap<IoPort>, port: u16) -> Result<u8>;
    /// Writes an 8-bit port.
    fn ioport_out8(&self, ports: Cap<IoPort>, port: u16, value: u8) -> Result<()>;
    /// Reads a 32-bit port.
    fn ioport_in32(&self, ports: Cap<IoPort>, port: u16) -> Result<u32>;
    /// Writes a 32-bit port.
    fn ioport_out32(&self, ports: Cap<IoPort>, port: u16, value: u32) -> Result<()>;
}
