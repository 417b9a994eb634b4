//! The controller, driven by polling: an admin queue, one I/O queue pair, one command at a time.

use nvme_driver::{
    DeviceFault, DmaPool, Interrupts, IoSpaceMap, PciClient, Polled, Registers, Stuck, disable, wait_ready,
};
use nvme_spec::admin::CqInterrupt;
use nvme_spec::feature::NumberOfQueues;
use nvme_spec::nvm::{self, Blocks};
use nvme_spec::registers::Arbitration;
use nvme_spec::{DataPointer, Lba, Nsid, QueueId, Status};
use platform::{Badge, Cap, Environment, Event, Frame, IoSpace, Iova, Kernel, Platform, Rights};

/// Entries of each queue.
const ENTRIES: u16 = 8;
/// The namespace the probe uses.
const NSID: Nsid = Nsid(1);
/// The I/O queue pair.
const IO_QUEUE: QueueId = QueueId(1);

/// A claimed controller that takes commands.
pub(crate) struct Disk<P: Platform> {
    /// Where it is: bus << 8 | device << 3 | function.
    pub bdf: u16,
    /// The function's address space.
    pub space: IoSpaceMap<P::Kernel>,
    /// The capability to it.
    pub io_space: Cap<IoSpace>,
    /// Registers and doorbells.
    pub registers: P::Mmio,
    io: Polled<P>,
}

impl<P: Platform> Disk<P> {
    /// Claims the controller and brings it up. The address space of an earlier claim has the page tables that are left of it.
    pub(crate) async fn claim(
        platform: &P,
        environment: &Environment,
        pci: &mut PciClient<'_, P>,
        earlier: Option<IoSpaceMap<P::Kernel>>,
    ) -> Result<Self, Stuck> {
        let device = pci.claim(Interrupts::Msix, 1).await?;
        let registers = device.registers.clone();
        let controller = Registers::new(device.registers);
        controller.identify()?;
        disable(platform, &controller, || next_tick(platform)).await?;
        pci.start().await?;
        let mut space = match earlier {
            Some(earlier) => earlier.recreated(device.io_space),
            None => IoSpaceMap::new(platform.kernel().clone(), device.io_space, environment),
        };
        let mut pool = DmaPool::new(platform, environment, &mut space)?;
        let mut admin = Polled::new(platform, QueueId::ADMIN, ENTRIES, &mut pool, &controller)?;
        controller.enable(&admin.pair.sq, &admin.pair.cq, ENTRIES, Arbitration::RoundRobin)?;
        wait_ready(platform, &controller, || next_tick(platform), true).await?;
        controller.check()?;
        let io = Polled::new(platform, IO_QUEUE, ENTRIES, &mut pool, &controller)?;
        let one = NumberOfQueues::pairs(1).ok_or(DeviceFault::OwnMemory)?;
        admin.must(|cid| one.set(cid)).await?;
        admin.create(&io.pair, CqInterrupt::Disabled).await?;
        let io_space = device.io_space.ok_or(Stuck::Missing("an IOMMU"))?;
        Ok(Self { bdf: device.bdf, space, io_space, registers, io })
    }

    /// Reads a block to `iova`. The controller's status proves nothing.
    pub(crate) async fn read(&mut self, block: Lba, iova: Iova) -> Result<Status, Stuck> {
        let blocks = Blocks::new(block, 1).ok_or(DeviceFault::OwnMemory)?;
        let data = DataPointer::page(iova.bits());
        Ok(self.io.execute(|cid| nvm::read(cid, NSID, blocks, data)).await?.status())
    }

    /// Writes a block from `iova`. The controller's status proves nothing.
    pub(crate) async fn write(&mut self, block: Lba, iova: Iova) -> Result<Status, Stuck> {
        let blocks = Blocks::new(block, 1).ok_or(DeviceFault::OwnMemory)?;
        let data = DataPointer::page(iova.bits());
        Ok(self.io.execute(|cid| nvm::write(cid, NSID, blocks, data)).await?.status())
    }

    /// Maps a frame for the device.
    pub(crate) fn map(&mut self, frame: Cap<Frame>, rights: Rights, iova: Iova) -> Result<(), Stuck> {
        Ok(self.space.map(frame, rights, iova)?)
    }

    /// Releases the controller and keeps its capabilities: the IOSpace capability must end all the same.
    pub(crate) async fn release(
        self,
        platform: &P,
        environment: &Environment,
        pci: &PciClient<'_, P>,
    ) -> Result<IoSpaceMap<P::Kernel>, Stuck> {
        pci.release().await?;
        for page in 0..environment.cap_count(blk_api::names::DMA) {
            let frame = environment.cap_at(blk_api::names::DMA, page).ok_or(Stuck::Missing("run dma"))?;
            platform.kernel().frame_unmap(frame)?;
        }
        Ok(self.space)
    }
}

/// Waits for the supervisor's tick, so that a controller that is slow, or never gets ready, costs others nothing.
/// No other component signals the probe, and none calls it.
async fn next_tick<P: Platform>(platform: &P) {
    loop {
        if let Event::Signal(badge) = platform.next_event().await
            && badge.has(Badge::TICK)
        {
            return;
        }
    }
}
