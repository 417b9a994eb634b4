//! Controllers of one subsystem: a primary controller and its secondary ones, which share namespaces and resources
//! (section 8.5).
//!
//! Each controller is one value, so that each can be inside a PCI function of its own. The shared state lies between them.
//! A controller takes it at the beginning of a call and returns it at the end ([`Controller::with_shared`]). Meanwhile it is
//! where a controller that is alone has it, so the modules that execute commands do not differ.
//!
//! A change that concerns another controller is left in the shared state. That controller follows at its next call, which
//! [`Controller::next_event_ns`] asks for.
//!
//! Left out: time that controllers share. Each has a front end, link and channels of its own. Also left out: PCI. Its model
//! reports whether a virtual function is enabled ([`Controller::function_enabled`], [`Controller::function_disabled`]).

use std::mem::swap;
use std::sync::{Arc, Mutex};

use crate::admin::{self, SecondaryCommands};
use crate::attachment::Place;
use crate::config::{Config, Virtualization};
use crate::controller::Controller;
use crate::host::Host;
use crate::namespace::Namespace;
use crate::resources::Resources;
use crate::subsystem::{Member, Shared, first_id, lock};

impl Controller {
    /// Creates a primary controller and its secondary ones, all just powered on, for as many virtual functions as
    /// [`Config::virtualization`] has; the first is that of virtual function 1.
    ///
    /// The secondary controllers are offline until their functions are enabled ([`function_enabled`](Self::function_enabled))
    /// and Virtualization Management gives them resources and sets them online. They have the primary's properties, but
    /// neither its faults nor its namespaces. They have no interrupt pin.
    ///
    /// After a call of one controller, [`next_event_ns`](Self::next_event_ns) of the others may differ. A [`Host`] must not
    /// call one controller while it serves another.
    #[must_use]
    pub fn with_secondaries(config: Config, seed: u64) -> (Self, Vec<Self>) {
        let Some(virtualization) = config.virtualization else { return (Self::new(config, seed), Vec::new()) };
        let virtualization = virtualization.sane(config.queue_pairs, config.vectors);
        let places = Place::secondaries(virtualization.functions);
        let configs: Vec<_> = places.map(|place| (place, secondary_config(&config, &virtualization, place))).collect();
        let shared = Arc::new(Mutex::new(Shared::default()));
        let saved_for = config.namespaces.len() as u32;
        let mut primary = Self::new(config, seed);
        primary.exchange(&mut lock(&shared));
        primary.member.shared = Some(Arc::clone(&shared));
        let secondary = |(place, config): (Place, Config)| {
            // In the upper bits, because callers tend to number the seeds of their controllers.
            let saved = config.saved.clone();
            let mut secondary = Self::new(config, seed ^ u64::from(place.number()) << 56);
            secondary.admin.start_with(&saved, saved_for);
            secondary.member = Member { place, shared: Some(Arc::clone(&shared)), followed: 0 };
            secondary.namespaces.set_viewer(place);
            secondary.registers.set_offline(true);
            secondary.interrupts.remove_pin();
            secondary
        };
        (primary, configs.into_iter().map(secondary).collect())
    }

    /// Records that software enabled the virtual function that a secondary controller is in. None is enabled at power-on. No
    /// effect on another controller.
    pub fn function_enabled(&mut self) {
        self.change_function(Resources::enable_function);
    }

    /// Records that software disabled the virtual function that a secondary controller is in, or reset its physical
    /// function. The controller is offline and has no resources from then on. No effect on another controller.
    pub fn function_disabled(&mut self) {
        self.change_function(Resources::disable_function);
    }

    fn change_function(&mut self, change: fn(&mut Resources, Place)) {
        self.with_shared(|controller| {
            if let Some(resources) = &mut controller.subsystem.resources {
                change(resources, controller.member.place);
                controller.follow();
            }
        });
    }

    /// Calls `act` with the subsystem's state in the controller.
    pub(crate) fn with_shared<R>(&mut self, act: impl FnOnce(&mut Self) -> R) -> R {
        let Some(shared) = self.member.shared.clone() else { return act(self) };
        let mut shared = lock(&shared);
        self.exchange(&mut shared);
        self.follow();
        let result = act(self);
        self.exchange(&mut shared);
        result
    }

    /// Returns the result of `look` at the subsystem's namespaces.
    pub(crate) fn with_namespaces<R>(&self, look: impl FnOnce(&[Namespace]) -> R) -> R {
        match &self.member.shared {
            Some(shared) => look(&lock(shared).namespaces),
            None => look(self.namespaces.all()),
        }
    }

    fn exchange(&mut self, shared: &mut Shared) {
        let Shared { namespaces, subsystem } = shared;
        self.namespaces.exchange(namespaces);
        swap(&mut self.subsystem, subsystem);
    }

    /// Whether another controller left something to do for this one.
    pub(crate) fn is_concerned(&self) -> bool {
        self.member.shared.as_ref().is_some_and(|shared| lock(shared).subsystem.concerns(&self.member))
    }

    /// Follows a change of a secondary controller's state: it is as after a function level reset.
    fn follow(&mut self) {
        let place = self.member.place;
        let state = self.subsystem.resources.as_ref().and_then(|resources| resources.secondary(place)).copied();
        if let Some(state) = state.filter(|state| state.changes != self.member.followed) {
            self.member.followed = state.changes;
            self.registers.set_offline(!state.is_online);
            self.reset_function();
            // Its driver may not know yet.
            self.registers.reset_unnoticed();
            self.look_ahead();
        }
    }

    /// Reports namespaces that another controller changed.
    pub(crate) fn report_notices(&mut self, host: &mut dyn Host) {
        let changed = self.subsystem.take_notices(self.member.place);
        if !changed.is_empty() {
            changed.into_iter().for_each(|nsid| self.admin.namespace_changed(nsid));
            admin::deliver_events(self, host);
            self.look_ahead();
        }
    }

    /// Drops what others left for this controller before its reset. If this one is the primary controller, the firmware that was
    /// chosen runs from now on, and everything is taken from the secondary controllers.
    pub(crate) fn reset_subsystem(&mut self) {
        self.subsystem.take_notices(self.member.place);
        if self.member.place == Place::PRIMARY {
            self.subsystem.firmware.reset();
            if let Some(resources) = &mut self.subsystem.resources {
                resources.set_all_offline();
            }
        }
        self.limits = self.subsystem.limits(self.member.place).unwrap_or(self.limits);
    }

    /// Lets the primary controller have the resources that were allocated to it.
    pub(crate) fn activate_resources(&mut self) {
        if self.member.place == Place::PRIMARY
            && let Some(resources) = &mut self.subsystem.resources
        {
            resources.activate();
        }
    }

    /// Returns the identifier of a controller of the subsystem.
    pub(crate) fn controller_id(&self, place: Place) -> u16 {
        let own = u16::from(self.member.place.number());
        let primary = self.config.identity.controller_id.saturating_sub(own);
        primary.saturating_add(place.number().into())
    }

    /// Returns the place of the controller with this identifier, if there is one.
    pub(crate) fn place_of(&self, id: u16) -> Option<Place> {
        self.places().find(|&place| self.controller_id(place) == id)
    }

    /// Records that a namespace's Identify data changed for a controller, or that it became active or inactive there.
    pub(crate) fn namespace_changed(&mut self, place: Place, nsid: u32) {
        if place == self.member.place {
            self.admin.namespace_changed(nsid);
        } else {
            self.subsystem.notify(place, nsid);
        }
    }

    /// Returns the places of the subsystem's controllers, ascending.
    pub(crate) fn places(&self) -> impl Iterator<Item = Place> + '_ {
        let secondaries = self.subsystem.resources.iter().flat_map(|resources| resources.secondaries());
        std::iter::once(Place::PRIMARY).chain(secondaries.map(|secondary| secondary.place))
    }
}

/// Returns the configuration of a secondary controller.
fn secondary_config(primary: &Config, virtualization: &Virtualization, place: Place) -> Config {
    let mut identity = primary.identity.clone();
    identity.controller_id = first_id(primary, virtualization).saturating_add(place.number().into());
    let mut admin = primary.admin.clone();
    // Privileged actions are the primary controller's.
    if admin.secondary_commands == SecondaryCommands::Own {
        admin.commands.namespaces = false;
        admin.commands.lockdown = false;
        admin.commands.firmware = false;
        admin.commands.sanitize = false;
    }
    let mut capabilities = primary.capabilities;
    capabilities.subsystem_reset = false;
    Config {
        identity,
        admin,
        capabilities,
        queue_pairs: virtualization.secondary_queues.saturating_sub(1),
        vectors: virtualization.secondary_interrupts,
        mdts: primary.mdts,
        purpose: primary.purpose,
        limits: primary.limits,
        retry_delays_100ms: primary.retry_delays_100ms,
        outstanding: primary.outstanding,
        atomic_blocks: primary.atomic_blocks,
        cache: primary.cache,
        namespaces: Vec::new(),
        unallocated_bytes: 0,
        virtualization: None,
        profile: primary.profile,
        ready_ns: primary.ready_ns,
        shutdown_ns: primary.shutdown_ns,
        faults: Vec::new(),
        later: Vec::new(),
        saved: primary.saved.clone(),
        recording: primary.recording,
    }
}
