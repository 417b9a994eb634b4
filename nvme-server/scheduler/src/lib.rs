//! Decides whose command goes to the device next, and when (SEEDS V9, V13 to V15).
//!
//! Pure logic: no clock, no input or output, and after construction no allocation. Its only neighbour is the NVMe server.
//! The server reports to a [`Policy`] which sessions have commands to submit, and which commands were submitted and
//! completed. Then it asks which session's turn it is. A decision costs the same with 64 sessions as with two.
//!
//! | policy | between sessions | use |
//! |---|---|---|
//! | [`RoundRobin`] | one line for all, command by command | turns, whatever is asked for |
//! | [`Dedicated`] | by class, then weight; nothing held back | queue pairs of each tenant's own, on a quick controller |
//! | [`StrictUrgent`] | the controller's; urgent gives way to a class that starves | controllers with WRR |
//! | [`DeviceDirect`] | equal by weight, by the speed of the queue; nothing held back | controllers with WRR, at the least cost |
//! | [`Weighted`] | parts of the device's time by weight | WRR where the controller has none |
//! | [`Paced`] | latency of higher classes kept near what it is alone | the default |
//!
//! In all of them limits hold, classes that wait get their turn ([`STARVATION_LIMIT_NS`]), and equals are served in the order
//! in which they came, whatever their numbers. The server chooses a command's queue pair, whatever the policy.
//!
//! Modules: `flow_table` records the waiting sessions and the commands in the device, `winner_tree` finds the first session,
//! `bucket` is one limit. `starvation_guard` bounds the wait of a class. `contention` detects a session that has the device
//! to itself. `cost` and `in_flight_limit` learn the device; `baseline`, `room`, `hidden_work`
//! and `latency_controller` are the pacing.
//!
//! Left out: taking entries, cutting requests, queue pairs themselves, and everything about extents.

#![no_std]
#![forbid(unsafe_code)]
#![warn(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

extern crate alloc;

mod baseline;
mod bucket;
mod contention;
mod cost;
mod dedicated;
mod device_direct;
mod flow_table;
mod hidden_work;
mod in_flight_limit;
mod latency_controller;
mod paced;
mod policy;
mod room;
mod round_robin;
mod share;
mod starvation_guard;
mod strict_urgent;
mod weighted;
mod winner_tree;

use alloc::boxed::Box;
use blk_api::config::SchedulingPolicy;
pub use blk_api::config::{Class, ClassWeights, RateLimit};
pub use dedicated::Dedicated;
pub use device_direct::DeviceDirect;
pub use flow_table::{FlowTable, Lines};
pub use paced::Paced;
pub use policy::{Commands, Decision, Kind, Policy, Quantum};
pub use round_robin::RoundRobin;
pub use share::{MAX_SESSIONS, MIN_PIECE, Resource, SessionId, Share, ShareError, Tenant};
pub use starvation_guard::STARVATION_LIMIT_NS;
pub use strict_urgent::StrictUrgent;
pub use weighted::Weighted;

/// The policy that a configuration names, with all sessions idle. `class_weights` are those of the configuration.
///
/// # Errors
/// [`ShareError`]: a share that is not allowed, or too many.
pub fn configured(
    policy: SchedulingPolicy,
    tenants: &[Tenant],
    class_weights: ClassWeights,
) -> Result<Box<dyn Policy>, ShareError> {
    match policy {
        SchedulingPolicy::RoundRobin => boxed(|| RoundRobin::new(tenants)),
        SchedulingPolicy::Dedicated => boxed(|| Dedicated::new(tenants)),
        SchedulingPolicy::Weighted => boxed(|| Weighted::new(tenants, class_weights)),
        // Until the controller reports that it weighs queues, which many do not.
        SchedulingPolicy::DeviceDirect => boxed(|| Weighted::new(tenants, ClassWeights::EQUAL)),
        SchedulingPolicy::Paced => boxed(|| Paced::new(tenants)),
    }
}

/// Makes a policy and puts it into a box. Policies are tens of kilobytes large, so each kind is made in a stack frame of its own, and a
/// caller that chooses one of several has the frames of none.
///
/// # Errors
/// The errors of `make`.
#[inline(never)]
pub fn boxed<P: Policy + 'static>(make: impl FnOnce() -> Result<P, ShareError>) -> Result<Box<dyn Policy>, ShareError> {
    Ok(Box::new(make()?))
}
