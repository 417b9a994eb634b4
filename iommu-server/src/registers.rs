//! Register access by name, and handshakes with a bound (section 6.3).

use crate::error::Error;
use platform::Mmio;
use smmu_spec::registers::{Cr0, Gbpa, IrqCtrl, Register};

/// The SMMU's registers, and the number of polls after which it counts as not answering.
#[derive(Clone, Debug)]
pub(crate) struct Registers<R> {
    mmio: R,
    pub(crate) polls: u32,
}

impl<R: Mmio> Registers<R> {
    pub(crate) fn new(mmio: R, polls: u32) -> Self {
        Self { mmio, polls }
    }

    /// Reads a 32-bit register.
    pub(crate) fn read(&self, register: Register) -> Result<u32, Error> {
        Ok(self.mmio.read32(register.offset())?)
    }

    /// Writes a 32-bit register.
    pub(crate) fn write(&self, register: Register, value: u32) -> Result<(), Error> {
        Ok(self.mmio.write32(register.offset(), value)?)
    }

    /// Reads a 64-bit register.
    pub(crate) fn read_wide(&self, register: Register) -> Result<u64, Error> {
        Ok(self.mmio.read64(register.offset())?)
    }

    /// Writes a 64-bit register.
    pub(crate) fn write_wide(&self, register: Register, value: u64) -> Result<(), Error> {
        Ok(self.mmio.write64(register.offset(), value)?)
    }

    /// Sets CR0 and waits for CR0ACK (section 6.3.9: no other write to CR0 before).
    pub(crate) fn enable(&self, cr0: Cr0) -> Result<(), Error> {
        self.wait(Register::Cr0Ack, |ack| ack == self.read(Register::Cr0).unwrap_or(!ack))?;
        self.write(Register::Cr0, cr0.into_bits())?;
        self.wait(Register::Cr0Ack, |ack| ack == cr0.into_bits())
    }

    /// Sets IRQ_CTRL and waits for IRQ_CTRLACK (section 6.3.16).
    pub(crate) fn enable_interrupts(&self, interrupts: IrqCtrl) -> Result<(), Error> {
        self.wait(Register::IrqCtrlAck, |ack| ack == self.read(Register::IrqCtrl).unwrap_or(!ack))?;
        self.write(Register::IrqCtrl, interrupts.into_bits())?;
        self.wait(Register::IrqCtrlAck, |ack| ack == interrupts.into_bits())
    }

    /// Makes the SMMU abort transactions while it is off (section 6.3.14). Returns whether it will: QEMU before 8.0 has no such
    /// register, and reads 0 there.
    pub(crate) fn abort_while_off(&self) -> Result<bool, Error> {
        self.wait(Register::Gbpa, |value| !Gbpa::from_bits(value).update())?;
        let gbpa = Gbpa::from_bits(self.read(Register::Gbpa)?);
        self.write(Register::Gbpa, gbpa.with_abort(true).with_update(true).into_bits())?;
        self.wait(Register::Gbpa, |value| !Gbpa::from_bits(value).update())?;
        Ok(Gbpa::from_bits(self.read(Register::Gbpa)?).abort())
    }

    /// Reads a register until it has a value that `done` accepts, within the bound.
    fn wait(&self, register: Register, done: impl Fn(u32) -> bool) -> Result<(), Error> {
        for _ in 0..self.polls {
            if done(self.read(register)?) {
                return Ok(());
            }
            core::hint::spin_loop();
        }
        Err(Error::Unanswered)
    }
}
