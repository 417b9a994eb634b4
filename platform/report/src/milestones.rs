//! Milestones and moments, by which a scenario's events follow what has happened and not the clock.
//!
//! A component counts its milestones in the first page of its log ring, behind the ring's indices. A supervisor with fault
//! injection reads them there. Once all has happened that a moment of the scenario needs, it announces the moment in the same
//! page of every component. Kills, changes of rights, and the begin and end of loads wait for moments. Left out: the needs of
//! a moment (`capdl_spec::Moment`).
//!
//! Counts are claims of a component about itself, and a component can write any moment into its own page. Neither gives it a
//! right: the root task of a product has no code for them.

use crate::names;
use alloc::rc::Rc;
use core::cell::Cell;
use platform::{Environment, Memory, OutOfBounds, PAGE_SIZE, Platform};

/// Offset of the counts, one word each.
const COUNTS: usize = 128;
/// Offset of the words of bits, one for each moment that has come.
const MOMENTS: usize = PAGE_SIZE / 2;
/// The most moments of a run.
pub const MOST_MOMENTS: u16 = 1024;

/// An event of a client's work that is counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Milestone {
    /// The client is open and prepared, and begins once its moment has come.
    Ready,
    /// A verified transfer; without verification, a transfer.
    Verified,
    /// A write that was acknowledged.
    Written,
    /// A request that was refused because its right was taken.
    Forbidden,
    /// A request that was done after it had been forbidden.
    AllowedAgain,
    /// An attack that was reported.
    Attacks,
    /// A session that was opened again after the server's death.
    Reconnected,
    /// The end of the work.
    Finished,
}

impl Milestone {
    /// All milestones.
    pub const ALL: [Self; 8] = [
        Self::Ready,
        Self::Verified,
        Self::Written,
        Self::Forbidden,
        Self::AllowedAgain,
        Self::Attacks,
        Self::Reconnected,
        Self::Finished,
    ];

    /// The milestone's number in a specification.
    #[must_use]
    pub const fn number(self) -> u8 {
        self as u8
    }
}

/// The offset of a count.
fn place(number: u8) -> Result<usize, OutOfBounds> {
    if usize::from(number) < Milestone::ALL.len() {
        Ok(usize::from(number).wrapping_mul(4).wrapping_add(COUNTS))
    } else {
        Err(OutOfBounds)
    }
}

/// The offset in the page of a moment's word, and its bit in it.
///
/// # Errors
/// [`OutOfBounds`] for a moment of number [`MOST_MOMENTS`] or more.
pub fn bit_of(moment: u16) -> Result<(usize, u32), OutOfBounds> {
    if moment >= MOST_MOMENTS {
        return Err(OutOfBounds);
    }
    let offset = usize::from(moment / 32).wrapping_mul(4).wrapping_add(MOMENTS);
    Ok((offset, 1 << (moment % 32)))
}

/// A component's side: its own counts, and the moments that have come. Clones share the counts.
#[derive(Clone, Debug)]
pub struct Milestones<M> {
    page: Option<M>,
    counts: Rc<[Cell<u32>; Milestone::ALL.len()]>,
}

impl<M: Memory> Milestones<M> {
    /// The milestones of the component with this environment, none reached. Without a log ring nothing is counted, and no moment
    /// comes.
    #[must_use]
    pub fn of<P: Platform<Memory = M>>(platform: &P, environment: &Environment) -> Self {
        let ring = environment.region(names::LOG);
        Self::new(ring.and_then(|ring| platform.memory(&ring.part(0, PAGE_SIZE as u64)?).ok()))
    }

    fn new(page: Option<M>) -> Self {
        Self { page, counts: Rc::default() }
    }

    /// Counts a milestone.
    pub fn count(&self, milestone: Milestone) {
        let (Some(page), Some(count)) = (&self.page, self.counts.get(usize::from(milestone.number()))) else { return };
        count.set(count.get().saturating_add(1));
        // The page has room for all of them, and a component's log ring is writable.
        let _ = place(milestone.number()).and_then(|offset| page.store_release_u32(offset, count.get()));
    }

    /// Whether the moment has come.
    #[must_use]
    pub fn has_come(&self, moment: u16) -> bool {
        self.page.as_ref().is_some_and(|page| has_come(page, moment).unwrap_or(false))
    }
}

fn has_come(page: &impl Memory, moment: u16) -> Result<bool, OutOfBounds> {
    let (offset, bit) = bit_of(moment)?;
    Ok(page.load_acquire_u32(offset)? & bit != 0)
}

/// The supervisor's side: the first page of a component's log ring.
#[derive(Debug)]
pub struct Watched<M>(M);

impl<M: Memory> Watched<M> {
    /// The page.
    pub const fn new(page: M) -> Self {
        Self(page)
    }

    /// The component's count of the milestone with this number.
    ///
    /// # Errors
    /// [`OutOfBounds`] for a number that no milestone has.
    pub fn count(&self, number: u8) -> Result<u32, OutOfBounds> {
        self.0.load_acquire_u32(place(number)?)
    }

    /// Forgets the counts of an incarnation that has ended.
    pub fn forget(&self) {
        for milestone in Milestone::ALL {
            // The page has room for all of them.
            let _ = place(milestone.number()).and_then(|offset| self.0.store_release_u32(offset, 0));
        }
    }

    /// Announces a moment, which stays announced.
    ///
    /// # Errors
    /// [`OutOfBounds`] for a moment of number [`MOST_MOMENTS`] or more.
    pub fn announce(&self, moment: u16) -> Result<(), OutOfBounds> {
        let (offset, bit) = bit_of(moment)?;
        let before = self.0.load_acquire_u32(offset)?;
        self.0.store_release_u32(offset, before | bit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ring;
    use platform::fake::Ram;

    #[test]
    fn counts_are_read_by_the_supervisor() {
        let page = Ram::new(PAGE_SIZE);
        let (own, watched) = (Milestones::new(Some(page.clone())), Watched::new(page));
        for (times, milestone) in (1..).zip(Milestone::ALL) {
            (0..times).for_each(|_| own.clone().count(milestone));
        }
        for (times, milestone) in (1..).zip(Milestone::ALL) {
            assert_eq!(watched.count(milestone.number()), Ok(times), "{milestone:?}");
        }
        assert_eq!(watched.count(8), Err(OutOfBounds));
        watched.announce(0).unwrap();
        watched.forget();
        assert!(Milestone::ALL.iter().all(|milestone| watched.count(milestone.number()) == Ok(0)) && own.has_come(0));
    }

    #[test]
    fn moment_that_was_announced_has_come_and_no_other() {
        let page = Ram::new(PAGE_SIZE);
        let (own, watched) = (Milestones::new(Some(page.clone())), Watched::new(page));
        for moment in [0, 31, 32, MOST_MOMENTS - 1] {
            watched.announce(moment).unwrap();
        }
        let come: alloc::vec::Vec<u16> = (0..=u16::MAX).filter(|moment| own.has_come(*moment)).collect();
        assert_eq!(come, [0, 31, 32, MOST_MOMENTS - 1]);
        assert_eq!(watched.announce(MOST_MOMENTS), Err(OutOfBounds));
    }

    #[test]
    fn milestones_and_records_leave_each_other_alone() {
        let memory = Ram::new(ring::region_bytes(4096) as usize);
        let mut producer = ring::Producer::new(memory.clone()).unwrap();
        let (own, watched) = (Milestones::new(Some(memory.clone())), Watched::new(memory.clone()));
        for moment in 0..MOST_MOMENTS {
            own.count(Milestone::Verified);
            watched.announce(moment).unwrap();
            producer.push(ring::Kind::Log, &[0xff; 300]).unwrap();
        }
        assert_eq!(watched.count(Milestone::Verified.number()), Ok(MOST_MOMENTS.into()));
        let mut consumer = ring::Consumer::new(memory).unwrap();
        assert_eq!(consumer.pop(&mut [0; ring::MAX_RECORD]), Some((ring::Kind::Log, 300)));
    }

    #[test]
    fn component_without_a_ring_counts_nothing_and_waits() {
        let own = Milestones::<Ram>::new(None);
        own.count(Milestone::Finished);
        assert!(!own.has_come(0));
    }
}
