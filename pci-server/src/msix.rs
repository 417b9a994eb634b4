//! MSI-X: the pages that the server keeps, and the table in them.
//!
//! The table decides where a function's messages go, so its pages and those of the PBA are never mapped for a driver,
//! and no capability to them leaves this component. Entries are masked from the moment MSI-X is on until a
//! vector is bound. MSI-X is on before a driver gets to enable its controller, because QEMU's NVMe device decides then
//! which vectors it will use: with MSI-X off at that moment it never raises vector 0.

use crate::config_space::ConfigSpace;
use crate::function::{Function, Unusable};
use core::ops::Range;
use pci_spec::Bdf;
use pci_spec::msi;
use pci_spec::msix::{CONTROL_OFFSET, Control, Entry, MsixCapability, Place, VectorControl};
use platform::{Mmio, OutOfBounds, PAGE_BITS};

/// Reason why a function's table and PBA cannot be kept apart from the rest of its registers, if so.
///
/// The places of registers are not known. But a table or PBA that begins inside a page has something before it in that
/// page; if that is not the other of the two, it counts as registers. The rest of the last page counts as padding and is
/// withheld too, because the standard asks devices to leave it free (PCI 6.8.2).
#[must_use]
pub fn misplaced(function: &Function) -> Option<Unusable> {
    let msix = function.msix?;
    for (place, other) in [(msix.table, msix.pending), (msix.pending, msix.table)] {
        if !function.memory_bars().any(|bar| bar.index() == place.bar && place.fits(bar.size())) {
            return Some(Unusable::Msix);
        }
        if place.offset.trailing_zeros() < PAGE_BITS && !precedes(other, place) {
            return Some(Unusable::TableSharesPage);
        }
    }
    None
}

/// Whether `first` lies in the page in which `second` begins, before it.
fn precedes(first: Place, second: Place) -> bool {
    let page = u64::from(second.offset) >> PAGE_BITS;
    first.bar == second.bar && first.offset < second.offset && first.pages().contains(&page)
}

/// The table of a function, mapped for the server alone.
#[derive(Clone, Debug)]
pub struct Table<M> {
    registers: M,
    /// Offset of the first entry in `registers`.
    offset: usize,
    entries: u16,
}

impl<M: Mmio> Table<M> {
    /// The table in `registers`, which are the pages [`table_pages`] names.
    #[must_use]
    pub fn new(registers: M, msix: &MsixCapability) -> Self {
        let page_mask = (1u32 << PAGE_BITS).wrapping_sub(1);
        let offset = (msix.table.offset & page_mask) as usize;
        Self { registers, offset, entries: msix.control.entries() }
    }

    /// Masks every entry.
    ///
    /// # Errors
    ///
    /// [`OutOfBounds`] when less is mapped than the table needs.
    pub fn mask_all(&self) -> Result<(), OutOfBounds> {
        for vector in 0..self.entries {
            self.mask(vector)?;
        }
        Ok(())
    }

    /// Masks the entry of `vector`.
    ///
    /// # Errors
    ///
    /// [`OutOfBounds`] when there is no such vector.
    pub fn mask(&self, vector: u16) -> Result<(), OutOfBounds> {
        let control = self.entry(vector)?.checked_add(CONTROL_OFFSET).ok_or(OutOfBounds)?;
        self.registers.write32(control, VectorControl::Masked as u32)?;
        self.registers.read32(control).map(|_| ())
    }

    /// Makes `vector` send `message` from now on.
    ///
    /// # Errors
    ///
    /// As [`Table::mask`].
    pub fn set(&self, vector: u16, message: msi::Message) -> Result<(), OutOfBounds> {
        self.mask(vector)?;
        let entry = Entry::new(message, VectorControl::Unmasked);
        let mut at = self.entry(vector)?;
        // The vector control is the last dword: it unmasks what is complete.
        for dword in [entry.address, entry.address_upper, entry.data, entry.control] {
            self.registers.write32(at, dword)?;
            at = at.checked_add(size_of::<u32>()).ok_or(OutOfBounds)?;
        }
        Ok(())
    }

    fn entry(&self, vector: u16) -> Result<usize, OutOfBounds> {
        if vector >= self.entries {
            return Err(OutOfBounds);
        }
        let bytes = usize::from(vector).checked_mul(size_of::<Entry>()).ok_or(OutOfBounds)?;
        self.offset.checked_add(bytes).ok_or(OutOfBounds)
    }
}

/// The pages of its BAR that the table lies in.
#[must_use]
pub const fn table_pages(msix: &MsixCapability) -> Range<u64> {
    msix.table.pages()
}

/// Turns MSI-X on, with everything masked until [`unmask_function`].
pub fn enable_masked<M: Mmio>(config: &mut ConfigSpace<M>, bdf: Bdf, msix: &MsixCapability) {
    write_control(config, bdf, msix, msix.control.with_enable(true).with_function_mask(true));
}

/// Leaves masking to the entries.
pub fn unmask_function<M: Mmio>(config: &mut ConfigSpace<M>, bdf: Bdf, msix: &MsixCapability) {
    write_control(config, bdf, msix, msix.control.with_enable(true).with_function_mask(false));
}

/// Turns MSI-X off.
pub fn disable<M: Mmio>(config: &mut ConfigSpace<M>, bdf: Bdf, msix: &MsixCapability) {
    write_control(config, bdf, msix, msix.control.with_enable(false).with_function_mask(true));
}

fn write_control<M: Mmio>(config: &mut ConfigSpace<M>, bdf: Bdf, msix: &MsixCapability, control: Control) {
    config.write_upper_half(bdf, msix.offset, control.into_bits());
}
