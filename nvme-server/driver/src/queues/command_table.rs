//! The commands a queue pair has in flight, and their identifiers.
//!
//! A command identifier names a place in this table and the place's generation, so a late completion of an earlier command
//! is distinguished from that of the present one. It is independent of the SQ's slot. A driver keeps with each command `C`
//! what it needs at the completion, and a tag `T` that may change while the command is in flight.

use crate::fault::DeviceFault;
use alloc::vec::Vec;
use nvme_spec::Cid;

/// A place of the table. What it is and whose is one number, so a completion is checked by one comparison.
#[derive(Clone, Copy, Debug)]
struct Place<C, T> {
    /// The identifier of its command, or of the last one with [`FREE`] above: the place's number, and above that its generation.
    key: u32,
    /// The next free place, or [`NONE`], while it is free.
    next: u16,
    /// Its command's tag, or the last one.
    tag: T,
    /// Its command, or the last one.
    command: C,
}

/// Bit of a free place's key: above all identifiers, so that no completion matches.
const FREE: u32 = 1 << 16;

impl<C, T> Place<C, T> {
    #[inline(always)]
    const fn is_free(&self) -> bool {
        self.key & FREE != 0
    }

    /// The identifier of its command, if that is in flight.
    fn in_flight(&self) -> Option<Cid> {
        u16::try_from(self.key).ok().map(Cid)
    }
}

/// A table of as many places as commands may be in flight.
#[derive(Debug)]
pub struct CommandTable<C, T> {
    places: Vec<Place<C, T>>,
    /// The first free place, or [`NONE`].
    free: u16,
    /// The bits of an identifier that are its place's number.
    index_mask: u16,
    /// The lowest bit of an identifier above these: one generation.
    generation: u16,
}

/// The most commands a queue pair may have in flight: eleven bits of identifier, leaving five for the generation.
pub const MOST_IN_FLIGHT: u16 = 1024;

/// No place: their numbers are smaller.
const NONE: u16 = u16::MAX;

/// A reserved place: with it, submitting the command cannot fail for lack of one. It is spent by the submission, or taken back.
#[derive(PartialEq, Eq, Debug)]
#[must_use = "a place that is not spent is lost"]
pub struct Reserved {
    /// The place: the number of the command's PRP list pages.
    pub index: u16,
    /// The command's identifier.
    pub cid: Cid,
}

impl Reserved {
    /// Spends the reservation: the command with this identifier was submitted, or is released.
    #[inline(always)]
    pub fn spend(self) -> Cid {
        self.cid
    }
}

impl<C: Copy, T: Copy> CommandTable<C, T> {
    /// Bytes of the heap for each place.
    pub const PLACE_BYTES: usize = size_of::<Place<C, T>>();

    /// Creates a table of `depth` places, at most [`MOST_IN_FLIGHT`]. `command` and `tag` stand in places that never had any.
    pub fn new(depth: u16, (command, tag): (C, T)) -> Self {
        let depth = depth.clamp(1, MOST_IN_FLIGHT);
        let place = |index| Place { key: u32::from(index) | FREE, next: NONE, tag, command };
        // More than `depth`, so that no place's number is all ones, and no identifier `Cid::NONE`.
        let generation = depth.saturating_add(1).next_power_of_two();
        let mut table = Self {
            places: (0..depth).map(place).collect(),
            free: NONE,
            index_mask: generation.wrapping_sub(1),
            generation,
        };
        table.set_depth(depth);
        table
    }

    /// Takes a place for `command`, if one is free.
    #[inline(always)]
    pub fn reserve(&mut self, command: C, tag: T) -> Option<Reserved> {
        let index = self.free;
        let place = self.places.get_mut(usize::from(index))?;
        self.free = place.next;
        // The next generation; the number below it stays.
        let cid = (place.key as u16).wrapping_add(self.generation);
        (place.key, place.tag, place.command) = (u32::from(cid), tag, command);
        Some(Reserved { index, cid: Cid(cid) })
    }

    /// The number of the place that an identifier names.
    #[inline(always)]
    pub const fn place(&self, cid: Cid) -> u16 {
        cid.0 & self.index_mask
    }

    /// Frees the place; returns its command and the command's tag.
    ///
    /// # Errors
    /// [`DeviceFault::UnknownCommand`] when no such command is in flight.
    #[inline(always)]
    pub fn complete(&mut self, cid: Cid) -> Result<(&C, T), DeviceFault> {
        let index = self.place(cid);
        match self.places.get_mut(usize::from(index)) {
            Some(place) if place.key == u32::from(cid.0) => {
                place.key = u32::from(cid.0) | FREE;
                place.next = self.free;
                self.free = index;
                Ok((&place.command, place.tag))
            }
            _ => Err(DeviceFault::UnknownCommand(cid.0)),
        }
    }

    /// Changes the most commands in flight to `depth`, at least 1, and at most the number of places. None is in flight.
    /// Identifiers continue from their generations.
    pub fn set_depth(&mut self, depth: u16) {
        let Self { places, free, index_mask: _, generation: _ } = self;
        *free = NONE;
        for (index, place) in (0..depth.max(1)).zip(places).rev() {
            if place.is_free() {
                place.next = *free;
                *free = index;
            }
        }
    }

    /// Whether a place is free.
    #[inline(always)]
    pub fn has_room(&self) -> bool {
        self.free != NONE
    }

    /// Takes every command out, after a confirmed reset, as [`CommandTable::complete`] does.
    pub fn take_all(&mut self) -> impl Iterator<Item = (C, T)> + '_ {
        let Self { places, free, .. } = self;
        places.iter_mut().zip(0u16..).filter_map(|(place, index)| {
            if place.is_free() {
                return None;
            }
            place.key |= FREE;
            place.next = *free;
            *free = index;
            Some((place.command, place.tag))
        })
    }

    /// The commands in flight, with their identifiers.
    pub fn in_flight(&self) -> impl Iterator<Item = (Cid, &C)> {
        self.places.iter().filter_map(|place| Some((place.in_flight()?, &place.command)))
    }

    /// The commands in flight, with their tags.
    pub fn tags_mut(&mut self) -> impl Iterator<Item = (&C, &mut T)> {
        let in_flight = self.places.iter_mut().filter(|place| !place.is_free());
        in_flight.map(|place| (&place.command, &mut place.tag))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Table = CommandTable<u16, char>;

    fn table(depth: u16) -> Table {
        Table::new(depth, (0, ' '))
    }

    #[test]
    fn a_completed_command_gives_its_place_back() {
        let mut table = table(2);
        let a = table.reserve(1, 'a').unwrap();
        let b = table.reserve(2, 'b').unwrap();
        assert_ne!(a.index, b.index);
        assert_eq!(table.reserve(3, 'c'), None);
        assert_eq!(table.complete(a.cid), Ok((&1, 'a')));
        assert!(table.reserve(3, 'c').is_some());
    }

    #[test]
    fn a_stale_completion_of_an_earlier_command_is_distinguished() {
        let mut table = table(4);
        let old = table.reserve(1, 'a').unwrap();
        table.complete(old.cid).unwrap();
        assert_eq!(table.complete(old.cid), Err(DeviceFault::UnknownCommand(old.cid.0)));
        let new = table.reserve(2, 'b').unwrap();
        assert_eq!(new.index, old.index);
        assert_eq!(table.complete(old.cid), Err(DeviceFault::UnknownCommand(old.cid.0)));
        assert_eq!(table.complete(new.cid), Ok((&2, 'b')));
    }

    #[test]
    fn no_identifier_is_the_one_of_no_command() {
        for depth in [1, 2, 3, 8, 64, 1023, 1024] {
            let mut table = table(depth);
            let mut named = std::collections::BTreeSet::new();
            for _ in 0..=u16::MAX {
                let cid = table.reserve(0, 'a').unwrap().cid;
                assert_ne!(cid, Cid::NONE, "depth {depth}");
                named.insert(cid.0);
                table.complete(cid).unwrap();
            }
            assert!(named.len() > 31, "{} identifiers of one place", named.len());
            let all: Vec<_> = core::iter::from_fn(|| table.reserve(0, 'a')).collect();
            assert!(all.iter().all(|one| one.cid != Cid::NONE) && all.len() == usize::from(depth));
        }
        // The last place of a full table, through all generations.
        let mut table = table(64);
        let mut last = core::iter::from_fn(|| table.reserve(0, 'a')).last().unwrap();
        for _ in 0..=u16::MAX {
            assert_ne!(last.cid, Cid::NONE);
            table.complete(last.cid).unwrap();
            last = table.reserve(0, 'a').unwrap();
        }
    }

    #[test]
    fn made_up_identifiers_are_faults() {
        let mut table = table(3);
        let held = table.reserve(1, 'a').unwrap();
        for cid in 0..=u16::MAX {
            if cid != held.cid.0 {
                assert!(table.complete(Cid(cid)).is_err());
            }
        }
    }

    #[test]
    fn tables_of_every_depth_name_all_their_places() {
        for depth in [1, 2, 3, 31, 32, 33, 1023, 1024, 5000] {
            let mut table = table(depth);
            let reserved: Vec<_> = core::iter::from_fn(|| table.reserve(0, 'a')).collect();
            assert_eq!(reserved.len(), usize::from(depth.min(MOST_IN_FLIGHT)));
            for place in reserved {
                table.complete(place.cid).unwrap();
            }
        }
    }

    #[test]
    fn a_depth_that_changes_leaves_old_identifiers_old() {
        let mut table = table(8);
        let early = table.reserve(1, 'a').unwrap();
        table.complete(early.cid).unwrap();
        for depth in [1, 8, 3, 20] {
            table.set_depth(depth);
            let all: Vec<_> = core::iter::from_fn(|| table.reserve(0, 'a')).collect();
            assert_eq!(all.len(), usize::from(depth.min(8)));
            assert!(all.iter().all(|one| one.cid != early.cid));
            assert_eq!(table.complete(early.cid), Err(DeviceFault::UnknownCommand(early.cid.0)));
            assert!(all.iter().all(|one| table.complete(one.cid).is_ok()));
        }
    }

    #[test]
    fn a_changed_tag_is_released_with_its_command() {
        let mut table = table(3);
        let late = table.reserve(4, 'a').unwrap();
        table.reserve(5, 'a').unwrap().spend();
        table.tags_mut().filter(|(command, _)| **command == 4).for_each(|(_, tag)| *tag = 'z');
        assert_eq!(table.complete(late.cid), Ok((&4, 'z')));
        let next = table.reserve(6, 'b').unwrap();
        assert_eq!(table.complete(next.cid), Ok((&6, 'b')));
    }

    #[test]
    fn draining_empties_the_table() {
        let mut table = table(3);
        table.reserve(5, 'a').unwrap().spend();
        table.reserve(4, 'b').unwrap().spend();
        assert_eq!(table.in_flight().map(|(_, command)| *command).collect::<Vec<_>>(), [5, 4]);
        assert_eq!(table.take_all().count(), 2);
        assert_eq!(table.in_flight().count(), 0);
        assert!((0..3).all(|_| table.reserve(1, 'c').is_some()) && !table.has_room());
    }
}
