//! Systems in which a component has what its role has, but another component's: each system passes every rule about roles.

use super::*;
use blk_api::config::badge;

/// Exchanges two objects in `objects`.
fn exchange<'a>(objects: impl Iterator<Item = &'a mut ObjectId>, one: ObjectId, other: ObjectId) {
    for object in objects {
        if *object == one {
            *object = other;
        } else if *object == other {
            *object = one;
        }
    }
}

fn exchange_held(system: &mut Image, component: &str, one: &str, other: &str) {
    let (cnode, one, other) = (id(system, &format!("{component}.cnode")), id(system, one), id(system, other));
    exchange(system.caps.iter_mut().filter(|run| run.cnode == cnode).map(|run| &mut run.object), one, other);
}

fn exchange_mapped(system: &mut Image, component: &str, one: &str, other: &str) {
    let (vspace, one, other) = (id(system, &format!("{component}.vspace")), id(system, one), id(system, other));
    let mappings = system.mappings.iter_mut().filter(|mapping| mapping.vspace == vspace);
    exchange(mappings.map(|mapping| &mut mapping.object), one, other);
}

fn badge_of<'a>(system: &'a mut Image, component: &str, object: &str) -> &'a mut u64 {
    let (cnode, object) = (id(system, &format!("{component}.cnode")), id(system, object));
    &mut system.caps.iter_mut().find(|run| run.cnode == cnode && run.object == object).unwrap().badge
}

#[test]
fn badges_of_two_clients_exchanged_are_refused() {
    for object in ["nvme-server.endpoint", "policy.endpoint", "nvme-server.event", "console.event"] {
        let mut system = crowd();
        let (one, other) = (*badge_of(&mut system, "alice", object), *badge_of(&mut system, "bob", object));
        *badge_of(&mut system, "alice", object) = other;
        *badge_of(&mut system, "bob", object) = one;
        refused(&system, Rule::NamedExactly, &["client alice", object]);
        refused(&system, Rule::NamedExactly, &["client bob", object]);
    }
}

#[test]
fn windows_of_two_clients_exchanged_at_their_server_are_refused() {
    let mut system = crowd();
    exchange_held(&mut system, "nvme-server", "alice.window", "bob.window");
    refused(&system, Rule::NamedExactly, &["the server nvme-server", "window-0", "alice.window"]);
}

#[test]
fn exchanged_rings_and_liveness_pages_are_refused() {
    for part in ["ring-client", "ring-server", "liveness"] {
        let mut system = crowd();
        exchange_mapped(&mut system, "nvme-server", &format!("alice.{part}"), &format!("bob.{part}"));
        refused(
            &system,
            Rule::NamedExactly,
            &["the server nvme-server", &format!("{part}-0"), &format!("alice.{part}")],
        );
    }
}

#[test]
fn exchanged_client_notifications_are_refused() {
    let mut system = crowd();
    exchange_held(&mut system, "nvme-server", "alice.event", "bob.event");
    refused(&system, Rule::NamedExactly, &["the server nvme-server", "client-0", "alice.event"]);
}

#[test]
fn drivers_exchanged_at_the_pci_server_are_refused() {
    let mut system = good();
    exchange_held(&mut system, "pci-server", "nvme-server-old.vspace", "nvme-server-new.vspace");
    refused(&system, Rule::NamedExactly, &["the PCI server", "driver-vspace", "nvme-server-old.vspace"]);
    let mut system = good();
    exchange_mapped(&mut system, "pci-server", "nvme-server-old.liveness", "nvme-server-new.liveness");
    refused(&system, Rule::NamedExactly, &["the PCI server", "liveness-0"]);
    let mut system = good();
    let (one, other) =
        (component(&mut system, "nvme-server-old").driver, component(&mut system, "nvme-server-new").driver);
    component(&mut system, "nvme-server-old").driver = other;
    component(&mut system, "nvme-server-new").driver = one;
    refused(&system, Rule::NamedExactly, &["nvme-server-old", "driver"]);
}

#[test]
fn logs_exchanged_at_the_console_are_refused() {
    let mut system = crowd();
    exchange_mapped(&mut system, "console", "alice.log", "bob.log");
    refused(&system, Rule::NamedExactly, &["the console", "alice.log"]);
}

#[test]
fn another_servers_io_page_tables_are_refused() {
    let mut system = good();
    let tables = id(&system, "nvme-server-new.io-table");
    let cnode = id(&system, "nvme-server-old.cnode");
    let own = id(&system, "nvme-server-old.io-table");
    system.caps.iter_mut().find(|run| run.cnode == cnode && run.object == own).unwrap().object = tables;
    refused(&system, Rule::NamedExactly, &["nvme-server-old", "io-table", "nvme-server-new.io-table"]);
}

#[test]
fn a_capability_that_no_name_stands_for_is_refused() {
    let mut system = good();
    new_object(&mut system, "page", ObjectKind::SmallFrame);
    plant(&mut system, "nvme-server-old", "page", 0, READ_WRITE);
    refused(&system, Rule::NamedExactly, &["nvme-server-old holds page at cptr 200", "not for it"]);
    let mut system = good();
    map(&mut system, "alice", "alice.data", true, false);
    refused(&system, Rule::NamedExactly, &["client alice maps alice.data at 0x70000000", "not for it"]);
}

#[test]
fn more_rights_or_a_wider_mapping_than_the_name_has_are_refused() {
    let mut system = crowd();
    let (cnode, event) = (id(&system, "alice.cnode"), id(&system, "alice.event"));
    system.caps.iter_mut().find(|run| run.cnode == cnode && run.object == event).unwrap().rights = ALL;
    refused(&system, Rule::NamedExactly, &["client alice", "event", "rights 7"]);
    let mut system = crowd();
    let (vspace, constants) = (id(&system, "nvme-server.vspace"), id(&system, "nvme-server.constants"));
    let of_both = |mapping: &&mut Mapping| mapping.vspace == vspace && mapping.object == constants;
    system.mappings.iter_mut().find(of_both).unwrap().executable = true;
    refused(&system, Rule::NamedExactly, &["nvme-server", "nvme-server.constants"]);
}

#[test]
fn supervision_of_a_component_follows_its_role() {
    let mut system = crowd();
    component(&mut system, "nvme-server").bound_notification = None;
    refused(&system, Rule::NamedExactly, &["nvme-server", "bound notification"]);
    let mut system = crowd();
    component(&mut system, "console").restart = Some(capdl_spec::RestartPolicy { times: 1, within_ms: 1 });
    refused(&system, Rule::NamedExactly, &["the console", "started again"]);
    let mut system = crowd();
    component(&mut system, "alice").driver = Some(0);
    refused(&system, Rule::NamedExactly, &["client alice", "driver"]);
}

#[test]
fn an_environment_that_is_not_the_components_is_refused() {
    let mut system = crowd();
    let (alice, bob) = (id(&system, "alice.environment") as usize, id(&system, "bob.environment") as usize);
    system.objects[alice].fill = system.objects[bob].fill;
    refused(&system, Rule::NamedExactly, &["client alice", "environment", "bob"]);
    let mut system = crowd();
    component(&mut system, "alice").environment_vaddr += 0x1000;
    refused(&system, Rule::NamedExactly, &["client alice", "no environment at 0x10001000"]);
}

#[test]
fn an_object_of_another_kind_or_with_no_known_use_is_refused() {
    let mut system = crowd();
    let event = id(&system, "policy.event") as usize;
    system.objects[event].kind = ObjectKind::Endpoint;
    refused(&system, Rule::NamedExactly, &["policy.event", "Endpoint"]);
    let mut system = crowd();
    new_object(&mut system, "alice.more", ObjectKind::SmallFrame);
    refused(&system, Rule::NamedExactly, &["alice.more", "no known use"]);
}

#[test]
fn a_probe_with_more_memory_than_its_design_gives_is_refused() {
    for size_bits in [15, 20] {
        let mut system = Image::of("probe-revoke");
        let memory = id(&system, "probe.memory") as usize;
        system.objects[memory].kind = ObjectKind::Untyped { size_bits };
        refused(&system, Rule::NamedExactly, &["probe.memory", "Untyped"]);
    }
}

#[test]
fn a_client_without_its_doorbell_is_refused() {
    let mut system = crowd();
    let cnode = id(&system, "alice.cnode");
    system.caps.retain(|run| run.cnode != cnode || run.badge != badge::client(0));
    refused(&system, Rule::NamedExactly, &["client alice", "doorbell"]);
}

#[test]
fn a_program_without_one_of_its_segments_is_refused() {
    let mut system = crowd();
    let constants = id(&system, "pci-server.constants");
    system.mappings.retain(|mapping| mapping.object != constants);
    refused(&system, Rule::NamedExactly, &["the PCI server does not map pci-server.constants"]);
}

#[test]
fn free_cptrs_that_are_not_free_are_refused() {
    for who in ["alice", "nvme-server"] {
        let mut system = crowd();
        reconfigure(&mut system, who, |configured| configured.free_cptrs.start -= 1).unwrap();
        refused(&system, Rule::NamedExactly, &[who, "is configured so that it may fill cptrs"]);
    }
    let mut system = crowd();
    reconfigure(&mut system, "nvme-server", |configured| configured.free_cptrs.end *= 2).unwrap();
    refused(&system, Rule::NamedExactly, &["nvme-server", "is configured so that it may fill cptrs"]);
}

#[test]
fn a_capability_where_received_ones_land_is_refused() {
    let mut system = crowd();
    let (cnode, log) = (id(&system, "nvme-server.cnode"), id(&system, "console.event"));
    system.caps.iter_mut().find(|run| run.cnode == cnode && run.object == log).unwrap().cptr = 3;
    reconfigure(&mut system, "nvme-server", |configured| {
        configured.caps.iter_mut().find(|caps| caps.name == "log").unwrap().first = platform::CPtr::new(3);
    })
    .unwrap();
    refused(&system, Rule::NamedExactly, &["nvme-server", "cptr 3", "received ones"]);
}

#[test]
fn an_environment_that_is_longer_than_it_says_is_refused() {
    let mut system = crowd();
    let environment = id(&system, "alice.environment") as usize;
    system.objects[environment].fill.as_mut().unwrap().len += 1;
    refused(&system, Rule::NamedExactly, &["client alice finds no environment"]);
}

#[test]
fn a_server_that_is_never_started_again_is_refused() {
    for (who, title) in [("pci-server", "the PCI server"), ("nvme-server", "nvme-server"), ("policy", "policy")] {
        let mut system = crowd();
        component(&mut system, who).restart = None;
        refused(&system, Rule::NamedExactly, &[title, "never started again"]);
    }
}

#[test]
fn exchanged_sessions_in_the_servers_config_are_refused() {
    let mut system = crowd();
    configure(&mut system, "nvme-server", |config: &mut blk_api::config::ServerConfig| config.sessions.swap(0, 1));
    refused(&system, Rule::NamedExactly, &["the server nvme-server", "window-0"]);
    refused(&system, Rule::ConfiguredAsDeclared, &["the server nvme-server", "another `sessions`"]);
}

#[test]
fn two_drivers_in_one_domain_or_with_one_function_are_refused() {
    type Change = fn(&mut pci_api::ServerConfig);
    let changes: [(Change, &str); 4] = [
        (|config| config.drivers[1].domain = config.drivers[0].domain, "another `domain` for nvme-server-new"),
        (
            |config| config.drivers[1].allowed = config.drivers[0].allowed.clone(),
            "another `allowed` for nvme-server-new",
        ),
        (|config| config.drivers[0].domain = 0, "another `domain` for nvme-server-old"),
        (
            |config| (config.drivers[0].domain, config.drivers[1].domain) = (2, 1),
            "another `domain` for nvme-server-old",
        ),
    ];
    for (change, words) in changes {
        let mut system = good();
        configure(&mut system, "pci-server", change);
        refused(&system, Rule::ConfiguredAsDeclared, &["the PCI server", words]);
    }
}

#[test]
fn a_component_with_another_role_is_refused() {
    for name in ["bridge-two-controllers", "probe-revoke", "edu"] {
        let valid = Image::of(name);
        for index in 0..valid.components.len() {
            for role in Role::ALL.into_iter().filter(|role| *role != valid.components[index].role) {
                let mut system = valid.clone();
                system.components[index].role = role;
                let who = &valid.components[index].name;
                assert!(checked(&system).is_err(), "{who} of {name} may be {role:?}");
            }
        }
    }
}

#[test]
fn a_client_or_a_policy_component_of_another_server_is_refused() {
    let valid = good();
    let (old, new) = (component(&mut good(), "nvme-server-old").id, component(&mut good(), "nvme-server-new").id);
    for name in ["alice", "bob", "policy-old", "policy-new"] {
        let mut system = valid.clone();
        let own = component(&mut system, name).server;
        for server in [None, Some(old), Some(new), Some(1)].into_iter().filter(|server| *server != own) {
            component(&mut system, name).server = server;
            refused(&system, Rule::NamedExactly, &[name]);
        }
    }
    let mut system = valid;
    component(&mut system, "nvme-server-old").server = Some(new);
    refused(&system, Rule::NamedExactly, &["nvme-server-old", "belongs to"]);
}
