//! The attacks that do not end the probe, a function each.
//!
//! Each asks the controller to move a block to a page of the probe, and from it to the disk. The address does not lead to
//! the page, or no longer does. A read is refused when every byte of the page is as before; a write, when the block holds
//! nothing of the page.

use crate::disk::Disk;
use crate::memory::{Content, Page, Workshop};
use crate::registers;
use nvme_driver::{IoSpaceMap, PciClient, Stuck};
use nvme_spec::Lba;
use platform::log::{error, info};
use platform::{Cap, Environment, IoSpace, Iova, Kernel, PAGE_SIZE, Platform, Rights};
use report::{Attack, Report, clip};
use workload::attacks::{self, Kind};

/// The block that reads ask for, and the one that writes try to change.
const ASKED: Lba = Lba(0);
const CHANGED: Lba = Lba(1);

/// Content of the asked block.
const ASKED_CONTENT: Content = Content(0x5ec2_e700_0000_0000);
/// Content of the other block before an attack.
const BEFORE: Content = Content(0x0be4_0000_0000_0000);
/// Content of a page that nothing may reach.
const GUARD: Content = Content(0x90a2_d000_0000_0000);
/// Content of a page that nothing may be written from.
const STOLEN: Content = Content(0x5701_e200_0000_0000);

/// The device's addresses of the probe's pages; below lies the pool's memory.
const PAGES: u64 = 0x2000_0000;
/// An address at which nothing was ever mapped; page tables down to the last level exist beside it.
const NEVER_MAPPED: Iova = Iova::new(PAGES + 0x10_0000);
/// A physical address below this is none of the device's addresses of the probe's pages.
const BELOW_PAGES: u64 = 0x1000_0000;
/// A physical address at or above this is none of them either.
const ABOVE_PAGES: u64 = 0x4000_0000;

/// Index of the untyped of pages that stay.
const STAYING: u32 = 0;
/// Index of the untyped that is revoked.
pub(crate) const REVOKED: u32 = 1;

/// The probe at work.
pub(crate) struct Prober<'a, P: Platform> {
    pub platform: P,
    environment: &'a Environment,
    /// The PCI server.
    pub pci: PciClient<'a, P>,
    /// The controller; `None` between two claims.
    disk: Option<Disk<P>>,
    /// The probe's memory.
    pub workshop: Workshop<P>,
    /// A page that is always mapped, for controls.
    control: Page<P::Mmio>,
    control_iova: Iova,
    next_iova: u64,
    refused: bool,
}

/// Runs all attacks.
pub(crate) async fn run<P: Platform>(prober: &mut Prober<'_, P>) -> Result<(), Stuck> {
    registers::listed(prober).await?;
    raw_address(prober).await?;
    never_mapped(prober).await?;
    read_only(prober).await?;
    unmapped(prober).await?;
    if prober.workshop.makes_pages() {
        // The kernel's IOMMU, whose mappings are tied to capabilities.
        write_only(prober).await?;
        deleted_copy(prober).await?;
        revoked(prober).await?;
    }
    released(prober).await
}

/// Attacks at a page's physical address, as a device without an IOMMU would reach it.
async fn raw_address<P: Platform>(prober: &mut Prober<'_, P>) -> Result<(), Stuck> {
    let page = prober.page(STAYING)?;
    if (BELOW_PAGES..ABOVE_PAGES).contains(&page.paddr.bits()) {
        return Err(Stuck::Control("the machine has memory where the device's pages are: give it less"));
    }
    let iova = Iova::new(page.paddr.bits());
    prober.blocked("DMA at a page's physical address", "the IOMMU: nothing is mapped there", &page, iova).await
}

async fn never_mapped<P: Platform>(prober: &mut Prober<'_, P>) -> Result<(), Stuck> {
    let page = prober.page(STAYING)?;
    prober.map(&page, Rights::READ_WRITE).await?;
    prober.blocked("DMA at an address never mapped", "the IOMMU: nothing is mapped there", &page, NEVER_MAPPED).await
}

async fn read_only<P: Platform>(prober: &mut Prober<'_, P>) -> Result<(), Stuck> {
    let page = prober.page(STAYING)?;
    let iova = prober.map(&page, Rights::READ).await?;
    if !prober.takes(&page, iova).await? {
        return Err(Stuck::Control("a page mapped for reading cannot be read by the device"));
    }
    let refused = !prober.reaches(&page, iova).await?;
    prober.report(
        &attacks::MAPPINGS,
        "DMA into a page mapped read-only",
        refused,
        "the IOMMU: the mapping has no write right",
    );
    Ok(())
}

async fn write_only<P: Platform>(prober: &mut Prober<'_, P>) -> Result<(), Stuck> {
    let page = prober.page(STAYING)?;
    let iova = prober.map(&page, Rights::WRITE).await?;
    if !prober.reaches(&page, iova).await? {
        return Err(Stuck::Control("a page mapped for writing cannot be written by the device"));
    }
    let refused = !prober.takes(&page, iova).await?;
    prober.report(
        &attacks::MAPPINGS,
        "DMA out of a page mapped write-only",
        refused,
        "the IOMMU: the mapping has no read right",
    );
    Ok(())
}

async fn unmapped<P: Platform>(prober: &mut Prober<'_, P>) -> Result<(), Stuck> {
    let page = prober.page(STAYING)?;
    let iova = prober.map_and_use(&page).await?;
    let io_space = prober.disk()?.io_space;
    prober.platform.kernel().frame_unmap_io(page.frame, io_space, iova)?;
    prober.blocked("DMA to a page that was unmapped", "the IOMMU: unmapping ended it", &page, iova).await
}

/// The mapping ends with the capability by which it was made, though the frame has another. The unpatched kernel leaves it
/// in place until the last capability is deleted: this fails without the fix `frame-copy`.
async fn deleted_copy<P: Platform>(prober: &mut Prober<'_, P>) -> Result<(), Stuck> {
    let mut page = prober.page(STAYING)?;
    let kept = page.frame;
    page.frame = prober.workshop.copy(kept)?;
    let iova = prober.map_and_use(&page).await?;
    prober.workshop.delete(page.frame)?;
    let stopped_by = "the kernel: deleting the capability ended the mapping";
    prober.blocked("DMA by a deleted capability, another copy alive", stopped_by, &page, iova).await
}

/// The page's memory is made into a page again, to check whether anything still reaches it.
async fn revoked<P: Platform>(prober: &mut Prober<'_, P>) -> Result<(), Stuck> {
    let page = prober.page(REVOKED)?;
    let iova = prober.map_and_use(&page).await?;
    prober.workshop.revoke(prober.workshop.untyped(REVOKED)?)?;
    let again = prober.page(REVOKED)?;
    if again.paddr != page.paddr {
        return Err(Stuck::Control("the revoked memory was not given out again"));
    }
    let stopped_by = "the kernel: revoking the memory ended the mapping";
    prober.blocked("DMA to memory that was revoked", stopped_by, &again, iova).await
}

/// Neither a mapping nor the IOSpace nor a page of registers outlives the claim, though the driver keeps its capabilities.
/// The device keeps translating through the old tables unless the IOMMU's context cache is emptied. Copies of an IOSpace
/// stay alive unless they can be revoked. So this fails without the fixes `context-cache` and `io-space-revoke`.
async fn released<P: Platform>(prober: &mut Prober<'_, P>) -> Result<(), Stuck> {
    let page = prober.page(STAYING)?;
    let iova = prober.map_and_use(&page).await?;
    let io_space = prober.disk()?.io_space;
    let copy = prober.workshop.copy(io_space)?;
    let view = registers::view(prober).await?;
    let earlier = prober.release().await?;
    if !prober.workshop.makes_pages() {
        // The IOMMU server's capabilities stay, and have no effect without a claim.
        cannot_map(prober, [io_space, copy], "the IOMMU server: RELEASE closed the domain")?;
    }
    prober.claim_again(earlier).await?;
    prober.controls().await?;
    let stopped_by = "the PCI server: the released IOSpace is gone, the new one empty";
    prober.blocked("DMA by a mapping of a released claim", stopped_by, &page, iova).await?;
    let spare = prober.page(STAYING)?;
    if prober.workshop.makes_pages() {
        // Into the next claim's address space, whose page tables lead there.
        cannot_map(prober, [io_space, copy], "the kernel: RELEASE revoked the capability")?;
    }
    // With a valid capability the same mapping succeeds.
    prober.disk()?.map(spare.frame, Rights::READ_WRITE, NEVER_MAPPED)?;
    registers::view_is_gone(prober, view).await
}

/// Checks that nothing can be mapped by an IOSpace of a released claim, or by a copy of it.
fn cannot_map<P: Platform>(
    prober: &mut Prober<'_, P>,
    [io_space, copy]: [Cap<IoSpace>; 2],
    stopped_by: &str,
) -> Result<(), Stuck> {
    let spare = prober.page(STAYING)?;
    for (attack, kept) in
        [("mapping with the IOSpace of a released claim", io_space), ("mapping with a copy of it", copy)]
    {
        let mapped = prober.platform.kernel().frame_map_io(spare.frame, kept, Rights::READ_WRITE, NEVER_MAPPED);
        prober.report(&attacks::CLAIM, attack, mapped.is_err(), stopped_by);
        if mapped.is_ok() {
            prober.platform.kernel().frame_unmap_io(spare.frame, kept, NEVER_MAPPED)?;
        }
    }
    Ok(())
}

impl<'a, P: Platform> Prober<'a, P> {
    /// Claims the controller and fills the block that reads ask for.
    pub(crate) async fn new(platform: &'a P, environment: &'a Environment) -> Result<Self, Stuck> {
        let free = environment.free_cptrs.clone();
        let half = free.start.midpoint(free.end);
        let mut pci = PciClient::new(platform, environment, free.start..half)?;
        let mut workshop = Workshop::new(platform, environment, half..free.end)?;
        let control = workshop.page(STAYING)?;
        let disk = Disk::claim(platform, environment, &mut pci, None).await?;
        let mut prober = Self {
            platform: platform.clone(),
            environment,
            pci,
            disk: Some(disk),
            workshop,
            control,
            control_iova: Iova::new(PAGES),
            next_iova: PAGES,
            refused: true,
        };
        prober.control_iova = prober.map(&prober.control.clone(), Rights::READ_WRITE).await?;
        prober.put(ASKED, ASKED_CONTENT).await?;
        Ok(prober)
    }

    /// Whether every attack was refused.
    pub(crate) fn all_refused(&self) -> bool {
        self.refused
    }

    /// Checks that allowed transfers work: a block arrives, and written data can be read back.
    pub(crate) async fn controls(&mut self) -> Result<(), Stuck> {
        let (page, iova) = (self.control.clone(), self.control_iova);
        if !self.reaches(&page, iova).await? {
            return Err(Stuck::Control("a block does not arrive in a mapped page"));
        }
        if !self.takes(&page, iova).await? {
            return Err(Stuck::Control("a block written from a mapped page does not arrive on the disk"));
        }
        info!("controls hold: mapped pages are reached");
        Ok(())
    }

    /// Reports the outcome of an attack.
    pub(crate) fn report(&mut self, kind: &Kind, attack: &str, refused: bool, stopped_by: &str) {
        self.refused &= refused;
        if !refused {
            error!("not refused: {}", attack);
        }
        let stopped_by = clip(if refused { stopped_by } else { "nothing" });
        let (tenant, kind) = (clip(&self.environment.name), clip(kind.name));
        self.platform
            .report(&Report::Attack(Attack { tenant, kind, attack: clip(attack), refused, stopped_by }).encode());
    }

    /// A new page.
    pub(crate) fn page(&mut self, untyped: u32) -> Result<Page<P::Mmio>, Stuck> {
        self.workshop.page(untyped)
    }

    /// Releases the controller. Returns its address space, for the page tables that are left.
    pub(crate) async fn release(&mut self) -> Result<IoSpaceMap<P::Kernel>, Stuck> {
        let disk = self.disk.take().ok_or(Stuck::Control("nothing is claimed"))?;
        disk.release(&self.platform, self.environment, &self.pci).await
    }

    async fn claim_again(&mut self, earlier: IoSpaceMap<P::Kernel>) -> Result<(), Stuck> {
        self.disk = Some(Disk::claim(&self.platform, self.environment, &mut self.pci, Some(earlier)).await?);
        self.platform.kernel().frame_unmap(self.control.frame)?;
        let (frame, iova) = (self.control.frame, self.control_iova);
        self.disk()?.map(frame, Rights::READ_WRITE, iova)
    }

    /// Maps the page for the device at an address of its own.
    async fn map(&mut self, page: &Page<P::Mmio>, rights: Rights) -> Result<Iova, Stuck> {
        let iova = Iova::new(self.next_iova);
        self.next_iova = self.next_iova.saturating_add(PAGE_SIZE as u64);
        self.disk()?.map(page.frame, rights, iova)?;
        Ok(iova)
    }

    /// Maps the page for the device, and checks that the device reaches it both ways.
    async fn map_and_use(&mut self, page: &Page<P::Mmio>) -> Result<Iova, Stuck> {
        let iova = self.map(page, Rights::READ_WRITE).await?;
        if self.reaches(page, iova).await? && self.takes(page, iova).await? {
            return Ok(iova);
        }
        Err(Stuck::Control("a page is not reached while it is mapped"))
    }

    /// Tries both directions at `iova`; the page must stay as it is, and nothing of it may reach the disk.
    async fn blocked(&mut self, attack: &str, stopped_by: &str, page: &Page<P::Mmio>, iova: Iova) -> Result<(), Stuck> {
        page.fill(GUARD)?;
        let read = self.disk()?.read(ASKED, iova).await?;
        let untouched = page.is_untouched(GUARD)?;
        let taken = self.takes(page, iova).await?;
        info!("{}: the controller says {:x} to the read", attack, read.to_raw());
        self.report(&attacks::MAPPINGS, attack, untouched && !taken, stopped_by);
        Ok(())
    }

    /// Whether the whole asked block arrives in the page. The answer is no when the page stays as it was; anything between
    /// the two is an error.
    async fn reaches(&mut self, page: &Page<P::Mmio>, iova: Iova) -> Result<bool, Stuck> {
        page.fill(GUARD)?;
        self.disk()?.read(ASKED, iova).await?;
        if page.is_untouched(GUARD)? {
            return Ok(false);
        }
        if page.has_block(ASKED_CONTENT)? {
            return Ok(true);
        }
        Err(Stuck::Control("something else than the block arrived"))
    }

    /// Whether anything of the page reaches the disk by a write from `iova`.
    async fn takes(&mut self, page: &Page<P::Mmio>, iova: Iova) -> Result<bool, Stuck> {
        self.put(CHANGED, BEFORE).await?;
        page.fill(STOLEN)?;
        self.disk()?.write(CHANGED, iova).await?;
        self.control.fill(GUARD)?;
        let control_iova = self.control_iova;
        self.disk()?.read(CHANGED, control_iova).await?;
        self.control.has_part_of(STOLEN)
    }

    /// Fills a block from the control page.
    async fn put(&mut self, block: Lba, content: Content) -> Result<(), Stuck> {
        self.control.fill(content)?;
        let iova = self.control_iova;
        let status = self.disk()?.write(block, iova).await?;
        if status.is_success() { Ok(()) } else { Err(Stuck::Control("a block cannot be written")) }
    }

    pub(crate) fn disk(&mut self) -> Result<&mut Disk<P>, Stuck> {
        self.disk.as_mut().ok_or(Stuck::Control("nothing is claimed"))
    }
}
