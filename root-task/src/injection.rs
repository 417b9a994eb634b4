//! Fault injection: announces the specification's moments, and stops components by its kill orders, as if they had faulted.
//!
//! Only a root task with the feature `fault-injection` has this module and `moments`. The product's root task has no code for
//! them and refuses a specification with either (`build.rs`). The supervisor has one hook: [`Injection::act`] before the first
//! event and after each.

use crate::Services;
use crate::build::Build;
use crate::moments::Moments;
use crate::supervisor::{Fault, Supervisor};
use crate::threads::State;
use crate::timer::{Due, TICK_US};
use alloc::vec::Vec;
use capdl_spec::Kill;
use platform::{Platform, ticks_to_ns};
use report::FaultKind;

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

    /// Announces the moments that have come, and stops the components that are due. Sets the alarm for what is due before the
    /// next tick.
    pub(crate) fn act<S: Services<P>>(&mut self, supervisor: &mut Supervisor<P, S>) {
        while self.moments.are_pending() || !self.orders.is_empty() {
            let elapsed_us = self.elapsed_us(supervisor);
            self.moments.forget_ended(&supervisor.threads);
            self.moments.announce(elapsed_us, supervisor);
            for order in &mut self.orders {
                if matches!(order.when, When::Moment(moment) if self.moments.has_come(moment)) {
                    order.when = When::At(elapsed_us);
                }
            }
            while let Some(component) = self.next_due(elapsed_us, |component| supervisor.state(component)) {
                supervisor.end_by_order(component);
            }
            // It may run again already.
            self.moments.forget_ended(&supervisor.threads);
            let elapsed_us = self.elapsed_us(supervisor);
            self.plan_restarted(elapsed_us, |component| supervisor.state(component));
            let Some(next_us) = self.next_before_tick(elapsed_us) else { return };
            let due = supervisor.set_alarm(next_us);
            if due == Due::default() {
                return;
            }
            // The order became due while the alarm was being set.
            supervisor.time_passed(due);
        }
    }

    /// Returns a component to stop now. One that waits for its restart is due a tick later; an order for one that stays dead is
    /// dropped.
    fn next_due(&mut self, elapsed_us: u64, state: impl Fn(u16) -> State) -> Option<u16> {
        let mut next = None;
        self.orders.retain_mut(|order| {
            if !matches!(order.when, When::At(at_us) if at_us <= elapsed_us) || next.is_some() {
                return true;
            }
            match state(order.component) {
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
    fn plan_restarted(&mut self, elapsed_us: u64, state: impl Fn(u16) -> State) {
        let restarted = |order: &&mut Order| order.when == When::NextStart && state(order.component) == State::Alive;
        for order in self.orders.iter_mut().filter(restarted) {
            let spread = u64::from(order.times.wrapping_mul(SPREAD)).saturating_mul(order.spread_us.into());
            let later_us = order.every_us.saturating_add(spread >> u32::BITS);
            order.when = When::At(elapsed_us.saturating_add(later_us));
        }
    }

    /// Microseconds until the next moment or order is due, if that is before the next tick.
    fn next_before_tick(&self, elapsed_us: u64) -> Option<u32> {
        let time = |order: &Order| match order.when {
            When::At(at_us) => Some(at_us),
            When::Moment(_) | When::NextStart => None,
        };
        let times = self.orders.iter().filter_map(time).chain(self.moments.times_us());
        let next_us = times.filter_map(|at_us| at_us.checked_sub(elapsed_us)).filter(|left_us| *left_us > 0).min()?;
        u32::try_from(next_us).ok().filter(|next_us| *next_us < TICK_US)
    }

    /// Microseconds since the components were started.
    fn elapsed_us<S: Services<P>>(&self, supervisor: &Supervisor<P, S>) -> u64 {
        let platform = &supervisor.build.platform;
        ticks_to_ns(platform.ticks().saturating_sub(self.began), platform.ticks_per_second()) / 1000
    }
}

impl<P: Platform, S: Services<P>> Supervisor<P, S> {
    /// The state of a component; one that is not in the specification never runs.
    fn state(&self, component: u16) -> State {
        self.threads.iter().find(|thread| thread.id == component).map_or(State::Ended, |thread| thread.state)
    }

    fn end_by_order(&mut self, component: u16) {
        if let Some(index) = self.threads.iter().position(|thread| thread.id == component) {
            self.end(index, &Fault { kind: FaultKind::Killed, address: 0, instruction: 0 });
        }
    }

    /// Sets the alarm, unless it is set to an earlier time.
    fn set_alarm(&mut self, microseconds: u32) -> Due {
        let Some(timer) = &mut self.timer else { return Due::default() };
        timer.set_alarm(microseconds).unwrap_or_else(|_| self.lose_timer())
    }
}
