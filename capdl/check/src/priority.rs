//! The scheduling priorities of components, and their bounds by role. Both the scenario and the built system are checked
//! against them.

use blk_api::config::Class;

/// Priority of the threads of tenants that name none, by class: a tenant that never sleeps takes no processor time from
/// the classes above its own.
pub const fn priority_of(class: Class) -> u8 {
    match class {
        Class::Urgent => 110,
        Class::High => 105,
        Class::Medium => 100,
        Class::Low => 95,
    }
}

/// Priority of NVMe servers unless the scenario names another.
pub const SERVER_PRIORITY: u8 = 120;
/// Priority of the PCI server.
pub const PCI_SERVER_PRIORITY: u8 = 150;
/// Priority of the console unless the scenario names another: it runs when the others sleep.
pub const CONSOLE_PRIORITY: u8 = 1;

/// Highest priority of a component: the root task is above all.
pub const MAX_PRIORITY: u8 = 254;
/// Least distance of tenants below their servers. The priority between is for components that run before every tenant.
const BELOW_SERVERS: u8 = 2;

/// The highest priority of a tenant whose server has this one. A server that polls never sleeps and lets only threads of its
/// own priority run, so its tenants have that priority.
pub const fn highest_tenant_priority(server: u8, polls: bool) -> u8 {
    if polls { server } else { server.saturating_sub(BELOW_SERVERS) }
}

/// The priority of a control component: it runs before every tenant, and where a server polls, in turns with all.
pub const fn control_priority(server: u8, polls: bool) -> u8 {
    if polls { server } else { server.saturating_sub(1) }
}

/// The lowest priority of an NVMe server: tenants have a place below it.
pub const fn lowest_server_priority() -> u8 {
    BELOW_SERVERS + 1
}

/// The highest priority of an NVMe server where the PCI server has this one.
pub const fn highest_server_priority(pci_server: u8) -> u8 {
    pci_server.saturating_sub(1)
}
