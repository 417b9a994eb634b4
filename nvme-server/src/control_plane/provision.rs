//! The memory of queue pairs: rings, list pages and the in-flight table, from the pool that the controller reaches.
//!
//! A queue pair is made once and kept for good, with room for the most that its session may have. Left out: its creation at
//! the controller (`reconcile`).

use crate::control_plane::identity::Identity;
use crate::data_plane::in_flight;
use crate::data_plane::io_queue::{IoQueue, State};
use crate::data_plane::queue_operations::users;
use crate::data_plane::queues::Allotment;
use crate::link::Link;
use alloc::vec::Vec;
use blk_api::config::{Class, ServerConfig};
use blk_api::queue_sharing::QueueSharing;
use core::ops::Range;
use nvme_driver::Controller;
use nvme_driver::fault::DeviceFault;
use nvme_driver::queue::{Queue, most_commands};
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
    let id = QueueId(number.checked_add(1).ok_or(DeviceFault::OwnMemory)?);
    let user = users(&link.config, number).next();
    let own = user.and_then(|user| link.config.sessions.get(user)).map_or(1, |session| session.most_depth);
    let depth = link.config.queue_sharing.common().map_or(own, |(_, depth)| depth);
    let Controller { registers, pool, .. } = &*link.controller;
    let depth = depth.min(most_commands(registers)).max(1);
    Ok(IoQueue {
        queue: Queue::new(registers, &mut pool.borrow_mut(), id, depth, max_transfer, in_flight::NONE)?,
        last_completion: 0,
        state: State::Absent,
        class: user.map_or(Class::Medium, |user| class_of(link, user)),
        users: users(&link.config, number).collect(),
        has_waiter: false,
    })
}
