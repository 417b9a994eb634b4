//! The commands a queue pair has in flight.
//!
//! A command identifier names a place in this table and the table's word on how often that place was used: a late
//! completion of an earlier command is told from that of the present one. It has nothing to do with the SQ's slot. The
//! table is what holds a client's memory for the device: until a command is released, its window stays mapped.

use crate::fault::DeviceFault;
use crate::patience::Waiting;
use alloc::vec::Vec;
use nvme_spec::Cid;
use scheduler::Kind;

/// What is known of a command in flight.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Command {
    /// The session it is of.
    pub session: u8,
    /// The request it is part of: its place in the session's request table.
    pub request: u16,
    /// Bytes that it moves, or of the blocks that it names without moving them; 0 for a flush.
    pub bytes: u32,
    /// What it does with them.
    pub kind: Kind,
    /// When it was given, in ticks.
    pub submitted: u64,
}

/// Whether the scheduler counts a command among what the device has to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Books {
    /// It does.
    Counted,
    /// Not any more: nobody knows whether it comes back.
    WrittenOff,
}

#[derive(Clone, Copy, Debug)]
struct Place {
    /// The identifier of its command, or of the last one: the place's number, and above that its generation.
    cid: u16,
    books: Books,
    command: Option<Command>,
}

/// A table of as many places as commands may be in flight.
#[derive(Debug)]
pub(crate) struct InFlight {
    places: Vec<Place>,
    free: Vec<u16>,
    /// The bits of an identifier that are its place's number.
    index_mask: u16,
}

/// A reserved place: from here on giving the command cannot fail for want of one.
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
        Self {
            places: (0..depth).map(|index| Place { cid: index, books: Books::Counted, command: None }).collect(),
            free: (0..depth).rev().collect(),
            index_mask: depth.next_power_of_two().wrapping_sub(1),
        }
    }

    /// Takes a place for `command`, if one is free.
    #[inline(always)]
    pub(crate) fn reserve(&mut self, command: Command) -> Option<Reserved> {
        let index = self.free.pop()?;
        let place = self.places.get_mut(usize::from(index))?;
        // The next generation; the number below it stays.
        place.cid = place.cid.wrapping_add(self.index_mask.wrapping_add(1));
        (place.books, place.command) = (Books::Counted, Some(command));
        Some(Reserved { index, cid: Cid(place.cid) })
    }

    /// Gives the place back and says what command it was, and how it stood in the books.
    ///
    /// # Errors
    /// [`DeviceFault::UnknownCommand`] when no such command is in flight.
    #[inline(always)]
    pub(crate) fn release(&mut self, cid: Cid) -> Result<(Command, Books), DeviceFault> {
        let index = cid.0 & self.index_mask;
        let place = self.places.get_mut(usize::from(index)).filter(|place| place.cid == cid.0);
        let released = place.and_then(|place| Some((place.command.take()?, place.books)));
        let released = released.ok_or(DeviceFault::UnknownCommand(cid.0))?;
        self.free.push(index);
        Ok(released)
    }

    /// Lets so many commands be in flight from now on, at least 1, and at most as many as there are places. None is at the
    /// moment. Identifiers go on where they were.
    pub(crate) fn set_depth(&mut self, depth: u16) {
        let Self { places, free, index_mask: _ } = self;
        free.clear();
        free.extend((0..depth.max(1)).zip(places).filter(|(_, place)| place.command.is_none()).map(|(index, _)| index));
        free.reverse();
    }

    /// Whether a place is free.
    #[inline(always)]
    pub(crate) fn has_room(&self) -> bool {
        !self.free.is_empty()
    }

    /// Takes every command out, after a confirmed reset, as [`InFlight::release`] does.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = (Command, Books)> + '_ {
        let Self { places, free, .. } = self;
        places.iter_mut().zip(0u16..).filter_map(|(place, index)| {
            let command = place.command.take()?;
            free.push(index);
            Some((command, place.books))
        })
    }

    /// Writes off what was given before `then`, and tells what that is.
    pub(crate) fn write_off(&mut self, then: u64) -> impl Iterator<Item = Command> + '_ {
        self.places.iter_mut().filter_map(move |place| {
            let command = place.command.filter(|command| command.submitted < then)?;
            (core::mem::replace(&mut place.books, Books::WrittenOff) == Books::Counted).then_some(command)
        })
    }

    /// The identifier of the command that was given first.
    pub(crate) fn oldest(&self) -> Option<Cid> {
        let given = self.places.iter().filter_map(|place| Some((place.command.as_ref()?.submitted, Cid(place.cid))));
        given.min_by_key(|(submitted, _)| *submitted).map(|(_, cid)| cid)
    }

    /// Whether a command of `session` was given before or at `then`.
    pub(crate) fn has_any_of(&self, session: u8, then: u64) -> bool {
        let mut commands = self.places.iter().filter_map(|place| place.command.as_ref());
        commands.any(|command| command.session == session && command.submitted <= then)
    }

    /// What the controller owes answers for.
    pub(crate) fn waiting(&self) -> Option<Waiting> {
        let commands = || self.places.iter().filter_map(|place| place.command.as_ref());
        let since = commands().map(|command| command.submitted).min()?;
        Some(Waiting { since, long: commands().any(|command| command.kind == Kind::Other) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(request: u16) -> Command {
        Command { session: 0, request, bytes: 512, kind: Kind::Read, submitted: u64::from(request) }
    }

    #[test]
    fn a_completed_command_gives_its_place_back() {
        let mut table = InFlight::new(2);
        let a = table.reserve(command(1)).unwrap();
        let b = table.reserve(command(2)).unwrap();
        assert_ne!(a.index, b.index);
        assert_eq!(table.reserve(command(3)), None);
        assert_eq!(table.release(a.cid), Ok((command(1), Books::Counted)));
        assert!(table.reserve(command(3)).is_some());
    }

    #[test]
    fn a_stale_completion_of_an_earlier_command_is_told_apart() {
        let mut table = InFlight::new(4);
        let old = table.reserve(command(1)).unwrap();
        table.release(old.cid).unwrap();
        assert_eq!(table.release(old.cid), Err(DeviceFault::UnknownCommand(old.cid.0)));
        let new = table.reserve(command(2)).unwrap();
        assert_eq!(new.index, old.index);
        assert_eq!(table.release(old.cid), Err(DeviceFault::UnknownCommand(old.cid.0)));
        assert_eq!(table.release(new.cid), Ok((command(2), Books::Counted)));
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
        table.reserve(Command { session: 1, ..command(5) }).unwrap();
        table.reserve(Command { session: 2, ..command(9) }).unwrap();
        assert!(table.has_any_of(1, 5) && !table.has_any_of(1, 4));
        assert!(!table.has_any_of(2, 8) && !table.has_any_of(3, 9));
    }

    #[test]
    fn what_is_written_off_is_told_once_and_is_still_in_flight() {
        let mut table = InFlight::new(3);
        let late = table.reserve(command(4)).unwrap();
        table.reserve(command(5)).unwrap();
        let written_off =
            |table: &mut InFlight, then| -> Vec<u16> { table.write_off(then).map(|one| one.request).collect() };
        assert_eq!(written_off(&mut table, 5), [4]);
        assert_eq!(written_off(&mut table, 5), []);
        assert_eq!(written_off(&mut table, 6), [5]);
        assert_eq!(table.waiting(), Some(Waiting { since: 4, long: false }));
        assert_eq!(table.release(late.cid), Ok((command(4), Books::WrittenOff)));
        let next = table.reserve(command(6)).unwrap();
        assert_eq!(table.release(next.cid), Ok((command(6), Books::Counted)));
    }

    #[test]
    fn draining_empties_the_table() {
        let mut table = InFlight::new(3);
        table.reserve(command(5)).unwrap();
        table.reserve(command(4)).unwrap();
        assert_eq!(table.waiting(), Some(Waiting { since: 4, long: false }));
        assert_eq!(table.drain().count(), 2);
        assert_eq!((table.waiting(), table.free.len()), (None, 3));
    }
}
