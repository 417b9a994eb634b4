//! No class waits for ever: who has waited too long goes first, once.

use crate::flow_table::FlowTable;
use crate::share::{CLASSES, SessionId};
use blk_api::config::Class;

/// How long a class with commands to submit, and none in the device, waits at most while others are served, nanoseconds;
/// on a device so slow that it serves less than 64 commands meanwhile, the time of 64. What the device then takes for
/// its command comes on top.
pub const STARVATION_LIMIT_NS: u64 = 10_000_000;
/// Commands of others.
const STARVATION_LIMIT_COMMANDS: u64 = 64;
/// A command's say in what commands take, as a shift.
const GAIN_SHIFT: u32 = 4;

/// Since when each class has waited, and how long one waits.
#[derive(Clone, Debug, Default)]
pub(crate) struct StarvationGuard {
    since: [u64; CLASSES],
    /// Whether a class asked since it was served last. Who finds no room leaves its line and comes back, and its class has
    /// waited all the while.
    asks: [bool; CLASSES],
    /// What a command takes of the device, nanoseconds, smoothed; 0 if nobody knows.
    command_ns: u64,
    /// When the device gave something back last.
    completed: u64,
}

impl StarvationGuard {
    /// A class has commands to submit, and waits for its turn from now on if it does not already.
    #[inline]
    pub(crate) fn asked(&mut self, class: Class, now: u64) {
        let places = self.asks.get_mut(class.index()).zip(self.since.get_mut(class.index()));
        if let Some((asks, since)) = places
            && !core::mem::replace(asks, true)
        {
            *since = now;
        }
    }

    /// A class had its turn, and waits for the next one from now on if it has more to give.
    #[inline]
    pub(crate) fn served(&mut self, class: Class, flow_table: &FlowTable, now: u64) {
        let places = self.asks.get_mut(class.index()).zip(self.since.get_mut(class.index()));
        if let Some((asks, since)) = places {
            (*asks, *since) = (flow_table.class_waits(class), now);
        }
    }

    /// So many commands together take so much of the device's time.
    #[inline]
    pub(crate) fn learn(&mut self, cost: u64, commands: u16) {
        let mean = self.command_ns;
        let cost = if commands == 1 { cost } else { cost.checked_div(u64::from(commands)).unwrap_or(cost) };
        self.command_ns = mean.saturating_sub(mean >> GAIN_SHIFT).saturating_add(cost >> GAIN_SHIFT);
    }

    /// The device gave something back.
    #[inline]
    pub(crate) const fn completed(&mut self, now: u64) {
        self.completed = now;
    }

    /// How long somebody waits, nanoseconds.
    #[inline]
    pub(crate) fn length(&self) -> u64 {
        STARVATION_LIMIT_NS.max(self.command_ns.saturating_mul(STARVATION_LIMIT_COMMANDS))
    }

    /// When the starvation guard serves `class`, if it waits. One that has something in the device waits for that, as
    /// long as the device goes on at all.
    #[inline]
    pub(crate) fn ends(&self, class: Class, flow_table: &FlowTable) -> Option<u64> {
        if !flow_table.class_waits(class) {
            return None;
        }
        let since = self.since.get(class.index()).copied()?;
        let since = if flow_table.load(class).commands > 0 { since.max(self.completed) } else { since };
        Some(since.saturating_add(self.length()))
    }

    /// The session that goes first because its class has waited too long: of several such classes the least urgent. A class
    /// is passed over when limits hold all of its sessions.
    #[inline]
    pub(crate) fn overdue(&self, flow_table: &mut FlowTable, now: u64) -> Option<SessionId> {
        Class::ALL.into_iter().rev().find_map(|class| {
            let is_over = self.ends(class, flow_table).is_some_and(|end| end <= now);
            if is_over { flow_table.head(class, now) } else { None }
        })
    }

    /// When the starvation guard acts next.
    pub(crate) fn next_end(&self, flow_table: &FlowTable) -> Option<u64> {
        Class::ALL.into_iter().filter_map(|class| self.ends(class, flow_table)).min()
    }
}
