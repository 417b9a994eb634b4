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
    if control.acts.is_empty() && control.administration.is_empty() {
        return refuse_file(format!("[control] has no `acts`: name some of {}, or remove the table", names()));
    }
    let orders = |act: &&Act| matches!(act, Act::Shares | Act::Rights);
    if let Some(act) = control.acts.iter().find(orders).filter(|_| scenario.controllers.len() > 1) {
        return refuse_file(format!(
            "[control] has the act `{}` beside {} controllers, so it could give a server of one the right to call the policy component of \
             another: leave the act out, or the other controllers",
            act.name(),
            scenario.controllers.len()
        ));
    }
    if let Some(twice) = twice(control.acts.iter().map(|act| act.name())) {
        return refuse_file(format!("[control] has the act `{twice}` twice: remove one of them"));
    }
    if let Some(twice) = twice(control.administration.iter().map(|right| right.name())) {
        return refuse_file(format!("[control] has the right `{twice}` of `administration` twice: remove one of them"));
    }
    if control.changes_data() && scenario.expect.compare_image {
        return refuse_file(
            "[control] may change tenants' blocks, by `io`, `namespaces` or `sanitize` of its `administration`, and the disk is \
             compared with the tenants' writes: remove these rights, or `compare_image` of [expect]"
                .into(),
        );
    }
    Ok(())
}

/// The first name that was there before.
fn twice(mut names: impl Iterator<Item = &'static str>) -> Option<&'static str> {
    let mut known = BTreeSet::new();
    names.find(|name| !known.insert(*name))
}
