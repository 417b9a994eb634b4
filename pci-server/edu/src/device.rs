//! The registers of an `edu` device (QEMU's `docs/specs/edu.rst`).
//!
//! The device keeps the bits of its interrupt status until they are acknowledged. With its pin it interrupts while there are
//! any; with MSI it sends one message each time that bits are raised.

use crate::failure::Failure;
use platform::{Mmio, OutOfBounds};

/// Identification: 0xRRrr00ed, with the version RR.rr.
const IDENTIFICATION: usize = 0x00;
/// Returns the inverted value that was written.
const LIVENESS: usize = 0x04;
/// A value written is replaced by its factorial.
const FACTORIAL: usize = 0x08;
const STATUS: usize = 0x20;
/// The raised bits.
const INTERRUPT_STATUS: usize = 0x24;
/// Bits written are raised.
const RAISE: usize = 0x60;
/// Bits written are acknowledged.
const ACKNOWLEDGE: usize = 0x64;

/// Of [`IDENTIFICATION`], those bits that are not the version, and their value.
const IDENTITY_MASK: u32 = 0xffff;
const IDENTITY: u32 = 0x00ed;
/// Of [`STATUS`]: a factorial is being computed.
const COMPUTING: u32 = 0x01;
/// Of [`STATUS`]: an interrupt is raised when it is computed.
const INTERRUPT_WHEN_COMPUTED: u32 = 0x80;
/// The bit that is raised then.
pub(crate) const COMPUTED: u32 = 0x01;
/// A value to show that the device is alive.
const PATTERN: u32 = 0x1234_a5c3;

/// The device.
#[derive(Clone, Debug)]
pub(crate) struct Device<R> {
    registers: R,
}

impl<R: Mmio> Device<R> {
    /// The device behind these registers, with no interrupt raised.
    ///
    /// # Errors
    /// [`Failure::Device`] for another one, [`Failure::Registers`].
    pub(crate) fn new(registers: R) -> Result<Self, Failure> {
        if registers.read32(IDENTIFICATION)? & IDENTITY_MASK != IDENTITY {
            return Err(Failure::Device("is no edu device"));
        }
        registers.write32(LIVENESS, PATTERN)?;
        if registers.read32(LIVENESS)? != !PATTERN {
            return Err(Failure::Device("does not invert what is written to its liveness register"));
        }
        Ok(Self { registers })
    }

    /// Raises these bits, and with them an interrupt.
    pub(crate) fn raise(&self, bits: u32) -> Result<(), OutOfBounds> {
        self.registers.write32(RAISE, bits)
    }

    /// The bits that were raised and not acknowledged.
    pub(crate) fn raised(&self) -> Result<u32, OutOfBounds> {
        self.registers.read32(INTERRUPT_STATUS)
    }

    /// Acknowledges these bits. The pin falls with the last one.
    pub(crate) fn acknowledge(&self, bits: u32) -> Result<(), OutOfBounds> {
        self.registers.write32(ACKNOWLEDGE, bits)
    }

    /// Starts a computation of `steps` steps, at the end of which the device raises [`COMPUTED`] by itself.
    pub(crate) fn compute(&self, steps: u32) -> Result<(), OutOfBounds> {
        self.registers.write32(STATUS, INTERRUPT_WHEN_COMPUTED)?;
        self.registers.write32(FACTORIAL, steps)
    }

    /// Whether the computation goes on.
    pub(crate) fn is_computing(&self) -> Result<bool, OutOfBounds> {
        Ok(self.registers.read32(STATUS)? & COMPUTING != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::rc::Rc;
    use core::cell::Cell;

    /// A device with this identification. Its liveness register keeps what was written, inverted or as it was.
    #[derive(Clone, Debug)]
    struct Registers {
        identification: u32,
        inverts: bool,
        liveness: Rc<Cell<u32>>,
    }

    impl Mmio for Registers {
        fn len(&self) -> usize {
            8
        }

        fn read32(&self, offset: usize) -> Result<u32, OutOfBounds> {
            match offset {
                IDENTIFICATION => Ok(self.identification),
                LIVENESS => Ok(self.liveness.get()),
                _ => Err(OutOfBounds),
            }
        }

        fn write32(&self, offset: usize, value: u32) -> Result<(), OutOfBounds> {
            match offset {
                LIVENESS => self.liveness.set(if self.inverts { !value } else { value }),
                _ => return Err(OutOfBounds),
            }
            Ok(())
        }
    }

    fn device(identification: u32, inverts: bool) -> Result<Device<Registers>, Failure> {
        Device::new(Registers { identification, inverts, liveness: Rc::default() })
    }

    #[test]
    fn another_function_is_refused() {
        assert!(device(0x0100_00ed, true).is_ok());
        assert!(device(0x0203_00ed, true).is_ok(), "another version");
        assert_eq!(device(0x0100_00ee, true).unwrap_err(), Failure::Device("is no edu device"));
        assert_eq!(device(u32::MAX, true).unwrap_err(), Failure::Device("is no edu device"));
        assert!(matches!(device(0x0100_00ed, false), Err(Failure::Device(_))));
    }

    #[test]
    fn a_function_with_too_few_registers_is_an_error() {
        assert_eq!(device(0x0100_00ed, true).unwrap().raise(1), Err(OutOfBounds));
    }
}
