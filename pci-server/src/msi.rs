//! MSI: one message address for all vectors of a function, and data that count up from a base.
//!
//! A function puts the number of a vector into the low bits of the data, so its vectors need a run of kernel interrupts
//! whose messages are consecutive from a multiple of their number on (PCI 6.8.1.6). Where the function has mask bits, a
//! vector stays masked until it is bound. Where it has none, a message of an unbound vector reaches a kernel interrupt
//! without a handler, which no other function gets meanwhile. Neighbours: `interrupts` calls this; `msix` is MSI-X.

use crate::bound::Vector;
use crate::config_space::ConfigSpace;
use crate::resources::Resources;
use core::ops::Range;
use pci_api::Refusal;
use pci_spec::Bdf;
use pci_spec::capability::{self, id};
use pci_spec::msi::{ADDRESS_OFFSET, ADDRESS_UPPER_OFFSET, Control, Message, MsiCapability};
use platform::{Kernel, Mmio, Platform};

/// Kernel interrupts whose messages one function sends.
#[derive(Clone, Debug)]
pub struct Run {
    first: u8,
    /// A power of two, at most 32.
    count: u8,
    /// The message of the first.
    message: Message,
}

impl Run {
    /// Takes as many as the function can send, a power of two up to `most`; fewer where no run of that length is free.
    ///
    /// # Errors
    ///
    /// [`Refusal::Exhausted`] when no interrupt is free, [`Refusal::Unusable`] when the function cannot name the address
    /// or the data.
    pub fn take<P: Platform>(
        resources: &mut Resources<P>,
        capability: &MsiCapability,
        most: u16,
    ) -> Result<Self, Refusal> {
        let kernel = resources.kernel();
        let wanted = u16::from(capability.vectors()).min(most.max(1));
        let sizes = (0..=5u8).rev().map(|log2| 1u8 << log2).filter(|count| u16::from(*count) <= wanted);
        for count in sizes {
            let first = resources.irqs.take_run(count, |first| is_consecutive(&kernel, first, count));
            let Some(first) = first else { continue };
            let (address, data) = kernel.msi_message(first);
            let run = Self { first, count, message: Message { address, data } };
            if !run.fits(capability.control) {
                run.put_back(resources, &[]);
                return Err(Refusal::Unusable);
            }
            return Ok(run);
        }
        Err(Refusal::Exhausted)
    }

    /// Whether the function has room for the address and the data.
    fn fits(&self, control: Control) -> bool {
        let Message { address, data } = self.message;
        (control.address_64() || address >> 32 == 0) && data >> 16 == 0
    }

    /// Number of interrupts.
    #[must_use]
    pub fn len(&self) -> u16 {
        u16::from(self.count)
    }

    /// Always false: a run has at least one interrupt.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The kernel interrupt of vector `index`.
    ///
    /// # Errors
    ///
    /// [`Refusal::NoSuchVector`].
    pub fn irq(&self, index: u16) -> Result<u8, Refusal> {
        let index = u8::try_from(index).ok().filter(|index| *index < self.count).ok_or(Refusal::NoSuchVector)?;
        self.first.checked_add(index).ok_or(Refusal::NoSuchVector)
    }

    /// Returns those that no vector has; vectors return their own.
    pub fn put_back<P: Platform>(self, resources: &mut Resources<P>, vectors: &[Vector]) {
        for irq in self.irqs().filter(|irq| vectors.iter().all(|vector| vector.irq != *irq)) {
            resources.irqs.put(irq);
        }
    }

    fn irqs(&self) -> Range<u8> {
        self.first..self.first.saturating_add(self.count)
    }
}

/// Whether `count` interrupts from `first` on have one address, and data that count up from a multiple of `count`.
fn is_consecutive(kernel: &impl Kernel, first: u8, count: u8) -> bool {
    let (address, data) = kernel.msi_message(first);
    let is_next = |index: u8| {
        let irq = first.checked_add(index);
        irq.zip(data.checked_add(index.into())).is_some_and(|(irq, data)| kernel.msi_message(irq) == (address, data))
    };
    data.is_multiple_of(count.into()) && (0..count).all(is_next)
}

/// Turns MSI on with the messages of `run`, every vector masked where the function has mask bits.
pub fn enable<M: Mmio>(config: &mut ConfigSpace<M>, bdf: Bdf, capability: &MsiCapability, run: &Run) {
    let control = capability.control;
    let mut write = |register: u8, value: u32| config.write(bdf, capability.offset.wrapping_add(register), value);
    let [low, high] = [run.message.address & 0xffff_ffff, run.message.address >> 32].map(|half| half as u32);
    write(ADDRESS_OFFSET, low);
    if control.address_64() {
        write(ADDRESS_UPPER_OFFSET, high);
    }
    // Nothing but extended data lies in the upper half, which is not turned on.
    write(control.data_offset(), run.message.data);
    if let Some(mask) = control.mask_offset() {
        write(mask, u32::MAX);
    }
    let enabled = run.count.trailing_zeros() as u8;
    let control = control.with_enabled(enabled).with_enable(true);
    config.write_upper_half(bdf, capability.offset, control.into_bits());
}

/// Lets the messages of vector `index` through.
pub fn unmask<M: Mmio>(config: &mut ConfigSpace<M>, bdf: Bdf, capability: &MsiCapability, index: u16) {
    let Some(mask) = capability.control.mask_offset() else { return };
    let register = capability.offset.wrapping_add(mask);
    let bits = config.read(bdf, register) & !1u32.wrapping_shl(index.into());
    config.write(bdf, register, bits);
    let _ = config.read(bdf, register); // A posted write has arrived after this.
}

/// Turns MSI off, even where its capability is impossible: left on, it would replace the interrupts that are wanted.
pub fn disable<M: Mmio>(config: &mut ConfigSpace<M>, bdf: Bdf) {
    let Ok(Some(found)) = capability::find(&|register: u8| config.read(bdf, register), id::MSI) else {
        return;
    };
    let control = Control::from_bits(found.control).with_enable(false);
    config.write_upper_half(bdf, found.offset, control.into_bits());
}
