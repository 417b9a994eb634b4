//! The serial port and `fw_cfg`, whose pages `suite` maps at the start.

use core::sync::atomic::{AtomicUsize, Ordering};

use crate::sys;
use crate::verdict::{Check, need};

/// The PL011 and its registers UARTDR and UARTFR, with the latter's bit for a full FIFO (Arm DDI 0183, section 3.3).
pub(super) const UART: u64 = 0x0900_0000;
const DATA: usize = 0x00;
const FLAGS: usize = 0x18;
const TRANSMIT_FULL: u32 = 1 << 5;

/// `fw_cfg`: the item that is read, big endian, and its bytes (QEMU, docs/specs/fw_cfg).
pub(super) const FW_CFG: u64 = 0x0902_0000;
const FW_CFG_DATA: usize = 0;
const FW_CFG_SELECTOR: usize = 8;

pub(super) static UART_PAGE: AtomicUsize = AtomicUsize::new(0);
pub(super) static FW_CFG_PAGE: AtomicUsize = AtomicUsize::new(0);

/// Sends a byte to the build machine. Before the port is mapped, the byte is dropped.
pub(crate) fn put(byte: u8) {
    let page = UART_PAGE.load(Ordering::Relaxed);
    if page == 0 {
        return;
    }
    // SAFETY: the port's page is mapped there, and nothing of this program lies in it.
    unsafe {
        while sys::volatile_read::<u32>(page + FLAGS) & TRANSMIT_FULL != 0 {}
        sys::volatile_write(page + DATA, u32::from(byte));
    }
}

/// Waits for the end: the build machine ends it when it has the verdict.
pub(crate) fn exit() -> ! {
    loop {
        core::hint::spin_loop();
    }
}

/// Chooses the `fw_cfg` item that is read next.
pub(crate) fn select(item: u16) -> Check {
    let page = FW_CFG_PAGE.load(Ordering::Relaxed);
    need(page != 0, "fw_cfg is not mapped")?;
    // SAFETY: the device's page is mapped there, and nothing of this program lies in it.
    unsafe { sys::volatile_write(page + FW_CFG_SELECTOR, item.to_be()) };
    Ok(())
}

/// The next byte of the chosen item.
pub(crate) fn read() -> Check<u8> {
    let page = FW_CFG_PAGE.load(Ordering::Relaxed);
    need(page != 0, "fw_cfg is not mapped")?;
    // SAFETY: as in `select`.
    Ok(unsafe { sys::volatile_read(page + FW_CFG_DATA) })
}
