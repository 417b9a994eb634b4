//! Equal shares by the controller's own arbitration: every command is submitted at once, and its queue decides its speed.
//!
//! The idea of D2FQ (Woo, Ahn, Lee, Jeong, FAST 2021): a controller that arbitrates by weight serves a session's three queues
//! at three speeds. A session that has moved more than the others, by its weight, uses a slower queue until they have caught
//! up. Only limits hold commands back, so a command costs the scheduler next to nothing, and the device never idles while
//! a session has commands.
//!
//! Left out: the queues and their weights at the controller, which the server sets.

use crate::flow_table::{FlowTable, Lines};
use crate::policy::{Commands, Decision, Kind, Policy, Quantum};
use crate::share::{MIN_PIECE, SessionId, ShareError, Tenant};
use crate::winner_tree::WinnerTree;
use alloc::vec::Vec;
use blk_api::config::Class;

/// Lead over the least served session at which a session of weight 1 uses its second queue, bytes: more than one turn of
/// the shortest commands, and a few of the longest.
const SECOND_LEAD: u64 = 512 << 10;
/// Lead at which such a session uses its third queue, bytes.
const THIRD_LEAD: u64 = 1 << 20;
/// Pieces of the smallest size in a turn: those of the longest command, so that a session's speed follows its lead.
const TURN: u16 = 32;
/// The longest command where other sessions take part, bytes: fewer pieces of the smallest size than the fastest queue has
/// turns for one of the slowest.
const LONGEST: u32 = 32 * MIN_PIECE;

/// Everything at once, command by command in one line, each at the speed of its session's lead. The class does not count, the
/// weight does. Limits hold.
#[derive(Clone, Debug)]
pub struct DeviceDirect {
    flow_table: FlowTable,
    /// Each session's virtual time: the bytes of its commands, over its weight.
    times: Vec<u64>,
    /// Sessions by that time: those that wait or have commands in the device, and some that did and were not first since.
    active: WinnerTree,
    /// The least time among the active ones, which never goes back.
    least: u64,
}

impl DeviceDirect {
    /// A policy with all sessions idle.
    ///
    /// # Errors
    /// [`ShareError`]: a share that is not allowed, or too many.
    pub fn new(tenants: &[Tenant]) -> Result<Self, ShareError> {
        Ok(Self {
            flow_table: FlowTable::new(tenants, Lines::One)?,
            times: tenants.iter().map(|_| 0).collect(),
            active: WinnerTree::new(),
            least: 0,
        })
    }

    /// The queue for a session's next commands; 0 is the fastest.
    fn queue(&self, session: SessionId) -> u16 {
        let time = self.times.get(usize::from(session.0)).copied().unwrap_or(0);
        match time.saturating_sub(self.least) {
            THIRD_LEAD.. => 2,
            SECOND_LEAD..THIRD_LEAD => 1,
            _ => 0,
        }
    }

    /// Adds the session to `active`, at the time of the least served one or its own if later.
    fn activate(&mut self, session: SessionId) {
        if let Some(time) = self.times.get_mut(usize::from(session.0)) {
            *time = (*time).max(self.least);
            self.active.put(session.0, *time);
        }
    }

    /// Recomputes `least`: the least served session may be another one now, or may neither wait nor have commands in the device.
    fn advance(&mut self) {
        while let Some((session, time)) = self.active.first() {
            let session = SessionId(session);
            if self.flow_table.waits(session) || self.flow_table.in_device(session) > 0 {
                self.least = self.least.max(time);
                return;
            }
            self.active.remove(session.0);
        }
    }
}

impl Policy for DeviceDirect {
    #[inline]
    fn flow_table(&self) -> &FlowTable {
        &self.flow_table
    }

    #[inline]
    fn flow_table_mut(&mut self) -> &mut FlowTable {
        &mut self.flow_table
    }

    fn ready(&mut self, session: SessionId, _: u64) {
        if self.flow_table.share(session).is_none() || self.flow_table.waits(session) {
            return;
        }
        let was_active = self.flow_table.in_device(session) > 0;
        self.flow_table.ready(session);
        if !was_active {
            self.activate(session);
        }
    }

    fn idle(&mut self, session: SessionId) {
        if self.flow_table.waits(session) {
            self.flow_table.idle(session);
            self.advance();
        }
    }

    fn next(&mut self, now: u64) -> Decision {
        self.flow_table.unpark(now);
        // All are in one line, whatever their class.
        match self.flow_table.head(Class::Urgent, now) {
            Some(session) => {
                let named = self.flow_table.bytes_left(session, now);
                let commands = self.flow_table.commands_left(session, now).min(TURN);
                let fastest = Some(self.queue(session));
                Decision::Serve { session, quantum: Quantum { commands, bytes: named.min(LONGEST), named, fastest } }
            }
            None => Decision::wait(self.flow_table.next_unpark()),
        }
    }

    fn submitted(&mut self, commands: Commands, now: u64) {
        if self.flow_table.submitted(&commands, u64::from(commands.count), now).is_none() {
            return;
        }
        // A command costs the device something, however few bytes it moves.
        let each = match commands.kind {
            Kind::Read | Kind::Write => u64::from(commands.bytes.max(MIN_PIECE)),
            Kind::Other => u64::from(MIN_PIECE),
        };
        let bytes = each.saturating_mul(u64::from(commands.count));
        let weight = self.flow_table.share(commands.session).map_or(1, |share| u64::from(share.weight));
        let length = bytes.checked_div(weight).unwrap_or(bytes);
        if let Some(time) = self.times.get_mut(usize::from(commands.session.0)) {
            *time = time.saturating_add(length.max(1));
            self.active.put(commands.session.0, *time);
        }
        self.advance();
    }

    fn aborted(&mut self, commands: Commands, _: u64) {
        if self.flow_table.left_device(&commands).is_some() {
            self.advance();
        }
    }

    fn reset(&mut self, _: u64) {
        self.flow_table.reset();
        self.advance();
    }
}
