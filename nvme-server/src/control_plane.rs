//! What takes time: opening (`opening`), closing and expelling sessions, and bringing the controller up again after a
//! fault. One thing at a time, while the data plane goes on serving. Every wait in here ends: by the controller's
//! answer or by ticks, which bound how long that may take.

use crate::bring_up::{Identity, bring_up, reach};
use crate::burials;
use crate::fault::DeviceFault;
use crate::interrupts_change;
use crate::opening::{open, unmap_window};
use crate::phase::Cause;
use crate::provision::make_common;
use crate::queues::Queues;
use crate::reconcile::{Desired, reconcile};
use crate::requeue::Outcome;
use crate::rescue::rescue;
use crate::seat::Attention;
use crate::server::{Control, Health, Shared};
use crate::session::Session;
use alloc::vec::Vec;
use blk_api::Status;
use blk_api::queues::Queues as Sharing;
use blk_api::session::{DONE, Geometry, Refusal};
use platform::log::{info, warn};
use platform::{Kernel, Message, Platform};
use report::{Report, clip};

/// Times the controller is brought up again after one fault before it counts as dead.
const RESETS: u8 = 3;
/// Times a session is opened while the controller fails each time.
const OPENINGS: u8 = 3;

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
            Control::Rescue => rescue(shared).await,
            Control::Requeue => requeue_through_faults(shared, &mut identity).await,
            Control::Interrupts => change_interrupts(shared, &mut identity).await,
            Control::Open(index) => {
                let answer = open_through_faults(shared, &mut identity, index).await;
                answer_open(shared, index, answer);
            }
            Control::TearDown(index) => tear_down(shared, &mut identity, index).await,
        }
        burials::tell(shared);
    }
}

/// Opens a session. A controller that fails meanwhile is brought up again first: that costs the client time, not its
/// session.
async fn open_through_faults<P: Platform>(
    shared: &Shared<P>,
    identity: &mut Option<Identity>,
    index: usize,
) -> Result<Geometry, Refusal> {
    for _ in 0..OPENINGS {
        let known = identity.as_ref().ok_or(Refusal::Device)?;
        match open(shared, known, index).await {
            Err(_) if shared.health.get() == Health::Down => *identity = recover(shared).await,
            answer => return answer,
        }
    }
    Err(Refusal::Device)
}

/// Makes a session's queue pairs anew, likewise.
async fn requeue_through_faults<P: Platform>(shared: &Shared<P>, identity: &mut Option<Identity>) {
    let Some(requeue) = shared.requeue.get() else { return };
    for _ in 0..OPENINGS {
        let Some(known) = identity.as_ref() else { break };
        match requeue.carry_out(shared, known).await {
            Outcome::Waits => return,
            Outcome::Over(done) => return requeue.end(shared, done),
            Outcome::Faulty => *identity = recover(shared).await,
        }
    }
    requeue.end(shared, Err(requeue.failed()));
}

/// Changes the controller's interrupt mode. A controller that fails meanwhile is recovered first.
async fn change_interrupts<P: Platform>(shared: &Shared<P>, identity: &mut Option<Identity>) {
    let Some(change) = shared.interrupts_change.get() else { return };
    for _ in 0..OPENINGS {
        match change.carry_out(shared).await {
            interrupts_change::Outcome::Waits => return,
            interrupts_change::Outcome::Over => break,
            interrupts_change::Outcome::Disabled => {
                *identity = bring_up_again(shared).await;
                break;
            }
            interrupts_change::Outcome::Faulty(fault) => {
                shared.report_reset(fault);
                *identity = recover(shared).await;
            }
        }
    }
    change.end(shared);
}

/// Brings up a controller that was disabled with nothing in flight, and the open sessions' queue pairs with it; or resets it,
/// when that fails.
async fn bring_up_again<P: Platform>(shared: &Shared<P>) -> Option<Identity> {
    let brought_up = match bring_up_same(shared).await {
        Ok(identity) => create_queues(shared, &identity).await.map(|()| identity),
        Err(fault) => Err(fault),
    };
    match brought_up {
        Ok(identity) => {
            serve_again(shared, &identity);
            Some(identity)
        }
        Err(fault) => {
            shared.report_reset(fault);
            recover(shared).await
        }
    }
}

/// Brings the controller up and the open sessions' queue pairs with it. `None` when it is beyond help.
async fn recover<P: Platform>(shared: &Shared<P>) -> Option<Identity> {
    info!("bringing the controller up");
    for attempt in 0..RESETS {
        if attempt > 0 {
            // What failed a moment ago fails again at once: it gets a little time.
            shared.tick.reset();
            shared.tick.wait().await;
        }
        let reached = reach(shared).await;
        let recovered = match reached {
            Ok(()) => try_recover(shared).await,
            Err(fault) => Err(fault),
        };
        match recovered {
            Ok(identity) => {
                serve_again(shared, &identity);
                return Some(identity);
            }
            Err(fault) => shared.count(fault),
        }
        if reached == Err(DeviceFault::Absent) {
            // It had all the time it may take to come back.
            break;
        }
    }
    shared.health.set(Health::Dead);
    shared.report_failure(&alloc::format!("the controller cannot be brought up, {} faults", shared.faults.get()));
    give_up(shared);
    shared.wake_data_plane();
    None
}

/// Commands may be given again.
fn serve_again<P: Platform>(shared: &Shared<P>, identity: &Identity) {
    shared.granted.set(identity.queue_pairs);
    shared.health.set(Health::Up);
    for seat in shared.seats.borrow_mut().iter_mut() {
        seat.attend(Attention::Now(0));
    }
    shared.wake_data_plane();
}

/// The controller is beyond help: what is in flight is answered, without a confirmed reset, once the device cannot
/// reach the windows any more.
fn give_up<P: Platform>(shared: &Shared<P>) {
    shared.schedule.borrow_mut().reset(shared.platform.ticks());
    for seat in shared.seats.borrow_mut().iter_mut() {
        seat.attend(Attention::Now(0));
        let Some(session) = seat.phase.session() else { continue };
        shared.space.borrow().unmap_pages(&session.target.window, 0..session.target.window.pages);
    }
    for index in abort_all(shared) {
        if let Some(seat) = shared.seats.borrow_mut().get_mut(index) {
            seat.end(Cause::Expelled);
        }
    }
}

/// Brings up the controller that it was, without I/O queue pairs.
async fn bring_up_same<P: Platform>(shared: &Shared<P>) -> Result<Identity, DeviceFault> {
    let identity = bring_up(shared).await?;
    if all_fit(shared, &identity) {
        Ok(identity)
    } else {
        Err(DeviceFault::Unusable("the controller came back as another"))
    }
}

/// One attempt, with a controller that can be reached.
async fn try_recover<P: Platform>(shared: &Shared<P>) -> Result<Identity, DeviceFault> {
    let identity = bring_up_same(shared).await?;
    shared.schedule.borrow_mut().reset(shared.platform.ticks());
    // The reset is confirmed: nothing is in flight any more, and what was is answered.
    for index in abort_all(shared) {
        if let Some(seat) = shared.seats.borrow_mut().get_mut(index) {
            seat.end(Cause::Expelled);
        }
    }
    create_queues(shared, &identity).await?;
    Ok(identity)
}

/// Creates the queue pairs that there were, of which nothing is in flight.
async fn create_queues<P: Platform>(shared: &Shared<P>, identity: &Identity) -> Result<(), DeviceFault> {
    shared.queues.borrow_mut().reset()?;
    make_common(shared, identity)?;
    let desired = in_use(shared);
    reconcile(shared, &desired).await
}

/// The queue pairs that the controller is to have now: shared ones, and those of open sessions.
fn in_use<P: Platform>(shared: &Shared<P>) -> Vec<Desired> {
    let (queues, seats) = (shared.queues.borrow(), shared.seats.borrow());
    let common = shared.config.queues.common().map_or(0..0, |(queue_pairs, _)| 0..queue_pairs);
    let is_own = shared.config.queues == Sharing::Dedicated;
    let open = seats.iter().filter_map(|seat| seat.phase.session()).filter(|_| is_own);
    let numbers = common.chain(open.flat_map(|session| session.queues.clone()));
    numbers.filter_map(|number| Some(Desired { number, form: Some(queues.get(number)?.form()) })).collect()
}

/// Answers everything in flight, and what was not wholly given, with [`Status::ControllerReset`]. The sessions whose
/// clients broke the protocol.
fn abort_all<P: Platform>(shared: &Shared<P>) -> Vec<usize> {
    let mut seats = shared.seats.borrow_mut();
    let mut broken = Vec::new();
    for command in shared.queues.borrow_mut().drain() {
        let index = usize::from(command.work.session());
        let Some(session) = seats.get_mut(index).and_then(|seat| seat.phase.session_mut()) else { continue };
        session.lose(command, Status::ControllerReset);
    }
    for (index, seat) in seats.iter_mut().enumerate() {
        let Some(session) = seat.phase.session_mut() else { continue };
        session.cut_short(Status::ControllerReset);
        if session.publish().is_err() {
            broken.push(index);
        }
    }
    broken
}

/// Whether the open sessions can go on with what the controller is after a reset.
fn all_fit<P: Platform>(shared: &Shared<P>, identity: &Identity) -> bool {
    let (seats, queues) = (shared.seats.borrow(), shared.queues.borrow());
    seats.iter().filter_map(|seat| seat.phase.session()).all(|session| fits(&queues, identity, session))
}

fn fits<P: Platform>(queues: &Queues<P>, identity: &Identity, session: &Session<P>) -> bool {
    let Session { config, limits, namespace_blocks, .. } = session;
    let namespace = identity.namespaces.iter().find(|namespace| namespace.nsid.0 == config.nsid);
    let blocks_fit = namespace
        .is_some_and(|namespace| namespace.block_shift == limits.block_shift && *namespace_blocks <= namespace.blocks);
    blocks_fit && queues.of(session.queues.clone()).all(|queue| queue.max_transfer <= identity.max_transfer)
}

/// Ends a session that has nothing in flight any more: the queue pairs go, if they are its own, then the window.
async fn tear_down<P: Platform>(shared: &Shared<P>, identity: &mut Option<Identity>, index: usize) {
    let drained = shared.seats.borrow_mut().get_mut(index).and_then(|seat| seat.phase.tear_down());
    let Some((session, cause)) = drained else { return };
    let is_own = shared.config.queues == Sharing::Dedicated;
    if is_own
        && shared.health.get() == Health::Up
        && let Err(fault) = reconcile(shared, &Desired::absent(session.queues.clone())).await
    {
        shared.fail(fault);
    }
    if shared.health.get() == Health::Down {
        // Without deleted queues the window stays the device's until a reset is confirmed.
        *identity = recover(shared).await;
    }
    unmap_window(shared, &session.target.window).await;
    if let Some(seat) = shared.seats.borrow_mut().get_mut(index) {
        seat.phase.over();
    }
    shared.extents.borrow_mut().clear(index);
    shared.schedule.borrow_mut().set_waiting(index, false, shared.platform.ticks());
    tell(shared, &session, cause);
    shared.vectors.borrow().count_anew(&shared.seats.borrow());
    match cause {
        Cause::Closed => reply(shared, index, &Message::new(DONE)),
        Cause::Expelled => reply(shared, index, &Message::new(Refusal::Expelled as u32)),
        Cause::Died => {}
    }
    // A reconfiguration waits no longer for its commands.
    if shared.requeue.get().is_some_and(|requeue| requeue.is_of(index)) {
        requeue_through_faults(shared, identity).await;
    }
}

fn tell<P: Platform>(shared: &Shared<P>, session: &Session<P>, cause: Cause) {
    let reason = match cause {
        Cause::Closed => "",
        Cause::Died => "its client died",
        Cause::Expelled => "it broke the ring protocol",
    };
    let statistics = session.statistics;
    let depth = shared.queues.borrow().get(session.queues.start).map_or(0, |queue| queue.form().depth);
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
        interrupts: session.interrupts,
        notifications: statistics.notifications,
        not_installed: statistics.not_installed,
        forbidden: statistics.forbidden,
        queue_pairs: session.queues.len() as u16,
        depth,
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
    let mut seats = shared.seats.borrow_mut();
    let caller = seats.get_mut(index).and_then(|seat| seat.call.take().map(|_| seat.caller));
    if let Some(caller) = caller {
        shared.platform.kernel().nb_send(platform::CPtr::new(caller.index), message);
    }
}
