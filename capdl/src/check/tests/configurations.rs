//! Configurations other than the declared ones, or with values that no declaration can make right.

use super::*;
use crate::check::declaration;
use blk_api::config::{Class, Interrupts, Quirk, SchedulingPolicy, ServerConfig};
use blk_api::extent::Extent;
use blk_api::policy::{Change, Entitlement, PolicyConfig, What};
use capdl_spec::Kill;
use pci_api::Match;
use platform::Paddr;
use workload::Client;

/// A change of a configuration.
type Mistake<T> = fn(&mut T);

/// A change, and the field that it is refused for.
type Wrong<T> = (&'static str, Mistake<T>);

/// Asserts that each change of the component's configuration is refused for the field that it names.
#[track_caller]
fn fields_refused<T: Serialize + DeserializeOwned>(valid: &Image, component: &str, changes: &[Wrong<T>]) {
    for (field, change) in changes {
        let mut system = valid.clone();
        configure(&mut system, component, change);
        refused(&system, Rule::ConfiguredAsDeclared, &["is configured with", &format!("another `{field}")]);
    }
}

#[test]
fn a_server_that_is_configured_otherwise_than_declared_is_refused() {
    fields_refused::<ServerConfig>(
        &crowd(),
        "nvme-server",
        &[
            ("nsid` for alice", |config| config.sessions[0].nsid = 2),
            ("blocks` for bob", |config| config.sessions[1].blocks += 1),
            ("blocks` for bob", |config| config.sessions[1].blocks -= 1),
            ("blocks` for alice", |config| config.sessions[0].blocks = u64::MAX),
            ("writable` for alice", |config| config.sessions[0].writable ^= true),
            ("highest` for mallory", |config| config.sessions[6].highest = Class::Urgent),
            ("class` for mallory", |config| config.sessions[6].class = Class::Urgent),
            ("weight` for mallory", |config| config.sessions[6].weight = u16::MAX),
            ("most_queue_pairs` for mallory", |config| config.sessions[6].most_queue_pairs = 99),
            ("most_depth` for mallory", |config| config.sessions[6].most_depth += 1),
            ("core` for alice", |config| config.sessions[0].core += 1),
            ("ring_entries` for alice", |config| config.sessions[0].ring_entries /= 2),
            ("sessions", |config| drop(config.sessions.pop())),
            ("records", |config| config.records -= 1),
            ("merging", |config| config.merging ^= true),
            ("policy", |config| config.policy = SchedulingPolicy::RoundRobin),
            ("class_weights", |config| config.class_weights.low += 1),
            ("interrupts", |config| config.interrupts = Interrupts::Intx),
            ("quirks", |config| config.quirks.push(Quirk::NguidChangesAtReset)),
        ],
    );
}

#[test]
fn a_policy_component_that_is_configured_otherwise_than_declared_is_refused() {
    fields_refused::<PolicyConfig>(
        &crowd(),
        "policy",
        &[
            ("nsid` for alice", |config| config.sessions[0].nsid += 1),
            ("writable` for alice", |config| config.sessions[0].writable ^= true),
            ("extents` for alice", |config| config.sessions[0].extents[0].blocks -= 1),
            ("extents` for alice", |config| config.sessions[0].extents.clear()),
            ("extents` for alice", |config| config.sessions[0].extents[0].writable ^= true),
            ("changes", |config| drop(config.changes.pop())),
            ("changes", |config| config.changes[0].moment += 1),
        ],
    );
}

/// The server, the policy component and the client are configured alike, and otherwise than declared.
#[test]
fn tables_that_agree_with_each_other_alone_are_refused() {
    let changes: [(Mistake<ServerConfig>, Mistake<PolicyConfig>); 3] = [
        (|config| config.sessions[0].writable ^= true, |config| config.sessions[0].writable ^= true),
        (|config| config.sessions[0].nsid = 2, |config| config.sessions[0].nsid = 2),
        (|config| config.sessions[0].blocks += 8, |config| config.sessions[0].extents[0].blocks += 8),
    ];
    for (at_server, at_policy) in changes {
        let mut system = crowd();
        configure(&mut system, "nvme-server", at_server);
        configure(&mut system, "policy", at_policy);
        refused(&system, Rule::ConfiguredAsDeclared, &["the server nvme-server", "for alice"]);
        refused(&system, Rule::ConfiguredAsDeclared, &["the policy component policy", "for alice"]);
    }
}

#[test]
fn exchanged_controllers_are_refused() {
    let mut system = good();
    configure(&mut system, "pci-server", |config: &mut pci_api::ServerConfig| {
        let (old, new) = (config.drivers[0].allowed.clone(), config.drivers[1].allowed.clone());
        (config.drivers[0].allowed, config.drivers[1].allowed) = (new, old);
    });
    refused(&system, Rule::ConfiguredAsDeclared, &["the PCI server", "another `allowed` for nvme-server-old"]);
    // Each server, and the policy component beside it, has the tenants of the other.
    let mut system = good();
    for (one, other) in [("nvme-server-old", "nvme-server-new"), ("policy-old", "policy-new")] {
        let mut theirs = Vec::new();
        reconfigure(&mut system, one, |configured| theirs.clone_from(&configured.config)).unwrap();
        reconfigure(&mut system, other, |configured| std::mem::swap(&mut configured.config, &mut theirs)).unwrap();
        reconfigure(&mut system, one, |configured| configured.config = theirs).unwrap();
    }
    refused(&system, Rule::ConfiguredAsDeclared, &["the server nvme-server-old", "another `tenant`"]);
    refused(&system, Rule::ConfiguredAsDeclared, &["the policy component policy-new", "another `tenant`"]);
}

#[test]
fn exchanged_namespaces_of_functions_are_refused() {
    let mut system = Image::of("functions");
    configure(&mut system, "nvme-server", |config: &mut ServerConfig| {
        (config.functions[0].nsid, config.functions[1].nsid) = (config.functions[1].nsid, config.functions[0].nsid);
    });
    configure(&mut system, "policy", |config: &mut PolicyConfig| {
        (config.functions[0].nsid, config.functions[1].nsid) = (config.functions[1].nsid, config.functions[0].nsid);
    });
    refused(&system, Rule::ConfiguredAsDeclared, &["the server nvme-server", "another `nsid` for frida"]);
    refused(&system, Rule::ConfiguredAsDeclared, &["the policy component policy", "another `nsid` for frida"]);
}

#[test]
fn numbers_of_the_pci_server_that_are_not_the_machines_are_refused() {
    fields_refused::<pci_api::ServerConfig>(
        &good(),
        "pci-server",
        &[
            ("buses", |config| config.buses = 255),
            ("buses", |config| config.buses = 0),
            ("pci_windows", |config| config.pci_windows[0].1 += 1),
            ("pci_windows", |config| config.pci_windows[0].0 = Paddr::new(0xfed0_0000)),
            ("pci_windows", |config| config.pci_windows.truncate(1)),
            ("irqs", |config| config.irqs = (0, 108)),
            ("assign", |config| config.assign ^= true),
            ("iommu", |config| config.iommu ^= true),
            ("intx_pins", |config| config.intx_pins = pci_api::IntxRouting::Virt),
            ("arena` for nvme-server-old", |config| {
                config.drivers[0].arena = config.drivers[1].arena.checked_add(1).unwrap()
            }),
            ("arena_len` for nvme-server-old", |config| config.drivers[0].arena_len *= 2),
            ("max_vectors` for nvme-server-old", |config| config.drivers[0].max_vectors += 1),
            ("allowed` for nvme-server-old", |config| config.drivers[0].allowed = Match::Bdf(0)),
            ("domain` for nvme-server-old", |config| config.drivers[0].domain = 9),
        ],
    );
}

#[test]
fn an_arena_without_room_for_the_registers_is_refused_whatever_it_is_configured_with() {
    let mut system = Image::of("large-registers");
    let room = 2 << 20;
    reconfigure(&mut system, "nvme-server-far", |configured| {
        configured.regions.iter_mut().find(|region| region.name == "arena").unwrap().len = room;
    })
    .unwrap();
    let lengths: [Wrong<pci_api::ServerConfig>; 2] = [
        ("arena_len` for nvme-server-far", |config| config.drivers[0].arena_len = 2 << 20),
        ("arena_len` for nvme-server-far", |config| {
            config.drivers[0].arena_len = u64::from(config.drivers[0].pages) * 4096;
        }),
    ];
    fields_refused(&system, "pci-server", &lengths);
}

/// As many bytes are mapped as the environment has, and more than the configured buses need.
#[test]
fn configuration_space_of_other_buses_is_refused() {
    let mut system = good();
    let ecam = id(&system, "ecam") as usize;
    system.objects[ecam].count += 1;
    reconfigure(&mut system, "pci-server", |configured| {
        configured.regions.iter_mut().find(|region| region.name == "ecam").unwrap().len += 2 << 20;
    })
    .unwrap();
    refused(&system, Rule::NamedExactly, &["the PCI server is configured with 16 buses, and has 18874368 bytes"]);
}

#[test]
fn a_client_that_is_told_something_else_than_its_server_is_refused() {
    let changes: [Wrong<Client>; 13] = [
        ("tenant", |config| config.tenant = "bob".into()),
        ("class", |config| config.class = "urgent and more".into()),
        ("queue_pairs", |config| config.queue_pairs += 1),
        ("ring_entries", |config| config.ring_entries = 1 << 31),
        ("ring_entries", |config| config.ring_entries /= 2),
        ("window_bytes", |config| config.window_bytes *= 2),
        ("first_block", |config| config.first_block += 1),
        ("polls", |config| config.polls ^= true),
        ("waits", |config| config.waits ^= true),
        ("traced", |config| config.traced ^= 1),
        ("opens", |config| config.opens = Some(60_000)),
        ("ends", |config| config.ends = Some(0)),
        ("config", |config| config.config.push(' ')),
    ];
    fields_refused(&crowd(), "alice", &changes);
    fields_refused(&Image::of("functions"), "frida", &changes);
}

#[test]
fn other_names_of_components_at_the_console_are_refused() {
    type Names = Vec<(u16, String)>;
    fields_refused::<Names>(
        &crowd(),
        "console",
        &[
            ("names of components", |names| names[1].0 += 1),
            ("names of components", |names| names[2].1 = "alice".into()),
            ("names of components", |names| drop(names.pop())),
        ],
    );
}

#[test]
fn the_probes_last_access_is_the_declared_one() {
    fields_refused::<workload::Probe>(
        &Image::of("probe-revoke"),
        "probe",
        &[("last", |config| {
            config.last = match config.last {
                workload::LastProbe::Registers => workload::LastProbe::RevokedPage,
                workload::LastProbe::RevokedPage => workload::LastProbe::Registers,
            };
        })],
    );
}

#[test]
fn a_configuration_with_something_behind_it_is_refused() {
    for (who, title) in [
        ("console", "the console"),
        ("pci-server", "the PCI server"),
        ("nvme-server", "the server nvme-server"),
        ("policy", "the policy component policy"),
        ("alice", "client alice"),
    ] {
        let mut system = crowd();
        reconfigure(&mut system, who, |configured| configured.config.push(0)).unwrap();
        refused(&system, Rule::NamedExactly, &[title, "finds no configuration for its role"]);
    }
    let mut system = Image::of("edu");
    reconfigure(&mut system, "edu-driver", |configured| configured.config.push(0)).unwrap();
    refused(&system, Rule::NamedExactly, &["edu-driver finds no configuration for its role"]);
}

#[test]
fn the_program_of_another_role_is_refused() {
    for (who, program) in [
        ("nvme-server", "bench"),
        ("pci-server", "nvme-server"),
        ("policy", "hostile"),
        ("mallory", "bench"),
        ("alice", "policy"),
    ] {
        let mut system = crowd();
        component(&mut system, who).program = program.into();
        refused(&system, Rule::ConfiguredAsDeclared, &[&format!("runs the program {program}")]);
    }
}

#[test]
fn a_component_with_the_memory_of_another_program_is_refused() {
    for (part, other) in [("code", "constants"), ("constants", "code"), ("data", "code")] {
        let mut system = crowd();
        let theirs = id(&system, &format!("mallory.{other}")) as usize;
        let own = id(&system, &format!("nvme-server.{part}")) as usize;
        system.objects[own].fill = system.objects[theirs].fill;
        refused(
            &system,
            Rule::ConfiguredAsDeclared,
            &["nvme-server starts with other memory", "the program nvme-server"],
        );
    }
    let mut system = crowd();
    component(&mut system, "nvme-server").entry += 4;
    refused(&system, Rule::ConfiguredAsDeclared, &["nvme-server starts with other memory", "the program nvme-server"]);
}

/// A declaration with a mistake, and a system that is built from it.
#[test]
fn one_block_for_two_tenants_is_refused_even_if_declared() {
    let mut system = crowd();
    configure(&mut system, "policy", |config: &mut PolicyConfig| {
        let first = config.sessions[0].extents[0];
        config.sessions[1].nsid = config.sessions[0].nsid;
        config.sessions[1].extents[0].first = first.first + first.blocks - 1;
    });
    refused(&system, Rule::NamedExactly, &["the policy component policy", "of which one may write"]);
    let mut system = crowd();
    configure(&mut system, "policy", |config: &mut PolicyConfig| config.sessions[0].extents[0].first = u64::MAX);
    refused(&system, Rule::NamedExactly, &["the policy component policy", "impossible extents"]);
    for nsid in [0, u32::MAX] {
        let mut system = crowd();
        configure(&mut system, "nvme-server", |config: &mut ServerConfig| config.sessions[0].nsid = nsid);
        refused(&system, Rule::NamedExactly, &["the server nvme-server", "which no namespace is"]);
    }
}

/// A change of a session, from the extents of the first two.
type Beyond = fn(Extent, Extent) -> (u32, What);

#[test]
fn a_change_beyond_what_a_session_is_due_is_refused() {
    let share = |config: &PolicyConfig| (config.sessions[0].extents[0], config.sessions[1].extents[0]);
    let changes: [Beyond; 5] = [
        |_, other| (0, What::Grant(vec![other])),
        |own, _| (0, What::Grant(vec![Extent::new(own.first, own.blocks + 1)])),
        |own, _| (0, What::Grant(vec![Extent::new(own.first, 0)])),
        |own, _| (99, What::Grant(vec![own])),
        |_, _| {
            let (class, weight, queue_pairs, depth) = (Class::Low, 1, 1, 60_000);
            (0, What::Entitle(Entitlement { class, weight, iops: None, bandwidth: None, queue_pairs, depth }))
        },
    ];
    for change in changes {
        let mut system = crowd();
        configure(&mut system, "policy", |config: &mut PolicyConfig| {
            let (own, other) = share(config);
            let (session, what) = change(own, other);
            config.changes.push(Change { moment: 0, session, what });
        });
        refused(&system, Rule::NamedExactly, &["the policy component policy", "a change of session", "beyond its due"]);
    }
}

#[test]
fn impossible_numbers_of_a_session_are_refused() {
    let rings: [fn(&mut ServerConfig); 3] = [
        |config| config.sessions[0].ring_entries = 1 << 31,
        |config| config.sessions[0].ring_entries *= 64,
        |config| config.sessions[0].ring_entries -= 1,
    ];
    for change in rings {
        let mut system = crowd();
        configure(&mut system, "nvme-server", change);
        refused(&system, Rule::NamedExactly, &["the server nvme-server", "entries in the rings of"]);
    }
    let shares: [fn(&mut ServerConfig); 5] = [
        |config| config.sessions[0].queue_pairs = config.sessions[0].most_queue_pairs + 1,
        |config| config.sessions[0].depth = config.sessions[0].most_depth + 1,
        |config| config.sessions[0].depth = 0,
        |config| config.sessions[0].weight = 0,
        |config| (config.sessions[0].class, config.sessions[0].highest) = (Class::Urgent, Class::Low),
    ];
    for change in shares {
        let mut system = crowd();
        configure(&mut system, "nvme-server", change);
        refused(&system, Rule::NamedExactly, &["the server nvme-server", "beyond its bounds"]);
    }
    let weights: [fn(&mut ServerConfig); 3] =
        [|config| config.records = 0, |config| config.class_weights.low = 0, |config| config.class_weights.high = 257];
    for change in weights {
        let mut system = crowd();
        configure(&mut system, "nvme-server", change);
        refused(&system, Rule::NamedExactly, &["the server nvme-server", "no records, or with a weight"]);
    }
}

#[test]
fn kills_and_moments_that_nothing_declares_are_refused() {
    let nvme_server = component(&mut crowd(), "nvme-server").id;
    for component in [0, 60_000, nvme_server] {
        let mut system = crowd();
        system.specification.kills.push(Kill { component, moment: 0, times: 1, every_us: 1, spread_us: 0 });
        let order = format!("an order to kill component {component} at moment 0");
        refused(&system, Rule::ConfiguredAsDeclared, &[&order, "which nothing declares"]);
    }
    let mut system = crowd();
    assert!(!system.kills.is_empty() && !system.moments.is_empty());
    system.specification.kills.pop();
    refused(&system, Rule::ConfiguredAsDeclared, &["fewer kills than are declared"]);
    let mut system = crowd();
    system.specification.moments[0].after_us += 1;
    refused(&system, Rule::ConfiguredAsDeclared, &["other moments than those that are declared"]);
    // One that names a component that this system lacks.
    let mut system = crowd();
    Arc::make_mut(&mut system.declaration).kills.push(declaration::Kill {
        component: "iommu-server".into(),
        moment: 0,
        times: 1,
        every_us: 0,
        spread_us: 0,
    });
    assert_eq!(checked(&system), Ok(()));
}
