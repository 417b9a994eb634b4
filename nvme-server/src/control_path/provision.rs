//! The memory of queue pairs: rings, list pages and the in-flight table, from the pool that the controller reaches.
//!
//! A queue pair is made once and kept for good, with room for the most that its session may have. Left out: its creation at
//! the controller (`reconcile`).

use crate::control_path::identity::Identity;
use crate::data_path::in_flight::InFlight;
use crate::data_path::io_queue::{IoQueue, State};
use crate::data_path::queues::Allotment;
use crate::shared::Shared;
use alloc::vec::Vec;
use blk_api::config::Class;
use blk_api::queue_sharing::QueueSharing;
use core::ops::Range;
use nvme_driver::fault::DeviceFault;
use nvme_driver::prp::{PrpLists, list_pages};
use nvme_driver::queue_pair::QueuePair;
use nvme_spec::QueueId;
use platform::Platform;

/// The numbers of the queue pairs that session `index` has with this allotment.
pub(crate) fn numbers_of<P: Platform>(shared: &Shared<P>, index: usize, allotment: Allotment) -> Range<u16> {
    let numbers = shared.config.queue_pairs_of(index);
    match shared.config.queue_sharing {
        QueueSharing::Dedicated => numbers.start..numbers.start.saturating_add(allotment.queue_pairs).min(numbers.end),
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
    match shared.config.queue_sharing.common() {
        Some((queue_pairs, _)) => make(shared, identity, 0..queue_pairs.min(identity.queue_pairs)),
        None => Ok(()),
    }
}

/// Makes the missing queue pairs, all of them or none: a client that retries without end must not use up the pool.
pub(crate) fn make<P: Platform>(
    shared: &Shared<P>,
    identity: &Identity,
    numbers: Range<u16>,
) -> Result<(), DeviceFault> {
    let missing: Vec<u16> = numbers.filter(|number| shared.queues.borrow().get(*number).is_none()).collect();
    let mark = shared.controller.pool.borrow().mark();
    let made: Result<Vec<_>, _> = missing.iter().map(|number| queue(shared, identity, *number)).collect();
    match made {
        Ok(made) => {
            let mut queues = shared.queues.borrow_mut();
            missing.into_iter().zip(made).for_each(|(number, queue)| queues.put(number, queue));
            Ok(())
        }
        Err(fault) => {
            shared.controller.pool.borrow_mut().rewind(mark);
            Err(fault)
        }
    }
}

/// The sessions whose commands go to the queue pair of this number.
pub(crate) fn users<P: Platform>(shared: &Shared<P>, number: u16) -> impl Iterator<Item = usize> {
    (0..shared.config.sessions.len()).filter(move |index| shared.config.queue_pairs_of(*index).contains(&number))
}

fn queue<P: Platform>(shared: &Shared<P>, identity: &Identity, number: u16) -> Result<IoQueue<P>, DeviceFault> {
    let controller = &shared.controller.registers;
    let id = QueueId(number.checked_add(1).ok_or(DeviceFault::OwnMemory)?);
    let user = users(shared, number).next();
    let own = user.and_then(|user| shared.config.sessions.get(user)).map_or(1, |session| session.most_depth);
    let depth = shared.config.queue_sharing.common().map_or(own, |(_, depth)| depth);
    let in_flight = depth.min(most_in_flight(shared)).max(1);
    let entries = in_flight.saturating_add(1);
    let mut pool = shared.controller.pool.borrow_mut();
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
        state: State::Absent,
        class: user.map_or(Class::Medium, |user| class_of(shared, user)),
        users: users(shared, number).collect(),
        has_waiter: false,
    })
}

/// The most commands that a queue pair can hold: one slot stays empty, and no queue is larger than MQES.
pub(crate) fn most_in_flight<P: Platform>(shared: &Shared<P>) -> u16 {
    let entries = u16::try_from(shared.controller.registers.cap().max_queue_entries()).unwrap_or(u16::MAX);
    entries.saturating_sub(1).min(InFlight::MAX)
}
