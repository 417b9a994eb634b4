//! Changes of open sessions' shares: class, weight, limits and queue pairs, by a call of the policy component.
//!
//! The scheduler checks class, weight and limits. This module checks queue pairs, against the specification and the
//! controller. Nothing changes before all of it is checked. Commands that were submitted already stay submitted. Where the
//! controller weighs the classes, a queue's class is fixed at its creation, so a new class needs new queue pairs. Left out:
//! their creation (`reshape`).

use crate::control_plane::arbitration::Weighing;
use crate::control_plane::changes::Reconfiguration;
use crate::data_plane::queues::Allotment;
use crate::link::Link;
use blk_api::config::{Class, RateLimit};
use blk_api::policy::{Refusal, Share};
use blk_api::queue_sharing::QueueSharing;
use nvme_driver::Health;
use nvme_driver::queue::most_commands;
use platform::Platform;
use scheduler::{MIN_PIECE, Resource, ShareError};

const _: () = assert!(MIN_PIECE as u64 == RateLimit::LEAST_BYTES, "what scenarios are checked against");

/// Sets a share at once, unless queue pairs are changed for it. Without a controller that was removed, it waits for an incarnation
/// that has it.
///
/// # Errors
/// [`Refusal::Busy`] until it is in force; any other [`Refusal`], and nothing has changed.
pub(crate) fn set<P: Platform>(link: &Link<P>, share: &Share) -> Result<(), Refusal> {
    if link.controller.health.get() == Health::Gone {
        return Err(Refusal::Busy);
    }
    if let Some((_, why)) = link.changes.reconfiguration_refused.take().filter(|(refused, _)| refused == share) {
        return Err(why);
    }
    let Some(reconfiguration) = change(link, share)? else { return Ok(()) };
    reconfiguration.begin(link);
    Err(Refusal::Busy)
}

/// Changes the share of a session, or nothing. Returns the change of its queue pairs, if one is needed: the share is in force only
/// after it, and undone if it fails.
fn change<P: Platform>(link: &Link<P>, share: &Share) -> Result<Option<Reconfiguration>, Refusal> {
    let Share { session, class, weight, .. } = *share;
    let index = usize::try_from(session).map_err(|_| Refusal::NoSession(session.into()))?;
    let config = link.config.sessions.get(index).ok_or(Refusal::NoSession(session.into()))?;
    let asked = Class::from_number(class).ok_or(Refusal::UnknownClass(class))?;
    let small = u16::try_from(weight).map_err(|_| Refusal::Weight(weight))?;
    let limits = share.limits()?;
    let now = link.with(|data| data.allotment(index)).ok_or(Refusal::NoSession(session.into()))?;
    let allotment = judge(link, index, now, (share.queue_pairs, share.depth))?;
    // A change may be under way although its caller died.
    if link.changes.reconfiguration.get().is_some() {
        return Err(Refusal::Busy);
    }
    let reweighs = Weighing::of(link) == Weighing::Classes && link.with(|data| data.class(index)) != Some(asked);
    let before = link.with(|data| data.set_share(index, asked, small, limits));
    let before = before.map_err(|error| match error {
        ShareError::NoSuchSession { .. } | ShareError::TooManySessions { .. } => Refusal::NoSession(session.into()),
        ShareError::Weight { .. } => Refusal::Weight(weight),
        ShareError::LimitBelowOneRequest { resource, limit, .. } => Refusal::BelowOneRequest {
            per_second: limit.per_second,
            burst: limit.burst,
            request: match resource {
                Resource::Commands => 1,
                Resource::Bytes => RateLimit::LEAST_BYTES,
            },
        },
        ShareError::ClassNotAllowed { .. } => Refusal::ClassNotAllowed { asked, highest: config.highest },
    })?;
    Ok((allotment != now || reweighs).then(|| Reconfiguration::new(*share, index, allotment, before)))
}

/// Checks the number of queue pairs and the depth asked for session `index`, which has `now`. A value that stays as it was
/// is not checked.
pub(super) fn judge<P: Platform>(
    link: &Link<P>,
    index: usize,
    now: Allotment,
    (queue_pairs, depth): (u32, u32),
) -> Result<Allotment, Refusal> {
    let (same_pairs, same_depth) = (queue_pairs == u32::from(now.queue_pairs), depth == u32::from(now.depth));
    if same_pairs && same_depth {
        return Ok(now);
    }
    if link.config.queue_sharing != QueueSharing::Dedicated {
        return Err(Refusal::SharesQueuePairs(index as u32));
    }
    let most = most(link, index);
    let within = |asked: u32, most: u16| u16::try_from(asked).ok().filter(|asked| (1..=most).contains(asked));
    let refused = Refusal::QueuePairs { asked: queue_pairs, most: most.queue_pairs.into() };
    let pairs = if same_pairs { now.queue_pairs } else { within(queue_pairs, most.queue_pairs).ok_or(refused)? };
    let refused = Refusal::Depth { asked: depth, most: most.depth.into() };
    let depth = if same_depth { now.depth } else { within(depth, most.depth).ok_or(refused)? };
    Ok(Allotment { queue_pairs: pairs, depth })
}

/// The most that session `index` can have, by the specification, and by the controller's limits once they are known.
fn most<P: Platform>(link: &Link<P>, index: usize) -> Allotment {
    let config = link.config.sessions.get(index);
    let (queue_pairs, depth) = config.map_or((0, 0), |config| (config.most_queue_pairs, config.most_depth));
    let granted = link.controller.granted.get();
    if granted == 0 {
        return Allotment { queue_pairs, depth };
    }
    let left = granted.saturating_sub(link.config.queue_pairs_of(index).start);
    Allotment { queue_pairs: queue_pairs.min(left), depth: depth.min(most_commands(&link.controller.registers)) }
}
