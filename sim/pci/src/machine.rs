//! The interfaces of the tree: a function's inside, as the tree uses it ([`Device`]); the tree, as a function's inside
//! uses it ([`Upstream`]); and the machine above, as the tree uses it ([`Machine`]).
//!
//! Addresses are physical or, for DMA, as the device sent them; times are nanoseconds of virtual time. Left out: any
//! device (`sim-nvme` has one), the IOMMU and memory (`sim-kernel`).

use core::fmt;
use sim_page::{PAGE_BYTES, SharedPage};

/// The inside of an endpoint: the behaviour of its registers. The tree does everything that a standard says about
/// configuration space, BARs, masking of interrupts and resets.
pub trait Device {
    /// Reads `bytes` (1, 2, 4 or 8; aligned) at byte `offset` of BAR `bar`, little endian. The MSI-X table and pending
    /// bits never come here.
    fn read(&mut self, bar: u8, offset: u64, bytes: u8, now_ns: u64) -> u64;

    /// Writes the low `bytes` bytes of `value`, as [`Device::read`].
    fn write(&mut self, bar: u8, offset: u64, bytes: u8, value: u64, now_ns: u64, function: &mut dyn Upstream);

    /// Returns to the state after power on, as far as this reset does that. Afterwards nothing may be sent for earlier
    /// requests.
    fn reset(&mut self, reset: Reset, now_ns: u64);

    /// Executes everything that is due at `now_ns`.
    fn advance(&mut self, now_ns: u64, function: &mut dyn Upstream);

    /// Time at which [`Device::advance`] has something to do next; may lie in the past.
    fn next_event_ns(&self) -> Option<u64>;

    /// Notifies the device that software turned a way of interrupting on or off. A device that asserts its pin for as
    /// long as something is unanswered can ignore this: the tree remembers the pin's level.
    fn interrupts_changed(&mut self, _interrupts: Interrupts) {}

    /// Notifies the device inside a virtual function, after each of its resets, of the function's state.
    fn virtual_function(&mut self, _state: VirtualFunction) {}
}

/// State of a virtual function. Software changes it by the physical function, and every reset of that disables it (PCIe
/// 9.3.3.3.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum VirtualFunction {
    /// The virtual function exists.
    Enabled,
    /// Nothing reaches it.
    Disabled,
}

/// A reset of a function (PCIe 6.6).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reset {
    /// Function level reset: this function alone.
    FunctionLevel,
    /// Conventional reset from above: secondary bus reset.
    Bus,
    /// Power went away and came back: nothing volatile is left.
    Power,
}

/// How a function interrupts at the moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Interrupts {
    /// By its pin.
    Pin,
    /// By MSI.
    Msi,
    /// By MSI-X.
    Msix,
}

/// The tree as a device uses it: DMA, messages and the pin.
pub trait Upstream {
    /// Reads memory by DMA.
    ///
    /// # Errors
    ///
    /// [`Blocked`]; `bytes` is then as it was or partly overwritten.
    fn dma_read(&mut self, address: u64, bytes: &mut [u8]) -> Result<(), Blocked>;

    /// Writes memory by DMA. Four aligned bytes to an interrupt address are an interrupt, from any sender.
    ///
    /// # Errors
    ///
    /// [`Blocked`]; some of `bytes` may have been written.
    fn dma_write(&mut self, address: u64, bytes: &[u8]) -> Result<(), Blocked>;

    /// Reads `count` whole pages by one DMA, from a multiple of their size on, and adds them to `pages`.
    ///
    /// # Errors
    ///
    /// As [`Upstream::dma_read`].
    fn dma_read_pages(&mut self, address: u64, count: usize, pages: &mut Vec<SharedPage>) -> Result<(), Blocked>;

    /// Writes whole pages by one DMA, from a multiple of their size on.
    ///
    /// # Errors
    ///
    /// As [`Upstream::dma_write`].
    fn dma_write_pages(&mut self, address: u64, pages: &[SharedPage]) -> Result<(), Blocked>;

    /// Raises an MSI-X or MSI vector. Nothing happens while both are off.
    fn interrupt(&mut self, vector: u16);

    /// Sets the function's interrupt pin. The level is remembered, and shown to the machine while pins are used.
    fn pin(&mut self, level: Level);

    /// Returns how the function interrupts.
    fn interrupts(&self) -> Interrupts;

    /// Whether the function's requests reach the root: it and all bridges above it have Bus Master Enable set.
    fn is_bus_master(&self) -> bool;
}

/// The machine above the root complex.
pub trait Machine {
    /// Reads memory for a requester, through the IOMMU if there is one.
    ///
    /// # Errors
    ///
    /// [`Blocked::Refused`].
    fn dma_read(&mut self, requester_id: u16, address: u64, bytes: &mut [u8]) -> Result<(), Blocked>;

    /// Writes memory for a requester, as [`Machine::dma_read`].
    ///
    /// # Errors
    ///
    /// [`Blocked::Refused`].
    fn dma_write(&mut self, requester_id: u16, address: u64, bytes: &[u8]) -> Result<(), Blocked>;

    /// Reads `count` whole pages for a requester, from a multiple of their size on, and adds them to `pages`. A machine
    /// that can share them does.
    ///
    /// # Errors
    ///
    /// As [`Machine::dma_read`].
    fn dma_read_pages(
        &mut self,
        requester_id: u16,
        address: u64,
        count: usize,
        pages: &mut Vec<SharedPage>,
    ) -> Result<(), Blocked> {
        for at in (address..).step_by(PAGE_BYTES).take(count) {
            let mut page = SharedPage::zeroes();
            self.dma_read(requester_id, at, page.bytes_mut())?;
            pages.push(page);
        }
        Ok(())
    }

    /// Writes whole pages for a requester, as [`Machine::dma_read_pages`].
    ///
    /// # Errors
    ///
    /// As [`Machine::dma_write`].
    fn dma_write_pages(&mut self, requester_id: u16, address: u64, pages: &[SharedPage]) -> Result<(), Blocked> {
        let places = (address..).step_by(PAGE_BYTES);
        places.zip(pages).try_for_each(|(at, page)| self.dma_write(requester_id, at, page.bytes()))
    }

    /// Receives a write of `data` to an interrupt address: 0xFEEx_xxxx on q35, the GICv2m's page on virt. On virt the
    /// IOMMU has to translate it.
    fn message(&mut self, requester_id: u16, address: u64, data: u32);

    /// Reports a change of an interrupt line, an I/O APIC's pin or a GIC's interrupt: several functions may share it.
    fn pin(&mut self, interrupt_line: u8, level: Level);
}

/// State of an interrupt pin, whatever its polarity.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Level {
    /// An interrupt is wanted.
    Asserted,
    /// No interrupt is wanted.
    #[default]
    Deasserted,
}

/// The reason why a DMA did not happen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Blocked {
    /// The function or a bridge above it is not bus master, or the function is not powered.
    NotBusMaster,
    /// The machine refused: the IOMMU has no such translation or right, or there is no memory.
    Refused,
    /// The link to the function is down, or the function was switched off.
    Gone,
}

impl fmt::Display for Blocked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotBusMaster => "not bus master",
            Self::Refused => "refused by the machine",
            Self::Gone => "the function is gone",
        })
    }
}

impl core::error::Error for Blocked {}
