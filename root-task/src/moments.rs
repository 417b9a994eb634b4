//! The moments of a run, which kills, changes and loads wait for: decides which have come, and announces them.
//!
//! A moment needs milestones that components count in the first pages of their log rings (`report::milestones`), and deaths and
//! restarts that the supervisor counts. A restarted component counts from the beginning again. Milestones beside a restart of the
//! same component are those of the later incarnation. Something that has happened once stays so. An announced moment is written
//! into the same page of every component. Left out: the kill orders that wait for moments (`injection`).

use crate::error::BuildError;
use crate::state::Build;
use crate::thread::{State, Thread};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::rc::Rc;
use alloc::vec::Vec;
use capdl_spec::{Counted, Need, ObjectKind, Specification};
use platform::{Platform, Rights};
use report::milestones::Watched;

/// A moment that has not come.
struct Pending {
    /// Number of the moment in the specification.
    moment: u16,
    /// What has not happened yet.
    needs: Vec<Need>,
    /// Microseconds from all that to the moment.
    after_us: u64,
    /// The time at which it is due, once all has happened: microseconds after the components were started.
    at_us: Option<u64>,
}

/// The moments of a specification.
pub(crate) struct Moments<P: Platform> {
    /// By component, the first page of its log ring.
    pages: BTreeMap<u16, Watched<P::Memory>>,
    /// By component, the restarts after which its counts were forgotten.
    restarts: BTreeMap<u16, u16>,
    pending: Vec<Pending>,
    come: BTreeSet<u16>,
}

impl<P: Platform> Moments<P> {
    /// All moments of the specification, none of which has come. Maps the pages, if there are any, from this place of the mapping
    /// area on.
    pub(crate) fn new(build: &mut Build<P>, first_place: u64) -> Result<Self, BuildError> {
        let specification = Rc::clone(&build.specification);
        let pending = specification.moments.iter().zip(0u16..).map(|(moment, number)| Pending {
            moment: number,
            needs: moment.needs.clone(),
            after_us: moment.after_us,
            at_us: None,
        });
        let mut moments = Self {
            pages: BTreeMap::new(),
            restarts: BTreeMap::new(),
            pending: pending.collect(),
            come: BTreeSet::new(),
        };
        if moments.are_pending() {
            let rings =
                specification.components.iter().filter_map(|one| Some((one.id, log_ring(&specification, &one.name)?)));
            for ((component, ring), place) in rings.zip(first_place..) {
                moments.pages.insert(component, Watched::new(build.map_page(ring, place, Rights::READ_WRITE)?));
            }
        }
        Ok(moments)
    }

    /// Whether some are still to come.
    pub(crate) fn are_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Whether the moment of this number has come.
    pub(crate) fn has_come(&self, moment: u16) -> bool {
        self.come.contains(&moment)
    }

    /// The times of those that now only time separates from, microseconds after the components were started.
    pub(crate) fn times_us(&self) -> impl Iterator<Item = u64> {
        self.pending.iter().filter_map(|pending| pending.at_us)
    }

    /// Announces the moments that have come after so many microseconds. Returns whether there is one.
    pub(crate) fn announce(&mut self, elapsed_us: u64, threads: &[Thread]) -> bool {
        let Self { pages, pending, come, .. } = self;
        let before = pending.len();
        pending.retain_mut(|pending| {
            // Restarts first: a milestone of the same component is then one of the later incarnation.
            for of_client in [false, true] {
                let waiting: BTreeSet<u16> = of_supervisor(&pending.needs).map(|need| need.component).collect();
                pending.needs.retain(|need| {
                    let is_now = is_milestone(need) == of_client && (!of_client || !waiting.contains(&need.component));
                    !(is_now && has_happened(need, threads, pages))
                });
            }
            if pending.needs.is_empty() {
                pending.at_us.get_or_insert(elapsed_us.saturating_add(pending.after_us));
            }
            let has_come = pending.at_us.is_some_and(|at_us| at_us <= elapsed_us);
            if has_come {
                come.insert(pending.moment);
                for page in pages.values() {
                    // The specification's moments fit the page, or it is refused.
                    let _ = page.announce(pending.moment);
                }
            }
            !has_come
        });
        pending.len() < before
    }
}

impl<P: Platform> Moments<P> {
    /// Forgets the counts of incarnations that have ended. The next one has not run yet: this is called after each event.
    pub(crate) fn forget_ended(&mut self, threads: &[Thread]) {
        for thread in threads {
            let times = thread.restarts.times();
            if self.restarts.insert(thread.id, times).is_some_and(|before| before != times)
                && let Some(page) = self.pages.get(&thread.id)
            {
                page.forget();
            }
        }
    }
}

const fn is_milestone(need: &Need) -> bool {
    matches!(need.counted, Counted::Milestone(_))
}

/// Needs that the supervisor counts.
fn of_supervisor(needs: &[Need]) -> impl Iterator<Item = &Need> {
    needs.iter().filter(|need| !is_milestone(need))
}

/// The frames that are the component's log ring.
fn log_ring(specification: &Specification, component: &str) -> Option<u32> {
    let is_its = |name: &str| name.strip_suffix(".log") == Some(component);
    let mut numbered = specification.objects.iter().zip(0u32..);
    numbered.find_map(|(one, id)| (one.kind == ObjectKind::SmallFrame && is_its(&one.name)).then_some(id))
}

fn has_happened<M: platform::Memory>(need: &Need, threads: &[Thread], pages: &BTreeMap<u16, Watched<M>>) -> bool {
    let Some(thread) = threads.iter().find(|thread| thread.id == need.component) else { return false };
    let restarts = u32::from(thread.restarts.times());
    let times = match need.counted {
        // The page is mapped, and a number that no milestone has is never reached.
        Counted::Milestone(number) => pages.get(&need.component).and_then(|page| page.count(number).ok()).unwrap_or(0),
        Counted::Deaths => restarts.saturating_add((thread.state != State::Alive).into()),
        Counted::Restarts => restarts,
    };
    times >= need.at_least
}
