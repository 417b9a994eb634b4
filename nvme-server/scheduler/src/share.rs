//! A session's share (its class, weight and limits), and the most urgent class that the specification allows it.

use blk_api::config::{Class, RateLimit};
use thiserror::Error;

/// Sessions one scheduler decides between.
pub const MAX_SESSIONS: usize = 128;

/// The smallest piece of a request that a policy asks for, bytes.
pub const MIN_PIECE: u32 = 4096;

/// A session, by its number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SessionId(pub u8);

/// The number of classes.
pub(crate) const CLASSES: usize = Class::ALL.len();

/// A session's class, weight and limits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Share {
    /// The session's class.
    pub class: Class,
    /// The session's weight among the sessions of its class; at least 1.
    pub weight: u16,
    /// Commands a second.
    pub iops_limit: Option<RateLimit>,
    /// Bytes a second.
    pub bandwidth_limit: Option<RateLimit>,
}

impl Share {
    /// A share of `class` with weight 1 and no limits.
    #[must_use]
    pub const fn of(class: Class) -> Self {
        Self { class, weight: 1, iops_limit: None, bandwidth_limit: None }
    }
}

/// A session as the specification has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tenant {
    /// The tenant's share to begin with.
    pub share: Share,
    /// The most urgent class that it may ever be given.
    pub highest: Class,
}

/// The limit that an error is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Resource {
    /// Commands.
    Commands,
    /// Bytes.
    Bytes,
}

/// The reason why a share is refused. Nothing has changed then.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum ShareError {
    /// There is no such session.
    #[error("there is no session {}", session.0)]
    NoSuchSession {
        /// The number asked for.
        session: SessionId,
    },
    /// More sessions than [`MAX_SESSIONS`].
    #[error("{count} sessions are more than {MAX_SESSIONS}")]
    TooManySessions {
        /// The number of sessions.
        count: usize,
    },
    /// A weight of zero.
    #[error("session {} has weight {weight}, which must be at least 1", session.0)]
    Weight {
        /// Whose.
        session: SessionId,
        /// The weight.
        weight: u16,
    },
    /// A limit too small for one request of [`MIN_PIECE`] bytes in a second, or at once.
    #[error("session {} is limited to {} {resource:?} a second and {} at once, below one request",
        session.0, limit.per_second, limit.burst)]
    LimitBelowOneRequest {
        /// Whose.
        session: SessionId,
        /// The limited resource.
        resource: Resource,
        /// The limit.
        limit: RateLimit,
    },
    /// A class above the most urgent one that the specification allows the session.
    #[error("session {} asks for class {asked:?} and may have {highest:?} at most", session.0)]
    ClassNotAllowed {
        /// Whose.
        session: SessionId,
        /// The class asked for.
        asked: Class,
        /// The most urgent class it may have.
        highest: Class,
    },
}

/// Checks whether `session` may have `share`.
pub(crate) fn check(session: SessionId, share: &Share, highest: Class) -> Result<(), ShareError> {
    if share.weight == 0 {
        return Err(ShareError::Weight { session, weight: share.weight });
    }
    let limits =
        [(Resource::Commands, share.iops_limit, 1), (Resource::Bytes, share.bandwidth_limit, u64::from(MIN_PIECE))];
    for (resource, limit, request) in limits {
        if let Some(limit) = limit.filter(|limit| limit.per_second < request || limit.burst < request) {
            return Err(ShareError::LimitBelowOneRequest { session, resource, limit });
        }
    }
    if share.class < highest {
        return Err(ShareError::ClassNotAllowed { session, asked: share.class, highest });
    }
    Ok(())
}
