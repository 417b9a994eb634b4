//! Priorities outside their role's bounds.

use super::*;
use capdl_spec::RestartPolicy;

#[track_caller]
fn refused_at(who: &str, priority: u8, words: &[&str]) {
    let mut system = crowd();
    component(&mut system, who).priority = priority;
    refused(&system, Rule::PrioritiesByRole, words);
}

#[test]
fn a_tenant_runs_below_its_server() {
    for priority in [119, 120, 121, 150, 254, 255] {
        refused_at("mallory", priority, &["client mallory", &format!("priority {priority}"), "1 to 118", "starve"]);
    }
    refused_at("mallory", 0, &["client mallory", "priority 0"]);
    for priority in [1, 99, 118] {
        let mut system = crowd();
        component(&mut system, "mallory").priority = priority;
        let declared = &mut std::sync::Arc::make_mut(&mut system.declaration).tenants;
        declared.iter_mut().filter(|tenant| tenant.name == "mallory").for_each(|tenant| tenant.priority = priority);
        assert_eq!(checked(&system), Ok(()));
    }
}

#[test]
fn priority_other_than_declared_is_refused() {
    // Each is within its role's bounds: without the declaration, a tenant could be above a more urgent one.
    for (name, who, priority) in [
        ("mallory", "client mallory", 118),
        ("mallory", "client mallory", 1),
        ("console", "the console", 2),
        ("pci-server", "the PCI server", 151),
    ] {
        let mut system = crowd();
        component(&mut system, name).priority = priority;
        refused(&system, Rule::ConfiguredAsDeclared, &[who, "another `priority` than is declared"]);
    }
    let mut system = crowd();
    for who in ["nvme-server", "policy"] {
        component(&mut system, who).priority = 121;
    }
    refused(&system, Rule::ConfiguredAsDeclared, &["the server nvme-server has another `priority` than is declared"]);
    refused(&system, Rule::ConfiguredAsDeclared, &["policy has another `priority` than is declared"]);
}

#[test]
fn restarts_other_than_declared_are_refused() {
    let policy = |times| Some(RestartPolicy { times, within_ms: 60_000 });
    for (name, who) in [("nvme-server", "nvme-server"), ("policy", "policy"), ("pci-server", "the PCI server")] {
        for times in [0, 4, 6] {
            let mut system = crowd();
            component(&mut system, name).restart = policy(times);
            refused(&system, Rule::ConfiguredAsDeclared, &[who, "another `restart` than is declared"]);
        }
    }
    let mut system = crowd();
    component(&mut system, "mallory").restart = policy(5);
    refused(&system, Rule::ConfiguredAsDeclared, &["client mallory has another `restart` than is declared"]);
    let mut system = super::iommu::virt();
    component(&mut system, "iommu-server").restart = policy(1);
    refused(&system, Rule::ConfiguredAsDeclared, &["the IOMMU server", "another `restart` than is declared"]);
}

#[test]
fn server_priority_is_below_pci_server_and_root_task() {
    refused_at("nvme-server", 150, &["the server nvme-server", "priority 150", "3 to 149"]);
    refused_at("pci-server", 255, &["the PCI server", "priority 255", "254"]);
    refused_at("pci-server", 120, &["the server nvme-server", "priority 120", "3 to 119"]);
}

#[test]
fn a_policy_component_is_as_urgent_as_its_server() {
    for priority in [119, 121] {
        refused_at("policy", priority, &["the policy component policy", &format!("priority {priority}"), "120"]);
    }
}

#[test]
fn the_iommu_server_is_as_urgent_as_the_pci_server() {
    let valid = super::iommu::virt();
    for (who, priority) in [("iommu-server", 149), ("iommu-server", 151), ("iommu-server", 120), ("pci-server", 160)] {
        let mut system = valid.clone();
        component(&mut system, who).priority = priority;
        refused(&system, Rule::PrioritiesByRole, &["the IOMMU server", "as urgent as the PCI server"]);
    }
}

#[test]
fn the_console_is_not_above_a_server() {
    refused_at("console", 121, &["the console", "priority 121", "1 to 120"]);
    refused_at("console", 0, &["the console", "priority 0"]);
}

#[test]
fn where_the_server_polls_its_tenants_are_as_urgent_as_it() {
    let polled = Image::of("polled");
    assert_eq!(checked(&polled), Ok(()));
    for priority in [99, 101] {
        let mut system = polled.clone();
        component(&mut system, "bob").priority = priority;
        refused(&system, Rule::PrioritiesByRole, &["client bob", "the server that polls", "100 to 100"]);
    }
}
