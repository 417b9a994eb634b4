//! Queue dispatch: fetching commands, one at a time, from the SQ whose turn it is (SEEDS O1; section 4.13).
//!
//! A command is fetched only when the controller has room for it. So arbitration selects among the commands that wait
//! in the SQs, not their order of arrival. Each command occupies the fetch engine for a while.

use nvme_spec::{Sqe, Status, StatusCode};
use zerocopy::{FromZeros, IntoBytes};

use crate::command::{Source, Stage};
use crate::controller::Controller;
use crate::host::Host;
use crate::io;
use crate::record::Event;
use crate::violation::ViolationKind;

/// Log2 of the bytes of an SQ entry.
const SQE_BITS: u32 = 6;

impl Controller {
    /// Starts the fetch engine if it is idle and there is a command for it.
    pub(crate) fn wake_fetch(&mut self) {
        let is_ready = self.registers.is_ready() && self.registers.paused_ns.is_none();
        if self.fetch_ns.is_none() && is_ready && (self.admin_waits() || self.io_waits()) {
            self.fetch_ns = Some(self.timing.fetch(self.clock_ns));
        }
    }

    fn admin_waits(&self) -> bool {
        self.commands.has_admin_room() && self.queues.sq(0).is_some_and(|queue| !queue.is_empty())
    }

    fn io_waits(&self) -> bool {
        self.commands.has_room() && !self.arbiter.is_idle()
    }

    /// Handles the arrival of a command: the SQ is selected now, from everything rung so far.
    pub(crate) fn fetch(&mut self, host: &mut dyn Host) {
        self.fetch_ns = None;
        let sq = if self.admin_waits() {
            Some(0)
        } else if self.commands.has_room() {
            self.arbiter.pick(self.settings.arbitration)
        } else {
            None
        };
        if let Some(sq) = sq
            && let Some(sqe) = self.take_entry(sq, host)
        {
            self.decode(sq, sqe);
        }
        self.wake_fetch();
    }

    /// Reads the entry at the head of an SQ. If that fails, the controller cannot go on.
    fn take_entry(&mut self, sq: u16, host: &mut dyn Host) -> Option<Sqe> {
        let queue = self.queues.sq_mut(sq)?;
        let address = queue.memory.entry(queue.head, SQE_BITS);
        queue.head = if queue.head + 1 == queue.entries { 0 } else { queue.head + 1 };
        let emptied = queue.is_empty();
        let mut sqe = Sqe::new_zeroed();
        if host.read(address, sqe.as_mut_bytes()).is_err() {
            self.violation(ViolationKind::DmaBlocked { address });
            self.fail();
            return None;
        }
        self.counters.fetched += 1;
        if emptied && sq != 0 {
            self.arbiter.set_idle(sq);
            if self.settings.shadow.is_some() {
                self.refresh_tail(sq, host);
            }
        }
        Some(sqe)
    }

    /// Puts the command into a slot and determines its first step.
    fn decode(&mut self, sq: u16, sqe: Sqe) {
        let front_end = self.timing.profile().front_end;
        let woken_ns = if sq == 0 { 0 } else { self.admin.wake_ns(self.clock_ns) };
        let decoded_ns = self.clock_ns.saturating_add(front_end.decode_ns).saturating_add(woken_ns);
        let from = Source { sq, fetched_ns: self.clock_ns };
        let Some(slot) = self.commands.start(sqe, from) else { return };
        let cid = sqe.cdw0.cid();
        self.journal.event(Event::Fetched { sq, sqe });
        if self.queues.sq_mut(sq).is_some_and(|queue| !queue.in_use.insert(cid)) {
            self.violation(ViolationKind::CommandId { sq, cid });
            let status = Status::new(StatusCode::CidConflict).with_do_not_retry();
            return self.finish(slot, status, decoded_ns);
        }
        let effects = self.faults.on_command(self.clock_ns, sq, &sqe, &mut self.generator);
        if let Some(command) = self.commands.get_mut(slot) {
            command.effects = effects;
        }
        let late = |at_ns: u64| at_ns.saturating_add(effects.delay_ns);
        if let Some(status) = effects.status {
            // A host that does not keep delays is named none (base specification 2.0, section 3.3.3.2.1).
            let named = if self.settings.keeps_retry_delays { status.retry_delay_index() } else { 0 };
            self.finish(slot, status.with_retry_delay_index(named), late(decoded_ns));
        } else if sq == 0 {
            self.commands.schedule(slot, Stage::Execute, late(decoded_ns.saturating_add(front_end.admin_ns)));
        } else {
            match io::plan(self, &sqe, sq, decoded_ns) {
                Ok(at_ns) => self.commands.schedule(slot, Stage::Transfer, late(at_ns)),
                Err(status) => self.finish(slot, status, late(decoded_ns)),
            }
        }
    }
}
