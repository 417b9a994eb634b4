//! A queue pair that gives no answer in time: its oldest command is aborted; where that does not help, the queue pair is made
//! anew; where that does not help either, the controller is reset, which is `control_plane`'s.
//!
//! Each step costs fewer requests than the next one: a command's client, a session, everybody. What was in flight and is
//! given up on is answered with a status of its own, because nobody knows whether it happened.

use crate::bring_up::execute;
use crate::fault::DeviceFault;
use crate::opening::{QueueShape, create, delete};
use crate::seat::Attention;
use crate::server::Shared;
use nvme_spec::admin::{CommandName, abort, was_aborted};
use platform::Platform;
use report::{Report, ResetScope, clip};

/// Commands of a session that are aborted one after another before its queue pair is made anew.
const ABORTS: u8 = 4;

/// Sees to the session whose queue pairs are late, if one still is.
pub(crate) async fn rescue<P: Platform>(shared: &Shared<P>, index: usize) {
    match try_rescue(shared, index).await {
        Ok(()) => {}
        // What the controller refused to do about it is not the fault.
        Err(DeviceFault::Refused(_)) => shared.fail(DeviceFault::TimedOut),
        // Another fault's reset may be on its way already, and mends this as well.
        Err(fault) => shared.fail(fault),
    }
    if let Some(seat) = shared.seats.borrow_mut().get_mut(index) {
        seat.rescue_asked = false;
    }
}

/// A queue pair that is late.
struct Late {
    /// Its place in its session.
    place: usize,
    shape: QueueShape,
    /// Its oldest command.
    oldest: CommandName,
}

async fn try_rescue<P: Platform>(shared: &Shared<P>, index: usize) -> Result<(), DeviceFault> {
    for _ in 0..ABORTS {
        let Some(late) = find(shared, index) else { return Ok(()) };
        let answer = match execute(shared, |cid| abort(cid, late.oldest)).await {
            Ok(cqe) => was_aborted(cqe.dw0),
            Err(DeviceFault::Refused(_)) => false,
            Err(fault) => return Err(fault),
        };
        if !answer {
            break;
        }
        tell(shared, index, &late, ResetScope::Command);
        // The data plane takes the completion meanwhile.
        shared.tick.reset();
        shared.tick.wait().await;
    }
    while let Some(late) = find(shared, index) {
        renew(shared, index, &late).await?;
        tell(shared, index, &late, ResetScope::QueuePair);
    }
    Ok(())
}

/// Deletes the queue pair, which ends what it has in flight, and creates it again.
async fn renew<P: Platform>(shared: &Shared<P>, index: usize, late: &Late) -> Result<(), DeviceFault> {
    set_stopped(shared, index, late.place, true);
    delete(shared, late.shape.id()).await?;
    {
        let mut seats = shared.seats.borrow_mut();
        let seat = seats.get_mut(index).ok_or(DeviceFault::OwnMemory)?;
        let session = seat.session.as_mut().ok_or(DeviceFault::OwnMemory)?;
        let mut schedule = shared.schedule.borrow_mut();
        let mut ledger = schedule.ledger(index, shared.platform.ticks());
        if session.abandon(late.place, &mut ledger).is_err() {
            // Its client's indices are wrong as well, which the next look at them tells.
            seat.attend(Attention::Now(0));
        }
    }
    create(shared, index, &late.shape).await?;
    set_stopped(shared, index, late.place, false);
    shared.wake_data_plane();
    Ok(())
}

/// Whether the queue pair takes no commands.
fn set_stopped<P: Platform>(shared: &Shared<P>, index: usize, place: usize, stopped: bool) {
    let mut seats = shared.seats.borrow_mut();
    let Some(seat) = seats.get_mut(index) else { return };
    seat.attend(Attention::Now(0));
    let queues = seat.session.as_mut().map(|session| &mut session.queues);
    if let Some(queue) = queues.and_then(|queues| queues.get_mut(place)) {
        queue.stopped = stopped;
    }
}

fn find<P: Platform>(shared: &Shared<P>, index: usize) -> Option<Late> {
    let seats = shared.seats.borrow();
    let session = seats.get(index)?.session.as_ref()?;
    let place = session.overdue(shared.platform.ticks(), shared.platform.ticks_per_second())?;
    let queue = session.queues.get(place)?;
    let oldest = CommandName { sq: queue.pair.id(), cid: queue.in_flight.oldest()? };
    Some(Late { place, shape: QueueShape::of(queue), oldest })
}

fn tell<P: Platform>(shared: &Shared<P>, index: usize, late: &Late, scope: ResetScope) {
    shared.count(DeviceFault::TimedOut);
    let tenant = shared.config.sessions.get(index).map_or("", |session| session.tenant.as_str());
    let reason = clip(&alloc::format!("queue pair {} of {tenant}: {}", late.shape.id().0, DeviceFault::TimedOut));
    shared.report(&Report::Reset { server: clip(&shared.environment.name), scope, reason });
}
