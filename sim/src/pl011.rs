//! The PL011 of virt, as a program that only sends needs it (Arm DDI 0183, section 3.3). A byte that is written is on the
//! line at once, there is always room, and nothing is ever received.

/// Physical address of its page.
pub(crate) const BASE: u64 = 0x0900_0000;
/// Bytes of registers.
pub(crate) const BYTES: u64 = 0x1000;

const DATA: u64 = 0x00;
const FLAGS: u64 = 0x18;
const CONTROL: u64 = 0x30;
/// Bits of the flags: the transmitter is empty, and so is the receiver.
const EMPTY: u32 = 1 << 7 | 1 << 4;
/// Bits of the control register: the port and its transmitter are on. Both are on after a reset, as in QEMU.
const TRANSMITTER_ON: u32 = 1 << 8 | 1;

/// The port.
#[derive(Debug)]
pub(crate) struct Pl011 {
    control: u32,
    line: Vec<u8>,
}

impl Default for Pl011 {
    fn default() -> Self {
        Self { control: TRANSMITTER_ON, line: Vec::new() }
    }
}

impl Pl011 {
    pub(crate) fn read(&self, offset: u64) -> u32 {
        match offset {
            FLAGS => EMPTY,
            CONTROL => self.control,
            _ => 0,
        }
    }

    pub(crate) fn write(&mut self, offset: u64, value: u32) {
        match offset {
            DATA if self.control & TRANSMITTER_ON == TRANSMITTER_ON => self.line.push(value as u8),
            CONTROL => self.control = value,
            _ => {}
        }
    }

    /// Puts bytes on the line.
    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.line.extend_from_slice(bytes);
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
    fn bytes_are_sent_while_the_transmitter_is_on() {
        let mut port = Pl011::default();
        port.write(CONTROL, 0);
        port.write(DATA, u32::from(b'x'));
        port.write(CONTROL, TRANSMITTER_ON);
        port.write(DATA, u32::from(b'a'));
        assert_eq!((port.take(), port.read(FLAGS)), (b"a".to_vec(), EMPTY));
    }
}
