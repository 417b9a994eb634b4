//! The I/O ports, QEMU's debug console and exit device among them.

use crate::sys::{Slot, invoke, values};
use crate::verdict::{Check, Failure};

/// Reads one byte from an I/O port.
fn in8(port: u16) -> Result<u8, u64> {
    invoke(values::CAP_IO_PORT as Slot, values::IO_PORT_IN8, &[port.into()], &[]).map(|value| value as u8)
}

/// Reads four bytes from an I/O port.
pub(crate) fn in32(port: u16) -> Result<u32, u64> {
    invoke(values::CAP_IO_PORT as Slot, values::IO_PORT_IN32, &[port.into()], &[]).map(|value| value as u32)
}

/// Writes two bytes to an I/O port.
fn out16(port: u16, value: u16) -> Result<(), u64> {
    out(values::IO_PORT_OUT16, port, value.into())
}

/// Writes four bytes to an I/O port.
pub(crate) fn out32(port: u16, value: u32) -> Result<(), u64> {
    out(values::IO_PORT_OUT32, port, value.into())
}

fn out(label: i64, port: u16, value: u64) -> Result<(), u64> {
    invoke(values::CAP_IO_PORT as Slot, label, &[port.into(), value], &[]).map(|_| ())
}

/// QEMU's debug console.
const DEBUG_CONSOLE: u16 = 0xe9;

/// QEMU's exit device, where `kernel::regress` puts it.
const EXIT: u16 = 0xf4;

/// `fw_cfg`: the item that is read, and its bytes one by one (QEMU, docs/specs/fw_cfg).
const FW_CFG_SELECTOR: u16 = 0x510;
const FW_CFG_DATA: u16 = 0x511;

/// Sends a byte to the build machine. A failure could be reported nowhere.
pub(crate) fn put(byte: u8) {
    let _ = out(values::IO_PORT_OUT8, DEBUG_CONSOLE, byte.into());
}

/// Ends QEMU.
pub(crate) fn exit() -> ! {
    let _ = out32(EXIT, 0);
    loop {
        core::hint::spin_loop();
    }
}

/// Chooses the `fw_cfg` item that is read next.
pub(crate) fn select(item: u16) -> Check {
    out16(FW_CFG_SELECTOR, item).map_err(|error| Failure::Broken("fw_cfg: selecting", error))
}

/// The next byte of the chosen item.
pub(crate) fn read() -> Check<u8> {
    in8(FW_CFG_DATA).map_err(|error| Failure::Broken("fw_cfg: reading", error))
}
