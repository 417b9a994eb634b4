//! Fault injection: the specification's moments that have come, and the components that its kill orders stop now.
//!
//! Only a root task with the feature `fault-injection` has this module and `moments`. The product's root task has no code for
//! them and refuses a specification with either (`build.rs`). The supervisor has one hook, `inject`, before the first event
//! and after each; `supervisor/injecting.rs` has it.

use crate::moments::Moments;
use crate::state::Build;
use crate::thread::{State, Thread};
use crate::timer::TICK_US;
use alloc::vec::Vec;
use capdl_spec::Kill;
use platform::{Platform, ticks_to_ns};

/// 2^32 by the golden ratio: its multiples spread the times at which successive incarnations are stopped.
const SPREAD: u32 = 0x9e37_79b9;

/// Time at which an order is due.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum When {
    /// This many microseconds after the components were started.
    At(u64),
    /// At this moment, which is still to come.
    Moment(u16),
    /// Some time after the component's next start, which is still to come.
    NextStart,
}

/// A kill order that is not finished.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Order {
    component: u16,
    when: When,
    /// Number of times that the component is still to be stopped.
    times: u32,
    every_us: u64,
    spread_us: u32,
}

/// The moments and kill orders of a specification.
pub(crate) struct Injection<P: Platform> {
    moments: Moments<P>,
    orders: Vec<Order>,
    /// Time at which the components were started, in ticks of the clock.
    began: u64,
}

impl<P: Platform> Injection<P> {
    /// The moments, and all orders, before any component has run.
    pub(crate) fn new(build: &Build<P>, moments: Moments<P>) -> Self {
        let order = |kill: &Kill| {
            let Kill { component, moment, times, every_us, spread_us } = *kill;
            Order { component, when: When::Moment(moment), times, every_us, spread_us }
        };
        let orders = build.specification.kills.iter().map(order).collect();
        Self { moments, orders, began: build.platform.ticks() }
    }

    /// Whether moments or orders are left.
    pub(crate) fn is_pending(&self) -> bool {
        self.moments.are_pending() || !self.orders.is_empty()
    }

    /// Microseconds since the components were started.
    pub(crate) fn elapsed_us(&self, platform: &P) -> u64 {
        ticks_to_ns(platform.ticks().saturating_sub(self.began), platform.ticks_per_second()) / 1000
    }

    /// Announces the moments that have come. Returns whether there is one.
    pub(crate) fn announce(&mut self, elapsed_us: u64, threads: &[Thread]) -> bool {
        self.moments.forget_ended(threads);
        let announced = self.moments.announce(elapsed_us, threads);
        for order in &mut self.orders {
            if matches!(order.when, When::Moment(moment) if self.moments.has_come(moment)) {
                order.when = When::At(elapsed_us);
            }
        }
        announced
    }

    /// Returns a component to stop now. One that waits for its restart is due a tick later; an order for one that stays dead is
    /// dropped.
    pub(crate) fn next_due(&mut self, elapsed_us: u64, threads: &[Thread]) -> Option<u16> {
        let mut next = None;
        self.orders.retain_mut(|order| {
            if !matches!(order.when, When::At(at_us) if at_us <= elapsed_us) || next.is_some() {
                return true;
            }
            match state(threads, order.component) {
                State::Ended => return false,
                State::Waits { .. } => order.when = When::At(elapsed_us.saturating_add(TICK_US.into())),
                State::Alive => {
                    next = Some(order.component);
                    order.when = When::NextStart;
                    order.times = order.times.saturating_sub(1);
                }
            }
            order.times > 0
        });
        next
    }

    /// Sets the time of orders whose components were restarted.
    pub(crate) fn plan_restarted(&mut self, elapsed_us: u64, threads: &[Thread]) {
        // It may run again already.
        self.moments.forget_ended(threads);
        let restarted =
            |order: &&mut Order| order.when == When::NextStart && state(threads, order.component) == State::Alive;
        for order in self.orders.iter_mut().filter(restarted) {
            let spread = u64::from(order.times.wrapping_mul(SPREAD)).saturating_mul(order.spread_us.into());
            let later_us = order.every_us.saturating_add(spread >> u32::BITS);
            order.when = When::At(elapsed_us.saturating_add(later_us));
        }
    }

    /// Microseconds until the next moment or order is due, if that is before the next tick.
    pub(crate) fn next_before_tick(&self, elapsed_us: u64) -> Option<u32> {
        let time = |order: &Order| match order.when {
            When::At(at_us) => Some(at_us),
            When::Moment(_) | When::NextStart => None,
        };
        let times = self.orders.iter().filter_map(time).chain(self.moments.times_us());
        let next_us = times.filter_map(|at_us| at_us.checked_sub(elapsed_us)).filter(|left_us| *left_us > 0).min()?;
        u32::try_from(next_us).ok().filter(|next_us| *next_us < TICK_US)
    }
}

/// The state of a component; one that is not in the specification never runs.
fn state(threads: &[Thread], component: u16) -> State {
    threads.iter().find(|thread| thread.id == component).map_or(State::Ended, |thread| thread.state)
}
