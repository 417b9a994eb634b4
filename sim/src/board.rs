//! The devices of a machine beside its PCI tree and its IOMMU: timer and serial port, as on q35 and virt, and the
//! physical addresses of all parts.

use crate::generic_timer::{self, Timer};
use crate::hpet::{self, Hpet};
use crate::iommu::Iommu;
use crate::pl011::{self, Pl011};
use crate::serial::Serial;
use capdl::Arch;
use sim_kernel::{Kernel, Level};
use sim_pci::HostBridge;
use std::ops::Range;

/// Physical addresses of a machine's parts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Places {
    /// Configuration space: 16 buses.
    ecam: u64,
    pci_window: (u64, u64),
    pub(crate) host: HostBridge,
}

/// Bytes of configuration space.
const ECAM_BYTES: u64 = 16 << 20;

impl Places {
    /// The addresses of an architecture's machine.
    pub(crate) const fn of(arch: Arch) -> Self {
        match arch {
            Arch::X86_64 => Self { ecam: 0xb000_0000, pci_window: (0xc000_0000, 0xfec0_0000), host: HostBridge::Q35 },
            Arch::Aarch64 => Self { ecam: 0x3f00_0000, pci_window: (0x1000_0000, 0x3eff_0000), host: HostBridge::Virt },
        }
    }

    /// Configuration space.
    pub(crate) const fn ecam(self) -> Range<u64> {
        self.ecam..self.ecam + ECAM_BYTES
    }

    /// The PCI window.
    pub(crate) const fn pci_window(self) -> Range<u64> {
        self.pci_window.0..self.pci_window.1
    }
}

/// The devices.
pub(crate) enum Board {
    /// A PC's: an HPET, and a serial port at I/O ports.
    Q35(Hpet, Serial),
    /// virt's: the processor's timer, and a PL011.
    Virt(Timer, Pl011),
}

impl Board {
    pub(crate) fn new(arch: Arch) -> Self {
        match arch {
            Arch::X86_64 => Self::Q35(Hpet::default(), Serial::default()),
            Arch::Aarch64 => Self::Virt(Timer::default(), Pl011::default()),
        }
    }

    /// Returns the IOMMU of an architecture's machine.
    pub(crate) fn iommu(arch: Arch, seed: u64) -> Iommu {
        match arch {
            Arch::X86_64 => Iommu::Kernels,
            Arch::Aarch64 => Iommu::smmu(seed),
        }
    }

    /// Returns the time of the timer's next event.
    pub(crate) fn next_event_ns(&self) -> Option<u64> {
        match self {
            Self::Q35(hpet, _) => hpet.next_event_ns(),
            Self::Virt(timer, _) => timer.next_event_ns(),
        }
    }

    /// Returns the timer's interrupt line if its deadline has passed and it interrupts.
    pub(crate) fn expire(&mut self, now_ns: u64, kernel: &mut Kernel) -> Option<u8> {
        match self {
            Self::Q35(hpet, _) => {
                let pin = hpet.expire(now_ns)?;
                kernel.line_interrupt(pin, Level::Asserted);
                kernel.line_interrupt(pin, Level::Deasserted);
                Some(pin)
            }
            Self::Virt(timer, _) => {
                let is_due = timer.poll(now_ns)?;
                show(is_due, kernel);
                is_due.then_some(generic_timer::LINE)
            }
        }
    }

    /// Sets the deadline of the processor's timer, in ticks of its counter, or clears it. Does nothing on a PC.
    pub(crate) fn set_deadline(&mut self, deadline: Option<u64>, now_ns: u64, kernel: &mut Kernel) {
        if let Self::Virt(timer, _) = self
            && let Some(is_due) = timer.set(deadline, now_ns)
        {
            show(is_due, kernel);
        }
    }

    /// Reads a device register, if there is one at `address`.
    pub(crate) fn read(&self, address: u64, bytes: u8, now_ns: u64) -> Option<u64> {
        match self {
            Self::Q35(hpet, _) => {
                let offset = within(address, hpet::BASE, hpet::BYTES)?;
                let low = u64::from(hpet.read(offset, now_ns));
                let high = if bytes == 8 { u64::from(hpet.read(offset + 4, now_ns)) } else { 0 };
                Some(low | high << 32)
            }
            Self::Virt(_, port) => Some(port.read(within(address, pl011::BASE, pl011::BYTES)?).into()),
        }
    }

    /// Writes a device register, if there is one at `address`.
    pub(crate) fn write(&mut self, address: u64, bytes: u8, value: u64, now_ns: u64) {
        match self {
            Self::Q35(hpet, _) => {
                let Some(offset) = within(address, hpet::BASE, hpet::BYTES) else { return };
                hpet.write(offset, value as u32, now_ns);
                if bytes == 8 {
                    hpet.write(offset + 4, (value >> 32) as u32, now_ns);
                }
            }
            Self::Virt(_, port) => {
                let Some(offset) = within(address, pl011::BASE, pl011::BYTES) else { return };
                port.write(offset, value as u32);
            }
        }
    }

    pub(crate) fn port_read(&self, port: u16) -> u8 {
        match self {
            Self::Q35(_, serial) => serial.read(port).unwrap_or(u8::MAX),
            Self::Virt(..) => u8::MAX,
        }
    }

    pub(crate) fn port_write(&mut self, port: u16, value: u8) {
        if let Self::Q35(_, serial) = self {
            serial.write(port, value);
        }
    }

    /// Sends bytes over the serial line, on the machine whose port is memory-mapped.
    pub(crate) fn send(&mut self, bytes: &[u8]) {
        if let Self::Virt(_, port) = self {
            port.send(bytes);
        }
    }

    pub(crate) fn take_serial(&mut self) -> Vec<u8> {
        match self {
            Self::Q35(_, serial) => serial.take(),
            Self::Virt(_, port) => port.take(),
        }
    }
}

/// Sets the level of the processor timer's interrupt line.
fn show(is_due: bool, kernel: &mut Kernel) {
    kernel.line_interrupt(generic_timer::LINE, if is_due { Level::Asserted } else { Level::Deasserted });
}

fn within(address: u64, base: u64, bytes: u64) -> Option<u64> {
    address.checked_sub(base).filter(|offset| *offset < bytes)
}
