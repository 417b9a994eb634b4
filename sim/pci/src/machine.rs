//! The seams of the tree: what a function's inside is to it ([`Device`]), what it is to a function's inside
//! ([`Upstream`]), and what it needs of the machine above it ([`Machine`]).
//!
//! Addresses are physical or, for DMA, as the device sent them; times are nanoseconds of virtual time. Left out: any
//! device (`sim-nvme` has one), the IOMMU and memory (`sim-kernel`).

use core::fmt;
use sim_page::{PAGE_BYTES, SharedPage};

/// The inside of an endpoint: what its registers do. Everything a standard says about configuration space, BARs,
/// interrupts' masking and resets is the tree's.
pub trait Device {
    /// Reads `bytes` (1, 2, 4 or 8; aligned) at byte `offset` of BAR `bar`, little endian. The MSI-X table and pending
    /// bits never come here.
    fn read(&mut self, bar: u8, offset: u64, bytes: u8, now_ns: u64) -> u64;

    /// Writes the low `bytes` bytes of `value`, as [`Device::read`].
    fn write(&mut self, bar: u8, offset: u64, bytes: u8, value: u64, now_ns: u64, function: &mut dyn Upstream);

    /// Goes back to the state after power on, as far as this reset does that. Nothing may be sent afterwards for
    /// what was asked before.
    fn reset(&mut self, reset: Reset, now_ns: u64);

    /// Does all that is due at `now_ns`.
    fn advance(&mut self, now_ns: u64, function: &mut dyn Upstream);

    /// When [`Device::advance`] has something to do next; may lie in the past.
    fn next_event_ns(&self) -> Option<u64>;

    /// Software turned a way of interrupting on or off. A device that asserts its pin for as long as something is
    /// unanswered needs nothing of this: the tree remembers the pin's level.
    fn interrupts_changed(&mut self, _interrupts: Interrupts) {}
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

/// What a device may send up.
pub trait Upstream {
    /// Reads memory by DMA.
    ///
    /// # Errors
    ///
    /// [`Blocked`]; `bytes` is then as it was or partly overwritten.
    fn dma_read(&mut self, address: u64, bytes: &mut [u8]) -> Result<(), Blocked>;

    /// Writes memory by DMA. Four aligned bytes to where interrupts are are one, whoever sends them.
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

    /// How the function interrupts.
    fn interrupts(&self) -> Interrupts;

    /// Whether what the function sends gets up: it and all bridges above it have Bus Master Enable set.
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

    /// A write of `data` to where writes are interrupts: 0xFEEx_xxxx on q35, the GICv2m's page on virt. There it is the
    /// IOMMU's to translate.
    fn message(&mut self, requester_id: u16, address: u64, data: u32);

    /// An interrupt line changed, an I/O APIC's pin or a GIC's interrupt: several functions may share it.
    fn pin(&mut self, interrupt_line: u8, level: Level);
}

/// State of an interrupt pin, whatever its polarity.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Level {
    /// Somebody wants an interrupt.
    Asserted,
    /// Nobody does.
    #[default]
    Deasserted,
}

/// Why a DMA did not happen.
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
