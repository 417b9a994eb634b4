//! Commands inside the controller: what each waits for, and until when.
//!
//! A command occupies a slot from its fetch until its completion is due. Slots are allocated once. A heap holds what is
//! due next, ordered by time and, at equal times, by the order of scheduling.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use nvme_spec::{Sqe, Status, StatusCode};

use crate::fault::{Effects, Posting};

/// Admin commands held at once, apart from I/O commands.
const ADMIN_SLOTS: u16 = 16;

/// A fetched command.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Command {
    pub(crate) sqe: Sqe,
    /// The SQ it came from.
    pub(crate) sq: u16,
    pub(crate) stage: Stage,
    pub(crate) fetched_ns: u64,
    /// The result so far.
    pub(crate) status: Status,
    pub(crate) dw0: u32,
    /// Effects of faults on it.
    pub(crate) effects: Effects,
    /// The command's own entry of the schedule; other entries for its slot are stale.
    due: u64,
}

/// The next step of a command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stage {
    /// An admin command is to be executed.
    Execute,
    /// Data is to be moved between host and store.
    Transfer,
    /// The completion is to be posted.
    Complete,
}

/// Result of an admin command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Outcome {
    /// Complete now.
    Done { dw0: u32, status: Status },
    /// Complete after this long.
    After { ns: u64, dw0: u32, status: Status },
    /// Not complete until [`crate::Controller::complete_held`] is called with its identifier.
    Held,
}

impl Outcome {
    /// Success without a result.
    pub(crate) const SUCCESS: Self = Self::Done { dw0: 0, status: Status::SUCCESS };

    /// Complete now with this status.
    pub(crate) const fn status(status: Status) -> Self {
        Self::Done { dw0: 0, status }
    }
}

/// A finished command, on its way into a CQ.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Finished {
    pub(crate) sq: u16,
    pub(crate) cid: u16,
    pub(crate) dw0: u32,
    pub(crate) status: Status,
    pub(crate) posting: Posting,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Due {
    at_ns: u64,
    sequence: u64,
    slot: u16,
}

/// The slots, and the schedule of what is due for them.
#[derive(Debug)]
pub(crate) struct Commands {
    slots: Vec<Option<Command>>,
    free: Vec<u16>,
    schedule: BinaryHeap<Reverse<Due>>,
    sequence: u64,
    io: u16,
    io_limit: u16,
    admin: u16,
}

impl Commands {
    pub(crate) fn new(io_limit: u16) -> Self {
        let io_limit = io_limit.clamp(1, u16::MAX - ADMIN_SLOTS);
        let count = io_limit + ADMIN_SLOTS;
        Self {
            slots: vec![None; usize::from(count)],
            free: (0..count).rev().collect(),
            schedule: BinaryHeap::with_capacity(usize::from(count) * 2),
            sequence: 0,
            io: 0,
            io_limit,
            admin: 0,
        }
    }

    /// Whether there is room for a command of an I/O SQ.
    pub(crate) const fn has_room(&self) -> bool {
        self.io < self.io_limit
    }

    /// Whether there is room for a command of the admin SQ.
    pub(crate) const fn has_admin_room(&self) -> bool {
        self.admin < ADMIN_SLOTS
    }

    /// Puts a command into a free slot, if there is one. Nothing is due for it yet.
    pub(crate) fn start(&mut self, sqe: Sqe, from: Source) -> Option<u16> {
        let slot = self.free.pop()?;
        if from.sq == 0 {
            self.admin += 1;
        } else {
            self.io += 1;
        }
        let command = Command {
            sqe,
            sq: from.sq,
            stage: Stage::Execute,
            fetched_ns: from.fetched_ns,
            status: Status::SUCCESS,
            dw0: 0,
            effects: Effects::default(),
            due: 0,
        };
        if let Some(place) = self.slots.get_mut(usize::from(slot)) {
            *place = Some(command);
        }
        Some(slot)
    }

    /// Makes `stage` of the command in `slot` due at `at_ns`, instead of its previous stage.
    pub(crate) fn schedule(&mut self, slot: u16, stage: Stage, at_ns: u64) {
        self.sequence += 1;
        let sequence = self.sequence;
        if let Some(command) = self.get_mut(slot) {
            command.stage = stage;
            command.due = sequence;
            self.schedule.push(Reverse(Due { at_ns, sequence, slot }));
        }
    }

    /// Time at which something is due next.
    pub(crate) fn next_ns(&self) -> Option<u64> {
        self.schedule.peek().map(|Reverse(due)| due.at_ns)
    }

    /// Takes the first entry of the schedule and returns its slot; `None` when there is none or the entry is stale.
    pub(crate) fn take_due(&mut self) -> Option<u16> {
        let Reverse(due) = self.schedule.pop()?;
        let command = self.get_mut(due.slot)?;
        (command.due == due.sequence).then_some(due.slot)
    }

    pub(crate) fn get(&self, slot: u16) -> Option<&Command> {
        self.slots.get(usize::from(slot))?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, slot: u16) -> Option<&mut Command> {
        self.slots.get_mut(usize::from(slot))?.as_mut()
    }

    /// Frees a slot and returns its command.
    pub(crate) fn end(&mut self, slot: u16) -> Option<Command> {
        let command = self.slots.get_mut(usize::from(slot))?.take()?;
        self.free.push(slot);
        if command.sq == 0 {
            self.admin -= 1;
        } else {
            self.io -= 1;
        }
        Some(command)
    }

    /// Returns the slots whose commands satisfy `wanted`, in order.
    pub(crate) fn find(&self, wanted: impl Fn(&Command) -> bool) -> Vec<u16> {
        let matches = |(slot, command): (usize, &Option<Command>)| {
            command.as_ref().is_some_and(&wanted).then_some(u16::try_from(slot).unwrap_or(u16::MAX))
        };
        self.slots.iter().enumerate().filter_map(matches).collect()
    }

    /// Forgets every command.
    pub(crate) fn clear(&mut self) {
        for slot in self.find(|_| true) {
            self.end(slot);
        }
        self.schedule.clear();
    }
}

/// Source of a command, and the time of its fetch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Source {
    pub(crate) sq: u16,
    pub(crate) fetched_ns: u64,
}

/// Returns the status of a command that would be refused again.
pub(crate) const fn refused(code: StatusCode) -> Status {
    Status::new(code).with_do_not_retry()
}
