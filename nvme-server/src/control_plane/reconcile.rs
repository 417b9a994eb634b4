//! Brings the controller's I/O queue pairs from their present to their desired state.
//!
//! Opening, closing and reshaping a session, timeout recovery and the bring-up after a reset each name the queue pairs
//! that should exist; [`reconcile`] alone decides by which commands the controller gets there, after
//! [`plan`](nvme_driver::plan). Left out: their memory (`provision`), and the choice of the queue pairs.

use crate::control_plane::arbitration::{Weighing, class_of_queue, priority};
use crate::control_plane::provision::class_of;
use crate::data_plane::io_queue::State;
use crate::data_plane::queue_operations::{Prepared, users};
use crate::link::Link;
use alloc::vec::Vec;
use blk_api::config::Completion;
use core::ops::Range;
use nvme_driver::fault::DeviceFault;
use nvme_driver::plan::{Desired, Form, Step};
use nvme_spec::admin::{CqInterrupt, CreateIoCq, CreateIoSq, QueueMemory, delete_io_cq, delete_io_sq};
use platform::Platform;

/// The desired state in which session `index` has all its own queue pairs, of this depth.
pub(super) fn own_queues<P: Platform>(link: &Link<P>, index: usize, numbers: Range<u16>, depth: u16) -> Vec<Desired> {
    let (weighing, class) = (Weighing::of(link), class_of(link, index));
    let form = |place| Form { depth, class: class_of_queue(weighing, class, place) };
    numbers.zip(0..).map(|(number, place)| Desired { number, form: Some(form(place)) }).collect()
}

/// Brings the queue pairs to their desired state: all of them, or none if the controller refuses some. A queue pair that
/// changes has nothing in flight, or its commands end here.
///
/// # Errors
/// [`DeviceFault::Refused`]: everything is as it was before. After any other fault the controller's state is unknown: the
/// next bring-up creates queue pairs with the form they had before.
pub(super) async fn reconcile<P: Platform>(link: &Link<P>, desired: &[Desired]) -> Result<(), DeviceFault> {
    let steps = link.with(|data| data.plan(desired));
    let outcome = take_all(link, &steps).await;
    link.with(|data| {
        if outcome.is_err_and(|fault| !is_refused(fault)) {
            data.restore_forms(&steps);
        }
        data.poll_users(&steps);
    });
    outcome
}

/// Whether the controller refused. After any other fault its state is unknown, and the reset undoes all of it.
pub(super) const fn is_refused(fault: DeviceFault) -> bool {
    matches!(fault, DeviceFault::Refused(_))
}

async fn take_all<P: Platform>(link: &Link<P>, steps: &[Step]) -> Result<(), DeviceFault> {
    let health = link.controller.health.get();
    for (done, step) in steps.iter().enumerate() {
        // A controller that failed meanwhile gets no more commands.
        let taken =
            if link.controller.health.get() == health { take(link, *step).await } else { Err(DeviceFault::NotReady) };
        let Err(fault) = taken else { continue };
        if is_refused(fault) {
            for step in steps.iter().take(done).rev() {
                take(link, step.inverse()).await.map_err(inconsistent)?;
            }
        }
        return Err(fault);
    }
    Ok(())
}

async fn take<P: Platform>(link: &Link<P>, step: Step) -> Result<(), DeviceFault> {
    match step {
        Step::Create(number, form) => create(link, number, form).await,
        Step::Delete(number, _) => delete(link, number).await.map_err(inconsistent),
    }
}

/// A controller that refuses to delete what it created, or to create what it had, is not to be trusted.
const fn inconsistent(fault: DeviceFault) -> DeviceFault {
    match fault {
        DeviceFault::Refused(status) => DeviceFault::Inconsistent(status),
        other => other,
    }
}

/// Creates a queue pair: the CQ, then the SQ. Both or none.
async fn create<P: Platform>(link: &Link<P>, number: u16, form: Form) -> Result<(), DeviceFault> {
    // All sessions that share it use the same way to notice completions.
    let user = users(&link.config, number).next();
    let session = user.and_then(|user| link.config.sessions.get(user));
    let polled = session.is_some_and(|session| session.completion == Completion::Polled);
    let Prepared { id: qid, entries, sq, cq } = link.with(|data| data.prepare(number, form))?;
    let qsize_z = entries.saturating_sub(1);
    let vector = link.controller.vectors.borrow().of_queue(number);
    let interrupt = if polled { CqInterrupt::Disabled } else { CqInterrupt::Vector(vector) };
    let cq = CreateIoCq { qid, qsize_z, interrupt, memory: QueueMemory::Contiguous(cq.bits()) };
    link.controller.execute(|cid| cq.sqe(cid)).await?;
    let (priority, memory) = (priority(form.class), QueueMemory::Contiguous(sq.bits()));
    let sq = CreateIoSq { qid, qsize_z, cqid: qid, priority, memory };
    if let Err(fault) = link.controller.execute(|cid| sq.sqe(cid)).await {
        if is_refused(fault) {
            link.controller.execute(|cid| delete_io_cq(cid, qid)).await.map_err(inconsistent)?;
        }
        return Err(fault);
    }
    link.with(|data| data.set_queue_state(number, State::Serving)).map(drop)
}

/// Deletes a queue pair: the SQ, then the CQ. It takes no commands from the first moment on.
async fn delete<P: Platform>(link: &Link<P>, number: u16) -> Result<(), DeviceFault> {
    let qid = link.with(|data| data.set_queue_state(number, State::Draining))?;
    link.controller.execute(|cid| delete_io_sq(cid, qid)).await?;
    link.controller.execute(|cid| delete_io_cq(cid, qid)).await?;
    link.with(|data| data.set_queue_state(number, State::Absent)).map(drop)
}
