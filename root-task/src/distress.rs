//! The root task's last words when there is no console to send them.
//!
//! It still has all I/O ports then: one frame goes out over the first serial port, as firmware left it, so that the
//! build machine prints the reason instead of waiting for a system that never comes.

use crate::build::OWN_COMPONENT;
use platform::{Cap, IoPort, Kernel};
use report::frame::{self, Kind, MAX_FRAME};
use report::{Report, Stamped, clip};

/// The port's registers (PC16550D): transmitter, and line status with its room bit.
const TRANSMIT: u16 = 0x3f8;
const LINE_STATUS: u16 = 0x3fd;
const HAS_ROOM: u8 = 1 << 5;
/// A port that has no room after so many looks is not there.
const PATIENCE: u32 = 100_000;

/// Sends `reason` as a failure of the root task.
pub fn cry<K: Kernel>(kernel: &K, ports: Cap<IoPort>, reason: &str) {
    let report = Report::Failure { component: clip("root-task"), reason: clip(reason) };
    // Without a platform there is no clock.
    let record = Stamped { at_ns: 0, report }.encode();
    let mut line = [0; MAX_FRAME];
    let len = frame::encode(OWN_COMPONENT, Kind::Report, &record, &mut line).unwrap_or(0);
    for byte in line.get(..len).unwrap_or_default() {
        let ready = |_| kernel.ioport_in8(ports, LINE_STATUS).is_ok_and(|status| status & HAS_ROOM != 0);
        if !(0..PATIENCE).any(ready) || kernel.ioport_out8(ports, TRANSMIT, *byte).is_err() {
            return;
        }
    }
}
