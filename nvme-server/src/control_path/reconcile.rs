//! Brings the controller's I/O queue pairs from their present to their desired state.
//!
//! Opening, closing and reconfiguring a session, timeout recovery and the bring-up after a reset each name the queue pairs
//! that should exist; [`reconcile`] alone decides by which commands the controller gets there. Left out: their memory
//! (`provision`), and the choice of the queue pairs.

use crate::control_path::arbitration::{class_of_queue, priority};
use crate::control_path::provision::{class_of, users};
use crate::data_path::io_queue::{Form, IoQueue, State};
use crate::data_path::queues::Queues;
use crate::shared::Shared;
use alloc::vec::Vec;
use blk_api::config::Completion;
use core::ops::Range;
use nvme_driver::fault::DeviceFault;
use nvme_spec::admin::{CqInterrupt, CreateIoCq, CreateIoSq, QueueMemory, delete_io_cq, delete_io_sq};
use platform::Platform;

/// The desired state of a queue pair.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Desired {
    /// Its number.
    pub number: u16,
    /// The form that it should be created with; `None` if the controller should not have it.
    pub form: Option<Form>,
}

impl Desired {
    /// The desired state in which session `index` has all its own queue pairs, of this depth.
    pub(crate) fn own<P: Platform>(shared: &Shared<P>, index: usize, numbers: Range<u16>, depth: u16) -> Vec<Self> {
        let (weighing, class) = (shared.weighing(), class_of(shared, index));
        let form = |place| Form { depth, class: class_of_queue(weighing, class, place) };
        numbers.zip(0..).map(|(number, place)| Self { number, form: Some(form(place)) }).collect()
    }

    /// The desired state without these queue pairs.
    pub(crate) fn absent(numbers: Range<u16>) -> Vec<Self> {
        numbers.map(|number| Self { number, form: None }).collect()
    }
}

/// One change at the controller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    Create(u16, Form),
    /// Deletes a queue pair, which had this form.
    Delete(u16, Form),
}

/// Brings the queue pairs to their desired state: all of them, or none if the controller refuses some. A queue pair that
/// changes has nothing in flight, or its commands end here.
///
/// Queue pairs are created before others are touched, and changed one after another, so that a session that keeps some is
/// never without any for longer than one change takes.
///
/// # Errors
/// [`DeviceFault::Refused`]: everything is as it was before. After any other fault the controller's state is unknown: the
/// next bring-up creates queue pairs with the form they had before.
pub(crate) async fn reconcile<P: Platform>(shared: &Shared<P>, desired: &[Desired]) -> Result<(), DeviceFault> {
    let steps = plan(&shared.queues.borrow(), desired);
    let outcome = take(shared, &steps).await;
    if outcome.is_err_and(|fault| !is_refused(fault)) {
        restore_forms(shared, &steps);
    }
    poll_users(shared, &steps);
    outcome
}

/// Whether the controller refused. After any other fault its state is unknown, and the reset undoes all of it.
pub(crate) const fn is_refused(fault: DeviceFault) -> bool {
    matches!(fault, DeviceFault::Refused(_))
}

/// The steps from the present to the desired state.
fn plan<P: Platform>(queues: &Queues<P>, desired: &[Desired]) -> Vec<Step> {
    let (mut new, mut changed, mut surplus) = (Vec::new(), Vec::new(), Vec::new());
    for Desired { number, form } in desired {
        match (queues.get(*number).and_then(IoQueue::created), form) {
            (None, Some(form)) => new.push(Step::Create(*number, *form)),
            (Some(was), Some(form)) if was != *form => {
                changed.extend([Step::Delete(*number, was), Step::Create(*number, *form)]);
            }
            (Some(was), None) => surplus.push(Step::Delete(*number, was)),
            (None, None) | (Some(_), Some(_)) => {}
        }
    }
    new.append(&mut changed);
    new.append(&mut surplus);
    new
}

async fn take<P: Platform>(shared: &Shared<P>, steps: &[Step]) -> Result<(), DeviceFault> {
    let health = shared.controller.health.get();
    for (done, step) in steps.iter().enumerate() {
        // A controller that failed meanwhile gets no more commands.
        let taken =
            if shared.controller.health.get() == health { step.take(shared).await } else { Err(DeviceFault::NotReady) };
        let Err(fault) = taken else { continue };
        if is_refused(fault) {
            for step in steps.iter().take(done).rev() {
                step.inverse().take(shared).await.map_err(inconsistent)?;
            }
        }
        return Err(fault);
    }
    Ok(())
}

impl Step {
    const fn inverse(self) -> Self {
        match self {
            Self::Create(number, form) => Self::Delete(number, form),
            Self::Delete(number, was) => Self::Create(number, was),
        }
    }

    async fn take<P: Platform>(self, shared: &Shared<P>) -> Result<(), DeviceFault> {
        match self {
            Self::Create(number, form) => create(shared, number, form).await,
            Self::Delete(number, _) => delete(shared, number).await.map_err(inconsistent),
        }
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
async fn create<P: Platform>(shared: &Shared<P>, number: u16, form: Form) -> Result<(), DeviceFault> {
    // All sessions that share it use the same way to notice completions.
    let user = users(shared, number).next();
    let session = user.and_then(|user| shared.config.sessions.get(user));
    let polled = session.is_some_and(|session| session.completion == Completion::Polled);
    let (qid, qsize_z, [cq_page, sq_page]) = {
        let mut queues = shared.queues.borrow_mut();
        let queue = queues.get_mut(number).ok_or(DeviceFault::OwnMemory)?;
        queue.set_form(form)?;
        let pair = &queue.pair;
        (pair.id(), pair.entries().saturating_sub(1), [&pair.cq, &pair.sq].map(|ring| ring.iova.bits()))
    };
    let vector = shared.controller.vectors.borrow().of_queue(number);
    let interrupt = if polled { CqInterrupt::Disabled } else { CqInterrupt::Vector(vector) };
    let cq = CreateIoCq { qid, qsize_z, interrupt, memory: QueueMemory::Contiguous(cq_page) };
    shared.controller.execute(|cid| cq.sqe(cid)).await?;
    let (priority, memory) = (priority(form.class), QueueMemory::Contiguous(sq_page));
    let sq = CreateIoSq { qid, qsize_z, cqid: qid, priority, memory };
    if let Err(fault) = shared.controller.execute(|cid| sq.sqe(cid)).await {
        if is_refused(fault) {
            shared.controller.execute(|cid| delete_io_cq(cid, qid)).await.map_err(inconsistent)?;
        }
        return Err(fault);
    }
    set_state(shared, number, State::Serving);
    Ok(())
}

/// Deletes a queue pair: the SQ, then the CQ. It takes no commands from the first moment on.
async fn delete<P: Platform>(shared: &Shared<P>, number: u16) -> Result<(), DeviceFault> {
    set_state(shared, number, State::Draining);
    let qid = shared.queues.borrow().get(number).map(|queue| queue.pair.id()).ok_or(DeviceFault::OwnMemory)?;
    shared.controller.execute(|cid| delete_io_sq(cid, qid)).await?;
    shared.controller.execute(|cid| delete_io_cq(cid, qid)).await?;
    set_state(shared, number, State::Absent);
    Ok(())
}

fn set_state<P: Platform>(shared: &Shared<P>, number: u16, state: State) {
    shared.queues.borrow_mut().get_mut(number).into_iter().for_each(|queue| queue.state = state);
}

/// The next bring-up creates queue pairs as they were.
fn restore_forms<P: Platform>(shared: &Shared<P>, steps: &[Step]) {
    let mut queues = shared.queues.borrow_mut();
    for step in steps {
        if let Step::Delete(number, was) = *step
            && let Some(queue) = queues.get_mut(number).filter(|queue| queue.form() != was)
        {
            // Its memory was written to before.
            let _ = queue.set_form(was);
        }
    }
}

/// Has the data plane poll the open sessions whose queue pairs changed.
fn poll_users<P: Platform>(shared: &Shared<P>, steps: &[Step]) {
    let mut slots = shared.slots.borrow_mut();
    for Step::Create(number, _) | Step::Delete(number, _) in steps {
        for user in users(shared, *number) {
            if let Some(slot) = slots.get_mut(user).filter(|slot| slot.phase.session().is_some()) {
                slot.poll();
                shared.wake_data_plane();
            }
        }
    }
}
