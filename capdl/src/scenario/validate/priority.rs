//! Refusals of scheduling priorities outside their role's bounds: the kernel runs the highest ready thread and nobody else.

use crate::priority::{PCI_SERVER_PRIORITY, highest_server_priority, highest_tenant_priority, lowest_server_priority};
use crate::scenario::file::Lines;
use crate::scenario::refusal::{Checked, refuse, refuse_file};
use crate::scenario::{Scenario, Tenant};

/// Checks the priorities of servers, console and tenants.
pub(super) fn check(scenario: &Scenario, lines: &Lines) -> Checked {
    let (server, console) = (scenario.server.priority, scenario.console.priority);
    let (first, last) = (lowest_server_priority(), highest_server_priority(PCI_SERVER_PRIORITY));
    if !(first..=last).contains(&server) {
        return refuse_file(format!(
            "[server] priority is {server}, and has to lie below the PCI server's {PCI_SERVER_PRIORITY} and leave \
             tenants a place below: make it {first} to {last}"
        ));
    }
    if !(1..=server).contains(&console) {
        return refuse_file(format!(
            "[console] priority is {console}, and log lines must not keep the servers waiting: make it 1 to {server}"
        ));
    }
    for (tenant, line) in scenario.tenants.iter().zip(&lines.tenants) {
        check_tenant(scenario, tenant, *line)?;
    }
    Ok(())
}

/// Checks a tenant's priority. A tenant whose server polls never sleeps and lets only threads of its own priority run. No other tenant
/// is as urgent as a server.
fn check_tenant(scenario: &Scenario, tenant: &Tenant, line: usize) -> Checked {
    let (name, priority) = (&tenant.name, scenario.priority(tenant));
    let server = scenario.server.priority;
    if tenant.is_polled_for() && priority != server {
        return refuse(
            line,
            format!(
                "tenant `{name}` is polled at priority {priority} while its server runs at {server}, so one would \
                 starve the other: set both alike ([server] priority)"
            ),
        );
    }
    let polled = scenario.tenants.iter().find(|tenant| tenant.is_polled_for());
    if let (true, Some(polled)) = (priority < server, polled) {
        return refuse(
            line,
            format!(
                "tenant `{name}` at priority {priority} would starve while the server polls at {server} for `{}`: \
                 raise it to {server}",
                polled.name
            ),
        );
    }
    let highest = highest_tenant_priority(server, polled.is_some());
    if !(1..=highest).contains(&priority) {
        return refuse(
            line,
            format!(
                "tenant `{name}` has priority {priority}, from which it would starve the servers at {server} or what \
                 has to run before tenants: make it 1 to {highest}"
            ),
        );
    }
    Ok(())
}
