//! Refusals of tenants that signal each other in contradictory ways.

use crate::scenario::refusal::{Checked, refuse};
use crate::scenario::{Scenario, Tenant, Workload};
use workload::Signal;

/// Checks that the tenant's peer exists, and that it answers if the tenant signals to and fro.
pub(super) fn check(scenario: &Scenario, tenant: &Tenant, line: usize) -> Checked {
    let Tenant { name, peer, .. } = tenant;
    if peer.is_empty() {
        return match tenant.workload {
            Workload::Signal(_) => {
                refuse(line, format!("tenant `{name}` signals a peer but names none: add `peer = \"...\"`"))
            }
            _ => Ok(()),
        };
    }
    let Some(other) = scenario.tenants.iter().find(|other| other.name == *peer && other.name != *name) else {
        return refuse(line, format!("tenant `{name}` has the peer `{peer}`, which is no other tenant: name one"));
    };
    let Workload::Signal(signal) = &tenant.workload else { return Ok(()) };
    if other.peer != *name || !answers(signal, &other.workload) {
        return refuse(
            line,
            format!(
                "tenant `{name}` signals `{peer}`, which does not answer: make each the other's peer, with as many \
                 operations, and one of them lead"
            ),
        );
    }
    Ok(())
}

fn answers(signal: &Signal, other: &Workload) -> bool {
    let fits = |other: &Signal| other.operations == signal.operations && other.leads != signal.leads;
    matches!(other, Workload::Signal(other) if fits(other))
}
