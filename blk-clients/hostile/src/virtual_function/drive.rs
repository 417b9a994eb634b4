//! The attacker's function, driven by polling with one command at a time, and its window as the commands' memory.

use super::Stuck;
use super::content::Content;
use blk_api::names;
use nvme_driver::dma::Window;
use nvme_driver::{
    DeviceFault, DmaPool, IoSpaceMap, PciClient, Polled, Registers, Ring, disable, secondary, wait_enabled,
};
use nvme_spec::admin::{self, CqInterrupt};
use nvme_spec::feature::NumberOfQueues;
use nvme_spec::identify::{self, NamespaceList};
use nvme_spec::nvm::{self, Blocks};
use nvme_spec::registers::Arbitration;
use nvme_spec::{Cid, DataPointer, Lba, Nsid, QueueId, Sqe, Status};
use platform::{Cap, Environment, Event, Frame, IoSpace, Iova, Kernel, Memory, PAGE_SIZE, Paddr, Platform};

/// Entries of each queue.
pub(super) const ENTRIES: u16 = 8;
/// The I/O queue pair.
pub(super) const IO_QUEUE: QueueId = QueueId(1);
/// Seconds in which the function must be online.
const ONLINE_LIMIT_SECONDS: u64 = 20;
/// Pages of the window that attacks need.
const PAGES: u32 = 8;

/// The blocks that attacks use: one that is read, one that is written, one that is never read back.
const ASKED: Lba = Lba(0);
const CHANGED: Lba = Lba(1);
/// Content of the read block.
pub(super) const ASKED_CONTENT: Content = Content(0x5ec2_e700_0000_0000);
/// Content of the other block before an attack.
const BEFORE: Content = Content(0x0be4_0000_0000_0000);

/// A claimed function that takes commands.
pub(super) struct Drive<'a, P: Platform> {
    platform: &'a P,
    environment: &'a Environment,
    pub(super) pci: PciClient<'a, P>,
    pub(super) bdf: u16,
    pub(super) io_space: Cap<IoSpace>,
    pub(super) registers: P::Mmio,
    pub(super) controller: Registers<P::Mmio>,
    pub(super) admin: Polled<P>,
    pub(super) io: Polled<P>,
    /// The attacker's window, and the page number of each buffer in it.
    pub(super) memory: P::Memory,
    window: Window,
    /// The page of the pool for the controller's answers.
    about: Ring<P::Memory>,
    /// The pool's first address for the function.
    pool: Iova,
    pub(super) nsid: Nsid,
    pub(super) blocks: u64,
    pub(super) block_bytes: u32,
    pub(super) controller_id: u16,
}

impl<'a, P: Platform> Drive<'a, P> {
    /// Claims the function and brings its controller up.
    pub(super) async fn claim(platform: &'a P, environment: &'a Environment) -> Result<Self, Stuck> {
        let limit = platform.ticks_per_second().saturating_mul(ONLINE_LIMIT_SECONDS);
        let deadline = platform.ticks().saturating_add(limit);
        loop {
            let is_last = platform.ticks() >= deadline;
            match Self::claim_once(platform, environment, deadline).await {
                // It was reset meanwhile.
                Err(Stuck::Device(fault)) if fault.shows_reset() && !is_last => drop(platform.next_event().await),
                outcome => return outcome,
            }
        }
    }

    /// Claims it again after it was reset from elsewhere, or released.
    pub(super) async fn claim_again(&mut self) -> Result<(), Stuck> {
        *self = Self::claim(self.platform, self.environment).await?;
        Ok(())
    }

    async fn claim_once(platform: &'a P, environment: &'a Environment, deadline: u64) -> Result<Self, Stuck> {
        IoSpaceMap::release(platform.kernel(), environment);
        let (pci, device) = secondary::claim(platform, environment, deadline).await?;
        let registers = device.registers.clone();
        let controller = Registers::new(device.registers);
        secondary::online(platform, &pci, &controller, deadline).await?;
        controller.identify()?;
        disable(platform, &controller, || platform.yield_now()).await?;
        let mut space = IoSpaceMap::new(platform.kernel().clone(), device.io_space, environment);
        let mut pool = DmaPool::new(platform, environment, &mut space)?;
        let window = secondary::map_window(environment, &mut space)?;
        let region = environment.region(names::WINDOW).ok_or(Stuck::Missing("a window"))?;
        if window.pages < PAGES {
            return Err(Stuck::Missing("a window that is large enough"));
        }
        pci.start().await?;
        let admin = Polled::new(platform, QueueId::ADMIN, ENTRIES, &mut pool, &controller)?;
        let first = admin.pair.sq.iova;
        let io = Polled::new(platform, IO_QUEUE, ENTRIES, &mut pool, &controller)?;
        let mut drive = Self {
            platform,
            environment,
            pci,
            bdf: device.bdf,
            io_space: device.io_space.ok_or(Stuck::Missing("an IOMMU"))?,
            registers,
            controller,
            admin,
            io,
            memory: platform.memory(region)?,
            window,
            about: pool.take(1)?,
            pool: first,
            nsid: Nsid::NONE,
            blocks: 0,
            block_bytes: 0,
            controller_id: 0,
        };
        drive.enable().await?;
        drive.identify().await?;
        Ok(drive)
    }

    /// Resets the controller and brings it up with its own queues.
    pub(super) async fn bring_up(&mut self) -> Result<(), Stuck> {
        disable(self.platform, &self.controller, || self.platform.yield_now()).await?;
        self.enable().await
    }

    async fn enable(&mut self) -> Result<(), Stuck> {
        self.admin.pair.reset()?;
        self.io.pair.reset()?;
        let (sq, cq) = (&self.admin.pair.sq, &self.admin.pair.cq);
        self.controller.enable(sq, cq, ENTRIES, Arbitration::RoundRobin)?;
        wait_enabled(self.platform, &self.controller, || self.platform.yield_now()).await?;
        let one = NumberOfQueues::pairs(1).ok_or(DeviceFault::OwnMemory)?;
        self.admin.must(|cid| one.set(cid)).await?;
        Ok(self.admin.create(&self.io.pair, CqInterrupt::Disabled).await?)
    }

    /// Asks the controller for its number and its only namespace.
    async fn identify(&mut self) -> Result<(), Stuck> {
        let data = DataPointer::page(self.about.iova.bits());
        self.admin.must(|cid| admin::identify_controller(cid, data)).await?;
        let about: identify::Controller = self.about.memory.read(self.about.offset)?;
        self.controller_id = about.cntlid.get();
        self.admin.must(|cid| admin::identify_active_namespaces(cid, Nsid::NONE, data)).await?;
        let list: NamespaceList = self.about.memory.read(self.about.offset)?;
        self.nsid = list.iter().next().ok_or(Stuck::Missing("a namespace"))?;
        let namespace = self.namespace(self.nsid).await?;
        let namespace = namespace.ok_or(Stuck::Missing("its namespace's description"))?;
        self.blocks = namespace.nsze.get();
        self.block_bytes = namespace.block_bytes().ok_or(Stuck::Missing("a block size"))?;
        Ok(())
    }

    /// Describes a namespace, if the controller says anything about it.
    pub(super) async fn namespace(&mut self, nsid: Nsid) -> Result<Option<identify::Namespace>, Stuck> {
        let data = DataPointer::page(self.about.iova.bits());
        let cqe = self.admin.execute(|cid| admin::identify_namespace(cid, nsid, data)).await?;
        let namespace: identify::Namespace = self.about.memory.read(self.about.offset)?;
        Ok(Some(namespace).filter(|namespace| cqe.status().is_success() && namespace.nsze.get() > 0))
    }

    /// The page of the pool for data of administrative commands: memory and address.
    pub(super) const fn about(&self) -> &Ring<P::Memory> {
        &self.about
    }

    /// Whether the function's controller was reset by somebody else, or is offline.
    pub(super) fn was_reset(&self) -> bool {
        self.controller.check().is_err_and(DeviceFault::shows_reset)
    }

    /// The first address of its pool.
    pub(super) const fn pool(&self) -> Iova {
        self.pool
    }

    /// The first address behind its pool.
    pub(super) fn behind_pool(&self) -> Option<Iova> {
        let pages = u64::from(self.environment.cap_count(names::DMA));
        self.pool.checked_add(pages.checked_mul(PAGE_SIZE as u64)?)
    }

    /// The first address of its window, and that behind it.
    pub(super) fn window(&self) -> (Iova, Option<Iova>) {
        let bytes = u64::from(self.window.pages).checked_mul(PAGE_SIZE as u64);
        (self.window.iova, bytes.and_then(|bytes| self.window.iova.checked_add(bytes)))
    }

    /// The address of page `page` of its window.
    pub(super) fn page(&self, page: u32) -> Result<Iova, Stuck> {
        let offset = u64::from(page).saturating_mul(PAGE_SIZE as u64);
        self.window.iova.checked_add(offset).ok_or(Stuck::Missing("a page of its window"))
    }

    /// The address of a page that nothing else uses.
    pub(super) fn spare(&self) -> Iova {
        self.page(PAGES.saturating_sub(1)).unwrap_or(self.window.iova)
    }

    /// The capability of page `page` of its window.
    pub(super) fn frame(&self, page: u32) -> Result<Cap<Frame>, Stuck> {
        self.environment.cap_at(names::WINDOW, page).ok_or(Stuck::Missing("a page of its window"))
    }

    /// The physical address of page `page` of its window.
    pub(super) fn paddr(&self, page: u32) -> Result<Paddr, Stuck> {
        Ok(self.platform.kernel().frame_get_address(self.frame(page)?)?)
    }

    /// Executes an I/O command. Its status proves nothing about memory.
    pub(super) async fn command(&mut self, build: impl FnOnce(Cid) -> Sqe) -> Result<Status, Stuck> {
        Ok(self.io.execute(build).await?.status())
    }

    /// Executes an administrative command.
    pub(super) async fn admin(&mut self, build: impl FnOnce(Cid) -> Sqe) -> Result<Status, Stuck> {
        Ok(self.admin.execute(build).await?.status())
    }

    /// A block of the function's own namespace.
    pub(super) fn block(lba: Lba) -> Result<Blocks, Stuck> {
        Blocks::new(lba, 1).ok_or(Stuck::Missing("a block"))
    }

    /// Reads the known block to `iova`.
    pub(super) async fn read_to(&mut self, iova: Iova) -> Result<Status, Stuck> {
        let (nsid, blocks) = (self.nsid, Self::block(ASKED)?);
        self.command(|cid| nvm::read(cid, nsid, blocks, DataPointer::page(iova.bits()))).await
    }

    /// Writes `content` to the known block by the window's first page.
    pub(super) async fn put(&mut self, content: Content) -> Result<(), Stuck> {
        self.put_at(ASKED, content).await
    }

    async fn put_at(&mut self, lba: Lba, content: Content) -> Result<(), Stuck> {
        content.fill(&self.memory, 0)?;
        self.put_page_at(lba).await
    }

    /// Writes the window's first page, as it is, to the known block.
    pub(super) async fn put_page(&mut self) -> Result<(), Stuck> {
        self.put_page_at(ASKED).await
    }

    async fn put_page_at(&mut self, lba: Lba) -> Result<(), Stuck> {
        let status = self.write_from(lba, self.window.iova).await?;
        if status.is_success() { Ok(()) } else { Err(Stuck::Honest(status)) }
    }

    async fn write_from(&mut self, lba: Lba, iova: Iova) -> Result<Status, Stuck> {
        let (nsid, blocks) = (self.nsid, Self::block(lba)?);
        self.command(|cid| nvm::write(cid, nsid, blocks, DataPointer::page(iova.bits()))).await
    }

    /// Whether there is memory at `iova` for the function: it has a block read to there and written from there, and it comes
    /// back.
    pub(super) async fn round_trip(&mut self, iova: Iova) -> Result<bool, Stuck> {
        self.put_at(CHANGED, BEFORE).await?;
        self.put(ASKED_CONTENT).await?;
        self.read_to(iova).await?;
        self.write_from(CHANGED, iova).await?;
        let (nsid, blocks, own) = (self.nsid, Self::block(CHANGED)?, self.window.iova);
        BEFORE.fill(&self.memory, 0)?;
        let status = self.command(|cid| nvm::read(cid, nsid, blocks, DataPointer::page(own.bits()))).await?;
        if !status.is_success() {
            return Err(Stuck::Honest(status));
        }
        ASKED_CONTENT.is_part_of_block(&self.memory, 0)
    }

    /// Whether the last round trip brought the whole block back.
    pub(super) fn brought_all(&self) -> Result<bool, Stuck> {
        ASKED_CONTENT.is_block(&self.memory, 0)
    }

    /// Waits for the supervisor's next tick.
    pub(super) async fn tick(&self) {
        loop {
            if let Event::Signal(badge) = self.platform.next_event().await
                && badge.has(platform::Badge::TICK)
            {
                return;
            }
        }
    }
}
