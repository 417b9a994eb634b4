//! Priorities outside their role's bounds.

use super::*;

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
        assert_eq!(checked(&system), Ok(()));
    }
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
