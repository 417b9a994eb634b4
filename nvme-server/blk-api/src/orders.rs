//! Orders of an operator: the control component's calls to a policy component, which changes rights and shares by them.
//!
//! An order is answered at once. The policy component then has its server carry the change out, signals the control component when
//! it is over, and answers [`OUTCOME`]. It takes one order at a time. Left out: orders of the scenario, which a policy component has
//! in its configuration.

use crate::config::{Class, RateLimit};
use crate::extent::{Blocks, Extent};
use crate::policy::{BANDWIDTH, Entitlement, IOPS, READ, Refusal, Share, WRITE, What};
use alloc::vec;
use serde::{Deserialize, Serialize};
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// In the badge of the control component on a policy component's endpoint; sessions' are below.
pub const BADGE: u64 = 1 << 27;
/// In that badge: shares may be ordered.
pub const MAY_SHARE: u64 = 1 << 0;
/// In that badge: rights may be ordered.
pub const MAY_RIGHTS: u64 = 1 << 1;

/// Orders a [`ShareOrder`].
pub const SHARE: u32 = 32;
/// Orders a [`RightsOrder`].
pub const RIGHTS: u32 = 33;
/// Asks whether the last order is in force: [`Refusal::Busy`] until then.
pub const OUTCOME: u32 = 34;

/// The parts of a share that change; the others stay.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct ShareChange {
    /// The class.
    pub class: Option<Class>,
    /// The weight within the class.
    pub weight: Option<u16>,
    /// The limit of commands.
    pub iops: Option<Limit>,
    /// The limit of bytes.
    pub bandwidth: Option<Limit>,
    /// Queue pairs of its own.
    pub queue_pairs: Option<u16>,
    /// Commands that each of these may hold.
    pub depth: Option<u16>,
}

/// A limit, or none.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Limit {
    /// There is no limit.
    None,
    /// The limit.
    Of(RateLimit),
}

impl Limit {
    const fn rate(self) -> Option<RateLimit> {
        match self {
            Self::None => None,
            Self::Of(limit) => Some(limit),
        }
    }
}

const CLASS_GIVEN: u64 = 1 << 0;
const WEIGHT_GIVEN: u64 = 1 << 1;
const IOPS_GIVEN: u64 = 1 << 2;
const BANDWIDTH_GIVEN: u64 = 1 << 3;
const QUEUE_PAIRS_GIVEN: u64 = 1 << 4;
const DEPTH_GIVEN: u64 = 1 << 5;

/// A [`ShareChange`] of a session, as a message carries it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct ShareOrder {
    /// The session, and the values that are given.
    share: Share,
    /// Which values are given.
    given: u64,
}

impl ShareOrder {
    /// The order to change the session's share so.
    #[must_use]
    pub fn new(session: u32, change: &ShareChange) -> Self {
        let ShareChange { class, weight, iops, bandwidth, queue_pairs, depth } = *change;
        let bit = |given: bool, bit: u64| if given { bit } else { 0 };
        let share = Share::new(
            session,
            &Entitlement {
                class: class.unwrap_or(Class::Low),
                weight: weight.unwrap_or(0),
                iops: iops.and_then(Limit::rate),
                bandwidth: bandwidth.and_then(Limit::rate),
                queue_pairs: queue_pairs.unwrap_or(0),
                depth: depth.unwrap_or(0),
            },
        );
        let given = bit(class.is_some(), CLASS_GIVEN)
            | bit(weight.is_some(), WEIGHT_GIVEN)
            | bit(iops.is_some(), IOPS_GIVEN)
            | bit(bandwidth.is_some(), BANDWIDTH_GIVEN)
            | bit(queue_pairs.is_some(), QUEUE_PAIRS_GIVEN)
            | bit(depth.is_some(), DEPTH_GIVEN);
        Self { share, given }
    }

    /// The session.
    #[must_use]
    pub const fn session(&self) -> u32 {
        self.share.session
    }

    /// The share that the session has after the order, if it had `share` before. Its server checks the values.
    #[must_use]
    pub fn applied_to(&self, share: Share) -> Share {
        let (own, gives) = (self.share, |bit: u64| self.given & bit != 0);
        let limits = |bit: u32, given: u64| if gives(given) { own.limits & bit } else { share.limits & bit };
        Share {
            session: share.session,
            class: if gives(CLASS_GIVEN) { own.class } else { share.class },
            weight: if gives(WEIGHT_GIVEN) { own.weight } else { share.weight },
            limits: limits(IOPS, IOPS_GIVEN) | limits(BANDWIDTH, BANDWIDTH_GIVEN),
            iops: if gives(IOPS_GIVEN) { own.iops } else { share.iops },
            bandwidth: if gives(BANDWIDTH_GIVEN) { own.bandwidth } else { share.bandwidth },
            queue_pairs: if gives(QUEUE_PAIRS_GIVEN) { own.queue_pairs } else { share.queue_pairs },
            depth: if gives(DEPTH_GIVEN) { own.depth } else { share.depth },
        }
    }
}

/// An order to give a session these rights to blocks of its namespace, and no others.
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct RightsOrder {
    /// The session; a client of a virtual function has a number as in [`PolicyConfig::functions`](crate::policy::PolicyConfig).
    pub session: u32,
    /// [`READ`], both rights, or none.
    pub rights: u32,
    /// First block on the namespace.
    pub first: u64,
    /// Blocks.
    pub blocks: u64,
}

impl RightsOrder {
    /// The order to take all rights to these blocks.
    #[must_use]
    pub const fn revoke(session: u32, Blocks { first, blocks }: Blocks) -> Self {
        Self { session, rights: 0, first, blocks }
    }

    /// The order to give rights to these blocks.
    #[must_use]
    pub const fn grant(session: u32, Extent { first, blocks, writable }: Extent) -> Self {
        Self { session, rights: if writable { READ | WRITE } else { READ }, first, blocks }
    }

    /// The change.
    ///
    /// # Errors
    /// [`Refusal::UnknownRights`].
    pub fn what(&self) -> Result<What, Refusal> {
        let Self { first, blocks, rights, .. } = *self;
        match rights {
            0 => Ok(What::Revoke(vec![Blocks { first, blocks }])),
            READ => Ok(What::Grant(vec![Extent { first, blocks, writable: false }])),
            _ if rights == READ | WRITE => Ok(What::Grant(vec![Extent { first, blocks, writable: true }])),
            _ => Err(Refusal::UnknownRights(rights)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEFORE: Entitlement = Entitlement {
        class: Class::Medium,
        weight: 3,
        iops: Some(RateLimit { per_second: 500, burst: 10 }),
        bandwidth: None,
        queue_pairs: 2,
        depth: 16,
    };

    fn after(change: &ShareChange) -> Share {
        ShareOrder::new(4, change).applied_to(Share::new(4, &BEFORE))
    }

    #[test]
    fn an_order_changes_what_it_names_and_nothing_else() {
        assert_eq!(after(&ShareChange::default()), Share::new(4, &BEFORE));
        let urgent = ShareChange { class: Some(Class::Urgent), ..ShareChange::default() };
        assert_eq!(after(&urgent), Share::new(4, &Entitlement { class: Class::Urgent, ..BEFORE }));
        let free = ShareChange { iops: Some(Limit::None), depth: Some(8), ..ShareChange::default() };
        let wanted = Share::new(4, &Entitlement { iops: None, depth: 8, ..BEFORE });
        assert_eq!(after(&free).limits(), wanted.limits());
        assert_eq!(after(&free).depth, 8);
        let rate = RateLimit { per_second: 1 << 20, burst: 1 << 16 };
        let limited = ShareChange { bandwidth: Some(Limit::Of(rate)), weight: Some(1), ..ShareChange::default() };
        assert_eq!(after(&limited), Share::new(4, &Entitlement { bandwidth: Some(rate), weight: 1, ..BEFORE }));
    }

    #[test]
    fn rights_that_there_are_not_are_refused() {
        let extent = Extent { first: 8, blocks: 4, writable: false };
        assert_eq!(RightsOrder::grant(1, extent).what(), Ok(What::Grant(vec![extent])));
        let blocks = Blocks { first: 8, blocks: 4 };
        assert_eq!(RightsOrder::revoke(1, blocks).what(), Ok(What::Revoke(vec![blocks])));
        for rights in [WRITE, 4, u32::MAX] {
            let order = RightsOrder { session: 1, rights, first: 0, blocks: 1 };
            assert_eq!(order.what(), Err(Refusal::UnknownRights(rights)));
        }
    }
}
