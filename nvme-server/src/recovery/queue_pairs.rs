//! Timeout recovery: for a queue pair without an answer in time, the oldest command is aborted; if that does not help, the
//! queue pair is recreated; if that does not help either, the controller is reset (`controller`).
//!
//! Each step affects fewer clients than the next one: the command's client, the queue pair's clients, all clients. Requests
//! that are given up in flight are answered with a status of their own, because it is unknown whether they were executed.

use crate::control_path::reconcile::{Desired, reconcile};
use crate::data_path::io_queue::Form;
use crate::shared::Shared;
use alloc::string::String;
use alloc::vec::Vec;
use blk_api::Status;
use nvme_driver::fault::DeviceFault;
use nvme_spec::admin::{CommandName, abort, was_aborted};
use platform::Platform;
use report::{Report, ResetScope, clip};

/// Commands of a queue pair that are aborted one after another before it is recreated.
const ABORTS: u8 = 4;

/// Recovers the queue pairs that are late, if some still are.
pub(crate) async fn recover_queue_pairs<P: Platform>(shared: &Shared<P>) {
    match try_recover(shared).await {
        Ok(()) => {}
        // The fault is the missing answer, not the refusal of the recovery commands.
        Err(DeviceFault::Refused(_) | DeviceFault::Inconsistent(_)) => shared.fail(DeviceFault::TimedOut),
        // Another fault's reset may be on its way already, and fixes this as well.
        Err(fault) => shared.fail(fault),
    }
    shared.control.queue_pairs_recovered();
}

/// A queue pair that is late.
#[derive(Clone, Copy)]
struct Late {
    number: u16,
    form: Form,
    /// Its oldest command.
    oldest: CommandName,
}

async fn try_recover<P: Platform>(shared: &Shared<P>) -> Result<(), DeviceFault> {
    let mut aborts = Vec::new();
    while let Some(late) = find(shared) {
        let number = late.number;
        let so_far = aborts.iter().filter(|one| **one == number).count();
        if so_far < usize::from(ABORTS) && abort_oldest(shared, &late).await? {
            aborts.push(number);
            report_recovery(shared, &late, ResetScope::Command);
            // The data plane takes the completion meanwhile.
            shared.controller.next_tick().await;
            continue;
        }
        recreate(shared, &late).await?;
        report_recovery(shared, &late, ResetScope::QueuePair);
    }
    Ok(())
}

/// Whether the controller aborted it.
async fn abort_oldest<P: Platform>(shared: &Shared<P>, late: &Late) -> Result<bool, DeviceFault> {
    match shared.controller.execute(|cid| abort(cid, late.oldest)).await {
        Ok(cqe) => Ok(was_aborted(cqe.dw0)),
        Err(DeviceFault::Refused(_)) => Ok(false),
        Err(fault) => Err(fault),
    }
}

/// Deletes the queue pair, which ends what it has in flight, and creates it again.
async fn recreate<P: Platform>(shared: &Shared<P>, late: &Late) -> Result<(), DeviceFault> {
    let number = late.number;
    reconcile(shared, &[Desired { number, form: None }]).await?;
    abandon(shared, number)?;
    reconcile(shared, &[Desired { number, form: Some(late.form) }]).await
}

/// Commands that the deleted queue pair had in flight are answered with [`Status::TimedOut`].
fn abandon<P: Platform>(shared: &Shared<P>, number: u16) -> Result<(), DeviceFault> {
    let mut queues = shared.queues.borrow_mut();
    let queue = queues.get_mut(number).ok_or(DeviceFault::OwnMemory)?;
    let mut slots = shared.slots.borrow_mut();
    let mut schedule = shared.schedule.borrow_mut();
    let mut batch = schedule.batch(shared.platform.ticks());
    for (command, accounting) in queue.in_flight.drain() {
        batch.aborted(&command, accounting);
        let session = slots.get_mut(usize::from(command.work.session())).and_then(|slot| slot.phase.session_mut());
        session.into_iter().for_each(|session| session.lose(command, Status::TimedOut));
    }
    for user in queue.users {
        let session = slots.get_mut(user).and_then(|slot| slot.phase.session_mut());
        session.into_iter().for_each(|session| session.publish().unwrap_or_default());
    }
    Ok(())
}

fn find<P: Platform>(shared: &Shared<P>) -> Option<Late> {
    let queues = shared.queues.borrow();
    let number = queues.overdue(shared.platform.ticks(), shared.platform.ticks_per_second())?;
    let queue = queues.get(number)?;
    let oldest = CommandName { sq: queue.pair.id(), cid: queue.in_flight.oldest()? };
    Some(Late { number, form: queue.form(), oldest })
}

fn report_recovery<P: Platform>(shared: &Shared<P>, late: &Late, scope: ResetScope) {
    shared.count(DeviceFault::TimedOut);
    let queues = shared.queues.borrow();
    let users = queues.get(late.number).map(|queue| queue.users).into_iter().flatten();
    let names: Vec<&str> =
        users.filter_map(|user| shared.config.sessions.get(user)).map(|session| session.tenant.as_str()).collect();
    let whose = match names.as_slice() {
        [one] => String::from(*one),
        several => alloc::format!("{} tenants", several.len()),
    };
    let reason = clip(&alloc::format!("queue pair {} of {whose}: {}", late.oldest.sq.0, DeviceFault::TimedOut));
    shared.report(&Report::Reset { server: clip(&shared.environment.name), scope, reason });
}
