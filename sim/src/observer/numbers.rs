//! Numbers of virtual functions.

use capdl::scenario::{Scenario, Tenant};

/// Virtual functions in the order of their numbers: their scenario's controller, by its number, and their tenants. They are numbered
/// as controllers, after those of the scenario.
pub(super) fn all(scenario: &Scenario) -> impl Iterator<Item = (usize, Option<&Tenant>)> {
    scenario.controllers.iter().enumerate().flat_map(|(physical, controller)| {
        let tenants = scenario.functions(&controller.name).map(Some).chain(std::iter::repeat(None));
        tenants.take(controller.virtual_functions.into()).map(move |tenant| (physical, tenant))
    })
}

/// Returns the number of the virtual function that a tenant drives, if it drives one.
pub(super) fn number_of(scenario: &Scenario, tenant: &Tenant) -> Option<u32> {
    let place = all(scenario).position(|(_, other)| other.is_some_and(|other| other.name == tenant.name))?;
    u32::try_from(scenario.controllers.len().saturating_add(place)).ok()
}
