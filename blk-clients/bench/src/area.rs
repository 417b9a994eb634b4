//! The blocks a load works on: their number, the content that each should have, and the requests that use them now.
//!
//! Counted in units of the configured request size. A unit has the generation of its last write, so the table bounds
//! the area: [`MAX_UNITS`], and [`MAX_FILL_BYTES`] to fill before reading. No write is ever in flight on a unit
//! together with any other request: what a read must bring is then certain.

use crate::stamp::Generator;
use alloc::vec;
use alloc::vec::Vec;
use workload::Pattern;

/// Units with a known generation at most.
pub(crate) const MAX_UNITS: u64 = 16384;
/// Bytes written before the load at most, unless so many requests in flight need more room to keep apart.
pub(crate) const MAX_FILL_BYTES: u64 = 8 << 20;

/// A write uses the unit; other numbers count reads.
const WRITER: u16 = u16::MAX;

/// Random places tried before the first free one is taken.
const TRIES: u32 = 8;

/// Consecutive units.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Units {
    pub(crate) first: u32,
    pub(crate) count: u32,
}

/// A request's effect on its units.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Access {
    Read,
    Write,
}

#[derive(Clone, Copy, Debug)]
struct Unit {
    /// Generation of the last write, finished or failed; generations are never used twice.
    generation: u32,
    /// Whether the unit holds that generation: false before the first write, after a failed one, and after a discard.
    known: bool,
    users: u16,
    /// The last request on it was forbidden.
    forbidden: bool,
}

/// The area.
#[derive(Debug)]
pub(crate) struct Area {
    units: Vec<Unit>,
    cursor: u32,
}

impl Area {
    /// Makes an area of `units` units, none of them written.
    pub(crate) fn new(units: u32) -> Self {
        Self {
            units: vec![Unit { generation: 0, known: false, users: 0, forbidden: false }; units as usize],
            cursor: 0,
        }
    }

    /// Number of units.
    pub(crate) fn len(&self) -> u32 {
        // Made of a u32.
        self.units.len() as u32
    }

    fn run(&self, units: Units) -> Option<&[Unit]> {
        let first = units.first as usize;
        self.units.get(first..first.checked_add(units.count as usize)?)
    }

    fn run_mut(&mut self, units: Units) -> &mut [Unit] {
        let first = units.first as usize;
        let end = first.saturating_add(units.count as usize);
        self.units.get_mut(first..end).unwrap_or_default()
    }

    /// Takes units for a request if no other request conflicts with it.
    pub(crate) fn try_take(&mut self, units: Units, access: Access) -> bool {
        let fits = |unit: &Unit| match access {
            Access::Read => unit.users != WRITER,
            Access::Write => unit.users == 0,
        };
        if !self.run(units).is_some_and(|run| run.iter().all(fits)) {
            return false;
        }
        for unit in self.run_mut(units) {
            unit.users = match access {
                Access::Read => unit.users.saturating_add(1),
                Access::Write => WRITER,
            };
        }
        true
    }

    /// Takes about `count` units in the order of `pattern`, fewer where all of them are in use. `None` when no unit is
    /// free.
    pub(crate) fn take(
        &mut self,
        pattern: Pattern,
        count: u32,
        access: Access,
        generator: &mut Generator,
    ) -> Option<Units> {
        let count = count.clamp(1, self.len());
        match pattern {
            Pattern::Sequential => {
                let count = count.min(self.len().saturating_sub(self.cursor)).max(1);
                let units = Units { first: self.cursor, count };
                if self.try_take(units, access) {
                    self.cursor = units.first.saturating_add(count);
                    if self.cursor >= self.len() {
                        self.cursor = 0;
                    }
                    return Some(units);
                }
            }
            Pattern::Random => {
                let places = u64::from(self.len().saturating_sub(count)).saturating_add(1);
                for _ in 0..TRIES {
                    // Below a number of units: 32 bits.
                    let units = Units { first: generator.below(places) as u32, count };
                    if self.try_take(units, access) {
                        return Some(units);
                    }
                }
            }
        }
        (0..self.len()).map(|first| Units { first, count: 1 }).find(|units| self.try_take(*units, access))
    }

    /// Gives units back.
    pub(crate) fn give_back(&mut self, units: Units, access: Access) {
        for unit in self.run_mut(units) {
            unit.users = match access {
                Access::Read => unit.users.saturating_sub(1),
                Access::Write => 0,
            };
        }
    }

    /// The generation a unit should have; `None` when it is unknown.
    pub(crate) fn generation(&self, unit: u32) -> Option<u32> {
        self.units.get(unit as usize).filter(|unit| unit.known).map(|unit| unit.generation)
    }

    /// The generation of the next write of this unit.
    pub(crate) fn next_generation(&self, unit: u32) -> u32 {
        self.units.get(unit as usize).map_or(0, |unit| unit.generation).wrapping_add(1)
    }

    /// The write of these units is done.
    pub(crate) fn written(&mut self, units: Units) {
        self.count_write(units, true);
    }

    /// The write of these units failed, or they were discarded: their content is unknown.
    pub(crate) fn forget(&mut self, units: Units) {
        self.count_write(units, false);
    }

    /// Whether the last request on one of these units was forbidden.
    pub(crate) fn is_forbidden(&self, units: Units) -> bool {
        self.run(units).is_some_and(|run| run.iter().any(|unit| unit.forbidden))
    }

    /// Records whether a request on these units was forbidden or done.
    pub(crate) fn set_forbidden(&mut self, units: Units, forbidden: bool) {
        for unit in self.run_mut(units) {
            unit.forbidden = forbidden;
        }
    }

    fn count_write(&mut self, units: Units, known: bool) {
        for unit in self.run_mut(units) {
            unit.generation = unit.generation.wrapping_add(1);
            unit.known = known;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sequential_order_begins_again_at_the_end() {
        let mut area = Area::new(5);
        let mut generator = Generator::new(1);
        let firsts = [(); 4].map(|()| {
            let units = area.take(Pattern::Sequential, 2, Access::Read, &mut generator).unwrap();
            (units.first, units.count)
        });
        assert_eq!(firsts, [(0, 2), (2, 2), (4, 1), (0, 2)]);
    }

    #[test]
    fn generations_are_not_used_twice_and_unknown_after_failure() {
        let mut area = Area::new(1);
        let unit = Units { first: 0, count: 1 };
        assert_eq!((area.generation(0), area.next_generation(0)), (None, 1));
        area.written(unit);
        assert_eq!((area.generation(0), area.next_generation(0)), (Some(1), 2));
        area.forget(unit);
        assert_eq!((area.generation(0), area.next_generation(0)), (None, 3));
    }

    #[test]
    fn full_area_gives_nothing() {
        let mut area = Area::new(2);
        let mut generator = Generator::new(1);
        for _ in 0..2 {
            assert!(area.take(Pattern::Random, 1, Access::Write, &mut generator).is_some());
        }
        assert_eq!(area.take(Pattern::Random, 1, Access::Write, &mut generator), None);
        assert_eq!(area.take(Pattern::Random, 1, Access::Read, &mut generator), None);
    }

    proptest! {
        #[test]
        fn writer_is_always_alone(steps in prop::collection::vec((any::<bool>(), 1u32..5, any::<bool>()), 1..200)) {
            let mut area = Area::new(16);
            let mut generator = Generator::new(3);
            let mut held: Vec<(Units, Access)> = vec![];
            for (write, count, give_back) in steps {
                let access = if write { Access::Write } else { Access::Read };
                if let Some(units) = area.take(Pattern::Random, count, access, &mut generator) {
                    for (other, other_access) in &held {
                        let apart = units.first + units.count <= other.first || other.first + other.count <= units.first;
                        prop_assert!(apart || (access == Access::Read && *other_access == Access::Read));
                    }
                    held.push((units, access));
                }
                if give_back && !held.is_empty() {
                    let (units, access) = held.remove(0);
                    area.give_back(units, access);
                }
            }
        }
    }
}
