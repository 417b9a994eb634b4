//! A driver's claim: its resources of a function, and their return.
//!
//! A claim is filled step by step, and each step is recorded before the next. When one fails, or when the driver releases,
//! [`Claim::close`] takes back everything recorded. Bus mastering is off before anything is taken that the device might
//! still reach for. A virtual function is reset then, because its next driver must find nothing of this one. Neighbours:
//! `server` decides which driver may claim a function; `pages` maps, `interrupts` knows the interrupt modes, `reset` resets.
//! Left out: the reset of other devices, which their drivers do.

use crate::addresses::page_of;
use crate::config_space::ConfigSpace;
use crate::enumerate::find_msix;
use crate::function::{Function, withheld};
use crate::interrupts::{Interrupts, Source};
use crate::pages::{Page, frame_of, map, take_back};
use crate::resources::{Resources, refused};
use crate::{bars, msi, msix};
use alloc::vec::Vec;
use pci_api::{BarRun, Bound, Claimed, MAX_RUNS, Refusal};
use pci_spec::msix::{MsixCapability, Place};
use pci_spec::{Bar, Bdf};
use platform::log::error;
use platform::{CPtr, Cap, IoSpace, Kernel, Mmio, Notification, PAGE_SIZE, Platform, VSpace, Vaddr};
use virtio_drivers::transport::pci::bus::Command;

/// The driver of a claim.
#[derive(Clone, Copy, Debug)]
pub struct Driver<'a> {
    /// The driver's configuration from the system's model.
    pub config: &'a pci_api::DriverConfig,
    /// The driver's number, from 0.
    pub index: usize,
    /// Number of drivers.
    pub count: usize,
    /// The driver's VSpace.
    pub vspace: Cap<VSpace>,
}

/// A driver's claim of a function, and what belongs to it.
#[derive(Debug)]
pub struct Claim<M> {
    bdf: Bdf,
    requester_id: Bdf,
    path: Vec<Bdf>,
    is_virtual: bool,
    /// The driver had bus mastering turned on.
    is_started: bool,
    /// The function was withdrawn: the driver has its pages, and nothing else.
    is_withdrawn: bool,
    /// Pages mapped in the driver, in the order of `runs`.
    pages: Vec<Page>,
    runs: Vec<BarRun>,
    /// MSI-X, whose pages no driver gets, whether interrupts come by it or not.
    msix: Option<MsixCapability>,
    /// None while it is filled, and after a change that failed altogether.
    interrupts: Option<Interrupts<M>>,
    /// The IOSpace and its domain.
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
        let mut claim = Self {
            bdf: function.bdf,
            requester_id: function.requester_id,
            path: function.path.clone(),
            is_virtual: function.virtual_of.is_some(),
            is_started: false,
            is_withdrawn: false,
            pages: Vec::new(),
            runs: Vec::new(),
            msix: function.msix,
            interrupts: None,
            io_space: None,
        };
        match claim.fill(resources, function, driver, source) {
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
        source: Source,
    ) -> Result<(), Refusal> {
        let silent = Command::BUS_MASTER;
        resources.config.change_command(self.bdf, Command::MEMORY_SPACE | Command::INTERRUPT_DISABLE, silent);
        msi::disable(&mut resources.config, self.bdf);
        if let Some(capability) = &self.msix {
            msix::disable(&mut resources.config, self.bdf, capability);
        }
        for bar in function.memory_bars() {
            self.make_table(resources, bar)?;
            if bar.index() == 0 {
                self.map_registers(resources, driver, bar)?;
            }
        }
        self.set_interrupts(resources, function, driver, source)
    }

    /// Makes the frames of the MSI-X table if it lies in `bar`, even where interrupts come in another way, so that there is room
    /// for them when that changes.
    fn make_table<P: Platform<Mmio = M>>(&self, resources: &mut Resources<P>, bar: &Bar) -> Result<(), Refusal> {
        let table = self.msix.as_ref().filter(|msix| msix.table.bar == bar.index());
        for number in table.map_or(0..0, msix::table_pages) {
            frame_of(resources, page_of(bar, number)?).map_err(|refusal| self.cut_short(bar, refusal))?;
        }
        Ok(())
    }

    /// Maps the pages of BAR 0 that the driver uses, but for those of the MSI-X table and the PBA.
    fn map_registers<P: Platform<Mmio = M>>(
        &mut self,
        resources: &mut Resources<P>,
        driver: &Driver<'_>,
        bar: &Bar,
    ) -> Result<(), Refusal> {
        let pages = bar.size().div_ceil(PAGE_SIZE as u64).min(driver.config.pages.into());
        for number in 0..pages {
            if withheld(self.msix.as_ref(), bar.index(), number) {
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

    /// Address of the next page in the driver's arena.
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

    /// Records that page `number` of `bar` is mapped at `vaddr`. The arena is filled in order, so a page that follows the last
    /// run in the BAR follows it in the arena too.
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

    /// Reserves `source` and turns it on. Nothing is on before.
    fn set_interrupts<P: Platform<Mmio = M>>(
        &mut self,
        resources: &mut Resources<P>,
        function: &Function,
        driver: &Driver<'_>,
        source: Source,
    ) -> Result<(), Refusal> {
        let interrupts = Interrupts::reserve(resources, function, driver, source)?;
        let turned_on = interrupts.turn_on(resources);
        // Recorded first, so that interrupts that are on in part are turned off with the rest.
        self.interrupts = Some(interrupts);
        turned_on
    }

    /// Makes the function interrupt by `source` from now on, with no vector bound. The old resources are returned first, so that
    /// they suffice for both. After a refusal it interrupts as before, with no vector bound either.
    ///
    /// # Errors
    ///
    /// [`Refusal::Unusable`], [`Refusal::Exhausted`] or [`Refusal::Kernel`].
    pub fn change_interrupts<P: Platform<Mmio = M>>(
        &mut self,
        resources: &mut Resources<P>,
        function: &Function,
        driver: &Driver<'_>,
        source: Source,
    ) -> Result<u16, Refusal> {
        let before = self.interrupts.as_ref().map(Interrupts::source);
        self.end_interrupts(resources);
        let set = self.set_interrupts(resources, function, driver, source);
        if let Err(refusal) = set {
            self.end_interrupts(resources);
            if let Some(before) = before
                && let Err(refusal) = self.set_interrupts(resources, function, driver, before)
            {
                self.end_interrupts(resources);
                error!("function {:x} has no interrupts any more: {}", self.bdf.to_raw(), refusal);
            }
            return Err(refusal);
        }
        Ok(self.vector_count())
    }

    fn end_interrupts<P: Platform<Mmio = M>>(&mut self, resources: &mut Resources<P>) {
        if let Some(interrupts) = self.interrupts.take() {
            interrupts.turn_off(resources);
            interrupts.give_back(resources);
        }
    }

    fn vector_count(&self) -> u16 {
        self.interrupts.as_ref().map_or(0, Interrupts::count)
    }

    /// The answer to the driver's claim.
    #[must_use]
    pub fn claimed(&self) -> Claimed {
        let mut runs = [BarRun::default(); MAX_RUNS];
        for (room, run) in runs.iter_mut().zip(&self.runs) {
            *room = *run;
        }
        Claimed {
            bdf: self.bdf.to_raw(),
            requester_id: self.requester_id.to_raw(),
            vectors: self.vector_count(),
            run_count: u16::try_from(self.runs.len()).unwrap_or(0),
            runs,
        }
    }

    /// The function.
    #[must_use]
    pub fn bdf(&self) -> Bdf {
        self.bdf
    }

    /// The id its requests carry.
    #[must_use]
    pub fn requester_id(&self) -> Bdf {
        self.requester_id
    }

    /// The frame of mapped page `index`. The driver is sent a copy, which ends when the frame here is revoked.
    ///
    /// # Errors
    ///
    /// [`Refusal::Unusable`] beyond the last page.
    pub fn frame(&self, index: u64) -> Result<CPtr, Refusal> {
        let page = usize::try_from(index).ok().and_then(|index| self.pages.get(index));
        page.map(|page| page.frame.cptr()).ok_or(Refusal::Unusable)
    }

    /// Binds vector `index` to `notification`, as [`Interrupts::bind`].
    ///
    /// # Errors
    ///
    /// As [`Interrupts::bind`].
    pub fn vector<P: Platform<Mmio = M>>(
        &mut self,
        resources: &mut Resources<P>,
        index: u64,
        notification: Cap<Notification>,
    ) -> Result<(Bound, CPtr), Refusal> {
        self.interrupts.as_mut().ok_or(Refusal::NoSuchVector)?.bind(resources, index, notification)
    }

    /// The function's IOSpace, in `domain`.
    ///
    /// # Errors
    ///
    /// [`Refusal::NoIommu`], [`Refusal::Exhausted`] or [`Refusal::Kernel`].
    pub fn io_space<P: Platform<Mmio = M>>(
        &mut self,
        resources: &mut Resources<P>,
        domain: u16,
    ) -> Result<CPtr, Refusal> {
        if let Some((io_space, _)) = self.io_space {
            return Ok(io_space.cptr());
        }
        let master = resources.io_space_master.ok_or(Refusal::NoIommu)?;
        let cptr = resources.cptrs.take()?;
        let (dest, master) = (resources.absolute(cptr), resources.absolute(master.cptr()));
        if let Err(reason) = resources.kernel().io_space_open(dest, master, domain, self.requester_id.to_raw()) {
            resources.cptrs.put(cptr);
            return Err(refused("opening an IOSpace")(reason));
        }
        self.io_space = Some((cptr.cast(), domain));
        Ok(cptr)
    }

    /// Lets the function be bus master. Bridges above it must be, to forward its requests, and stay so: functions behind them
    /// are silenced one by one.
    pub fn start<P: Platform<Mmio = M>>(&mut self, resources: &mut Resources<P>) {
        for bridge in self.path.iter().rev() {
            resources.config.change_command(*bridge, Command::BUS_MASTER | Command::MEMORY_SPACE, Command::empty());
        }
        resources.config.change_command(self.bdf, Command::BUS_MASTER, Command::empty());
        self.is_started = true;
    }

    /// MSI-X as it was when the function was claimed.
    #[must_use]
    pub fn msix(&self) -> Option<MsixCapability> {
        self.msix
    }

    /// Whether the MSI-X table and the PBA lie only in pages that were withheld from the driver. A reset can give a controller
    /// another number of vectors.
    #[must_use]
    pub fn withholds_tables(&self, config: &ConfigSpace<M>) -> bool {
        let is_part = |now: Place, before: Place| {
            (now.bar, now.offset) == (before.bar, before.offset) && now.bytes <= before.bytes
        };
        match (find_msix(config, self.bdf), &self.msix) {
            (Ok(Some(now)), Some(before)) => is_part(now.table, before.table) && is_part(now.pending, before.pending),
            (Ok(None), None) => true,
            (Ok(Some(_) | None) | Err(_), _) => false,
        }
    }

    /// Whether the function can be reset and go on as before: an interrupt line that drivers share is served at any time, and
    /// the function must not be accessed meanwhile.
    #[must_use]
    pub fn can_be_reset(&self) -> bool {
        !matches!(self.interrupts.as_ref().map(Interrupts::source), Some(Source::SharedLine(_)))
    }

    /// Makes the function interrupt as before, after a reset and with its BARs in place.
    ///
    /// # Errors
    ///
    /// [`Refusal::Unusable`], [`Refusal::Kernel`].
    pub fn restore_interrupts<P: Platform<Mmio = M>>(&self, resources: &mut Resources<P>) -> Result<(), Refusal> {
        self.interrupts.as_ref().map_or(Ok(()), |interrupts| interrupts.restore(resources))
    }

    /// Lets the function be bus master again, if it was before a reset.
    pub fn restart<P: Platform<Mmio = M>>(&mut self, resources: &mut Resources<P>) {
        if self.is_started {
            self.start(resources);
        }
    }

    /// Whether the function was withdrawn.
    #[must_use]
    pub fn is_withdrawn(&self) -> bool {
        self.is_withdrawn
    }

    /// Takes everything back but the register pages: the function reaches nothing any more, and does nothing.
    pub fn withdraw<P: Platform<Mmio = M>>(&mut self, resources: &mut Resources<P>) {
        self.is_withdrawn = true;
        self.silence(resources);
        self.end_reach(resources);
    }

    /// Turns off bus mastering and interrupts, and resets a virtual function.
    fn silence<P: Platform<Mmio = M>>(&self, resources: &mut Resources<P>) {
        resources.config.change_command(self.bdf, Command::INTERRUPT_DISABLE, Command::BUS_MASTER);
        if let Some(interrupts) = &self.interrupts {
            interrupts.turn_off(resources);
        }
        if self.is_virtual {
            resources.reset(self.bdf);
        }
    }

    /// Takes back the vectors and the IOSpace of a silent function.
    fn end_reach<P: Platform<Mmio = M>>(&mut self, resources: &mut Resources<P>) {
        if let Some(interrupts) = self.interrupts.take() {
            interrupts.give_back(resources);
        }
        if let Some((io_space, domain)) = self.io_space.take() {
            resources.close_io_space(domain);
            // The driver's copy goes first, then its original: with the last one the device's entry in the IOMMU is
            // cleared. A failure is logged; the cptr is then lost, and no other claim is affected.
            let _ = resources.revoke_and_delete(io_space.cptr());
        }
    }

    /// Takes back all resources. A resource that the kernel refuses to take is logged and left; the rest is taken all the same.
    pub fn close<P: Platform<Mmio = M>>(mut self, resources: &mut Resources<P>) {
        self.silence(resources);
        for page in core::mem::take(&mut self.pages).into_iter().rev() {
            take_back(resources, page);
        }
        self.end_reach(resources);
        if !self.is_virtual {
            // The physical function enables the memory of virtual ones, and this one must not be accessed now.
            resources.config.change_command(self.bdf, Command::empty(), Command::MEMORY_SPACE);
        }
    }
}
