//! Opening, closing and expelling sessions, and bringing the controller up again after a fault: one thing at a time,
//! while the data plane goes on serving.

use crate::bring_up::{Identity, Namespace, bring_up, execute};
use crate::dma::Window;
use crate::fault::DeviceFault;
use crate::in_flight::InFlight;
use crate::prp::{ListPages, list_pages};
use crate::queue::QueuePair;
use crate::server::{Attention, Control, Health, Shared};
use crate::session::{IoQueue, Parts, Session};
use crate::split::CommandLimits;
use alloc::vec::Vec;
use blk_api::config::{Completion, SessionConfig, badge};
use blk_api::extent::ExtentMap;
use blk_api::request::Limits;
use blk_api::ring::ServerEnd;
use blk_api::session::{DONE, Geometry, Refusal};
use nvme_spec::QueueId;
use nvme_spec::admin::{CqInterrupt, CreateIoCq, CreateIoSq, QueueMemory, QueuePriority, delete_io_cq, delete_io_sq};
use nvme_spec::nvm::Blocks;
use platform::log::{error, info, warn};
use platform::{Badge, Cap, Environment, Kernel, Message, Platform};
use report::{Report, clip};

/// Times the controller is brought up again after one fault before it counts as dead.
const RESETS: u8 = 3;
/// The largest request, bytes: bounds how long one request can hold its queue pair.
const MAX_REQUEST: u64 = 2 << 20;

/// Pages of a window that are mapped or unmapped before others are let in.
const PORTION: usize = 32;

/// A session's queue pairs and window addresses, kept from one opening to the next.
pub(crate) struct Kept<P: Platform> {
    queues: Vec<IoQueue<P>>,
    window: Window,
}

/// Runs for ever.
pub(crate) async fn run<P: Platform>(shared: &Shared<P>) {
    let mut identity = recover(shared).await;
    loop {
        let control = shared.controls.receive().await;
        // Before whatever is asked: with a controller that failed nothing else can be done. So the recovery may have
        // happened when its own turn comes.
        if shared.health.get() == Health::Down {
            identity = recover(shared).await;
        }
        match control {
            Control::Recover => shared.recovery_asked.set(false),
            Control::Open(index) => {
                let answer = match &identity {
                    Some(identity) => open(shared, identity, index).await,
                    None => Err(Refusal::Device),
                };
                answer_open(shared, index, answer);
            }
            Control::Close(index) => {
                close(shared, &mut identity, index, "").await;
                reply(shared, index, &Message::new(DONE));
            }
            Control::Expel(index) => close(shared, &mut identity, index, "it broke the ring protocol").await,
        }
    }
}

/// Brings the controller up and the open sessions' queue pairs with it. `None` when it is beyond help.
async fn recover<P: Platform>(shared: &Shared<P>) -> Option<Identity> {
    info!("bringing the controller up");
    for _ in 0..RESETS {
        match try_recover(shared).await {
            Ok(identity) => {
                shared.health.set(Health::Up);
                for seat in shared.seats.borrow_mut().iter_mut() {
                    seat.attention = Attention::Now(0);
                }
                shared.wake_data_plane();
                return Some(identity);
            }
            Err(fault) => shared.count(fault),
        }
    }
    shared.health.set(Health::Dead);
    shared.report_failure(&alloc::format!("the controller cannot be brought up, {} faults", shared.faults.get()));
    give_up(shared);
    shared.wake_data_plane();
    None
}

/// The controller is beyond help: what is in flight is answered, without a confirmed reset, once the device cannot reach
/// the windows any more.
fn give_up<P: Platform>(shared: &Shared<P>) {
    for seat in shared.seats.borrow_mut().iter_mut() {
        seat.attention = Attention::Now(0);
        let Some(session) = seat.session.as_mut() else { continue };
        shared.space.borrow().unmap_pages(&session.window, 0..session.window.pages);
        if session.abort().is_err() {
            seat.expelled = true;
        }
    }
}

async fn try_recover<P: Platform>(shared: &Shared<P>) -> Result<Identity, DeviceFault> {
    let identity = bring_up(shared).await?;
    if !shared.seats.borrow().iter().filter_map(|seat| seat.session.as_ref()).all(|session| fits(&identity, session)) {
        return Err(DeviceFault::Unusable("the controller came back as another"));
    }
    for index in 0..shared.config.sessions.len() {
        // The reset is confirmed: nothing is in flight any more, and what was is answered.
        let Some(queues) = aborted_queues(shared, index) else { continue };
        for queue in &queues {
            create(shared, index, queue).await?;
        }
    }
    Ok(identity)
}

/// Whether an open session can go on with what the controller is after a reset.
fn fits<P: Platform>(identity: &Identity, session: &Session<P>) -> bool {
    let Session { config, limits, queues, .. } = session;
    let namespace = identity.namespaces.iter().find(|namespace| namespace.nsid.0 == config.nsid);
    let blocks_fit = namespace.is_some_and(|namespace| {
        namespace.block_shift == limits.block_shift && limits.extents.namespace_end() <= namespace.blocks
    });
    blocks_fit && queues.iter().all(|queue| queue.max_transfer <= identity.max_transfer)
}

/// What creating a queue pair needs, copied out so that nothing stays borrowed while the controller works.
#[derive(Clone, Copy)]
struct QueueShape {
    id: QueueId,
    entries: u16,
    sq: u64,
    cq: u64,
}

impl QueueShape {
    fn of<P: Platform>(queue: &IoQueue<P>) -> Self {
        let pair = &queue.pair;
        Self { id: pair.id(), entries: pair.entries(), sq: pair.sq.iova.bits(), cq: pair.cq.iova.bits() }
    }
}

fn aborted_queues<P: Platform>(shared: &Shared<P>, index: usize) -> Option<Vec<QueueShape>> {
    let mut seats = shared.seats.borrow_mut();
    let seat = seats.get_mut(index)?;
    let session = seat.session.as_mut()?;
    let broken = session.abort().is_err();
    let queues = session.queues.iter().map(QueueShape::of).collect();
    if broken && !seat.expelled {
        seat.expelled = true;
        seat.end(Control::Expel(index));
    }
    Some(queues)
}

/// Creates a queue pair: the CQ, then the SQ. Both or none.
async fn create<P: Platform>(shared: &Shared<P>, session: usize, queue: &QueueShape) -> Result<(), DeviceFault> {
    let polled = shared.config.sessions.get(session).is_some_and(|s| s.completion == Completion::Polled);
    let interrupt = if polled { CqInterrupt::Disabled } else { CqInterrupt::Vector(vector_of(shared, queue.id)) };
    let qsize_z = queue.entries.saturating_sub(1);
    let cq = CreateIoCq { qid: queue.id, qsize_z, interrupt, memory: QueueMemory::Contiguous(queue.cq) };
    execute(shared, |cid| cq.sqe(cid)).await?;
    let sq = CreateIoSq {
        qid: queue.id,
        qsize_z,
        cqid: queue.id,
        priority: QueuePriority::Medium,
        memory: QueueMemory::Contiguous(queue.sq),
    };
    if let Err(fault) = execute(shared, |cid| sq.sqe(cid)).await {
        if let Err(stays) = execute(shared, |cid| delete_io_cq(cid, queue.id)).await {
            shared.fail(stays);
        }
        return Err(fault);
    }
    Ok(())
}

/// Deletes a queue pair: the SQ, then the CQ.
async fn delete<P: Platform>(shared: &Shared<P>, id: QueueId) -> Result<(), DeviceFault> {
    execute(shared, |cid| delete_io_sq(cid, id)).await?;
    execute(shared, |cid| delete_io_cq(cid, id)).await.map(drop)
}

/// Vector 0 is the admin queue's; I/O queues take the others in turn, or share vector 0 when it is the only one.
fn vector_of<P: Platform>(shared: &Shared<P>, id: QueueId) -> u16 {
    let io_vectors = (shared.vectors.len() as u16).saturating_sub(1);
    match id.0.saturating_sub(1).checked_rem(io_vectors) {
        Some(turn) => turn.saturating_add(1),
        None => 0,
    }
}

async fn open<P: Platform>(shared: &Shared<P>, identity: &Identity, index: usize) -> Result<Geometry, Refusal> {
    let config = shared.config.sessions.get(index).ok_or(Refusal::BadRequest)?;
    let namespace = identity.namespaces.iter().find(|ns| ns.nsid.0 == config.nsid).ok_or(Refusal::NoSuchBlocks)?;
    let extents = ExtentMap::new(&config.extents).ok_or(Refusal::NoSuchBlocks)?;
    if extents.namespace_end() > namespace.blocks {
        return Err(Refusal::NoSuchBlocks);
    }
    let ends = ends(shared, index, config).ok_or(Refusal::Device)?;
    let kept = keep(shared, identity, index, config)?;
    let shapes: Vec<QueueShape> = kept.queues.iter().map(QueueShape::of).collect();
    if let Err(error) = map_window(shared, &kept.window).await {
        error!("the window of {} cannot be mapped: {}", config.tenant.as_str(), error);
        put_back(shared, index, kept);
        return Err(Refusal::Device);
    }
    if let Err(fault) = create_all(shared, index, &shapes).await {
        unmap_window(shared, &kept.window).await;
        put_back(shared, index, kept);
        error!("no queue pair for {}: {}", config.tenant.as_str(), clip::<96>(&alloc::format!("{fault}")).as_str());
        return Err(refusal_of(shared, fault));
    }
    seat_session(shared, index, Opening { identity, namespace, config, extents, ends }, kept)
}

/// Creates all queue pairs of a session or none.
async fn create_all<P: Platform>(shared: &Shared<P>, index: usize, shapes: &[QueueShape]) -> Result<(), DeviceFault> {
    for (number, shape) in shapes.iter().enumerate() {
        if let Err(fault) = create(shared, index, shape).await {
            for created in shapes.iter().take(number) {
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
    extents: ExtentMap,
    ends: Ends<P>,
}

/// Puts the open session into its seat.
fn seat_session<P: Platform>(
    shared: &Shared<P>,
    index: usize,
    opening: Opening<'_, P>,
    kept: Kept<P>,
) -> Result<Geometry, Refusal> {
    let Opening { identity, namespace, config, extents, ends: (ring, client) } = opening;
    let shift = namespace.block_shift;
    // Queue pairs kept from before a reset have list pages for what the controller allowed then.
    let max_transfer = kept.queues.iter().fold(identity.max_transfer, |least, queue| least.min(queue.max_transfer));
    let data_blocks = u32::try_from(max_transfer >> shift).unwrap_or(Blocks::MAX).min(Blocks::MAX);
    let limits = Limits {
        block_shift: shift,
        max_blocks: u32::try_from(MAX_REQUEST >> shift).unwrap_or(u32::MAX),
        window_bytes: config.window_bytes,
        writable: config.writable,
        extents,
    };
    let geometry = Geometry {
        blocks: limits.extents.blocks(),
        block_bytes: 1 << shift,
        max_blocks: limits.max_blocks,
        window_bytes: config.window_bytes,
        queue_pairs: config.queue_pairs,
        depth: config.depth,
        writable: u32::from(config.writable),
    };
    let vector_bits =
        kept.queues.iter().fold(0, |bits, queue| bits | badge::vector(u32::from(vector_of(shared, queue.pair.id()))));
    let session = Session::new(Parts {
        config: config.clone(),
        limits,
        command_limits: CommandLimits { data_blocks, bare_blocks: Blocks::MAX, block_shift: shift },
        abilities: identity.abilities,
        window: kept.window,
        queues: kept.queues,
        ring,
        client,
        kernel: shared.platform.kernel().clone(),
    });
    let mut seats = shared.seats.borrow_mut();
    let seat = seats.get_mut(index).ok_or(Refusal::BadRequest)?;
    seat.session = Some(session);
    seat.closing = false;
    seat.vector_bits = vector_bits & !Badge::SIGNAL;
    seat.attention = Attention::Now(0);
    info!("session {} open on {} queue pairs", config.tenant.as_str(), config.queue_pairs);
    Ok(geometry)
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

/// The session's queue pairs and window: those of the last opening, or new ones.
fn keep<P: Platform>(
    shared: &Shared<P>,
    identity: &Identity,
    index: usize,
    config: &SessionConfig,
) -> Result<Kept<P>, Refusal> {
    if let Some(mut kept) = shared.seats.borrow_mut().get_mut(index).and_then(|seat| seat.memory.take()) {
        for queue in &mut kept.queues {
            queue.pair.reset().map_err(|_| Refusal::Device)?;
        }
        return Ok(kept);
    }
    let first = first_queue(shared, index);
    let end = first.checked_add(config.queue_pairs).ok_or(Refusal::NoQueuePairs)?;
    if u32::from(end) > u32::from(identity.queue_pairs).saturating_add(1) {
        return Err(Refusal::NoQueuePairs);
    }
    // All or nothing: a client that asks again and again must not use the pool up.
    let mark = shared.pool.borrow().mark();
    let queues: Result<Vec<_>, _> = (first..end).map(|id| queue(shared, identity, QueueId(id), config.depth)).collect();
    let made = queues.ok().and_then(|queues| Some(Kept { queues, window: window(shared, index, config)? }));
    made.ok_or_else(|| {
        shared.pool.borrow_mut().rewind(mark);
        Refusal::Device
    })
}

/// Queue identifiers are dealt by the order of the sessions: each has its own, whoever opens first.
fn first_queue<P: Platform>(shared: &Shared<P>, index: usize) -> u16 {
    let before = shared.config.sessions.iter().take(index);
    before.fold(1u16, |sum, session| sum.saturating_add(session.queue_pairs))
}

fn window<P: Platform>(shared: &Shared<P>, index: usize, config: &SessionConfig) -> Option<Window> {
    let name = alloc::format!("window-{index}");
    let environment: &Environment = &shared.environment;
    let first = environment.cap(&name)?;
    let pages = environment.cap_count(&name);
    (u64::from(pages) << platform::PAGE_BITS >= config.window_bytes).then_some(())?;
    let iova = shared.space.borrow_mut().reserve_window(config.window_bytes)?;
    Some(Window { first, pages, iova })
}

fn queue<P: Platform>(
    shared: &Shared<P>,
    identity: &Identity,
    id: QueueId,
    depth: u16,
) -> Result<IoQueue<P>, DeviceFault> {
    let controller = &shared.controller;
    // One slot stays empty, and no queue is larger than MQES.
    let largest = u16::try_from(controller.cap().max_queue_entries()).unwrap_or(u16::MAX);
    let entries = depth.min(InFlight::MAX).saturating_add(1).max(2).min(largest);
    let in_flight = entries.saturating_sub(1);
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
        lists: ListPages { memory: list.memory, offset: list.offset, iova: list.iova, pages },
        max_transfer: identity.max_transfer,
    })
}

fn put_back<P: Platform>(shared: &Shared<P>, index: usize, kept: Kept<P>) {
    if let Some(seat) = shared.seats.borrow_mut().get_mut(index) {
        seat.memory = Some(kept);
    }
}

/// Maps a window for the device, or nothing of it. Other tenants' requests are served in between: a window may be large.
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
async fn unmap_window<P: Platform>(shared: &Shared<P>, window: &Window) {
    for first in (0..window.pages).step_by(PORTION) {
        shared.space.borrow().unmap_pages(window, portion(window, first));
        shared.platform.yield_now().await;
    }
}

fn portion(window: &Window, first: u32) -> core::ops::Range<u32> {
    first..window.pages.min(first.saturating_add(PORTION as u32))
}

/// Ends a session that has nothing in flight any more: the queue pairs go, then the window.
async fn close<P: Platform>(shared: &Shared<P>, identity: &mut Option<Identity>, index: usize, reason: &str) {
    let Some(session) = shared.seats.borrow_mut().get_mut(index).and_then(|seat| seat.session.take()) else { return };
    for queue in session.queues.iter().take_while(|_| shared.health.get() == Health::Up) {
        if let Err(fault) = delete(shared, queue.pair.id()).await {
            shared.fail(fault);
        }
    }
    if shared.health.get() == Health::Down {
        // Without deleted queues the window stays the device's until a reset is confirmed.
        *identity = recover(shared).await;
    }
    unmap_window(shared, &session.window).await;
    tell(shared, &session, reason);
    let Session { queues, window, .. } = session;
    put_back(shared, index, Kept { queues, window });
}

fn tell<P: Platform>(shared: &Shared<P>, session: &Session<P>, reason: &str) {
    let statistics = session.statistics;
    info!("session {} closed after {} requests", session.config.tenant.as_str(), statistics.requests);
    shared.report(&Report::Session(report::Session {
        tenant: clip(&session.config.tenant),
        ended_by: clip(reason),
        requests: statistics.requests,
        refused: statistics.refused,
        commands: statistics.commands,
        read_bytes: statistics.read_bytes,
        written_bytes: statistics.written_bytes,
        errors: statistics.errors,
        doorbells: statistics.doorbells,
        interrupts: statistics.interrupts,
        notifications: statistics.notifications,
    }));
}

fn answer_open<P: Platform>(shared: &Shared<P>, index: usize, answer: Result<Geometry, Refusal>) {
    let message = match answer {
        Ok(geometry) => Message::with(DONE, &geometry),
        Err(refusal) => {
            warn!("session {} refused: {}", index, clip::<64>(&alloc::format!("{refusal}")).as_str());
            Message::new(refusal as u32)
        }
    };
    reply(shared, index, &message);
}

/// Answers the kept caller. A client that did not call but sent is not there to be answered, and nothing waits for it.
fn reply<P: Platform>(shared: &Shared<P>, index: usize, message: &Message) {
    let caller = shared.seats.borrow_mut().get_mut(index).map(|seat| {
        seat.asked = false;
        seat.caller
    });
    if let Some(caller) = caller {
        shared.platform.kernel().nb_send(platform::CPtr::new(caller.index), message);
    }
}
