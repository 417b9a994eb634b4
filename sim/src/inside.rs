//! The device models inside PCI functions: an NVMe controller, or an `edu` device.

use crate::edu::Edu;
use sim_nvme::{AccessSize, Controller};
use sim_page::SharedPage;
use sim_pci::{Device, Level, Reset, Upstream, VirtualFunction};

/// The device model of a function.
#[expect(clippy::large_enum_variant, reason = "a machine has a handful, nearly all of them controllers")]
pub(crate) enum Inside {
    /// An NVMe controller.
    Nvme(Nvme),
    /// QEMU's `edu` device.
    Edu(Edu),
}

impl Inside {
    /// Returns the controller, if the device is one.
    pub(crate) const fn controller(&self) -> Option<&Controller> {
        match self {
            Self::Nvme(Nvme(controller)) => Some(controller),
            Self::Edu(_) => None,
        }
    }

    /// Returns the controller for changes, if the device is one.
    pub(crate) const fn controller_mut(&mut self) -> Option<&mut Controller> {
        match self {
            Self::Nvme(Nvme(controller)) => Some(controller),
            Self::Edu(_) => None,
        }
    }
}

impl Device for Inside {
    fn read(&mut self, bar: u8, offset: u64, bytes: u8, now_ns: u64) -> u64 {
        match self {
            Self::Nvme(nvme) => nvme.read(bar, offset, bytes, now_ns),
            Self::Edu(edu) => edu.read(bar, offset, bytes, now_ns),
        }
    }

    fn write(&mut self, bar: u8, offset: u64, bytes: u8, value: u64, now_ns: u64, function: &mut dyn Upstream) {
        match self {
            Self::Nvme(nvme) => nvme.write(bar, offset, bytes, value, now_ns, function),
            Self::Edu(edu) => edu.write(bar, offset, bytes, value, now_ns, function),
        }
    }

    fn reset(&mut self, reset: Reset, now_ns: u64) {
        match self {
            Self::Nvme(nvme) => nvme.reset(reset, now_ns),
            Self::Edu(edu) => edu.reset(reset, now_ns),
        }
    }

    fn advance(&mut self, now_ns: u64, function: &mut dyn Upstream) {
        match self {
            Self::Nvme(nvme) => nvme.advance(now_ns, function),
            Self::Edu(edu) => edu.advance(now_ns, function),
        }
    }

    fn next_event_ns(&self) -> Option<u64> {
        match self {
            Self::Nvme(nvme) => nvme.next_event_ns(),
            Self::Edu(edu) => edu.next_event_ns(),
        }
    }

    fn virtual_function(&mut self, state: VirtualFunction) {
        match self {
            Self::Nvme(nvme) => nvme.virtual_function(state),
            Self::Edu(edu) => edu.virtual_function(state),
        }
    }
}

/// A controller inside its PCI function.
pub(crate) struct Nvme(pub(crate) Controller);

/// A controller's path to memory and interrupts, through its function.
pub(crate) struct Up<'a>(pub(crate) &'a mut dyn Upstream);

impl sim_nvme::Host for Up<'_> {
    fn read(&mut self, address: u64, bytes: &mut [u8]) -> Result<(), sim_nvme::Blocked> {
        self.0.dma_read(address, bytes).map_err(|_| sim_nvme::Blocked)
    }

    fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), sim_nvme::Blocked> {
        self.0.dma_write(address, bytes).map_err(|_| sim_nvme::Blocked)
    }

    fn read_pages(&mut self, address: u64, count: usize, pages: &mut Vec<SharedPage>) -> Result<(), sim_nvme::Blocked> {
        self.0.dma_read_pages(address, count, pages).map_err(|_| sim_nvme::Blocked)
    }

    fn write_pages(&mut self, address: u64, pages: &[SharedPage]) -> Result<(), sim_nvme::Blocked> {
        self.0.dma_write_pages(address, pages).map_err(|_| sim_nvme::Blocked)
    }

    fn interrupt(&mut self, vector: u16) {
        self.0.interrupt(vector);
    }

    fn is_bus_master(&self) -> bool {
        self.0.is_bus_master()
    }

    fn pin(&mut self, level: sim_nvme::Level) {
        self.0.pin(match level {
            sim_nvme::Level::Asserted => Level::Asserted,
            sim_nvme::Level::Deasserted => Level::Deasserted,
        });
    }
}

impl Device for Nvme {
    fn read(&mut self, bar: u8, offset: u64, bytes: u8, _now_ns: u64) -> u64 {
        match AccessSize::from_bytes(bytes).filter(|_| bar == 0) {
            Some(size) => self.0.read(offset, size),
            None => u64::MAX,
        }
    }

    fn write(&mut self, bar: u8, offset: u64, bytes: u8, value: u64, now_ns: u64, function: &mut dyn Upstream) {
        if let Some(size) = AccessSize::from_bytes(bytes).filter(|_| bar == 0) {
            self.0.write(offset, size, value, now_ns, &mut Up(function));
        }
    }

    fn reset(&mut self, reset: Reset, now_ns: u64) {
        match reset {
            Reset::FunctionLevel | Reset::Bus => self.0.function_level_reset(),
            Reset::Power => self.0.power_loss(now_ns),
        }
    }

    fn advance(&mut self, now_ns: u64, function: &mut dyn Upstream) {
        self.0.advance(now_ns, &mut Up(function));
    }

    fn next_event_ns(&self) -> Option<u64> {
        self.0.next_event_ns()
    }

    fn virtual_function(&mut self, state: VirtualFunction) {
        match state {
            VirtualFunction::Enabled => self.0.function_enabled(),
            VirtualFunction::Disabled => self.0.function_disabled(),
        }
    }
}
