//! Brings the session's virtual function up: claim, memory, queue pairs, namespace (NVM Express base specification 1.4,
//! section 7.6.1).
//!
//! The NVMe server sets the function's controller online and attaches the namespace, some time after the client's start, which is
//! waited for here, a tick at a time. The other waits poll. All have a limit.

use super::{Backlog, Ended, RING_AFTER, Served, Telemetry, VirtualFunction};
use crate::error::OpenError;
use crate::session::Options;
use crate::virtual_function::silence::Silence;
use alloc::boxed::Box;
use alloc::rc::Rc;
use blk_api::request::Bounds;
use blk_api::ring::Completed;
use blk_api::session::Geometry;
use nvme_driver::command::{Abilities, Target};
use nvme_driver::cursor::CommandLimits;
use nvme_driver::features;
use nvme_driver::inquiry::{self, Asks};
use nvme_driver::queue::{Queue, most_commands};
use nvme_driver::{
    DeviceFault, DmaPool, Engine, IoSpaceMap, PciClient, PciError, Polled, Registers, RetryDelays, Ring, disable,
    secondary, wait_enabled,
};
use nvme_spec::admin::CqInterrupt;
use nvme_spec::feature::NumberOfQueues;
use nvme_spec::identify::{self, CommandSetId, NotPlain, PlainBlocks};
use nvme_spec::registers::{Arbitration, Cap, Vs};
use nvme_spec::{Cid, Cqe, Nsid, QueueId, Sqe};
use pci_api::Refusal;
use platform::{Environment, Kernel, Mmio, PAGE_BITS, Platform};

/// Entries of the admin queues.
const ADMIN_ENTRIES: u16 = 8;
/// The I/O queue pair.
const IO_QUEUE: QueueId = QueueId(1);
/// The largest request, as at the NVMe server.
const MAX_REQUEST: u64 = 2 << 20;
/// log2 of the bytes of the largest block.
const MAX_BLOCK_SHIFT: u8 = 16;
/// Seconds from the client's start in which its function must be online: the server believes a controller that it needs so long to
/// be ready.
const ONLINE_LIMIT_SECONDS: u64 = 300;

impl<P: Platform> VirtualFunction<P> {
    /// Brings up the function that the PCI server gives. Returns what it is like, too.
    ///
    /// # Errors
    /// [`OpenError`].
    pub(crate) async fn open(
        platform: &P,
        environment: &Rc<Environment>,
        options: Options,
    ) -> Result<(Self, Geometry), OpenError> {
        let limit = platform.ticks_per_second().saturating_mul(ONLINE_LIMIT_SECONDS);
        let deadline = platform.ticks().saturating_add(limit);
        loop {
            // The time is read first, so that a client that did not run meanwhile tries once more.
            let is_last = platform.ticks() >= deadline;
            // On the heap: the stack is short, and holds a copy for each of the futures that this one is a part of.
            match Box::pin(Self::bring_up(platform, environment, options, deadline)).await {
                // It was withdrawn meanwhile, and is under reset.
                Err(OpenError::Device(DeviceFault::Absent))
                    if PciClient::new(platform, environment, 0..0)?.is_withdrawn().await =>
                {
                    return Err(OpenError::Pci(PciError::Refused(Refusal::Withdrawn)));
                }
                // It was reset meanwhile.
                Err(OpenError::Device(fault)) if fault.shows_reset() && !is_last => drop(platform.next_event().await),
                outcome => return outcome,
            }
        }
    }

    async fn bring_up(
        platform: &P,
        environment: &Rc<Environment>,
        options: Options,
        deadline: u64,
    ) -> Result<(Self, Geometry), OpenError> {
        let pci = environment.cap(pci_api::names::PCI).ok_or(OpenError::Missing(pci_api::names::PCI))?;
        IoSpaceMap::release(platform.kernel(), environment);
        let (client, device) = secondary::claim(platform, environment, deadline).await?;
        let controller = Registers::new(device.registers);
        secondary::online(platform, &client, &controller, deadline).await?;
        controller.identify()?;
        disable(platform, &controller, || pause(platform)).await?;
        let mut space = IoSpaceMap::new(platform.kernel().clone(), device.io_space, environment);
        let mut pool = DmaPool::new(platform, environment, &mut space)?;
        let window = secondary::map_window(environment, &mut space)?;
        // It is disabled, so nothing that firmware or an earlier driver left is in flight.
        client.start().await?;
        let mut admin = Polled::new(platform, QueueId::ADMIN, ADMIN_ENTRIES, &mut pool, &controller)?;
        controller.enable(&admin.pair.sq, &admin.pair.cq, ADMIN_ENTRIES, Arbitration::RoundRobin)?;
        wait_enabled(platform, &controller, || pause(platform)).await?;
        let page = pool.take(1)?;
        let mut asks = Asking { platform, admin: &mut admin, page };
        let identity = Identity::read(&mut asks, &controller).await?;
        features::set(&mut asks, core::iter::once(identity.nsid)).await?;
        let one = NumberOfQueues::pairs(1).ok_or(DeviceFault::OwnMemory)?;
        admin.must(|cid| one.set(cid)).await?;
        let wanted = u16::try_from(options.ring_entries).unwrap_or(u16::MAX);
        let depth = wanted.min(most_commands(&controller)).max(1);
        let none = (0, Served::Whole);
        let queue = Queue::new(&controller, &mut pool, IO_QUEUE, depth, identity.max_transfer, none)?;
        // Vector 0 is the admin queue's, and is shared where it is the only one.
        let vector = u16::from(device.vectors.len() > 1);
        let interrupt = if options.polls { CqInterrupt::Disabled } else { CqInterrupt::Vector(vector) };
        admin.create(&queue.pair, interrupt).await?;
        let masks = platform.kernel().irq_masks_messages();
        let block_shift = identity.block_shift;
        let limits = CommandLimits::of(identity.max_transfer, block_shift);
        let geometry = Geometry {
            blocks: identity.blocks,
            block_bytes: 1 << block_shift,
            max_blocks: u32::try_from(MAX_REQUEST >> block_shift).unwrap_or(u32::MAX),
            window_bytes: u64::from(window.pages) << PAGE_BITS,
            queue_pairs: 1,
            depth,
            writable: 1,
            media: identity.media,
        };
        let bounds = Bounds {
            block_shift,
            max_blocks: geometry.max_blocks,
            window_bytes: geometry.window_bytes,
            writable: true,
            blocks: geometry.blocks,
        };
        // One for each command, and one for a request that has none yet.
        let requests = depth.saturating_add(1);
        let telemetry = Telemetry::new(platform, environment, IO_QUEUE, depth, requests);
        let function = Self {
            platform: platform.clone(),
            environment: Rc::clone(environment),
            pci,
            controller,
            queue,
            target: Target { nsid: identity.nsid, window: window.iova },
            small: Bounds { max_blocks: bounds.max_blocks.min(limits.data_blocks), ..bounds.clone() },
            bounds,
            limits,
            abilities: identity.abilities,
            delays: identity.delays,
            masked_lines: device.vectors.iter().filter(|_| masks).map(|vector| vector.line).collect(),
            engine: Engine::new(requests),
            backlog: Backlog::new(options.ring_entries),
            is_plain: telemetry.is_none(),
            telemetry,
            in_vain: 0,
            waits: 0,
            until_ring: RING_AFTER,
            doorbells: 0,
            silence: Silence::default(),
            withdrawn: None,
            rest: Ended::NONE,
            other: Completed::default(),
            fault: DeviceFault::OwnMemory,
        };
        Ok((function, geometry))
    }
}

/// The controller's identity, as far as the data path needs it.
struct Identity {
    nsid: Nsid,
    blocks: u64,
    block_shift: u8,
    /// Number of its media.
    media: u64,
    /// Bytes one command may move.
    max_transfer: u64,
    abilities: Abilities,
    delays: RetryDelays,
}

impl Identity {
    /// Asks the controller for itself and its first namespace.
    ///
    /// # Errors
    /// [`OpenError::Device`], and [`OpenError::BadGeometry`] for a namespace that cannot be used.
    async fn read<R: Mmio>(asks: &mut impl Asks, controller: &Registers<R>) -> Result<Self, OpenError> {
        let about = inquiry::describe(asks).await?;
        let (version, cap) = (controller.version()?, controller.cap());
        let (max_transfer, abilities) = inquiry::limits(asks, version, cap, &about).await?;
        let (nsid, plain, media) = first_namespace(asks, version, cap, &about).await?;
        if 1 << plain.shift > max_transfer {
            return Err(OpenError::BadGeometry);
        }
        let delays = inquiry::retry_delays(asks, &about).await?;
        Ok(Self { nsid, blocks: plain.blocks, block_shift: plain.shift, media, max_transfer, abilities, delays })
    }
}

/// The admin queue, and the page of the controller's answers.
struct Asking<'a, P: Platform> {
    platform: &'a P,
    admin: &'a mut Polled<P>,
    page: Ring<P::Memory>,
}

impl<P: Platform> Asks for Asking<'_, P> {
    type Memory = P::Memory;

    fn page(&self) -> &Ring<P::Memory> {
        &self.page
    }

    async fn must(&mut self, build: impl Fn(Cid) -> Sqe) -> Result<Cqe, DeviceFault> {
        self.admin.must(build).await
    }

    async fn wait(&mut self) {
        // Each event, and so each tick.
        drop(self.platform.next_event().await);
    }
}

/// The first of the controller's namespaces that can be used, its blocks, and the number of its media.
///
/// # Errors
/// [`OpenError::BadGeometry`] if there are only others, and the status of the last one that the controller refuses to identify.
async fn first_namespace(
    asks: &mut impl Asks,
    version: Vs,
    cap: Cap,
    about: &identify::Controller,
) -> Result<(Nsid, PlainBlocks, u64), OpenError> {
    let mut error = DeviceFault::Unusable("the function has no namespace").into();
    for nsid in inquiry::namespaces(asks, version, about).await?.0 {
        let described = inquiry::unless_refused(asks, async |asks| {
            if inquiry::command_set(asks, cap, nsid).await? != Some(CommandSetId::Nvm) {
                return Ok(None);
            }
            let namespace = inquiry::namespace(asks, nsid).await?;
            let media = identify::media(about, nsid, &namespace);
            Ok(Some(namespace.plain(MAX_BLOCK_SHIFT).map(|plain| (plain, media))))
        });
        match described.await? {
            Ok(Some(Ok((plain, media)))) => return Ok((nsid, plain, media)),
            Ok(Some(Err(NotPlain::Inactive))) => {}
            Ok(Some(Err(_)) | None) => error = OpenError::BadGeometry,
            Err(status) => error = DeviceFault::Refused(status).into(),
        }
    }
    Err(error)
}

/// Lets others run between two polls.
async fn pause<P: Platform>(platform: &P) {
    platform.pause();
    platform.yield_now().await;
}
