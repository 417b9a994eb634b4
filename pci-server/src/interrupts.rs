//! The interrupt modes of a claimed function, and the resources of each.
//!
//! | | reserved | turned on | bound | turned off |
//! |---|---|---|---|---|
//! | MSI-X | the table, mapped here | every entry masked | a kernel interrupt; the entry is written and unmasked | at the capability |
//! | MSI | a run of kernel interrupts | address, data, every vector masked | the handler; the mask bit | at the capability |
//! | a pin of its own | nothing | nothing | a kernel interrupt; the pin is let through | by the command register |
//! | a pin that drivers share | nothing | nothing | its place in the line (`shared_line`) | by the command register |
//!
//! [`Interrupts::give_back`] returns all that was reserved, after [`Interrupts::turn_off`]. Messages are on before
//! a driver gets to enable its controller (see `msix`), and two modes are never on together (PCI 6.8.1.3, 6.8.2.3).
//! Neighbours: `claim` has one of these; `server` decides which pins are shared.

use crate::addresses::page_of;
use crate::bound::Vector;
use crate::claim::Driver;
use crate::function::Function;
use crate::msi::{self, Run};
use crate::msix::{self, Table};
use crate::pages::{Page, map, take_back};
use crate::resources::{Resources, refused};
use crate::shared_line;
use alloc::vec::Vec;
use pci_api::{BY_HANDLER, BY_SERVER, Bound, INTERRUPTS_INTX, INTERRUPTS_MSI, INTERRUPTS_MSIX, Refusal};
use pci_spec::Bdf;
use pci_spec::msi::{Message, MsiCapability};
use pci_spec::msix::MsixCapability;
use platform::{CPtr, Cap, Kernel, Mmio, Notification, PAGE_BITS, PAGE_SIZE, Platform};
use virtio_drivers::transport::pci::bus::Command;

/// Interrupt mode that a driver wants.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// By messages of the table, one for each vector.
    Msix,
    /// By messages of the capability.
    Msi,
    /// By the pin.
    Intx,
}

impl Kind {
    /// From the number in a request.
    ///
    /// # Errors
    ///
    /// [`Refusal::BadRequest`] for numbers the interface does not have.
    pub const fn from_api(number: u16) -> Result<Self, Refusal> {
        match number {
            INTERRUPTS_MSIX => Ok(Self::Msix),
            INTERRUPTS_MSI => Ok(Self::Msi),
            INTERRUPTS_INTX => Ok(Self::Intx),
            _ => Err(Refusal::BadRequest),
        }
    }
}

/// The source of a claim's interrupts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Source {
    /// Messages of the table.
    Msix(MsixCapability),
    /// Messages of the capability.
    Msi(MsiCapability),
    /// An interrupt line at which no other driver's functions end.
    Line(u8),
    /// An interrupt line at which another driver's functions end.
    SharedLine(u8),
}

/// The interrupts of a claim.
#[derive(Debug)]
pub struct Interrupts<M> {
    bdf: Bdf,
    requester_id: Bdf,
    /// The number of its driver.
    driver: usize,
    source: Source,
    way: Way<M>,
    /// Vectors that can be asked for.
    vector_count: u16,
    /// Vectors that were asked for.
    vectors: Vec<Vector>,
}

/// Resources reserved for an interrupt mode.
#[derive(Debug)]
enum Way<M> {
    /// The table, and the pages that it is mapped by.
    Msix(MsixCapability, Table<M>, Vec<Page>),
    Msi(MsiCapability, Run),
    Line(u8),
    SharedLine(u8),
}

impl<M: Mmio> Interrupts<M> {
    /// Reserves the resources for the function to interrupt by `source`. Nothing about the function changes.
    ///
    /// # Errors
    ///
    /// [`Refusal::Unusable`], [`Refusal::Exhausted`] or [`Refusal::Kernel`]; nothing stays reserved.
    pub fn reserve<P: Platform<Mmio = M>>(
        resources: &mut Resources<P>,
        function: &Function,
        driver: &Driver<'_>,
        source: Source,
    ) -> Result<Self, Refusal> {
        let most = driver.config.max_vectors;
        let (way, vector_count) = match source {
            Source::Msix(capability) => {
                let (table, pages) = map_table(resources, function, driver, &capability)?;
                (Way::Msix(capability, table, pages), capability.control.entries().min(most))
            }
            Source::Msi(capability) => {
                let run = Run::take(resources, &capability, most)?;
                let count = run.len();
                (Way::Msi(capability, run), count)
            }
            Source::Line(line) => (Way::Line(line), most.min(1)),
            Source::SharedLine(line) => (Way::SharedLine(line), most.min(1)),
        };
        let (bdf, requester_id) = (function.bdf, function.requester_id);
        Ok(Self { bdf, requester_id, driver: driver.index, source, way, vector_count, vectors: Vec::new() })
    }

    /// Source of the interrupts.
    #[must_use]
    pub fn source(&self) -> Source {
        self.source
    }

    /// Vectors that can be asked for.
    #[must_use]
    pub fn count(&self) -> u16 {
        self.vector_count
    }

    /// Turns them on; no vector interrupts before it is bound. No other mode is on.
    ///
    /// # Errors
    ///
    /// [`Refusal::Unusable`] when the table is smaller than the function reports.
    pub fn turn_on<P: Platform<Mmio = M>>(&self, resources: &mut Resources<P>) -> Result<(), Refusal> {
        match &self.way {
            Way::Msix(capability, table, _) => {
                msix::enable_masked(&mut resources.config, self.bdf, capability);
                table.mask_all().map_err(|_| Refusal::Unusable)?;
                msix::unmask_function(&mut resources.config, self.bdf, capability);
            }
            Way::Msi(capability, run) => msi::enable(&mut resources.config, self.bdf, capability, run),
            Way::Line(_) | Way::SharedLine(_) => {}
        }
        Ok(())
    }

    /// Binds vector `index` to `notification` and lets it through. A vector bound before only changes its notification.
    ///
    /// # Errors
    ///
    /// [`Refusal::NoSuchVector`], [`Refusal::Exhausted`], [`Refusal::Kernel`].
    pub fn bind<P: Platform<Mmio = M>>(
        &mut self,
        resources: &mut Resources<P>,
        index: u64,
        notification: Cap<Notification>,
    ) -> Result<(Bound, CPtr), Refusal> {
        let index = u16::try_from(index).ok().filter(|index| *index < self.vector_count);
        let index = index.ok_or(Refusal::NoSuchVector)?;
        if let Way::SharedLine(line) = self.way {
            let resume = shared_line::join(resources, line, self.bdf, self.driver, notification)?;
            return Ok((Bound { by: BY_SERVER }, resume.cptr()));
        }
        let vector = self.vector(resources, index)?;
        let kernel = resources.kernel();
        kernel.irq_handler_set_notification(vector.handler, notification).map_err(refused("binding an interrupt"))?;
        self.let_through(resources, &vector)?;
        Ok((Bound { by: BY_HANDLER }, vector.handler.cptr()))
    }

    /// Vector `index`, made at the first request for it.
    fn vector<P: Platform<Mmio = M>>(&mut self, resources: &mut Resources<P>, index: u16) -> Result<Vector, Refusal> {
        if let Some(vector) = self.vectors.iter().find(|vector| vector.index == index) {
            return Ok(*vector);
        }
        let requester_id = self.requester_id;
        let vector = match &self.way {
            Way::Msi(_, run) => Vector::of_irq(resources, index, run.irq(index)?, None, requester_id)?,
            Way::Line(line) => Vector::make(resources, index, Some(*line), requester_id)?,
            Way::Msix(..) | Way::SharedLine(_) => Vector::make(resources, index, None, requester_id)?,
        };
        self.vectors.push(vector);
        Ok(vector)
    }

    fn let_through<P: Platform<Mmio = M>>(&self, resources: &mut Resources<P>, vector: &Vector) -> Result<(), Refusal> {
        let kernel = resources.kernel();
        // A new line is masked until the first acknowledgement. On some machines a message's interrupt that came before it was
        // bound is masked, too: the last message of an earlier claim may still be pending.
        kernel.irq_handler_ack(vector.handler).map_err(refused("acknowledging an interrupt"))?;
        match &self.way {
            Way::Msix(_, table, _) => {
                let (address, data) = kernel.msi_message(vector.irq);
                table.set(vector.index, Message { address, data }).map_err(|_| Refusal::Unusable)?;
            }
            Way::Msi(capability, _) => msi::unmask(&mut resources.config, self.bdf, capability, vector.index),
            Way::Line(_) | Way::SharedLine(_) => {
                resources.config.change_command(self.bdf, Command::empty(), Command::INTERRUPT_DISABLE);
            }
        }
        Ok(())
    }

    /// Turns them on again after a reset of the function, which turned them off. Bound vectors stay bound.
    ///
    /// # Errors
    ///
    /// [`Refusal::Unusable`], [`Refusal::Kernel`].
    pub fn restore<P: Platform<Mmio = M>>(&self, resources: &mut Resources<P>) -> Result<(), Refusal> {
        self.turn_on(resources)?;
        self.vectors.iter().try_for_each(|vector| self.let_through(resources, vector))
    }

    /// Turns them off: the function interrupts no more.
    pub fn turn_off<P: Platform<Mmio = M>>(&self, resources: &mut Resources<P>) {
        resources.config.change_command(self.bdf, Command::INTERRUPT_DISABLE, Command::empty());
        match &self.way {
            Way::Msix(capability, ..) => msix::disable(&mut resources.config, self.bdf, capability),
            Way::Msi(..) => msi::disable(&mut resources.config, self.bdf),
            Way::Line(_) | Way::SharedLine(_) => {}
        }
    }

    /// Returns the reserved resources and ends every vector, with the capabilities to it. The interrupts are off.
    pub fn give_back<P: Platform<Mmio = M>>(self, resources: &mut Resources<P>) {
        let Self { bdf, requester_id: _, driver: _, source: _, way, vector_count: _, vectors } = self;
        match way {
            Way::Msix(_, table, pages) => {
                drop(table);
                pages.into_iter().rev().for_each(|page| take_back(resources, page));
            }
            Way::Msi(_, run) => run.put_back(resources, &vectors),
            Way::Line(_) => {}
            Way::SharedLine(line) => shared_line::leave(resources, line, bdf),
        }
        vectors.into_iter().rev().for_each(|vector| vector.unmake(resources));
    }
}

/// Maps the table for the server: the table, and the pages to take back.
fn map_table<P: Platform>(
    resources: &mut Resources<P>,
    function: &Function,
    driver: &Driver<'_>,
    capability: &MsixCapability,
) -> Result<(Table<P::Mmio>, Vec<Page>), Refusal> {
    let mut pages = Vec::new();
    let table = map_table_pages(resources, function, driver, capability, &mut pages);
    match table {
        Ok(table) => Ok((table, pages)),
        Err(refusal) => {
            pages.into_iter().rev().for_each(|page| take_back(resources, page));
            Err(refusal)
        }
    }
}

fn map_table_pages<P: Platform>(
    resources: &mut Resources<P>,
    function: &Function,
    driver: &Driver<'_>,
    capability: &MsixCapability,
    pages: &mut Vec<Page>,
) -> Result<Table<P::Mmio>, Refusal> {
    let bar = function.memory_bars().find(|bar| bar.index() == capability.table.bar).ok_or(Refusal::Unusable)?;
    let numbers = msix::table_pages(capability);
    let count = numbers.end.saturating_sub(numbers.start);
    let first = resources.table_place(driver.index, driver.count, count).ok_or(Refusal::Exhausted)?;
    let mut vaddr = first;
    for number in numbers {
        let own_vspace = resources.own_vspace;
        map(resources, pages, page_of(bar, number)?, own_vspace, vaddr)?;
        vaddr = vaddr.checked_add(PAGE_SIZE as u64).ok_or(Refusal::Exhausted)?;
    }
    let bytes = usize::try_from(count << PAGE_BITS).map_err(|_| Refusal::Exhausted)?;
    let registers = resources.platform.mmio(first, bytes).map_err(|_| Refusal::Exhausted)?;
    Ok(Table::new(registers, capability))
}
