//! The moments of a scenario as the specification has them, with their numbers.
//!
//! Named moments come first, then one for each change of a tenant, of a controller, and for each kill, all in the order of the
//! scenario. A policy component and a client get the number of a moment before its components have theirs.

use crate::check::declaration::{Moment, Need};
use crate::scenario::{Change, Controller, ControllerChange, Mark, Scenario, When};

/// The numbers of a scenario's moments.
pub(super) struct Numbering<'a> {
    scenario: &'a Scenario,
}

impl<'a> Numbering<'a> {
    /// The numbers of the scenario's moments.
    pub(super) const fn new(scenario: &'a Scenario) -> Self {
        Self { scenario }
    }

    /// The number of the moment of this name.
    pub(super) fn named(&self, name: &str) -> Option<u16> {
        self.scenario.moments.iter().zip(0..).find_map(|(moment, number)| (moment.name == name).then_some(number))
    }

    /// The changes of tenants, with the numbers of their moments.
    pub(super) fn changes(&self) -> impl Iterator<Item = (&'a Change, u16)> {
        self.scenario.changes.iter().zip(self.scenario.moments.len() as u16..)
    }

    /// The changes of a controller, likewise.
    pub(super) fn of_controller(&self, controller: &Controller) -> impl Iterator<Item = (&'a ControllerChange, u16)> {
        let before = self.scenario.controllers.iter().take_while(|one| one.name != controller.name);
        let first = self.first_of_controllers() + before.map(|one| one.changes.len()).sum::<usize>();
        let own = self.scenario.controllers.iter().find(|one| one.name == controller.name);
        own.into_iter().flat_map(|one| &one.changes).zip(first as u16..)
    }

    /// The number of the first kill's moment; those of the others follow.
    pub(super) fn first_of_kills(&self) -> u16 {
        let of_controllers = self.scenario.controllers.iter().map(|one| one.changes.len()).sum::<usize>();
        (self.first_of_controllers() + of_controllers) as u16
    }

    const fn first_of_controllers(&self) -> usize {
        self.scenario.moments.len() + self.scenario.changes.len()
    }

    /// All moments, by their numbers.
    pub(super) fn all(&self) -> Vec<Moment> {
        let Scenario { moments, changes, controllers, kills, .. } = self.scenario;
        let named = moments.iter().map(|moment| When { at: Some(moment.name.clone()), after_ms: 0 });
        let of_changes = changes.iter().map(|change| change.when.clone());
        let of_controllers = controllers.iter().flat_map(|one| &one.changes).map(|change| change.when.clone());
        let at_once = named.chain(of_changes).chain(of_controllers).map(|when| (when, 0));
        let of_kills = kills.iter().map(|kill| (kill.when.clone(), kill.drawn_us));
        at_once.chain(of_kills).map(|(when, drawn_us)| self.moment(&when, drawn_us)).collect()
    }

    fn moment(&self, when: &When, drawn_us: u32) -> Moment {
        let named = self.scenario.moments.iter().find(|moment| Some(&moment.name) == when.at.as_ref());
        let needs = named.into_iter().flat_map(|moment| &moment.when).flat_map(|(name, marks)| {
            let need = |(mark, times): (&Mark, &u32)| Need {
                component: name.clone(),
                counted: mark.counted(),
                at_least: *times,
            };
            marks.iter().map(need).collect::<Vec<_>>()
        });
        let after_ms = u64::from(when.after_ms) + named.map_or(0, |moment| u64::from(moment.after_ms));
        Moment { needs: needs.collect(), after_us: after_ms * 1000 + u64::from(drawn_us) }
    }
}
