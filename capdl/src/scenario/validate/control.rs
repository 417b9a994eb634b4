//! Refusals of a control component.

use crate::scenario::Scenario;
use crate::scenario::refusal::{Checked, refuse_file};
use control_api::Act;
use std::collections::BTreeSet;

/// Checks the acts of the control component, if there is one.
pub(super) fn check(scenario: &Scenario) -> Checked {
    let Some(control) = &scenario.control else { return Ok(()) };
    if scenario.tester().is_some() {
        return refuse_file(
            "there is a [control] beside a test component, which has nothing to control: remove it".into(),
        );
    }
    let names = || Act::ALL.map(Act::name).join(", ");
    if control.acts.is_empty() {
        return refuse_file(format!("[control] has no `acts`: name some of {}, or remove the table", names()));
    }
    let mut known = BTreeSet::new();
    match control.acts.iter().find(|act| !known.insert(**act)) {
        Some(twice) => refuse_file(format!("[control] has the act `{}` twice: remove one of them", twice.name())),
        None => Ok(()),
    }
}
