//! State of a subsystem, and of a controller as its member (section 8.5). Neighbour: `sharing` has the calls that use it.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::attachment::Place;
use crate::config::{Config, Virtualization};
use crate::firmware::Firmware;
use crate::lockdown::Lockdown;
use crate::namespace::Namespace;
use crate::resources::{Limits, Resources};
use crate::sanitization::Sanitization;

/// State that all controllers of the subsystem use, apart from the namespaces.
#[derive(Default)]
pub(crate) struct Subsystem {
    /// `None` without secondary controllers.
    pub(crate) resources: Option<Resources>,
    pub(crate) lockdown: Lockdown,
    pub(crate) firmware: Firmware,
    pub(crate) sanitization: Sanitization,
    /// Controllers with namespaces that changed through another controller. Nothing reported them yet.
    notices: Vec<(Place, BTreeSet<u32>)>,
}

/// State between calls.
#[derive(Default)]
pub(crate) struct Shared {
    pub(crate) namespaces: Vec<Namespace>,
    pub(crate) subsystem: Subsystem,
}

/// A controller's part in its subsystem.
pub(crate) struct Member {
    pub(crate) place: Place,
    /// `None` for a controller that is alone.
    pub(crate) shared: Option<Arc<Mutex<Shared>>>,
    /// Changes of its own state that a secondary controller has followed.
    pub(crate) followed: u64,
}

impl Member {
    /// A controller that shares nothing.
    pub(crate) const ALONE: Self = Self { place: Place::PRIMARY, shared: None, followed: 0 };
}

impl Subsystem {
    /// Creates the state of a subsystem; without resources there is one controller.
    pub(crate) fn new(resources: Option<Resources>, firmware: Firmware, sanitization: Sanitization) -> Self {
        Self { resources, firmware, sanitization, ..Self::default() }
    }

    /// Returns the limits of a controller; `None` when only its configuration limits it.
    pub(crate) fn limits(&self, place: Place) -> Option<Limits> {
        self.resources.as_ref().map(|resources| resources.limits(place))
    }

    /// Leaves a changed namespace for another controller to report.
    pub(crate) fn notify(&mut self, place: Place, nsid: u32) {
        match self.notices.iter_mut().find(|(other, _)| *other == place) {
            Some((_, nsids)) => {
                nsids.insert(nsid);
            }
            None => self.notices.push((place, BTreeSet::from([nsid]))),
        }
    }

    pub(crate) fn take_notices(&mut self, place: Place) -> BTreeSet<u32> {
        match self.notices.iter().position(|(other, _)| *other == place) {
            Some(index) => self.notices.swap_remove(index).1,
            None => BTreeSet::new(),
        }
    }

    /// Whether something waits for the controller.
    pub(crate) fn concerns(&self, member: &Member) -> bool {
        let changes = self.resources.as_ref().and_then(|resources| resources.secondary(member.place));
        changes.is_some_and(|secondary| secondary.changes != member.followed)
            || self.notices.iter().any(|(place, _)| *place == member.place)
    }
}

/// Locks the state between calls.
pub(crate) fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The largest identifier of a controller: NVMe over Fabrics reserves those above it.
const MOST_CONTROLLER_ID: u16 = 0xffef;

/// Returns the primary controller's identifier: the one asked for, if those of the secondary controllers fit behind it.
pub(crate) fn first_id(primary: &Config, virtualization: &Virtualization) -> u16 {
    primary.identity.controller_id.min(MOST_CONTROLLER_ID.saturating_sub(virtualization.functions.into()))
}
