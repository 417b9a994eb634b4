//! x86_64's serial port: a 16550 on I/O ports, for writing (National Semiconductor PC16550D, sections 8.1 to 8.6).
//!
//! Left out: interrupts and receiving. The transmitter's FIFO takes 16 bytes, so its state is read once in 16 bytes.

use crate::{Uart, wait_for_room};
use platform::x86_64::PortIo;
use platform::{Cap, Environment, IoPort, Platform};

/// COM1.
const BASE: u16 = 0x3f8;
/// Transmitter holding register; the divisor's low byte while [`DIVISOR_ACCESS`] is set.
const DATA: u16 = BASE;
/// Interrupt enable register; the divisor's high byte while [`DIVISOR_ACCESS`] is set.
const INTERRUPT_ENABLE: u16 = BASE + 1;
const FIFO_CONTROL: u16 = BASE + 2;
const LINE_CONTROL: u16 = BASE + 3;
const MODEM_CONTROL: u16 = BASE + 4;
const LINE_STATUS: u16 = BASE + 5;

/// In the line control register.
const DIVISOR_ACCESS: u8 = 0x80;
/// In the line control register: eight bits, no parity, one stop bit.
const EIGHT_BITS: u8 = 0x03;
/// In the FIFO control register: on, and both emptied.
const FIFO_ON: u8 = 0x07;
/// In the modem control register: data terminal ready, request to send.
const READY: u8 = 0x03;
/// In the line status register: the transmitter's FIFO is empty.
const TRANSMITTER_EMPTY: u8 = 0x20;

/// Bytes the transmitter's FIFO takes.
const FIFO: usize = 16;
/// Runs the console on this port: never returns, unless its environment lacks the ports, the capability `serial`.
pub async fn run<P: Platform<Kernel: PortIo>>(platform: P, environment: Environment) {
    let uart = environment.cap(report::names::SERIAL).map(|ports| Ns16550::open(platform.clone(), ports));
    crate::run(platform, environment, uart).await;
}

/// The port.
struct Ns16550<P> {
    platform: P,
    ports: Cap<IoPort>,
}

impl<P: Platform<Kernel: PortIo>> Ns16550<P> {
    /// Sets the port to 115,200 bits a second, eight bits, no parity, FIFO on, no interrupts.
    fn open(platform: P, ports: Cap<IoPort>) -> Self {
        let uart = Self { platform, ports };
        uart.out(INTERRUPT_ENABLE, 0);
        uart.out(LINE_CONTROL, DIVISOR_ACCESS);
        uart.out(DATA, 1);
        uart.out(INTERRUPT_ENABLE, 0);
        uart.out(LINE_CONTROL, EIGHT_BITS);
        uart.out(FIFO_CONTROL, FIFO_ON);
        uart.out(MODEM_CONTROL, READY);
        uart
    }

    /// Whether the transmitter has room; a refused read counts as no room.
    fn has_room(&self) -> bool {
        self.platform.kernel().ioport_in8(self.ports, LINE_STATUS).is_ok_and(|status| status & TRANSMITTER_EMPTY != 0)
    }

    fn out(&self, port: u16, value: u8) {
        // The capability covers the port's eight registers, so the kernel does not refuse. A wrong specification shows
        // as a silent line, which the console has no other way to report.
        let _ = self.platform.kernel().ioport_out8(self.ports, port, value);
    }
}

impl<P: Platform<Kernel: PortIo>> Uart for Ns16550<P> {
    /// Bytes that a stuck port does not take are dropped.
    async fn write(&mut self, bytes: &[u8]) {
        for burst in bytes.chunks(FIFO) {
            if !wait_for_room(&self.platform, || self.has_room()).await {
                return;
            }
            for byte in burst {
                self.out(DATA, *byte);
            }
        }
    }
}
