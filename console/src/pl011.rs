//! AArch64's serial port: a PL011 in memory, for writing (Arm DDI 0183, sections 3.2 and 3.3).
//!
//! Left out: interrupts, receiving, and the speed of the line, which is as firmware or the machine's reset left it.

use crate::{Uart, wait_for_room};
use platform::{Environment, Mmio, Platform};

/// UARTDR: sends the byte written.
const DATA: usize = 0x00;
/// UARTFR.
const FLAGS: usize = 0x18;
/// UARTLCR_H.
const LINE_CONTROL: usize = 0x2c;
/// UARTCR.
const CONTROL: usize = 0x30;
/// UARTIMSC: which interrupts are raised.
const INTERRUPT_MASK: usize = 0x38;

/// In [`FLAGS`]: the transmitter's FIFO takes nothing.
const TRANSMIT_FULL: u32 = 1 << 5;
/// In [`LINE_CONTROL`]: eight bits, FIFOs on.
const EIGHT_BITS: u32 = 0b11 << 5 | 1 << 4;
/// In [`CONTROL`]: the port and its transmitter are on.
const TRANSMITTER_ON: u32 = 1 << 8 | 1;

/// Runs the console on this port: never returns, unless its environment lacks the registers, the region `serial`.
pub async fn run<P: Platform>(platform: P, environment: Environment) {
    let registers = environment.region(report::names::SERIAL).and_then(|region| {
        let len = usize::try_from(region.len).ok()?;
        platform.mmio(region.vaddr, len).ok()
    });
    let uart = registers.map(|registers| Pl011::open(platform.clone(), registers));
    crate::run(platform, environment, uart).await;
}

/// The port.
struct Pl011<P: Platform> {
    platform: P,
    registers: P::Mmio,
}

impl<P: Platform> Pl011<P> {
    /// Sets the port to eight bits, no parity, FIFOs on, no interrupts.
    fn open(platform: P, registers: P::Mmio) -> Self {
        let uart = Self { platform, registers };
        for (register, value) in
            [(INTERRUPT_MASK, 0), (CONTROL, 0), (LINE_CONTROL, EIGHT_BITS), (CONTROL, TRANSMITTER_ON)]
        {
            uart.out(register, value);
        }
        uart
    }

    fn has_room(&self) -> bool {
        self.registers.read32(FLAGS).is_ok_and(|flags| flags & TRANSMIT_FULL == 0)
    }

    fn out(&self, register: usize, value: u32) {
        // The region is a page. A wrong specification shows as a silent line, which the console has no other way to report.
        let _ = self.registers.write32(register, value);
    }
}

impl<P: Platform> Uart for Pl011<P> {
    /// Drops bytes that a stuck port does not take.
    async fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            if !wait_for_room(&self.platform, || self.has_room()).await {
                return;
            }
            self.out(DATA, (*byte).into());
        }
    }
}
