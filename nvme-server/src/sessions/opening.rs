//! Opens a session: maps its window for the device and creates its queue pairs; all of it or nothing.
//!
//! `control_plane` calls this when a client asks, one opening at a time. A session's resources stay reserved for its next
//! opening, so a client that opens and closes without end uses nothing up. Queue pairs that sessions share are created at
//! every bring-up instead, and no session deletes them. Left out: the end of a session (`teardown`).

use crate::control_path::identity::{Identity, Namespace};
use crate::control_path::provision::{make, numbers_of};
use crate::control_path::reconcile::{Desired, reconcile};
use crate::data_path::budget;
use crate::data_path::session::{Parts, Retries, Session};
use crate::data_path::split::CommandLimits;
use crate::sessions::phase::Phase;
use crate::sessions::windows::{map_window, unmap_window, window};
use crate::shared::Shared;
use alloc::boxed::Box;
use alloc::vec::Vec;
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

pub(crate) async fn open<P: Platform>(
    shared: &Shared<P>,
    identity: &Identity,
    index: usize,
) -> Result<Geometry, Refusal> {
    let config = shared.config.sessions.get(index).ok_or(Refusal::BadRequest)?;
    let namespace = identity.namespaces.iter().find(|ns| ns.nsid.0 == config.nsid).ok_or(Refusal::NoSuchBlocks)?;
    if config.blocks > namespace.blocks {
        return Err(Refusal::NoSuchBlocks);
    }
    let ends = ends(shared, index, config).ok_or(Refusal::Device)?;
    let queues = queues_for(shared, identity, index)?;
    let window = window(shared, index, config).ok_or(Refusal::Device)?;
    if let Err(error) = map_window(shared, &window).await {
        error!("the window of {} cannot be mapped: {}", config.tenant.as_str(), error);
        return Err(Refusal::Device);
    }
    if let Err(fault) = reconcile(shared, &own_queues(shared, index, queues.clone())).await {
        unmap_window(shared, &window).await;
        error!("no queue pair for {}: {}", config.tenant.as_str(), clip::<96>(&alloc::format!("{fault}")).as_str());
        return Err(refusal_of(shared, fault));
    }
    fill_slot(shared, index, Opening { identity, namespace, config, ends, window, queues })
}

/// The queue pairs of session `index` as they should be while it is open, as far as they are its own.
fn own_queues<P: Platform>(shared: &Shared<P>, index: usize, numbers: Range<u16>) -> Vec<Desired> {
    let depth = shared.slots.borrow().get(index).map(|slot| slot.allotment.depth);
    match depth.filter(|_| shared.config.queue_sharing == QueueSharing::Dedicated) {
        Some(depth) => Desired::own(shared, index, numbers, depth),
        None => Vec::new(),
    }
}

/// Returns the refusal for a fault. A refused command affects the session alone; any other fault is the controller's.
fn refusal_of<P: Platform>(shared: &Shared<P>, fault: DeviceFault) -> Refusal {
    match fault {
        DeviceFault::Refused(_) => Refusal::NoQueuePairs,
        other => {
            shared.fail(other);
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
}

/// Puts the open session into its slot.
fn fill_slot<P: Platform>(shared: &Shared<P>, index: usize, opening: Opening<'_, P>) -> Result<Geometry, Refusal> {
    let Opening { identity, namespace, config, ends: (ring, client), window, queues } = opening;
    let shift = namespace.block_shift;
    let pairs = shared.queues.borrow();
    // Queue pairs kept from before a reset have list pages for what the controller allowed then.
    let max_transfer = pairs.max_transfer(queues.clone(), identity.max_transfer);
    let bounds = Bounds {
        block_shift: shift,
        max_blocks: u32::try_from(MAX_REQUEST >> shift).unwrap_or(u32::MAX),
        window_bytes: config.window_bytes,
        writable: config.writable,
        blocks: config.blocks,
    };
    let mut slots = shared.slots.borrow_mut();
    let slot = slots.get_mut(index).ok_or(Refusal::BadRequest)?;
    let geometry = Geometry {
        blocks: bounds.blocks,
        block_bytes: 1 << shift,
        max_blocks: bounds.max_blocks,
        window_bytes: config.window_bytes,
        queue_pairs: queues.len() as u16,
        depth: slot.allotment.depth,
        writable: u32::from(config.writable),
        media: namespace.media,
    };
    let session = Session::new(Parts {
        config: config.clone(),
        bounds,
        command_limits: CommandLimits::of(max_transfer, shift),
        abilities: identity.abilities,
        retries: Retries::new(shared.controller.retry_delays.get(), shared.platform.ticks_per_second()),
        window,
        namespace_blocks: namespace.blocks,
        refusals: budget::refusals(shared.config.sessions.len()),
        number: u8::try_from(index).map_err(|_| Refusal::BadRequest)?,
        queues,
        ring,
        client,
        kernel: shared.platform.kernel().clone(),
    });
    slot.listen_to_vectors(shared.controller.vectors.borrow().bits_of(session.queues.clone()));
    slot.phase = Phase::Open(Box::new(session));
    slot.poll();
    let (pages_left, io_tables_left) =
        (shared.controller.pool.borrow().left(), shared.controller.space.borrow().tables_left());
    shared.report(&Report::Opened { tenant: clip(&config.tenant), pages_left, io_tables_left });
    info!("session {} open on {} queue pairs", config.tenant.as_str(), geometry.queue_pairs);
    Ok(geometry)
}

type Ends<P> = (ServerEnd<<P as Platform>::Memory>, Cap<platform::Notification>);

/// The server's end of the session's ring, and the client's notification.
fn ends<P: Platform>(shared: &Shared<P>, index: usize, config: &SessionConfig) -> Option<Ends<P>> {
    let number = u32::try_from(index).ok()?;
    let region = |name: &str| shared.platform.memory(shared.environment.region(name)?).ok();
    let (client, server) = (region(&names::ring_client(number))?, region(&names::ring_server(number))?);
    let ring = ServerEnd::new(client, server, config.ring_entries).ok()?;
    Some((ring, shared.environment.cap(&names::client(number))?))
}

/// The numbers of the session's queue pairs. Its own are those of the last opening or are made now, shared ones are there.
fn queues_for<P: Platform>(shared: &Shared<P>, identity: &Identity, index: usize) -> Result<Range<u16>, Refusal> {
    let allotment = shared.slots.borrow().get(index).map(|slot| slot.allotment).ok_or(Refusal::BadRequest)?;
    let numbers = numbers_of(shared, index, allotment);
    if numbers.end > identity.queue_pairs {
        return Err(Refusal::NoQueuePairs);
    }
    if shared.config.queue_sharing == QueueSharing::Dedicated {
        make(shared, identity, numbers.clone()).map_err(|_| Refusal::Device)?;
    } else if !numbers
        .clone()
        .all(|number| shared.queues.borrow().get(number).is_some_and(|one| one.created().is_some()))
    {
        // The controller refused some.
        return Err(Refusal::NoQueuePairs);
    }
    Ok(numbers)
}
