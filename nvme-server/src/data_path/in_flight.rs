//! The commands a queue pair has in flight.
//!
//! A command identifier names a place in this table and the place's generation, so a late completion of an earlier command
//! is distinguished from that of the present one. It is independent of the SQ's slot. The table keeps a client's memory for
//! the device: until a command is released, its window stays mapped.

use crate::controller::fault::DeviceFault;
use crate::recovery::timeouts::Waiting;
use alloc::vec::Vec;
use core::fmt;
use nvme_spec::Cid;
use scheduler::Kind;

/// A command in flight.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Command {
    /// Its work for the device.
    pub work: Work,
    /// Time of its submission, in ticks.
    pub submitted: u64,
    /// The request that it serves.
    pub request: Served,
}

/// A command's work for the device, and its session, in one word: equal ones are recognized by one comparison.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Work(u64);

impl Work {
    /// `bytes` are those that it moves, or of the blocks that it names without moving them; 0 for a flush.
    #[inline(always)]
    pub(crate) const fn new(session: u8, kind: Kind, bytes: u32) -> Self {
        Self((bytes as u64) << 32 | (session as u64) << 8 | kind as u64)
    }

    /// The same with a tag that tells it from works with others.
    #[inline(always)]
    pub(crate) const fn tagged(self, tag: u8) -> Self {
        Self(self.0 | (tag as u64) << 16)
    }

    /// The session that the command is of.
    #[inline(always)]
    pub(crate) const fn session(self) -> u8 {
        (self.0 >> 8) as u8
    }

    /// Whether the command reads its bytes, writes them, or moves none.
    #[inline(always)]
    pub(crate) const fn kind(self) -> Kind {
        const READ: u8 = Kind::Read as u8;
        const WRITE: u8 = Kind::Write as u8;
        match self.0 as u8 {
            READ => Kind::Read,
            WRITE => Kind::Write,
            _ => Kind::Other,
        }
    }

    /// Its bytes.
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
    /// All of one, with this user data: its completion answers the request.
    Whole(u64),
    /// A part of the one in this place of the session's request table.
    Part(u16),
}

/// Whether the scheduler counts a command as work of the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Accounting {
    /// It is counted.
    Counted,
    /// Not any more, because its completion has become uncertain.
    Discounted,
}

/// A place's state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// It has no command; the next free place, if there is one.
    Free(u16),
    /// Its command is in flight.
    InFlight(Accounting),
}

#[derive(Clone, Copy, Debug)]
struct Place {
    /// The identifier of its command, or of the last one: the place's number, and above that its generation.
    cid: u16,
    state: State,
    /// Its command, or the last one.
    command: Command,
}

impl Place {
    /// Its command, if that is in flight.
    fn in_flight(&self) -> Option<&Command> {
        matches!(self.state, State::InFlight(_)).then_some(&self.command)
    }
}

/// A table of as many places as commands may be in flight.
#[derive(Debug)]
pub(crate) struct InFlight {
    places: Vec<Place>,
    /// The first free place, or [`NONE`].
    free: u16,
    /// The bits of an identifier that are its place's number.
    index_mask: u16,
}

/// No place: their numbers are smaller.
const NONE: u16 = u16::MAX;

/// A reserved place: with it, submitting the command cannot fail for lack of one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Reserved {
    /// The place: the number of the command's PRP list pages.
    pub index: u16,
    /// The command's identifier.
    pub cid: Cid,
}

impl InFlight {
    /// The most commands a queue pair may have in flight: ten bits of identifier, leaving six for the generation.
    pub(crate) const MAX: u16 = 1024;

    /// A table of `depth` places, at most [`InFlight::MAX`].
    pub(crate) fn new(depth: u16) -> Self {
        let depth = depth.clamp(1, Self::MAX);
        let command = Command { work: Work::new(0, Kind::Other, 0), submitted: 0, request: Served::Whole(0) };
        let place = |cid| Place { cid, state: State::Free(NONE), command };
        let mut table = Self {
            places: (0..depth).map(place).collect(),
            free: NONE,
            index_mask: depth.next_power_of_two().wrapping_sub(1),
        };
        table.set_depth(depth);
        table
    }

    /// Takes a place for `command`, if one is free.
    #[inline(always)]
    pub(crate) fn reserve(&mut self, command: Command) -> Option<Reserved> {
        let index = self.free;
        let place = self.places.get_mut(usize::from(index))?;
        let State::Free(next) = place.state else { return None };
        self.free = next;
        // The next generation; the number below it stays.
        place.cid = place.cid.wrapping_add(self.index_mask.wrapping_add(1));
        (place.state, place.command) = (State::InFlight(Accounting::Counted), command);
        Some(Reserved { index, cid: Cid(place.cid) })
    }

    /// Frees the place; returns its command, and the command's accounting.
    ///
    /// # Errors
    /// [`DeviceFault::UnknownCommand`] when no such command is in flight.
    #[inline(always)]
    pub(crate) fn release(&mut self, cid: Cid) -> Result<(&Command, Accounting), DeviceFault> {
        let index = cid.0 & self.index_mask;
        match self.places.get_mut(usize::from(index)) {
            Some(Place { cid: known, state, command }) if *known == cid.0 => {
                let State::InFlight(accounting) = *state else { return Err(DeviceFault::UnknownCommand(cid.0)) };
                *state = State::Free(self.free);
                self.free = index;
                Ok((command, accounting))
            }
            _ => Err(DeviceFault::UnknownCommand(cid.0)),
        }
    }

    /// Changes the most commands in flight to `depth`, at least 1, and at most the number of places. None is in flight.
    /// Identifiers continue from their generations.
    pub(crate) fn set_depth(&mut self, depth: u16) {
        let Self { places, free, index_mask: _ } = self;
        *free = NONE;
        for (index, place) in (0..depth.max(1)).zip(places).rev() {
            if place.in_flight().is_none() {
                place.state = State::Free(*free);
                *free = index;
            }
        }
    }

    /// Whether a place is free.
    #[inline(always)]
    pub(crate) fn has_room(&self) -> bool {
        self.free != NONE
    }

    /// Takes every command out, after a confirmed reset, as [`InFlight::release`] does.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = (Command, Accounting)> + '_ {
        let Self { places, free, .. } = self;
        places.iter_mut().zip(0u16..).filter_map(|(place, index)| {
            let State::InFlight(accounting) = place.state else { return None };
            place.state = State::Free(*free);
            *free = index;
            Some((place.command, accounting))
        })
    }

    /// Discounts the commands submitted before `then`, and returns them.
    pub(crate) fn discount(&mut self, then: u64) -> impl Iterator<Item = Command> + '_ {
        let late = move |place: &&mut Place| {
            place.state == State::InFlight(Accounting::Counted) && place.command.submitted < then
        };
        self.places.iter_mut().filter(late).map(|place| {
            place.state = State::InFlight(Accounting::Discounted);
            place.command
        })
    }

    /// The identifier of the command that was submitted first.
    pub(crate) fn oldest(&self) -> Option<Cid> {
        let submitted = self.places.iter().filter_map(|place| Some((place.in_flight()?.submitted, Cid(place.cid))));
        submitted.min_by_key(|(submitted, _)| *submitted).map(|(_, cid)| cid)
    }

    /// Whether a command of `session` was submitted before or at `then`.
    pub(crate) fn has_any_of(&self, session: u8, then: u64) -> bool {
        let mut commands = self.places.iter().filter_map(Place::in_flight);
        commands.any(|command| command.work.session() == session && command.submitted <= then)
    }

    /// The commands that the controller has not completed.
    pub(crate) fn waiting(&self) -> Option<Waiting> {
        let commands = || self.places.iter().filter_map(Place::in_flight);
        let since = commands().map(|command| command.submitted).min()?;
        Some(Waiting { since, long: commands().any(|command| command.work.kind() == Kind::Other) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(request: u16) -> Command {
        Command { work: Work::new(0, Kind::Read, 512), request: Served::Part(request), submitted: u64::from(request) }
    }

    #[test]
    fn a_completed_command_gives_its_place_back() {
        let mut table = InFlight::new(2);
        let a = table.reserve(command(1)).unwrap();
        let b = table.reserve(command(2)).unwrap();
        assert_ne!(a.index, b.index);
        assert_eq!(table.reserve(command(3)), None);
        assert_eq!(table.release(a.cid), Ok((&command(1), Accounting::Counted)));
        assert!(table.reserve(command(3)).is_some());
    }

    #[test]
    fn a_stale_completion_of_an_earlier_command_is_distinguished() {
        let mut table = InFlight::new(4);
        let old = table.reserve(command(1)).unwrap();
        table.release(old.cid).unwrap();
        assert_eq!(table.release(old.cid), Err(DeviceFault::UnknownCommand(old.cid.0)));
        let new = table.reserve(command(2)).unwrap();
        assert_eq!(new.index, old.index);
        assert_eq!(table.release(old.cid), Err(DeviceFault::UnknownCommand(old.cid.0)));
        assert_eq!(table.release(new.cid), Ok((&command(2), Accounting::Counted)));
    }

    #[test]
    fn made_up_identifiers_are_faults() {
        let mut table = InFlight::new(3);
        let held = table.reserve(command(1)).unwrap();
        for cid in 0..=u16::MAX {
            if cid != held.cid.0 {
                assert!(table.release(Cid(cid)).is_err());
            }
        }
    }

    #[test]
    fn tables_of_every_depth_name_all_their_places() {
        for depth in [1, 2, 3, 31, 32, 33, 1023, 1024, 5000] {
            let mut table = InFlight::new(depth);
            let reserved: Vec<_> = core::iter::from_fn(|| table.reserve(command(0))).collect();
            assert_eq!(reserved.len(), usize::from(depth.min(InFlight::MAX)));
            for place in reserved {
                table.release(place.cid).unwrap();
            }
        }
    }

    #[test]
    fn a_depth_that_changes_leaves_old_identifiers_old() {
        let mut table = InFlight::new(8);
        let early = table.reserve(command(1)).unwrap();
        table.release(early.cid).unwrap();
        for depth in [1, 8, 3, 20] {
            table.set_depth(depth);
            let all: Vec<_> = core::iter::from_fn(|| table.reserve(command(0))).collect();
            assert_eq!(all.len(), usize::from(depth.min(8)));
            assert!(all.iter().all(|one| one.cid != early.cid));
            assert_eq!(table.release(early.cid), Err(DeviceFault::UnknownCommand(early.cid.0)));
            assert!(all.iter().all(|one| table.release(one.cid).is_ok()));
        }
    }

    #[test]
    fn a_command_is_known_by_its_session_and_its_time() {
        let mut table = InFlight::new(3);
        table.reserve(Command { work: Work::new(1, Kind::Read, 0), ..command(5) }).unwrap();
        table.reserve(Command { work: Work::new(2, Kind::Read, 0), ..command(9) }).unwrap();
        assert!(table.has_any_of(1, 5) && !table.has_any_of(1, 4));
        assert!(!table.has_any_of(2, 8) && !table.has_any_of(3, 9));
    }

    #[test]
    fn what_is_discounted_is_reported_once_and_is_still_in_flight() {
        let mut table = InFlight::new(3);
        let late = table.reserve(command(4)).unwrap();
        table.reserve(command(5)).unwrap();
        let discounted =
            |table: &mut InFlight, then| -> Vec<u64> { table.discount(then).map(|one| one.submitted).collect() };
        assert_eq!(discounted(&mut table, 5), [4]);
        assert_eq!(discounted(&mut table, 5), []);
        assert_eq!(discounted(&mut table, 6), [5]);
        assert_eq!(table.waiting(), Some(Waiting { since: 4, long: false }));
        assert_eq!(table.release(late.cid), Ok((&command(4), Accounting::Discounted)));
        let next = table.reserve(command(6)).unwrap();
        assert_eq!(table.release(next.cid), Ok((&command(6), Accounting::Counted)));
    }

    #[test]
    fn draining_empties_the_table() {
        let mut table = InFlight::new(3);
        table.reserve(command(5)).unwrap();
        table.reserve(command(4)).unwrap();
        assert_eq!(table.waiting(), Some(Waiting { since: 4, long: false }));
        assert_eq!(table.drain().count(), 2);
        assert_eq!(table.waiting(), None);
        assert!((0..3).all(|_| table.reserve(command(1)).is_some()) && !table.has_room());
    }
}
