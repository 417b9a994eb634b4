//! The starvation guard: a class that has waited too long goes first, once.

use crate::flow_table::FlowTable;
use crate::share::{CLASSES, SessionId};
use blk_api::config::Class;

/// The longest wait of a class with commands to submit, and none in the device, while others are served, nanoseconds. On a
/// device so slow that it serves less than 64 commands meanwhile, the wait is the time of 64. The time that the device then
/// takes for the command comes on top.
pub const STARVATION_LIMIT_NS: u64 = 10_000_000;
/// Commands of others that a class waits for on a slow device.
const STARVATION_LIMIT_COMMANDS: u64 = 64;
/// Weight of a command in the mean time of one, as a shift.
const GAIN_SHIFT: u32 = 4;

/// Since when each class has waited, and how long a class waits at most.
#[derive(Clone, Debug, Default)]
pub(crate) struct StarvationGuard {
    since: [u64; CLASSES],
    /// Whether a class asked since it was served last. A session without room leaves its line and comes back; its class counts
    /// as waiting all the while.
    asks: [bool; CLASSES],
    /// The device's time for a command, nanoseconds, smoothed; 0 if unknown.
    command_ns: u64,
    /// When a command completed last.
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

    /// A class had its turn, and waits for the next one from now on if it has more to submit.
    #[inline]
    pub(crate) fn served(&mut self, class: Class, flow_table: &FlowTable, now: u64) {
        let places = self.asks.get_mut(class.index()).zip(self.since.get_mut(class.index()));
        if let Some((asks, since)) = places {
            (*asks, *since) = (flow_table.class_waits(class), now);
        }
    }

    /// Learns that `commands` together take `cost` of the device's time.
    #[inline]
    pub(crate) fn learn(&mut self, cost: u64, commands: u16) {
        let mean = self.command_ns;
        let cost = if commands == 1 { cost } else { cost.checked_div(u64::from(commands)).unwrap_or(cost) };
        self.command_ns = mean.saturating_sub(mean >> GAIN_SHIFT).saturating_add(cost >> GAIN_SHIFT);
    }

    /// A command completed.
    #[inline]
    pub(crate) const fn completed(&mut self, now: u64) {
        self.completed = now;
    }

    /// How long a class waits at most, nanoseconds.
    #[inline]
    pub(crate) fn length(&self) -> u64 {
        STARVATION_LIMIT_NS.max(self.command_ns.saturating_mul(STARVATION_LIMIT_COMMANDS))
    }

    /// When the starvation guard serves `class`, if it waits. A class with commands in the device waits for those first, as
    /// long as the device completes any commands at all.
    #[inline]
    pub(crate) fn ends(&self, class: Class, flow_table: &FlowTable) -> Option<u64> {
        if !flow_table.class_waits(class) {
            return None;
        }
        let since = self.since.get(class.index()).copied()?;
        let since = if flow_table.load(class).commands > 0 { since.max(self.completed) } else { since };
        Some(since.saturating_add(self.length()))
    }

    /// Returns the session that goes first because its class has waited too long: of several such classes, the least urgent
    /// one's. A class is skipped when limits hold all of its sessions.
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
