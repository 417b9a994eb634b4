//! The first serial port, as a program that only sends needs it (PC16550D). A byte written to the transmitter is on
//! the line at once, there is always room, and nothing is ever received.

/// The first I/O port.
const FIRST: u16 = 0x3f8;
/// The port whose bytes go out on the line.
pub(crate) const TRANSMITTER: u16 = FIRST + TRANSMIT;
const PORTS: u16 = 8;

const TRANSMIT: u16 = 0;
const LINE_CONTROL: u16 = 3;
const LINE_STATUS: u16 = 5;
/// Selects the divisor's bytes at the first two ports.
const DIVISOR_ACCESS: u8 = 1 << 7;
/// Transmitter empty, and room in it.
const EMPTY: u8 = 1 << 6 | 1 << 5;

/// The port.
#[derive(Debug, Default)]
pub(crate) struct Serial {
    registers: [u8; PORTS as usize],
    line: Vec<u8>,
}

impl Serial {
    /// Reads an I/O port, if it is one of this device's.
    pub(crate) fn read(&self, port: u16) -> Option<u8> {
        let register = port.checked_sub(FIRST).filter(|register| *register < PORTS)?;
        Some(if register == LINE_STATUS { EMPTY } else { self.registers[usize::from(register)] })
    }

    /// Writes an I/O port; ignores other devices' ports.
    pub(crate) fn write(&mut self, port: u16, value: u8) {
        let Some(register) = port.checked_sub(FIRST).filter(|register| *register < PORTS) else { return };
        if register == TRANSMIT && self.registers[usize::from(LINE_CONTROL)] & DIVISOR_ACCESS == 0 {
            self.line.push(value);
        } else {
            self.registers[usize::from(register)] = value;
        }
    }

    /// Takes the bytes sent since the last call.
    pub(crate) fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_divisor_is_not_on_the_line() {
        let mut serial = Serial::default();
        serial.write(FIRST + LINE_CONTROL, 0x83);
        serial.write(FIRST, 1);
        serial.write(FIRST + LINE_CONTROL, 0x03);
        serial.write(FIRST, b'a');
        assert_eq!(serial.take(), b"a");
        assert_eq!(serial.read(FIRST + LINE_STATUS), Some(EMPTY));
        assert_eq!(serial.read(0x2f8), None);
    }
}
