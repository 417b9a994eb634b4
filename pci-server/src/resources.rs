//! Resources of claims: cptrs, interrupts, device memory, and the capabilities to bind them.
//!
//! All of them are the server's own and return when a claim ends. Left out: which driver has what (`claim`) and which may
//! (`server`).

use crate::addresses::PciWindows;
use crate::bound::SharedLine;
use crate::config_space::ConfigSpace;
use crate::reset::Resets;
use alloc::vec::Vec;
use core::ops::Range;
use pci_api::{Refusal, ServerConfig, names};
use pci_spec::Bdf;
use platform::log::error;
use platform::{
    AbsoluteCPtr, Badge, CNode, CPtr, Cap, CapData, DeviceUntyped, DeviceUntypeds, Environment, Error, IoSpace,
    IrqControl, Kernel, Notification, PAGE_SIZE, Platform, Rights, VSpace, Vaddr, ticks_to_ns,
};

/// Empty cptrs of the server's CSpace.
#[derive(Clone, Debug)]
pub struct Cptrs {
    fresh: Range<u64>,
    returned: Vec<u64>,
}

impl Cptrs {
    /// The cptrs `fresh`, all empty.
    #[must_use]
    pub fn new(fresh: Range<u64>) -> Self {
        Self { fresh, returned: Vec::new() }
    }

    /// An empty cptr.
    ///
    /// # Errors
    ///
    /// [`Refusal::Exhausted`] when there is none left.
    pub fn take(&mut self) -> Result<CPtr, Refusal> {
        self.returned.pop().or_else(|| self.fresh.next()).map(CPtr::new).ok_or(Refusal::Exhausted)
    }

    /// Number of empty cptrs.
    #[must_use]
    pub fn left(&self) -> u64 {
        self.fresh.end.saturating_sub(self.fresh.start).saturating_add(self.returned.len() as u64)
    }

    /// Takes back a cptr that is empty again.
    pub fn put(&mut self, cptr: CPtr) {
        self.returned.push(cptr.bits());
    }
}

/// Kernel interrupts not bound to a vector.
#[derive(Clone, Debug)]
pub struct Irqs {
    free: Vec<u8>,
}

impl Irqs {
    /// `count` interrupts from `first` on, of which the kernel has those below `limit`.
    #[must_use]
    pub fn new(first: u8, count: u8, limit: u8) -> Self {
        let end = first.saturating_add(count).min(limit);
        Self { free: (first..end).rev().collect() }
    }

    /// Takes an unused interrupt.
    ///
    /// # Errors
    ///
    /// [`Refusal::Exhausted`].
    pub fn take(&mut self) -> Result<u8, Refusal> {
        self.free.pop().ok_or(Refusal::Exhausted)
    }

    /// Takes `count` unused interrupts in a row, for whose first one `fits` is true; returns the first.
    pub fn take_run(&mut self, count: u8, fits: impl Fn(u8) -> bool) -> Option<u8> {
        let is_free = |irq: u8| self.free.contains(&irq);
        let is_run = |first: u8| (0..count).all(|index| first.checked_add(index).is_some_and(is_free));
        let first = self.free.iter().copied().filter(|first| is_run(*first) && fits(*first)).min()?;
        // All of them exist, so none overflows.
        self.free.retain(|irq| irq.wrapping_sub(first) >= count);
        Some(first)
    }

    /// Takes an interrupt back.
    pub fn put(&mut self, irq: u8) {
        self.free.push(irq);
    }
}

/// Everything the server holds.
#[derive(Debug)]
pub struct Resources<P: Platform> {
    /// The platform below.
    pub platform: P,
    /// Configuration space.
    pub config: ConfigSpace<P::Mmio>,
    /// Empty cptrs.
    pub cptrs: Cptrs,
    /// Interrupts.
    pub irqs: Irqs,
    /// Interrupt lines that claims share.
    pub shared_lines: Vec<SharedLine>,
    /// Functions under reset.
    pub resets: Resets,
    /// Device memory of the PCI windows.
    pub devices: DeviceUntypeds,
    /// The right to make interrupt handlers.
    pub irq_control: Cap<IrqControl>,
    /// Capability that IOSpaces are minted from, where there is an IOMMU.
    pub io_space_master: Option<Cap<IoSpace>>,
    /// The server's own VSpace, to map MSI-X tables.
    pub own_vspace: Cap<VSpace>,
    /// The server's own notification, unbadged.
    event: Cap<Notification>,
    arena: Range<u64>,
    cnode: Cap<CNode>,
}

/// An item that the environment lacks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Missing(pub &'static str);

impl<P: Platform> Resources<P> {
    /// Collects them from the environment.
    ///
    /// # Errors
    ///
    /// [`Missing`] names the missing item.
    pub fn new(platform: P, environment: &Environment, config: &ServerConfig) -> Result<Self, Missing> {
        let cnode = environment.cnode.ok_or(Missing("own CNode"))?.cast();
        let arena = environment.region(names::ARENA).ok_or(Missing("region arena"))?;
        let arena_end = arena.vaddr.checked_add(arena.len).ok_or(Missing("region arena"))?;
        // Splitting untypeds never returns a cptr; claims always do. Neither may starve the other.
        let Range { start, end } = environment.free_cptrs;
        let middle = start.midpoint(end);
        let (first, count) = config.irqs;
        let io_space_master = environment.cap(names::IO_SPACE_MASTER).filter(|_| config.iommu);
        if config.iommu && io_space_master.is_none() {
            return Err(Missing("capability io-space-master"));
        }
        Ok(Self {
            config: configuration_space(&platform, environment, config)?,
            cptrs: Cptrs::new(middle..end),
            irqs: Irqs::new(first, count, platform.kernel().irq_count()),
            shared_lines: Vec::new(),
            resets: Resets::default(),
            devices: DeviceUntypeds::new(cnode, start..middle, untypeds(environment, config)?),
            irq_control: environment.cap(names::IRQ_CONTROL).ok_or(Missing("capability irq-control"))?,
            io_space_master,
            own_vspace: environment.cap(names::OWN_VSPACE).ok_or(Missing("capability own-vspace"))?,
            event: environment.cap(platform::names::EVENT).ok_or(Missing("capability event"))?,
            arena: arena.vaddr.bits()..arena_end.bits(),
            cnode,
            platform,
        })
    }

    /// The kernel.
    #[must_use]
    pub fn kernel(&self) -> P::Kernel {
        self.platform.kernel().clone()
    }

    /// The time, in nanoseconds.
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        ticks_to_ns(self.platform.ticks(), self.platform.ticks_per_second())
    }

    /// Begins a reset of a function that is not bus master. `false` if it cannot be reset alone.
    pub fn reset(&mut self, bdf: Bdf) -> bool {
        let now_ns = self.now_ns();
        self.resets.begin(&mut self.config, bdf, now_ns)
    }

    /// Whether a function is being reset and must not be accessed.
    #[must_use]
    pub fn is_under_reset(&self, bdf: Bdf) -> bool {
        self.now_ns() < self.resets.ready_at_ns(bdf)
    }

    /// A cptr in the form for CNode invocations.
    #[must_use]
    pub fn absolute(&self, cptr: CPtr) -> AbsoluteCPtr {
        AbsoluteCPtr { root: self.cnode, index: cptr.bits(), depth: 64 }
    }

    /// Empty cptrs of the server's CSpace, those of device memory among them.
    #[must_use]
    pub fn cptrs_left(&self) -> u32 {
        u32::try_from(self.cptrs.left().saturating_add(self.devices.cptrs_left())).unwrap_or(u32::MAX)
    }

    /// Address of the MSI-X table of driver number `driver` of `drivers` in the server's arena, if `pages` fit into its
    /// share. Parts are equal and fixed, so that no driver's table can crowd out another's.
    #[must_use]
    pub fn table_place(&self, driver: usize, drivers: usize, pages: u64) -> Option<Vaddr> {
        let page = PAGE_SIZE as u64;
        let all = self.arena.end.checked_sub(self.arena.start)?.checked_div(page)?;
        let part = all.checked_div(u64::try_from(drivers).ok()?)?;
        (pages <= part).then_some(())?;
        let first = part.checked_mul(u64::try_from(driver).ok()?)?;
        self.arena.start.checked_add(first.checked_mul(page)?).map(Vaddr::new)
    }

    /// Closes the domain: its function reaches nothing any more. 0 closes all domains.
    pub fn close_io_space(&self, domain: u16) {
        let Some(master) = self.io_space_master else { return };
        let master = self.absolute(master.cptr());
        if let Err(reason) = self.kernel().io_space_close(master, domain) {
            error!("the IOSpace of domain {} cannot be closed: {}", domain, reason);
        }
    }

    /// A capability to signal the server itself with this badge.
    ///
    /// # Errors
    ///
    /// [`Refusal::Exhausted`], [`Refusal::Kernel`].
    pub fn own_signal(&mut self, badge: u64) -> Result<Cap<Notification>, Refusal> {
        let cptr = self.cptrs.take()?;
        let (dest, source) = (self.absolute(cptr), self.absolute(self.event.cptr()));
        match self.kernel().cnode_mint(dest, source, Rights::WRITE, CapData::Badge(Badge(badge))) {
            Ok(()) => Ok(cptr.cast()),
            Err(reason) => {
                self.cptrs.put(cptr);
                Err(refused("minting a signal")(reason))
            }
        }
    }

    /// Deletes the capability in `cptr` and everything derived from it, and takes the cptr back. One that the kernel
    /// will not delete stays where it is, and its cptr is lost.
    ///
    /// # Errors
    ///
    /// [`Refusal::Kernel`]; the log says what.
    pub fn revoke_and_delete(&mut self, cptr: CPtr) -> Result<(), Refusal> {
        self.kernel().cnode_revoke(self.absolute(cptr)).map_err(refused("revoking a capability"))?;
        self.delete(cptr)
    }

    /// Deletes the capability in `cptr`, if there is one, and takes the cptr back, or loses it likewise.
    ///
    /// # Errors
    ///
    /// [`Refusal::Kernel`]; the log says what.
    pub fn delete(&mut self, cptr: CPtr) -> Result<(), Refusal> {
        self.kernel().cnode_delete(self.absolute(cptr)).map_err(refused("deleting a capability"))?;
        self.cptrs.put(cptr);
        Ok(())
    }
}

/// Logs what the kernel refused, for `map_err`.
pub fn refused(what: &'static str) -> impl FnOnce(Error) -> Refusal {
    move |reason| {
        error!("the kernel refused {}: {}", what, reason);
        Refusal::Kernel
    }
}

/// The PCI windows that BARs may lie in.
#[must_use]
pub fn pci_windows(config: &ServerConfig) -> PciWindows {
    PciWindows::new(&config.pci_windows)
}

fn configuration_space<P: Platform>(
    platform: &P,
    environment: &Environment,
    config: &ServerConfig,
) -> Result<ConfigSpace<P::Mmio>, Missing> {
    let missing = Missing("region ecam");
    let region = environment.region(names::ECAM).ok_or(missing)?;
    let buses = u16::try_from(region.len >> 20).unwrap_or(u16::MAX).min(config.buses).min(256);
    let len = usize::from(buses).checked_mul(1 << 20).filter(|len| *len > 0).ok_or(missing)?;
    let registers = platform.mmio(region.vaddr, len).map_err(|_| missing)?;
    Ok(ConfigSpace::new(registers, buses))
}

fn untypeds(environment: &Environment, config: &ServerConfig) -> Result<Vec<DeviceUntyped>, Missing> {
    let mut untypeds = Vec::with_capacity(config.pci_windows.len());
    for (index, (paddr, size_bits)) in (0u32..).zip(&config.pci_windows) {
        let cap = environment.cap_at::<platform::Untyped>(names::PCI_WINDOW, index).ok_or(Missing("run pci-window"))?;
        untypeds.push(DeviceUntyped { paddr: *paddr, size_bits: *size_bits, cptr: cap.cptr() });
    }
    Ok(untypeds)
}
