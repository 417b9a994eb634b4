//! Opens a session: maps its window for the device and creates its queue pairs; all of it or nothing.
//!
//! Openings are carried out one after another. A session's resources stay reserved for its next opening, so a client that opens and closes
//! without end uses nothing up. Queue pairs that sessions share are created at every bring-up instead, and no session deletes them.
//! Left out: the end of a session (`close`).

use super::ControlPlane;
use crate::control_plane::identity::{Identity, Namespace};
use crate::control_plane::provision::{make, numbers_of};
use crate::control_plane::reconcile::{own_queues, reconcile};
use crate::control_plane::windows::{map_window, unmap_window, window};
use crate::data_plane::budget;
use crate::data_plane::extents::CommandLimits;
use crate::data_plane::session::{Parts, Retries, Session};
use crate::link::Link;
use blk_api::config::SessionConfig;
use blk_api::names;
use blk_api::queue_sharing::QueueSharing;
use blk_api::request::Bounds;
use blk_api::ring::ServerEnd;
use blk_api::session::{Geometry, Refusal};
use core::ops::Range;
use nvme_driver::dma::Window;
use nvme_driver::fault::DeviceFault;
use platform::log::{error, info};
use platform::{Cap, Platform};
use report::{Report, clip};

/// The largest request, bytes: bounds how long one request can hold its queue pair.
const MAX_REQUEST: u64 = 2 << 20;

impl<P: Platform> ControlPlane<'_, P> {
    /// Opens session `index`.
    ///
    /// # Errors
    /// [`Refusal`], and the session is closed.
    pub(super) async fn open(&mut self, index: usize) -> Result<Geometry, Refusal> {
        let link = self.link;
        let config = link.config.sessions.get(index).ok_or(Refusal::BadRequest)?;
        let identity = self.identity.as_ref().ok_or_else(|| link.refusal())?;
        let namespace = identity.namespaces.iter().find(|ns| ns.nsid.0 == config.nsid).ok_or(Refusal::NoSuchBlocks)?;
        if config.blocks > namespace.blocks {
            return Err(Refusal::NoSuchBlocks);
        }
        let ends = ends(link, index, config).ok_or(Refusal::Device)?;
        let (queues, depth) = queues_for(link, identity, index)?;
        let kept = self.windows.get_mut(index).ok_or(Refusal::BadRequest)?;
        let window = window(link, kept, index, config).ok_or(Refusal::Device)?;
        if let Err(error) = map_window(link, &window).await {
            error!("the window of {} cannot be mapped: {}", config.tenant.as_str(), error);
            return Err(Refusal::Device);
        }
        let is_own = link.config.queue_sharing == QueueSharing::Dedicated;
        let desired = if is_own { own_queues(link, index, queues.clone(), depth) } else { Default::default() };
        if let Err(fault) = reconcile(link, &desired).await {
            unmap_window(link, &window).await;
            error!("no queue pair for {}: {}", config.tenant.as_str(), clip::<96>(&alloc::format!("{fault}")).as_str());
            return Err(refusal_of(link, fault));
        }
        install(link, index, Opening { identity, namespace, config, ends, window, queues, depth })
    }
}

/// Returns the refusal for a fault. A refused command affects the session alone; any other fault is the controller's.
fn refusal_of<P: Platform>(link: &Link<P>, fault: DeviceFault) -> Refusal {
    match fault {
        DeviceFault::Refused(_) => Refusal::NoQueuePairs,
        other => {
            link.fail(other);
            Refusal::Device
        }
    }
}

struct Opening<'a, P: Platform> {
    identity: &'a Identity,
    namespace: &'a Namespace,
    config: &'a SessionConfig,
    ends: Ends<P>,
    window: Window,
    /// The numbers of its queue pairs.
    queues: Range<u16>,
    /// Commands that each of them may hold.
    depth: u16,
}

/// Gives the data plane the open session.
fn install<P: Platform>(link: &Link<P>, index: usize, opening: Opening<'_, P>) -> Result<Geometry, Refusal> {
    let Opening { identity, namespace, config, ends: (ring, client), window, queues, depth } = opening;
    let shift = namespace.block_shift;
    // Queue pairs kept from before a reset have list pages for what the controller allowed then.
    let max_transfer = link.with(|data| data.max_transfer(queues.clone(), identity.max_transfer));
    let bounds = Bounds {
        block_shift: shift,
        max_blocks: u32::try_from(MAX_REQUEST >> shift).unwrap_or(u32::MAX),
        window_bytes: config.window_bytes,
        writable: config.writable && !link.with(|data| data.media_is_read_only),
        blocks: config.blocks,
    };
    let geometry = Geometry {
        blocks: bounds.blocks,
        block_bytes: 1 << shift,
        max_blocks: bounds.max_blocks,
        window_bytes: config.window_bytes,
        queue_pairs: queues.len() as u16,
        depth,
        writable: u32::from(bounds.writable),
        media: namespace.media,
    };
    let session = Session::new(Parts {
        config: config.clone(),
        bounds,
        command_limits: CommandLimits::of(max_transfer, shift),
        abilities: identity.abilities,
        retries: Retries::new(link.controller.retry_delays.get(), link.platform.ticks_per_second()),
        window,
        namespace_blocks: namespace.blocks,
        refusals: budget::refusals(link.config.sessions.len()),
        number: u8::try_from(index).map_err(|_| Refusal::BadRequest)?,
        queues,
        ring,
        client,
        kernel: link.platform.kernel().clone(),
    });
    link.with(|data| data.install(index, session));
    let (pages_left, io_tables_left) =
        (link.controller.pool.borrow().left(), link.controller.space.borrow().tables_left());
    link.report(&Report::Opened { tenant: clip(&config.tenant), pages_left, io_tables_left });
    info!("session {} open on {} queue pairs", config.tenant.as_str(), geometry.queue_pairs);
    Ok(geometry)
}

type Ends<P> = (ServerEnd<<P as Platform>::Memory>, Cap<platform::Notification>);

/// The server's end of the session's ring, and the client's notification.
fn ends<P: Platform>(link: &Link<P>, index: usize, config: &SessionConfig) -> Option<Ends<P>> {
    let number = u32::try_from(index).ok()?;
    let region = |name: &str| link.platform.memory(link.environment.region(name)?).ok();
    let (client, server) = (region(&names::ring_client(number))?, region(&names::ring_server(number))?);
    let ring = ServerEnd::new(client, server, config.ring_entries).ok()?;
    Some((ring, link.environment.cap(&names::client(number))?))
}

/// The numbers of the session's queue pairs, and their depth. Its own are those of the last opening or are made now, shared ones are
/// there.
fn queues_for<P: Platform>(link: &Link<P>, identity: &Identity, index: usize) -> Result<(Range<u16>, u16), Refusal> {
    let allotment = link.with(|data| data.allotment(index)).ok_or(Refusal::BadRequest)?;
    let numbers = numbers_of(&link.config, index, allotment);
    if numbers.end > identity.queue_pairs {
        return Err(Refusal::NoQueuePairs);
    }
    if link.config.queue_sharing == QueueSharing::Dedicated {
        make(link, identity.max_transfer, numbers.clone()).map_err(|_| Refusal::Device)?;
    } else if !link.with(|data| numbers.clone().all(|number| data.is_created(number))) {
        // The controller refused some.
        return Err(Refusal::NoQueuePairs);
    }
    Ok((numbers, allotment.depth))
}
