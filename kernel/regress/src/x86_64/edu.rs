//! QEMU's `edu` device: a PCI function with a DMA engine, a buffer of its own, and a message-signalled interrupt.
//!
//! Source: QEMU, docs/specs/edu. Left out: its factorial unit and INTx.

use super::ports;
use crate::machine::Machine;
use crate::sys::{self, values};
use crate::verdict::{Check, Failure, need};

/// Bus 0, device 4, function 0: where `kernel::regress` puts it. On the root bus, so its requester id is its own.
pub(crate) const REQUESTER_ID: u16 = 4 << 3;

/// Ports of the configuration mechanism (PCI Local Bus Specification 3.0, section 3.2.2.3.2).
const CONFIG_ADDRESS: u16 = 0xcf8;
const CONFIG_DATA: u16 = 0xcfc;

/// Vendor and device.
const IDENTITY: u32 = 0x11e8_1234;
/// Memory space and bus mastering on.
const COMMAND: u32 = 0b110;
const MSI_CAPABILITY: u32 = 0x05;

/// The registers take 1 MiB of the PC's hole for PCI, which ends below the interrupt controllers.
const BAR_BITS: u8 = 20;
const PCI_HOLE: core::ops::Range<u64> = 0xc000_0000..0xfec0_0000;

const REGISTER_IDENTITY: usize = 0x00;
const REGISTER_INTERRUPT_ACK: usize = 0x64;
const REGISTER_DMA_SOURCE: usize = 0x80;
const REGISTER_DMA_DESTINATION: usize = 0x88;
const REGISTER_DMA_COUNT: usize = 0x90;
const REGISTER_DMA_COMMAND: usize = 0x98;

/// Bits of the DMA command: start, towards memory, interrupt at the end.
const DMA_START: u64 = 1;
const DMA_TO_MEMORY: u64 = 2;
const DMA_INTERRUPT: u64 = 4;
/// The device's buffer in its own numbering.
const BUFFER: u64 = 0x40000;

/// The device, ready for DMA.
pub(crate) struct Edu {
    registers: usize,
}

/// The event at the end of a transfer.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum AtEnd {
    /// None; the command register shows the end.
    Silence,
    /// A message-signalled interrupt.
    Interrupt,
}

impl Edu {
    /// Finds the device, gives its registers an address that can be mapped, and maps them.
    pub(crate) fn new(machine: &mut Machine) -> Check<Self> {
        need(config_read(0)? == IDENTITY, "the edu device is not there")?;
        // The firmware put the registers somewhere in the middle of a large untyped; at its start they are easy to map.
        let (untyped, address) = machine.device_untyped(PCI_HOLE, BAR_BITS)?;
        config_write(0x10, address as u32)?;
        config_write(0x04, COMMAND)?;
        let registers = machine.map_device(untyped)?;
        let device = Self { registers };
        need(device.read(REGISTER_IDENTITY) & 0xffff == 0x00ed, "the edu device's registers do not answer")?;
        Ok(device)
    }

    /// Loads the word at `iova` into the device's buffer.
    pub(crate) fn load(&self, iova: u64) -> Check {
        self.transfer(iova, BUFFER, 0, AtEnd::Silence)
    }

    /// Loads the word at `iova` into the device's buffer, with an interrupt at the end.
    pub(crate) fn load_and_interrupt(&self, iova: u64) -> Check {
        self.transfer(iova, BUFFER, 0, AtEnd::Interrupt)?;
        self.write(REGISTER_INTERRUPT_ACK, u32::MAX);
        Ok(())
    }

    /// Stores the word in the device's buffer at `iova`.
    pub(crate) fn store(&self, iova: u64) -> Check {
        self.transfer(BUFFER, iova, DMA_TO_MEMORY, AtEnd::Silence)
    }

    fn transfer(&self, source: u64, destination: u64, direction: u64, at_end: AtEnd) -> Check {
        let interrupt = if at_end == AtEnd::Interrupt { DMA_INTERRUPT } else { 0 };
        self.write(REGISTER_DMA_SOURCE, source);
        self.write(REGISTER_DMA_DESTINATION, destination);
        self.write(REGISTER_DMA_COUNT, 8_u64);
        self.write(REGISTER_DMA_COMMAND, DMA_START | direction | interrupt);
        // A transfer takes a tenth of a second; a busy build machine may take much longer.
        for _ in 0..1_000_000_000_u64 {
            if self.read(REGISTER_DMA_COMMAND) & DMA_START as u32 == 0 {
                return Ok(());
            }
        }
        Err(Failure::Broken("a transfer does not end", 0))
    }

    /// Switches message-signalled interrupts on, raising the kernel's interrupt `irq`.
    pub(crate) fn enable_msi(&self, irq: u64) -> Check {
        let at = find_msi()?;
        // Address of the only processor's interrupt controller, upper half, data; then the enable bit.
        config_write(at + 4, 0xfee0_0000)?;
        config_write(at + 8, 0)?;
        config_write(at + 12, (values::IRQ_VECTOR_OFFSET as u64 + irq) as u32)?;
        let control = config_read(at)?;
        config_write(at, control | 1 << 16)
    }

    fn read(&self, register: usize) -> u32 {
        // SAFETY: the page with the registers is mapped, and nothing of this program lies there.
        unsafe { sys::volatile_read(self.registers + register) }
    }

    fn write<T: Copy>(&self, register: usize, value: T) {
        // SAFETY: as for `read`.
        unsafe { sys::volatile_write(self.registers + register, value) }
    }
}

/// The offset of the MSI capability, which has 64-bit addresses.
fn find_msi() -> Check<u32> {
    let mut at = config_read(0x34)? & 0xfc;
    // A list of capabilities fits into 192 bytes of 4 each.
    for _ in 0..48 {
        if at == 0 {
            break;
        }
        let header = config_read(at)?;
        if header & 0xff == MSI_CAPABILITY {
            need(header & 1 << 23 != 0, "the edu device's MSI capability has another layout")?;
            return Ok(at);
        }
        at = header >> 8 & 0xfc;
    }
    Err(Failure::Broken("the edu device has no MSI capability", 0))
}

fn select(offset: u32) -> Check {
    let address = 1 << 31 | u32::from(REQUESTER_ID) << 8 | offset;
    ports::out32(CONFIG_ADDRESS, address).map_err(|error| Failure::Broken("configuration address", error))
}

fn config_read(offset: u32) -> Check<u32> {
    select(offset)?;
    ports::in32(CONFIG_DATA).map_err(|error| Failure::Broken("configuration read", error))
}

fn config_write(offset: u32, value: u32) -> Check {
    select(offset)?;
    ports::out32(CONFIG_DATA, value).map_err(|error| Failure::Broken("configuration write", error))
}
