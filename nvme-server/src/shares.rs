//! What sessions are entitled to, changed while they run: class, weight and limits, by a call of the policy component.
//!
//! The scheduler judges what may be; here its refusals are put into the call's words. What a session was given already
//! stays given. Where the controller weighs, the class of a queue is fixed when the queue is made: there a new class counts
//! in the server at once, and at the controller from the session's next opening, or the next reset, on.

use crate::server::Shared;
use blk_api::config::{self, Limit};
use blk_api::policy::{Refusal, Share};
use platform::Platform;
use scheduler::{MIN_PIECE, Resource, ShareError};

const _: () = assert!(MIN_PIECE as u64 == Limit::LEAST_BYTES, "what scenarios are checked against");

/// Changes the share of a session, or nothing.
pub(crate) fn set<P: Platform>(shared: &Shared<P>, share: &Share) -> Result<(), Refusal> {
    let Share { session, class, weight, .. } = *share;
    let index = usize::try_from(session).map_err(|_| Refusal::NoSession(session.into()))?;
    let config = shared.config.sessions.get(index).ok_or(Refusal::NoSession(session.into()))?;
    let asked = config::Class::from_number(class).ok_or(Refusal::UnknownClass(class))?;
    let small = u16::try_from(weight).map_err(|_| Refusal::Weight(weight))?;
    let limits = share.limits()?;
    let set = shared.schedule.borrow_mut().set_share(index, asked, small, limits, shared.platform.ticks());
    set.map_err(|error| match error {
        ShareError::NoSuchSession { .. } | ShareError::TooManySessions { .. } => Refusal::NoSession(session.into()),
        ShareError::Weight { .. } => Refusal::Weight(weight),
        ShareError::LimitBelowOneRequest { resource, limit, .. } => Refusal::BelowOneRequest {
            per_second: limit.per_second,
            burst: limit.burst,
            request: match resource {
                Resource::Commands => 1,
                Resource::Bytes => Limit::LEAST_BYTES,
            },
        },
        ShareError::ClassNotAllowed { .. } => Refusal::ClassNotAllowed { asked, highest: config.highest },
    })
}
