//! Configurations that agree with no other component, or with nothing that there could be.

use super::*;
use blk_api::config::{Class, ServerConfig};
use blk_api::extent::Extent;
use blk_api::policy::{Change, Entitlement, PolicyConfig, What};
use capdl_spec::Kill;

/// Changes the configuration of a component.
fn configure<T: serde::Serialize + serde::de::DeserializeOwned>(
    system: &mut Image,
    component: &str,
    change: impl FnOnce(&mut T),
) {
    reconfigure(system, component, |configured| {
        let mut config = configured.config().unwrap();
        change(&mut config);
        configured.config = postcard::to_stdvec(&config).unwrap();
    })
    .unwrap();
}

#[test]
fn a_server_that_is_not_configured_as_its_policy_component_is_refused() {
    let changes: [fn(&mut ServerConfig); 7] = [
        |config| config.sessions[0].nsid = 2,
        |config| config.sessions[0].nsid = 0,
        |config| config.sessions[0].nsid = u32::MAX,
        |config| config.sessions[1].blocks += 1,
        |config| config.sessions[1].blocks -= 1,
        |config| config.sessions[0].blocks = u64::MAX,
        |config| config.sessions[0].writable ^= true,
    ];
    for (number, change) in changes.into_iter().enumerate() {
        let mut system = crowd();
        configure(&mut system, "nvme-server", change);
        let why = ["the policy component policy", "other blocks of", "than its server"];
        refused(&system, Rule::NamedExactly, &why);
        if number == 1 {
            refused(&system, Rule::NamedExactly, &["the server nvme-server", "namespace 0", "which no namespace is"]);
        }
    }
}

#[test]
fn a_policy_component_that_is_not_configured_as_its_server_is_refused() {
    let changes: [fn(&mut PolicyConfig); 4] = [
        |config| config.sessions[0].nsid += 1,
        |config| config.sessions[0].writable ^= true,
        |config| config.sessions[0].extents[0].blocks -= 1,
        |config| config.sessions[0].extents.clear(),
    ];
    for change in changes {
        let mut system = crowd();
        configure(&mut system, "policy", change);
        refused(&system, Rule::NamedExactly, &["the policy component policy", "other blocks of", "than its server"]);
    }
}

/// The same namespaces, sizes and rights in both places, and blocks that two tenants have.
#[test]
fn one_block_for_two_tenants_is_refused() {
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
fn a_kill_of_no_component_is_refused() {
    for component in [0, 60_000] {
        let mut system = crowd();
        let kill = Kill { component, moment: 0, times: 1, every_us: 1, spread_us: 0 };
        system.specification.kills.push(kill);
        refused(&system, Rule::WellFormed, &["there is an order to kill component", "which does not exist"]);
    }
}
