//! One driver's claim: what it was given of a function, and how all of it comes back.
//!
//! A claim is filled step by step, and each step is written down before the next: whatever is there when one fails, or
//! when the driver releases, [`Claim::close`] takes back. Bus mastering is off before anything that the device might
//! still reach for is taken. Neighbours: `server` decides who may claim what; `pages` maps, `msix` knows the table,
//! `vector` interrupts, `shared_line` those of several claims. Left out: resetting the device, which is its driver's to
//! do.

use crate::bars;
use crate::function::Function;
use crate::msix::{self, Table};
use crate::pages::{Page, map, page_of, take_back};
use crate::resources::{Resources, refused};
use crate::shared_line;
use crate::vector::Vector;
use alloc::vec::Vec;
use pci_api::{BY_HANDLER, BY_SERVER, BarRun, Bound, Claimed, INTERRUPTS_INTX, INTERRUPTS_MSIX, MAX_RUNS, Refusal};
use pci_spec::{Bar, Bdf, msi};
use platform::log::error;
use platform::{
    CPtr, Cap, IoSpace, IrqHandler, Kernel, Mmio, Notification, PAGE_BITS, PAGE_SIZE, Platform, VSpace, Vaddr,
};
use virtio_drivers::transport::pci::bus::Command;

/// How a driver wants its interrupts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Interrupts {
    /// By messages, one for each vector.
    Msix,
    /// By the pin.
    Intx,
}

impl Interrupts {
    /// From the number in a request.
    ///
    /// # Errors
    ///
    /// [`Refusal::BadRequest`] for numbers the interface does not have.
    pub const fn from_api(number: u16) -> Result<Self, Refusal> {
        match number {
            INTERRUPTS_MSIX => Ok(Self::Msix),
            INTERRUPTS_INTX => Ok(Self::Intx),
            _ => Err(Refusal::BadRequest),
        }
    }
}

/// What a claim's interrupts come by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Source {
    /// Messages, one for each vector.
    Messages,
    /// An interrupt line at which no other driver's functions end.
    Line(u8),
    /// One at which they do.
    SharedLine(u8),
}

/// Whom a claim is for.
#[derive(Clone, Copy, Debug)]
pub struct Driver<'a> {
    /// What the system's model says of it.
    pub config: &'a pci_api::DriverConfig,
    /// Its number, from 0.
    pub index: usize,
    /// How many drivers there are.
    pub count: usize,
    /// Its VSpace.
    pub vspace: Cap<VSpace>,
}

/// What a driver has of a function.
#[derive(Debug)]
pub struct Claim<M> {
    bdf: Bdf,
    requester_id: Bdf,
    path: Vec<Bdf>,
    /// The number of its driver.
    driver: usize,
    source: Source,
    /// Vectors that can be asked for.
    vector_count: u16,
    /// Pages mapped in the driver, in the order of `runs`.
    pages: Vec<Page>,
    runs: Vec<BarRun>,
    /// Pages mapped in the server.
    table_pages: Vec<Page>,
    table: Option<Table<M>>,
    msix: Option<pci_spec::msix::MsixCapability>,
    vectors: Vec<Vector>,
    /// And its domain.
    io_space: Option<(Cap<IoSpace>, u16)>,
}

impl<M: Mmio> Claim<M> {
    /// Claims `function` for `driver`: maps its pages and turns its interrupts on, masked. Nothing stays when that
    /// fails.
    ///
    /// # Errors
    ///
    /// [`Refusal::Unusable`], [`Refusal::Exhausted`] or [`Refusal::Kernel`].
    pub fn open<P: Platform<Mmio = M>>(
        resources: &mut Resources<P>,
        function: &Function,
        driver: &Driver<'_>,
        source: Source,
    ) -> Result<Self, Refusal> {
        if function.unusable.is_some() || !bars::stand(&resources.config, function) {
            return Err(Refusal::Unusable);
        }
        let there_are = match source {
            Source::Messages => function.msix_vectors(),
            Source::Line(_) | Source::SharedLine(_) => 1,
        };
        if there_are == 0 {
            return Err(Refusal::Unusable);
        }
        let mut claim = Self {
            bdf: function.bdf,
            requester_id: function.requester_id,
            path: function.path.clone(),
            driver: driver.index,
            source,
            vector_count: there_are.min(driver.config.max_vectors),
            pages: Vec::new(),
            runs: Vec::new(),
            table_pages: Vec::new(),
            table: None,
            msix: function.msix,
            vectors: Vec::new(),
            io_space: None,
        };
        match claim.fill(resources, function, driver) {
            Ok(()) => Ok(claim),
            Err(refusal) => {
                claim.close(resources);
                Err(refusal)
            }
        }
    }

    fn fill<P: Platform<Mmio = M>>(
        &mut self,
        resources: &mut Resources<P>,
        function: &Function,
        driver: &Driver<'_>,
    ) -> Result<(), Refusal> {
        let silent = Command::BUS_MASTER;
        resources.config.change_command(self.bdf, Command::MEMORY_SPACE | Command::INTERRUPT_DISABLE, silent);
        msix::disable_msi(&mut resources.config, self.bdf);
        if let Some(capability) = &self.msix {
            msix::disable(&mut resources.config, self.bdf, capability);
        }
        for bar in function.memory_bars() {
            self.map_bar(resources, driver, bar)?;
        }
        if self.source == Source::Messages {
            self.prepare_table(resources, function, driver)?;
        }
        Ok(())
    }

    /// Maps all pages of `bar` in the driver but those of the MSI-X table and the PBA.
    fn map_bar<P: Platform<Mmio = M>>(
        &mut self,
        resources: &mut Resources<P>,
        driver: &Driver<'_>,
        bar: &Bar,
    ) -> Result<(), Refusal> {
        let pages = bar.size().div_ceil(PAGE_SIZE as u64);
        for number in 0..pages {
            if msix::withheld(self.msix.as_ref(), bar.index(), number) {
                continue;
            }
            let vaddr = self.next_vaddr(driver)?;
            let paddr = page_of(bar, number)?;
            let page = map(resources, &mut self.pages, paddr, driver.vspace, vaddr);
            page.map_err(|refusal| self.cut_short(bar, refusal))?;
            self.note(bar, number, vaddr)?;
        }
        Ok(())
    }

    fn cut_short(&self, bar: &Bar, refusal: Refusal) -> Refusal {
        error!("BAR {} of function {:x} cannot be mapped", bar.index(), self.bdf.to_raw());
        refusal
    }

    /// Where the next page goes in the driver's arena.
    fn next_vaddr(&self, driver: &Driver<'_>) -> Result<Vaddr, Refusal> {
        let used = u64::try_from(self.pages.len()).ok().and_then(|pages| pages.checked_mul(PAGE_SIZE as u64));
        let used = used.ok_or(Refusal::Exhausted)?;
        match used.checked_add(PAGE_SIZE as u64) {
            Some(end) if end <= driver.config.arena_len => {
                driver.config.arena.checked_add(used).ok_or(Refusal::Exhausted)
            }
            _ => Err(Refusal::Exhausted),
        }
    }

    /// Writes down that page `number` of `bar` is mapped at `vaddr`. The arena is given out in order, so a page that
    /// follows the last run's in the BAR follows it there too.
    fn note(&mut self, bar: &Bar, number: u64, vaddr: Vaddr) -> Result<(), Refusal> {
        let number = u32::try_from(number).map_err(|_| Refusal::Exhausted)?;
        let bar = u16::from(bar.index());
        let last = self.runs.last_mut().filter(|run| run.bar == bar);
        if let Some(run) = last.filter(|run| run.first_page.checked_add(run.pages.into()) == Some(number)) {
            run.pages = run.pages.checked_add(1).ok_or(Refusal::Exhausted)?;
            return Ok(());
        }
        if self.runs.len() >= MAX_RUNS {
            return Err(Refusal::Unusable);
        }
        self.runs.push(BarRun { vaddr: vaddr.bits(), first_page: number, pages: 1, bar });
        Ok(())
    }

    /// Maps the table for the server and turns MSI-X on, every entry masked.
    fn prepare_table<P: Platform<Mmio = M>>(
        &mut self,
        resources: &mut Resources<P>,
        function: &Function,
        driver: &Driver<'_>,
    ) -> Result<(), Refusal> {
        let capability = self.msix.ok_or(Refusal::Unusable)?;
        let bar = function.memory_bars().find(|bar| bar.index() == capability.table.bar).ok_or(Refusal::Unusable)?;
        let numbers = msix::table_pages(&capability);
        let count = numbers.end.saturating_sub(numbers.start);
        let first = resources.table_place(driver.index, driver.count, count).ok_or(Refusal::Exhausted)?;
        let mut vaddr = first;
        for number in numbers {
            let own_vspace = resources.own_vspace;
            map(resources, &mut self.table_pages, page_of(bar, number)?, own_vspace, vaddr)?;
            vaddr = vaddr.checked_add(PAGE_SIZE as u64).ok_or(Refusal::Exhausted)?;
        }
        let bytes = usize::try_from(count << PAGE_BITS).map_err(|_| Refusal::Exhausted)?;
        let registers = resources.platform.mmio(first, bytes).map_err(|_| Refusal::Exhausted)?;
        let table = Table::new(registers, &capability);
        msix::enable_masked(&mut resources.config, self.bdf, &capability);
        table.mask_all().map_err(|_| Refusal::Unusable)?;
        msix::unmask_function(&mut resources.config, self.bdf, &capability);
        self.table = Some(table);
        Ok(())
    }

    /// What the driver is told of its claim.
    #[must_use]
    pub fn claimed(&self) -> Claimed {
        let mut runs = [BarRun::default(); MAX_RUNS];
        for (room, run) in runs.iter_mut().zip(&self.runs) {
            *room = *run;
        }
        Claimed {
            bdf: self.bdf.to_raw(),
            requester_id: self.requester_id.to_raw(),
            vectors: self.vector_count,
            run_count: u16::try_from(self.runs.len()).unwrap_or(0),
            runs,
        }
    }

    /// Which function.
    #[must_use]
    pub fn bdf(&self) -> Bdf {
        self.bdf
    }

    /// The id its requests carry.
    #[must_use]
    pub fn requester_id(&self) -> Bdf {
        self.requester_id
    }

    /// The frame of mapped page `index`. What is sent of it is a copy, which dies when the frame here is revoked.
    ///
    /// # Errors
    ///
    /// [`Refusal::Unusable`] beyond the last page.
    pub fn frame(&self, index: u64) -> Result<CPtr, Refusal> {
        let page = usize::try_from(index).ok().and_then(|index| self.pages.get(index));
        page.map(|page| page.frame.cptr()).ok_or(Refusal::Unusable)
    }

    /// Binds vector `index` to `notification`. A vector bound before only changes its notification.
    ///
    /// # Errors
    ///
    /// [`Refusal::NoSuchVector`], [`Refusal::Exhausted`], [`Refusal::Kernel`].
    pub fn vector<P: Platform<Mmio = M>>(
        &mut self,
        resources: &mut Resources<P>,
        index: u64,
        notification: Cap<Notification>,
    ) -> Result<(Bound, CPtr), Refusal> {
        let index = u16::try_from(index).map_err(|_| Refusal::NoSuchVector)?;
        if index >= self.vector_count {
            return Err(Refusal::NoSuchVector);
        }
        let line = match self.source {
            Source::Messages => None,
            Source::Line(line) => Some(line),
            Source::SharedLine(line) => {
                let resume = shared_line::join(resources, line, self.bdf, self.driver, notification)?;
                return Ok((Bound { by: BY_SERVER }, resume.cptr()));
            }
        };
        let handler = self.own_vector(resources, index, line, notification)?;
        Ok((Bound { by: BY_HANDLER }, handler.cptr()))
    }

    fn own_vector<P: Platform<Mmio = M>>(
        &mut self,
        resources: &mut Resources<P>,
        index: u16,
        line: Option<u8>,
        notification: Cap<Notification>,
    ) -> Result<Cap<IrqHandler>, Refusal> {
        let bound = self.vectors.iter().find(|vector| vector.index == index).copied();
        let vector = match bound {
            Some(vector) => vector,
            None => {
                let vector = Vector::make(resources, index, line, self.requester_id)?;
                self.vectors.push(vector);
                vector
            }
        };
        let kernel = resources.kernel();
        kernel.irq_handler_set_notification(vector.handler, notification).map_err(refused("binding an interrupt"))?;
        self.let_through(resources, &vector)?;
        Ok(vector.handler)
    }

    fn let_through<P: Platform<Mmio = M>>(&self, resources: &mut Resources<P>, vector: &Vector) -> Result<(), Refusal> {
        let kernel = resources.kernel();
        // A new line is masked until the first acknowledgement. So is, on some machines, one that interrupted before it was
        // bound: the last message of an earlier claim may still be pending.
        kernel.irq_handler_ack(vector.handler).map_err(refused("acknowledging an interrupt"))?;
        match (&self.table, vector.line) {
            (Some(table), None) => {
                let (address, data) = kernel.msi_message(vector.irq);
                table.set(vector.index, msi::Message { address, data }).map_err(|_| Refusal::Unusable)
            }
            _ => {
                resources.config.change_command(self.bdf, Command::empty(), Command::INTERRUPT_DISABLE);
                Ok(())
            }
        }
    }

    /// The function's IOSpace, in `domain`.
    ///
    /// # Errors
    ///
    /// [`Refusal::Exhausted`] or [`Refusal::Kernel`].
    pub fn io_space<P: Platform<Mmio = M>>(
        &mut self,
        resources: &mut Resources<P>,
        domain: u16,
    ) -> Result<CPtr, Refusal> {
        if let Some((io_space, _)) = self.io_space {
            return Ok(io_space.cptr());
        }
        let slot = resources.slots.take()?;
        let (dest, master) = (resources.slot(slot), resources.slot(resources.io_space_master.cptr()));
        if let Err(reason) = resources.kernel().io_space_open(dest, master, domain, self.requester_id.to_raw()) {
            resources.slots.put(slot);
            return Err(refused("opening an IOSpace")(reason));
        }
        self.io_space = Some((slot.cast(), domain));
        Ok(slot)
    }

    /// Lets the function be bus master. Bridges above it must be, to forward its requests, and stay so: what lies
    /// behind them is silenced one by one.
    pub fn start<P: Platform<Mmio = M>>(&self, resources: &mut Resources<P>) {
        for bridge in self.path.iter().rev() {
            resources.config.change_command(*bridge, Command::BUS_MASTER | Command::MEMORY_SPACE, Command::empty());
        }
        resources.config.change_command(self.bdf, Command::BUS_MASTER, Command::empty());
    }

    /// Takes back whatever there is. What the kernel refuses to take is logged and left; the rest is taken all the
    /// same.
    pub fn close<P: Platform<Mmio = M>>(self, resources: &mut Resources<P>) {
        let Self {
            bdf,
            requester_id: _,
            path: _,
            driver: _,
            source,
            vector_count: _,
            pages,
            runs: _,
            table_pages,
            table,
            msix,
            vectors,
            io_space,
        } = self;
        resources.config.change_command(bdf, Command::INTERRUPT_DISABLE, Command::BUS_MASTER);
        if let Some(capability) = &msix {
            msix::disable(&mut resources.config, bdf, capability);
        }
        drop(table);
        for page in table_pages.into_iter().chain(pages).rev() {
            take_back(resources, page);
        }
        for vector in vectors.into_iter().rev() {
            vector.unmake(resources);
        }
        if let Source::SharedLine(line) = source {
            shared_line::leave(resources, line, bdf);
        }
        if let Some((io_space, domain)) = io_space {
            resources.close_io_space(domain);
            // The driver's copy goes first, then what it came from: with the last one the device's entry in the IOMMU
            // is cleared. Logged where it fails; the slot is then lost, and no other claim is touched by that.
            let _ = resources.revoke_and_delete(io_space.cptr());
        }
        resources.config.change_command(bdf, Command::empty(), Command::MEMORY_SPACE);
    }
}
