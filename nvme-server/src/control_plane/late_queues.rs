//! Timeout recovery: for a queue pair without an answer in time, the oldest command is aborted; if that does not help, the
//! queue pair is recreated; if that does not help either, the controller is reset (`controller`).
//!
//! Each step affects fewer clients than the next one: the command's client, the queue pair's clients, all clients. Requests
//! that are ended in flight are answered with a status of their own, because it is unknown whether they were executed.

use crate::control_plane::reconcile::reconcile;
use crate::data_plane::queue_operations::{Late, users};
use crate::link::Link;
use alloc::string::String;
use alloc::vec::Vec;
use nvme_driver::fault::DeviceFault;
use nvme_driver::plan::Desired;
use nvme_spec::admin::{abort, was_aborted};
use platform::Platform;
use report::{Report, ResetScope, clip};

/// Commands of a queue pair that are aborted one after another before it is recreated.
const ABORTS: u8 = 4;

/// Recovers the queue pairs that are late, if some still are.
pub(super) async fn recover_queue_pairs<P: Platform>(link: &Link<P>) {
    match try_recover(link).await {
        Ok(()) => {}
        // The fault is the missing answer, not the refusal of the recovery commands.
        Err(DeviceFault::Refused(_) | DeviceFault::Inconsistent(_)) => link.fail(DeviceFault::TimedOut),
        // Another fault's reset may be on its way already, and fixes this as well.
        Err(fault) => link.fail(fault),
    }
    link.jobs.queue_pairs_recovered();
}

async fn try_recover<P: Platform>(link: &Link<P>) -> Result<(), DeviceFault> {
    let mut aborts = Vec::new();
    while let Some(late) = link.with(|data| data.late()) {
        let number = late.number;
        let so_far = aborts.iter().filter(|one| **one == number).count();
        if so_far < usize::from(ABORTS) && abort_oldest(link, &late).await? {
            aborts.push(number);
            report_recovery(link, &late, ResetScope::Command);
            // The data plane takes the completion meanwhile.
            link.controller.next_tick().await;
            continue;
        }
        recreate(link, &late).await?;
        report_recovery(link, &late, ResetScope::QueuePair);
    }
    Ok(())
}

/// Whether the controller aborted it.
async fn abort_oldest<P: Platform>(link: &Link<P>, late: &Late) -> Result<bool, DeviceFault> {
    match link.controller.execute(|cid| abort(cid, late.oldest)).await {
        Ok(cqe) => Ok(was_aborted(cqe.dw0)),
        Err(DeviceFault::Refused(_)) => Ok(false),
        Err(fault) => Err(fault),
    }
}

/// Deletes the queue pair, which ends what it has in flight, and creates it again.
async fn recreate<P: Platform>(link: &Link<P>, late: &Late) -> Result<(), DeviceFault> {
    let number = late.number;
    reconcile(link, &[Desired { number, form: None }]).await?;
    link.with(|data| data.answer_deleted(number))?;
    reconcile(link, &[Desired { number, form: Some(late.form) }]).await
}

fn report_recovery<P: Platform>(link: &Link<P>, late: &Late, scope: ResetScope) {
    link.count(DeviceFault::TimedOut);
    let users = users(&link.config, late.number).filter_map(|user| link.config.sessions.get(user));
    let names: Vec<&str> = users.map(|session| session.tenant.as_str()).collect();
    let whose = match names.as_slice() {
        [one] => String::from(*one),
        several => alloc::format!("{} tenants", several.len()),
    };
    let reason = clip(&alloc::format!("queue pair {} of {whose}: {}", late.oldest.sq.0, DeviceFault::TimedOut));
    link.report(&Report::Reset { server: clip(&link.environment.name), scope, reason });
}
