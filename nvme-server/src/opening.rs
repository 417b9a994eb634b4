//! Opening a session: its window mapped for the device, its queue pairs created; all of it or nothing.
//!
//! `control_plane` calls this when a client asks, one opening at a time. What a session had stays reserved for its next
//! opening, so a client that opens and closes without end uses nothing up. Queue pairs that sessions share are created at
//! every bring-up instead, and no session deletes them. Left out: how a session ends, which is `control_plane`'s.

use crate::arbitration::priority;
use crate::bring_up::{Identity, Namespace, execute};
use crate::budget;
use crate::dma::Window;
use crate::fault::DeviceFault;
use crate::in_flight::InFlight;
use crate::io_queue::{Form, IoQueue, Stop};
use crate::prp::{PrpLists, list_pages};
use crate::queue::QueuePair;
use crate::queues::Allotment;
use crate::seat::Attention;
use crate::server::Shared;
use crate::session::{Parts, Session};
use crate::split::CommandLimits;
use alloc::vec::Vec;
use blk_api::config::{Class, Completion, SessionConfig, badge};
use blk_api::queues::Queues as Sharing;
use blk_api::request::Limits;
use blk_api::ring::ServerEnd;
use blk_api::session::{Geometry, Refusal};
use core::ops::Range;
use nvme_spec::QueueId;
use nvme_spec::admin::{CqInterrupt, CreateIoCq, CreateIoSq, QueueMemory, delete_io_cq, delete_io_sq};
use nvme_spec::nvm::Blocks;
use platform::log::{error, info};
use platform::{Badge, Cap, Environment, Platform};
use report::{Report, clip};

/// The largest request, bytes: bounds how long one request can hold its queue pair.
const MAX_REQUEST: u64 = 2 << 20;

/// Pages of a window that are mapped or unmapped before others are let in.
const PORTION: usize = 32;

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
    if let Err(fault) = create_all(shared, &own_queues(shared, queues.clone())).await {
        unmap_window(shared, &window).await;
        error!("no queue pair for {}: {}", config.tenant.as_str(), clip::<96>(&alloc::format!("{fault}")).as_str());
        return Err(refusal_of(shared, fault));
    }
    seat_session(shared, index, Opening { identity, namespace, config, ends, window, queues })
}

/// Those of a session's queue pairs that are its own.
pub(crate) fn own_queues<P: Platform>(shared: &Shared<P>, numbers: Range<u16>) -> Vec<QueueShape> {
    if shared.config.queues != Sharing::Dedicated {
        return Vec::new();
    }
    shared.queues.borrow().of(numbers).map(QueueShape::of).collect()
}

/// Creates all queue pairs of a session or none.
async fn create_all<P: Platform>(shared: &Shared<P>, shapes: &[QueueShape]) -> Result<(), DeviceFault> {
    for (number, shape) in shapes.iter().enumerate() {
        if let Err(fault) = create(shared, shape).await {
            for created in shapes.iter().take(number).take_while(|_| is_refused(fault)) {
                if let Err(stays) = delete(shared, created.id).await {
                    shared.fail(stays);
                    break;
                }
            }
            return Err(fault);
        }
    }
    Ok(())
}

/// Whether the controller said no. After any other fault nobody knows what it did, and the reset undoes all of it.
pub(crate) const fn is_refused(fault: DeviceFault) -> bool {
    matches!(fault, DeviceFault::Refused(_))
}

/// A refused command is the session's trouble; anything else the controller's.
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

/// Puts the open session into its seat.
fn seat_session<P: Platform>(shared: &Shared<P>, index: usize, opening: Opening<'_, P>) -> Result<Geometry, Refusal> {
    let Opening { identity, namespace, config, ends: (ring, client), window, queues } = opening;
    let shift = namespace.block_shift;
    let pairs = shared.queues.borrow();
    // Queue pairs kept from before a reset have list pages for what the controller allowed then.
    let of_session = || pairs.of(queues.clone());
    let max_transfer = of_session().fold(identity.max_transfer, |least, queue| least.min(queue.max_transfer));
    let data_blocks = u32::try_from(max_transfer >> shift).unwrap_or(Blocks::MAX).min(Blocks::MAX);
    let limits = Limits {
        block_shift: shift,
        max_blocks: u32::try_from(MAX_REQUEST >> shift).unwrap_or(u32::MAX),
        window_bytes: config.window_bytes,
        writable: config.writable,
        blocks: config.blocks,
    };
    let mut seats = shared.seats.borrow_mut();
    let seat = seats.get_mut(index).ok_or(Refusal::BadRequest)?;
    let geometry = Geometry {
        blocks: limits.blocks,
        block_bytes: 1 << shift,
        max_blocks: limits.max_blocks,
        window_bytes: config.window_bytes,
        queue_pairs: queues.len() as u16,
        depth: seat.allotment.depth,
        writable: u32::from(config.writable),
    };
    let session = Session::new(Parts {
        config: config.clone(),
        limits,
        command_limits: CommandLimits { data_blocks, bare_blocks: Blocks::MAX, block_shift: shift },
        abilities: identity.abilities,
        window,
        namespace_blocks: namespace.blocks,
        refusals: budget::refusals(shared.config.sessions.len()),
        number: u8::try_from(index).map_err(|_| Refusal::BadRequest)?,
        queues,
        ring,
        client,
        kernel: shared.platform.kernel().clone(),
    });
    seat.hear_vectors(vector_bits(shared, session.queues.clone()));
    seat.session = Some(session);
    seat.closing = false;
    seat.attend(Attention::Now(0));
    let (pages_left, io_tables_left) = (shared.pool.borrow().left(), shared.space.borrow().tables_left());
    shared.report(&Report::Opened { tenant: clip(&config.tenant), pages_left, io_tables_left });
    info!("session {} open on {} queue pairs", config.tenant.as_str(), geometry.queue_pairs);
    Ok(geometry)
}

/// The bits of a badge that may mean these queue pairs.
pub(crate) fn vector_bits<P: Platform>(shared: &Shared<P>, numbers: Range<u16>) -> u64 {
    let ids = numbers.filter_map(|number| Some(QueueId(number.checked_add(1)?)));
    ids.fold(0, |bits, id| bits | badge::vector(u32::from(vector_of(shared, id)))) & !Badge::SIGNAL
}

type Ends<P> = (ServerEnd<<P as Platform>::Memory>, Cap<platform::Notification>);

/// The server's end of the session's ring, and the client's notification.
fn ends<P: Platform>(shared: &Shared<P>, index: usize, config: &SessionConfig) -> Option<Ends<P>> {
    let region = |prefix: &str| {
        let region = shared.environment.region(&alloc::format!("{prefix}-{index}"))?;
        shared.platform.memory(region).ok()
    };
    let ring = ServerEnd::new(region("ring-client")?, region("ring-server")?, config.ring_entries).ok()?;
    Some((ring, shared.environment.cap(&alloc::format!("client-{index}"))?))
}

/// The numbers of the session's queue pairs. Its own are those of the last opening or are made now, shared ones are there.
fn queues_for<P: Platform>(shared: &Shared<P>, identity: &Identity, index: usize) -> Result<Range<u16>, Refusal> {
    let allotment = shared.seats.borrow().get(index).map(|seat| seat.allotment).ok_or(Refusal::BadRequest)?;
    let numbers = numbers_of(shared, index, allotment);
    if numbers.end > identity.queue_pairs {
        return Err(Refusal::NoQueuePairs);
    }
    if shared.config.queues == Sharing::Dedicated {
        make(shared, identity, numbers.clone()).map_err(|_| Refusal::Device)?;
        let form = Form { depth: allotment.depth, class: class_of(shared, index) };
        for number in numbers.clone() {
            let mut queues = shared.queues.borrow_mut();
            let queue = queues.get_mut(number).ok_or(Refusal::Device)?;
            queue.set_form(form).map_err(|_| Refusal::Device)?;
            queue.go_on(Stop::Changes);
        }
    }
    Ok(numbers)
}

/// The numbers of the queue pairs that session `index` has with this allotment.
pub(crate) fn numbers_of<P: Platform>(shared: &Shared<P>, index: usize, allotment: Allotment) -> Range<u16> {
    let numbers = shared.config.queue_pairs_of(index);
    match shared.config.queues {
        Sharing::Dedicated => numbers.start..numbers.start.saturating_add(allotment.queue_pairs).min(numbers.end),
        _ => numbers,
    }
}

/// The class that session `index` has now.
pub(crate) fn class_of<P: Platform>(shared: &Shared<P>, index: usize) -> Class {
    shared.schedule.borrow().class(index).unwrap_or(Class::Medium)
}

/// Makes the queue pairs that sessions share, if they were not made yet. Without enough of them the controller's sessions
/// are refused.
pub(crate) fn make_common<P: Platform>(shared: &Shared<P>, identity: &Identity) -> Result<(), DeviceFault> {
    match shared.config.queues.common() {
        Some((queue_pairs, _)) => make(shared, identity, 0..queue_pairs.min(identity.queue_pairs)),
        None => Ok(()),
    }
}

/// Makes those of the queue pairs that are not there, all of them or none: a client that asks again and again must not use
/// the pool up.
pub(crate) fn make<P: Platform>(
    shared: &Shared<P>,
    identity: &Identity,
    numbers: Range<u16>,
) -> Result<(), DeviceFault> {
    let missing: Vec<u16> = numbers.filter(|number| shared.queues.borrow().get(*number).is_none()).collect();
    let mark = shared.pool.borrow().mark();
    let made: Result<Vec<_>, _> = missing.iter().map(|number| queue(shared, identity, *number)).collect();
    match made {
        Ok(made) => {
            let mut queues = shared.queues.borrow_mut();
            missing.into_iter().zip(made).for_each(|(number, queue)| queues.put(number, queue));
            Ok(())
        }
        Err(fault) => {
            shared.pool.borrow_mut().rewind(mark);
            Err(fault)
        }
    }
}

/// The session's window: at the addresses of the last opening, or new ones.
fn window<P: Platform>(shared: &Shared<P>, index: usize, config: &SessionConfig) -> Option<Window> {
    let mut seats = shared.seats.borrow_mut();
    let seat = seats.get_mut(index)?;
    if seat.window.is_none() {
        let name = alloc::format!("window-{index}");
        let environment: &Environment = &shared.environment;
        let first = environment.cap(&name)?;
        let pages = environment.cap_count(&name);
        (u64::from(pages) << platform::PAGE_BITS >= config.window_bytes).then_some(())?;
        let iova = shared.space.borrow_mut().reserve_window(first, config.window_bytes)?;
        seat.window = Some(Window { first, pages, iova });
    }
    seat.window
}

/// The sessions whose commands go to the queue pair of this number.
fn users<P: Platform>(shared: &Shared<P>, number: u16) -> impl Iterator<Item = usize> {
    (0..shared.config.sessions.len()).filter(move |index| shared.config.queue_pairs_of(*index).contains(&number))
}

fn queue<P: Platform>(shared: &Shared<P>, identity: &Identity, number: u16) -> Result<IoQueue<P>, DeviceFault> {
    let controller = &shared.controller;
    let id = QueueId(number.checked_add(1).ok_or(DeviceFault::OwnMemory)?);
    let user = users(shared, number).next();
    let own = user.and_then(|user| shared.config.sessions.get(user)).map_or(1, |session| session.most_depth);
    let depth = shared.config.queues.common().map_or(own, |(_, depth)| depth);
    let in_flight = depth.min(most_in_flight(shared)).max(1);
    let entries = in_flight.saturating_add(1);
    let mut pool = shared.pool.borrow_mut();
    let sq = pool.take_bytes(u64::from(entries).saturating_mul(64))?;
    let cq = pool.take_bytes(u64::from(entries).saturating_mul(16))?;
    // A discard's range is written into the list page, so each place has one.
    let pages = list_pages(identity.max_transfer).max(1);
    let list = pool.take(pages.saturating_mul(u64::from(in_flight)))?;
    let mut pair = QueuePair::new(id, entries, (sq, cq), controller.registers(), controller.cap().doorbells())?;
    pair.reset()?;
    Ok(IoQueue {
        pair,
        in_flight: InFlight::new(in_flight),
        lists: PrpLists::new(list, in_flight, pages)?,
        max_transfer: identity.max_transfer,
        last_completion: 0,
        stops: 0,
        class: user.map_or(Class::Medium, |user| class_of(shared, user)),
        users: users(shared, number).collect(),
        turned_away: false,
    })
}

/// The most commands that a queue pair can hold: one slot stays empty, and no queue is larger than MQES.
pub(crate) fn most_in_flight<P: Platform>(shared: &Shared<P>) -> u16 {
    let entries = u16::try_from(shared.controller.cap().max_queue_entries()).unwrap_or(u16::MAX);
    entries.saturating_sub(1).min(InFlight::MAX)
}

/// Maps a window for the device, or nothing of it. Other tenants' requests are served in between: a window may be
/// large.
async fn map_window<P: Platform>(shared: &Shared<P>, window: &Window) -> platform::Result<()> {
    for first in (0..window.pages).step_by(PORTION) {
        let mapped = shared.space.borrow_mut().map_pages(window, portion(window, first));
        if let Err(error) = mapped {
            unmap_window(shared, window).await;
            return Err(error);
        }
        shared.platform.yield_now().await;
    }
    Ok(())
}

/// Takes a window from the device, likewise. Nothing may be in flight.
pub(crate) async fn unmap_window<P: Platform>(shared: &Shared<P>, window: &Window) {
    for first in (0..window.pages).step_by(PORTION) {
        shared.space.borrow().unmap_pages(window, portion(window, first));
        shared.platform.yield_now().await;
    }
}

fn portion(window: &Window, first: u32) -> core::ops::Range<u32> {
    first..window.pages.min(first.saturating_add(PORTION as u32))
}

/// What creating a queue pair needs, copied out so that nothing stays borrowed while the controller works.
#[derive(Clone, Copy)]
pub(crate) struct QueueShape {
    id: QueueId,
    entries: u16,
    class: Class,
    sq: u64,
    cq: u64,
}

impl QueueShape {
    pub(crate) const fn id(&self) -> QueueId {
        self.id
    }

    /// Its number among the I/O queue pairs.
    pub(crate) const fn number(&self) -> u16 {
        self.id.0.saturating_sub(1)
    }

    pub(crate) fn of<P: Platform>(queue: &IoQueue<P>) -> Self {
        let pair = &queue.pair;
        let (sq, cq) = (pair.sq.iova.bits(), pair.cq.iova.bits());
        Self { id: pair.id(), entries: pair.entries(), class: queue.class, sq, cq }
    }
}

/// Creates a queue pair: the CQ, then the SQ. Both or none.
pub(crate) async fn create<P: Platform>(shared: &Shared<P>, queue: &QueueShape) -> Result<(), DeviceFault> {
    // Those who share it have their completions noticed in the same way.
    let user = users(shared, queue.number()).next();
    let session = user.and_then(|user| shared.config.sessions.get(user));
    let polled = session.is_some_and(|session| session.completion == Completion::Polled);
    let interrupt = if polled { CqInterrupt::Disabled } else { CqInterrupt::Vector(vector_of(shared, queue.id)) };
    let qsize_z = queue.entries.saturating_sub(1);
    let cq = CreateIoCq { qid: queue.id, qsize_z, interrupt, memory: QueueMemory::Contiguous(queue.cq) };
    execute(shared, |cid| cq.sqe(cid)).await?;
    let sq = CreateIoSq {
        qid: queue.id,
        qsize_z,
        cqid: queue.id,
        priority: priority(queue.class),
        memory: QueueMemory::Contiguous(queue.sq),
    };
    if let Err(fault) = execute(shared, |cid| sq.sqe(cid)).await {
        if is_refused(fault)
            && let Err(stays) = execute(shared, |cid| delete_io_cq(cid, queue.id)).await
        {
            shared.fail(stays);
        }
        return Err(fault);
    }
    Ok(())
}

/// Deletes a queue pair: the SQ, then the CQ.
pub(crate) async fn delete<P: Platform>(shared: &Shared<P>, id: QueueId) -> Result<(), DeviceFault> {
    execute(shared, |cid| delete_io_sq(cid, id)).await?;
    execute(shared, |cid| delete_io_cq(cid, id)).await.map(drop)
}

/// Vector 0 is the admin queue's; I/O queues take the others in turn, or share vector 0 when it is the only one.
fn vector_of<P: Platform>(shared: &Shared<P>, id: QueueId) -> u16 {
    let io_vectors = (shared.vectors.borrow().len() as u16).saturating_sub(1);
    match id.0.saturating_sub(1).checked_rem(io_vectors) {
        Some(turn) => turn.saturating_add(1),
        None => 0,
    }
}
