//! The memory of queue pairs: rings, list pages and the in-flight table, from the pool that the controller reaches.
//!
//! A queue pair is made once and kept for good, with room for the most that its session may have. Left out: its creation at
//! the controller (`reconcile`).

use crate::control_plane::identity::Identity;
use crate::data_plane::in_flight::InFlight;
use crate::data_plane::io_queue::{IoQueue, State};
use crate::data_plane::queue_operations::users;
use crate::data_plane::queues::Allotment;
use crate::link::Link;
use alloc::vec::Vec;
use blk_api::config::{Class, ServerConfig};
use blk_api::queue_sharing::QueueSharing;
use core::ops::Range;
use nvme_driver::fault::DeviceFault;
use nvme_driver::prp::{PrpLists, list_pages};
use nvme_driver::queue_pair::QueuePair;
use nvme_spec::QueueId;
use platform::Platform;

/// The numbers of the queue pairs that session `index` has with this allotment.
pub(super) fn numbers_of(config: &ServerConfig, index: usize, allotment: Allotment) -> Range<u16> {
    let numbers = config.queue_pairs_of(index);
    match config.queue_sharing {
        QueueSharing::Dedicated => numbers.start..numbers.start.saturating_add(allotment.queue_pairs).min(numbers.end),
        _ => numbers,
    }
}

/// The class that session `index` has now.
pub(super) fn class_of<P: Platform>(link: &Link<P>, index: usize) -> Class {
    link.with(|data| data.class(index)).unwrap_or(Class::Medium)
}

/// Makes the queue pairs that sessions share, if they were not made yet. Without enough of them the controller's sessions
/// are refused.
pub(super) fn make_common<P: Platform>(link: &Link<P>, identity: &Identity) -> Result<(), DeviceFault> {
    match link.config.queue_sharing.common() {
        Some((queue_pairs, _)) => make(link, identity.max_transfer, 0..queue_pairs.min(identity.queue_pairs)),
        None => Ok(()),
    }
}

/// Makes the missing queue pairs, for commands of `max_transfer` bytes, all of them or none: a client that retries without end must
/// not use up the pool.
pub(super) fn make<P: Platform>(link: &Link<P>, max_transfer: u64, numbers: Range<u16>) -> Result<(), DeviceFault> {
    let missing = link.with(|data| data.not_made(numbers));
    let mark = link.controller.pool.borrow().mark();
    let made: Result<Vec<_>, _> = missing.iter().map(|number| queue(link, max_transfer, *number)).collect();
    match made {
        Ok(made) => {
            link.with(|data| data.keep_queues(missing.into_iter().zip(made)));
            Ok(())
        }
        Err(fault) => {
            link.controller.pool.borrow_mut().rewind(mark);
            Err(fault)
        }
    }
}

fn queue<P: Platform>(link: &Link<P>, max_transfer: u64, number: u16) -> Result<IoQueue<P>, DeviceFault> {
    let controller = &link.controller.registers;
    let id = QueueId(number.checked_add(1).ok_or(DeviceFault::OwnMemory)?);
    let user = users(&link.config, number).next();
    let own = user.and_then(|user| link.config.sessions.get(user)).map_or(1, |session| session.most_depth);
    let depth = link.config.queue_sharing.common().map_or(own, |(_, depth)| depth);
    let in_flight = depth.min(most_in_flight(link)).max(1);
    let entries = in_flight.saturating_add(1);
    let mut pool = link.controller.pool.borrow_mut();
    let sq = pool.take_bytes(u64::from(entries).saturating_mul(64))?;
    let cq = pool.take_bytes(u64::from(entries).saturating_mul(16))?;
    // A discard's range is written into the list page, so each place has one.
    let pages = list_pages(max_transfer).max(1);
    let list = pool.take(pages.saturating_mul(u64::from(in_flight)))?;
    let mut pair = QueuePair::new(id, entries, (sq, cq), controller.registers(), controller.cap().doorbells())?;
    pair.reset()?;
    Ok(IoQueue {
        pair,
        in_flight: InFlight::new(in_flight),
        lists: PrpLists::new(list, in_flight, pages)?,
        max_transfer,
        last_completion: 0,
        state: State::Absent,
        class: user.map_or(Class::Medium, |user| class_of(link, user)),
        users: users(&link.config, number).collect(),
        has_waiter: false,
    })
}

/// The most commands that a queue pair can hold: one slot stays empty, and no queue is larger than MQES.
pub(super) fn most_in_flight<P: Platform>(link: &Link<P>) -> u16 {
    let entries = u16::try_from(link.controller.registers.cap().max_queue_entries()).unwrap_or(u16::MAX);
    entries.saturating_sub(1).min(InFlight::MAX)
}
