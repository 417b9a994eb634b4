use super::*;
use blk_api::policy::BADGE;

#[test]
fn the_privileged_badge_is_the_policy_components_alone() {
    for (who, title) in [("mallory", "client mallory"), ("console", "the console"), ("pci-server", "the PCI server")] {
        let mut system = crowd();
        plant(&mut system, who, "nvme-server.endpoint", BADGE, CALL);
        refused(
            &system,
            Rule::PolicyAlone,
            &[title, "policy component's badge by cptr 200", "is not its policy component"],
        );
    }
}

#[test]
fn another_servers_policy_component_is_refused() {
    let mut system = good();
    plant(&mut system, "policy-old", "nvme-server-new.endpoint", BADGE, CALL);
    refused(&system, Rule::PolicyAlone, &["the policy component policy-old calls the server nvme-server-new"]);
}

#[test]
fn a_policy_component_that_passes_for_a_client_is_refused() {
    let mut system = crowd();
    plant(&mut system, "policy", "nvme-server.endpoint", 77, CALL);
    refused(&system, Rule::PolicyAlone, &["the policy component policy", "badge 0x4d"]);
}

#[test]
fn policy_component_with_memory_or_devices_is_refused() {
    for (object, rights) in [
        ("alice.window", READ),
        ("nvme-server.dma", READ),
        ("policy.cnode", ALL),
        ("policy.vspace", ALL),
        ("irq-control", ALL),
        ("pci-server.endpoint", CALL),
    ] {
        let mut system = crowd();
        plant(&mut system, "policy", object, 5, rights);
        refused(&system, Rule::PolicyAlone, &["the policy component policy reaches", object, "cptr 200"]);
    }
}

#[test]
fn what_a_policy_component_could_be_sent_is_refused() {
    let mut system = crowd();
    plant(&mut system, "policy", "policy.cnode", 0, ALL);
    refused(
        &system,
        Rule::PolicyAlone,
        &["reaches alice.window", "nvme-server", "in a reply along nvme-server.endpoint"],
    );
}

#[test]
fn memory_of_others_that_a_policy_component_maps_is_refused() {
    for object in ["alice.window", "alice.ring-client", "nvme-server.dma", "alice.liveness"] {
        let mut system = crowd();
        map(&mut system, "policy", object, false, false);
        refused(&system, Rule::PrivateMemory, &["policy", object]);
    }
}
