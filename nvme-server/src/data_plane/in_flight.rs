//! The commands a queue pair has in flight.
//!
//! The table keeps a client's memory for the device: until a command is released, its window stays mapped. Neighbour:
//! `nvme_driver::command_table` has the commands' identifiers.

use blk_api::config::ServerConfig;
use blk_api::request::Opcode;
use core::fmt;
use nvme_driver::command_table::CommandTable;
use nvme_driver::silence::Waiting;
use nvme_spec::Cid;
use scheduler::Kind;

/// A command in flight.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Command {
    /// The command's work for the device.
    pub work: Work,
    /// Time of its submission, in ticks.
    pub submitted: u64,
    /// First block, as the session numbers it, and first byte in the window: it can be submitted again.
    pub first: u64,
    pub offset: u32,
    /// The request that it serves.
    pub request: Served,
}

/// A command's work for the device, and its session, in one word: equal ones are recognized by one comparison.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Work(u64);

impl Work {
    /// `bytes` are those that it moves, or of the blocks that it names without moving them; 0 for a flush.
    #[inline(always)]
    pub(crate) const fn new(session: u8, opcode: Opcode, bytes: u32) -> Self {
        Self((bytes as u64) << 32 | (session as u64) << 8 | opcode as u64)
    }

    /// The work as a retry with this number; 0 is none.
    #[inline]
    pub(crate) const fn retried(self, retries: u8) -> Self {
        Self(self.0 | (retries as u64) << 24)
    }

    /// The number of this retry; 0 for a first try.
    pub(crate) const fn retries(self) -> u8 {
        (self.0 >> 24) as u8
    }

    /// The operation.
    pub(crate) const fn opcode(self) -> Opcode {
        match Opcode::from_raw(self.0 as u8) {
            Some(opcode) => opcode,
            // It was made of one.
            None => Opcode::Flush,
        }
    }

    /// The work with a tag, which tells it from works with other tags.
    #[inline(always)]
    pub(crate) const fn tagged(self, tag: u8) -> Self {
        Self(self.0 | (tag as u64) << 16)
    }

    /// The session that the command is of.
    #[inline(always)]
    pub(crate) const fn session(self) -> u8 {
        (self.0 >> 8) as u8
    }

    /// The kind of the work's operation. Two tests of a bit are the cheapest way to it.
    #[inline(always)]
    pub(crate) const fn kind(self) -> Kind {
        const READS: u32 = Opcode::numbers_of(Kind::Read);
        const WRITES: u32 = Opcode::numbers_of(Kind::Write);
        let bit = 1u32.wrapping_shl(self.0 as u32);
        if READS & bit != 0 {
            Kind::Read
        } else if WRITES & bit != 0 {
            Kind::Write
        } else {
            Kind::Other
        }
    }

    /// Bytes of the command.
    #[inline(always)]
    pub(crate) const fn bytes(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

impl fmt::Debug for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} of {} bytes for session {}", self.kind(), self.bytes(), self.session())
    }
}

/// The request that a command serves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Served {
    /// A whole request, with this user data: the command's completion answers the request.
    Whole(u64),
    /// A part of the one in this place of the session's request table.
    Part(u16),
}

/// Whether the scheduler counts a command as work of the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Accounting {
    /// The command is counted.
    Counted,
    /// Not any more, because its completion has become uncertain.
    Discounted,
}

/// A table of the commands in flight.
pub(crate) type InFlight = CommandTable<Command, Accounting>;

const _: () = assert!(InFlight::PLACE_BYTES <= ServerConfig::HEAP_A_COMMAND);

/// The contents of places that never had a command.
pub(crate) const NONE: (Command, Accounting) = {
    let work = Work::new(0, Opcode::Flush, 0);
    (Command { work, submitted: 0, first: 0, offset: 0, request: Served::Whole(0) }, Accounting::Counted)
};

/// Discounts the commands submitted before `then`, and returns them.
pub(crate) fn discount(table: &mut InFlight, then: u64) -> impl Iterator<Item = Command> + '_ {
    let late = move |(command, accounting): &(&Command, &mut Accounting)| {
        **accounting == Accounting::Counted && command.submitted < then
    };
    table.tags_mut().filter(late).map(|(command, accounting)| {
        *accounting = Accounting::Discounted;
        *command
    })
}

/// The identifier of the command that was submitted first.
pub(crate) fn oldest(table: &InFlight) -> Option<Cid> {
    table.in_flight().min_by_key(|(_, command)| command.submitted).map(|(cid, _)| cid)
}

/// Returns whether a command of `session` was submitted before or at `then`.
pub(crate) fn has_any_of(table: &InFlight, session: u8, then: u64) -> bool {
    table.in_flight().any(|(_, command)| command.work.session() == session && command.submitted <= then)
}

/// The commands that the controller has not completed.
pub(crate) fn waiting(table: &InFlight) -> Option<Waiting> {
    let commands = || table.in_flight().map(|(_, command)| command);
    let since = commands().map(|command| command.submitted).min()?;
    Some(Waiting { since, long: commands().any(|command| command.work.kind() == Kind::Other) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    fn command(request: u16) -> Command {
        let (work, submitted) = (Work::new(0, Opcode::Read, 512), u64::from(request));
        Command { work, submitted, first: 0, offset: 0, request: Served::Part(request) }
    }

    #[test]
    fn work_has_the_kind_of_its_operation() {
        for opcode in Opcode::ALL {
            let work = Work::new(u8::MAX, *opcode, u32::MAX).tagged(u8::MAX).retried(u8::MAX);
            assert_eq!((work.opcode(), work.kind()), (*opcode, opcode.kind()));
        }
    }

    #[test]
    fn a_command_is_known_by_its_session_and_its_time() {
        let mut table = InFlight::new(3, NONE);
        table
            .reserve(Command { work: Work::new(1, Opcode::Read, 0), ..command(5) }, Accounting::Counted)
            .unwrap()
            .spend();
        table
            .reserve(Command { work: Work::new(2, Opcode::Read, 0), ..command(9) }, Accounting::Counted)
            .unwrap()
            .spend();
        assert!(has_any_of(&table, 1, 5) && !has_any_of(&table, 1, 4));
        assert!(!has_any_of(&table, 2, 8) && !has_any_of(&table, 3, 9));
    }

    #[test]
    fn what_is_discounted_is_reported_once_and_is_still_in_flight() {
        let mut table = InFlight::new(3, NONE);
        let late = table.reserve(command(4), Accounting::Counted).unwrap();
        table.reserve(command(5), Accounting::Counted).unwrap().spend();
        let discounted =
            |table: &mut InFlight, then| -> Vec<u64> { discount(table, then).map(|one| one.submitted).collect() };
        assert_eq!(discounted(&mut table, 5), [4]);
        assert_eq!(discounted(&mut table, 5), [0_u64; 0]);
        assert_eq!(discounted(&mut table, 6), [5]);
        assert_eq!(waiting(&table), Some(Waiting { since: 4, long: false }));
        assert_eq!(table.complete(late.cid), Ok((&command(4), Accounting::Discounted)));
        let next = table.reserve(command(6), Accounting::Counted).unwrap();
        assert_eq!(table.complete(next.cid), Ok((&command(6), Accounting::Counted)));
    }

    #[test]
    fn draining_empties_the_table() {
        let mut table = InFlight::new(3, NONE);
        table.reserve(command(5), Accounting::Counted).unwrap().spend();
        table.reserve(command(4), Accounting::Counted).unwrap().spend();
        assert_eq!(waiting(&table), Some(Waiting { since: 4, long: false }));
        assert_eq!(table.take_all().count(), 2);
        assert_eq!(waiting(&table), None);
        assert!((0..3).all(|_| table.reserve(command(1), Accounting::Counted).is_some()) && !table.has_room());
    }
}
