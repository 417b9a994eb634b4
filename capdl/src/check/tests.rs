use super::*;
use crate::build::tests::scenario_of;
use crate::layout::rights::{ALL, CALL, CALL_WITH_CAPS, GRANT, READ, READ_WRITE, WRITE};
use crate::programs::tests::samples;
use crate::scenario::Scenario;
use capdl_spec::{CapRun, Component, Mapping, Object, ObjectId, ObjectKind, Role, Specification};
use platform::{Badge, Environment};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeSet;
use std::sync::Arc;

mod configurations;
mod control;
mod exchanged;
mod functions;
mod hot_plug;
mod image;
mod iommu;
mod mutations;
mod policy;
mod pools;
mod priorities;
mod private;
mod roots;
mod signals;
mod structure;
mod telemetry;

use self::image::*;

#[test]
fn good_systems_pass() {
    assert_eq!(checked(&good()), Ok(()));
    assert_eq!(checked(&crowd()), Ok(()));
}

#[test]
fn memory_two_clients_can_write_is_refused() {
    let mut system = crowd();
    map(&mut system, "mallory", "alice.window", true, false);
    refused(&system, Rule::ClientsApart, &["client alice and client mallory share alice.window", "0x70000000"]);
}

#[test]
fn memory_one_client_writes_and_another_reads_is_refused() {
    let mut system = crowd();
    map(&mut system, "mallory", "alice.stack", false, false);
    refused(&system, Rule::ClientsApart, &["alice.stack"]);
}

#[test]
fn another_clients_frame_capability_is_refused() {
    let mut system = crowd();
    plant(&mut system, "mallory", "alice.window", 0, READ_WRITE);
    refused(&system, Rule::ClientsApart, &["alice.window", "cptr 200"]);
    refused(&system, Rule::WindowsUnreadable, &["client mallory holds alice.window", "is not the server"]);
}

#[test]
fn a_notification_between_clients_is_refused() {
    let mut system = crowd();
    plant(&mut system, "mallory", "alice.event", 1, WRITE);
    refused(&system, Rule::ClientsApart, &["alice.event"]);
}

/// The badge of a signal from one client to another.
const PEER: u64 = Badge::SIGNAL | workload::Signal::BADGE_BIT;

fn channel(from: &str, to: &str) -> Channel {
    Channel { from: from.into(), to: to.into() }
}

#[test]
fn peer_notification_is_allowed_only_as_declared() {
    let mut system = Image::of("bench-signal-wait");
    let (there, back) = (channel("alice", "bob"), channel("bob", "alice"));
    assert_eq!(system.declaration.channels, [there.clone(), back]);
    assert_eq!(checked(&system), Ok(()));
    Arc::make_mut(&mut system.declaration).channels = vec![there];
    refused(&system, Rule::ClientsApart, &["client alice and client bob share alice.event"]);
    Arc::make_mut(&mut system.declaration).channels.clear();
    refused(&system, Rule::ClientsApart, &["client alice and client bob share bob.event"]);
}

#[test]
fn a_declared_channel_is_for_signals_alone() {
    for (object, rights) in [("bob.event", READ_WRITE), ("bob.event", READ), ("bob.window", WRITE)] {
        let mut system = good();
        plant(&mut system, "alice", object, PEER, rights);
        Arc::make_mut(&mut system.declaration).channels = vec![channel("alice", "bob")];
        refused(&system, Rule::ClientsApart, &[object]);
    }
}

#[test]
fn memory_two_components_can_write_is_refused() {
    let mut system = crowd();
    map(&mut system, "nvme-server", "alice.ring-client", true, false);
    refused(&system, Rule::OneWriter, &["alice.ring-client", "the server nvme-server", "client alice"]);
}

#[test]
fn a_client_with_a_device_frame_is_refused() {
    let mut system = crowd();
    new_object(&mut system, "registers", ObjectKind::SmallDeviceFrame { paddr: 0xFEB0_0000 });
    map(&mut system, "mallory", "registers", true, false);
    refused(&system, Rule::ClientsHoldNoDevice, &["client mallory reaches registers", "pci-window-fe800000", "MSI-X"]);
}

#[test]
fn a_client_with_interrupts_ports_or_the_iommu_is_refused() {
    for object in ["irq-control", "io-space-master", "serial", "ecam"] {
        let mut system = crowd();
        plant(&mut system, "mallory", object, 0, ALL);
        refused(&system, Rule::ClientsHoldNoDevice, &["client mallory", object, "cptr 200"]);
    }
}

#[test]
fn a_client_with_control_of_a_space_or_thread_is_refused() {
    for object in
        ["mallory.vspace", "mallory.cnode", "mallory.tcb", "alice.tcb", "nvme-server.cnode", "nvme-server.io-table"]
    {
        let mut system = crowd();
        plant(&mut system, "mallory", object, 0, ALL);
        refused(&system, Rule::ClientsHoldNoDevice, &["client mallory", object]);
    }
}

#[test]
fn what_lies_behind_a_cnode_is_reached_through_it() {
    let mut system = crowd();
    plant(&mut system, "mallory", "pci-server.cnode", 0, ALL);
    refused(
        &system,
        Rule::NoUntypedOut,
        &["client mallory reaches the untyped pci-window-c0000000", "pci-server.cnode (cptr 200"],
    );
    refused(&system, Rule::ClientsHoldNoDevice, &["irq-control", "the CSpace behind it"]);
}

#[test]
fn client_that_can_receive_capabilities_is_refused() {
    let mut system = crowd();
    plant(&mut system, "mallory", "mallory.cnode", 0, ALL);
    refused(
        &system,
        Rule::ClientsApart,
        &["alice.window", "nvme-server", "can send it in a reply along nvme-server.endpoint"],
    );
}

#[test]
fn server_with_pci_window_interrupts_or_iommu_is_refused() {
    for object in ["pci-window-c0000000", "irq-control", "io-space-master"] {
        let mut system = good();
        plant(&mut system, "nvme-server-old", object, 0, ALL);
        refused(&system, Rule::DevicesArePciServers, &["the server nvme-server-old reaches", object]);
    }
}

#[test]
fn configuration_space_with_a_server_is_refused() {
    let mut system = good();
    map(&mut system, "nvme-server-old", "ecam", false, false);
    refused(&system, Rule::DevicesArePciServers, &["nvme-server-old", "ecam"]);
}

#[test]
fn a_server_that_maps_a_window_is_refused_even_read_only() {
    let mut system = crowd();
    map(&mut system, "nvme-server", "alice.window", false, false);
    refused(
        &system,
        Rule::WindowsUnreadable,
        &["nvme-server holds alice.window of client alice", "maps it at 0x70000000"],
    );
}

#[test]
fn a_server_that_could_map_a_window_is_refused() {
    let table = crowd()
        .specification
        .objects
        .into_iter()
        .find(|object| object.name.starts_with("nvme-server.table-3"))
        .unwrap();
    for object in ["nvme-server.vspace", "console.vspace", "nvme-server.tcb", &table.name, "memory"] {
        let mut system = crowd();
        new_object(&mut system, "memory", ObjectKind::Untyped { size_bits: 20 });
        plant(&mut system, "nvme-server", object, 0, ALL);
        refused(&system, Rule::WindowsUnreadable, &["nvme-server holds alice.window", "can map it with", object]);
    }
}

#[test]
fn server_with_windows_of_foreign_clients_is_refused() {
    let mut system = good();
    plant(&mut system, "nvme-server-new", "alice.window", 0, READ_WRITE);
    refused(
        &system,
        Rule::WindowsUnreadable,
        &["nvme-server-new holds alice.window", "is not the server client alice calls"],
    );
}

#[test]
fn windows_that_one_server_could_send_another_are_refused() {
    let mut system = good();
    plant(&mut system, "nvme-server-old", "nvme-server-new.endpoint", 9, CALL);
    refused(
        &system,
        Rule::WindowsUnreadable,
        &["nvme-server-new holds alice.window", "nvme-server-old", "in a message along nvme-server-new.endpoint"],
    );
}

#[test]
fn ports_outside_the_console_are_refused() {
    let mut system = good();
    plant(&mut system, "nvme-server-old", "serial", 0, ALL);
    refused(&system, Rule::ConsoleOnlyReads, &["nvme-server-old reaches the I/O ports serial"]);
}

#[test]
fn foreign_io_ports_are_refused_at_the_console() {
    for (first, last) in [(0xcf8, 0xcff), (0x3f8, 0xcff), (0, 0x3ff), (0x3f8, 0x3fe), (0x2f8, 0x2ff)] {
        let mut system = good();
        let serial = id(&system, "serial") as usize;
        system.objects[serial].kind = ObjectKind::IoPorts { first, last };
        refused(&system, Rule::ConsoleOnlyReads, &["the console reaches the I/O ports", &format!("{first:#x}")]);
    }
    let mut system = good();
    new_object(&mut system, "configuration", ObjectKind::IoPorts { first: 0xcf8, last: 0xcff });
    plant(&mut system, "console", "configuration", 0, ALL);
    refused(&system, Rule::ConsoleOnlyReads, &["the console reaches the I/O ports configuration", "0xcf8 to 0xcff"]);
}

#[test]
fn a_console_that_writes_logs_or_reads_more_is_refused() {
    let mut system = good();
    let (console, log) = (id(&system, "console.vspace"), id(&system, "alice.log"));
    let mapping =
        system.mappings.iter_mut().find(|mapping| mapping.vspace == console && mapping.object == log).unwrap();
    mapping.writable = true;
    refused(&system, Rule::ConsoleOnlyReads, &["can write alice.log of client alice"]);
    let mut system = good();
    map(&mut system, "console", "alice.stack", false, false);
    refused(&system, Rule::ConsoleOnlyReads, &["more than the log of client alice: alice.stack"]);
}

#[test]
fn writable_code_is_refused_also_through_two_mappings() {
    let mut system = good();
    let code = id(&system, "alice.code");
    system.mappings.iter_mut().find(|mapping| mapping.object == code).unwrap().writable = true;
    refused(&system, Rule::WriteXorExecute, &["alice.code"]);
    let mut system = good();
    map(&mut system, "alice", "alice.data", false, true);
    refused(&system, Rule::WriteXorExecute, &["alice.data is writable by client alice and executable by client alice"]);
}

#[test]
fn a_client_with_memory_to_make_objects_of_is_refused() {
    let mut system = good();
    new_object(&mut system, "memory", ObjectKind::Untyped { size_bits: 20 });
    plant(&mut system, "alice", "memory", 0, ALL);
    refused(&system, Rule::NoUntypedOut, &["client alice reaches the untyped memory"]);
}

#[test]
fn untyped_memory_is_refused_outside_a_probe() {
    for (who, title) in [
        ("console", "the console"),
        ("pci-server", "the PCI server"),
        ("nvme-server-old", "the server nvme-server-old"),
        ("policy-old", "the policy component policy-old"),
    ] {
        let mut system = good();
        new_object(&mut system, "memory", ObjectKind::Untyped { size_bits: 20 });
        plant(&mut system, who, "memory", 0, ALL);
        refused(&system, Rule::NoUntypedOut, &[title, "reaches the untyped memory"]);
    }
}

#[test]
fn the_pci_server_has_device_memory_of_the_pci_window_alone() {
    // The timer's, the interrupt controller's, and what begins inside and ends outside.
    for (paddr, size_bits) in [(0xfed0_0000, 12), (0xfec0_0000, 12), (0xc000_0000, 30), (0, 12)] {
        let mut system = good();
        new_object(&mut system, "registers", ObjectKind::DeviceUntyped { paddr, size_bits });
        plant(&mut system, "pci-server", "registers", 0, ALL);
        refused(
            &system,
            Rule::NoUntypedOut,
            &["the PCI server reaches the untyped registers", "outside of the PCI window"],
        );
    }
}

#[test]
fn endpoints_have_one_receiver() {
    let mut system = good();
    plant(&mut system, "alice", "nvme-server-old.endpoint", 0, READ);
    refused(&system, Rule::BadgesUnique, &["client alice can receive on nvme-server-old.endpoint"]);
    let mut system = good();
    plant(&mut system, "nvme-server-new", "nvme-server-old.endpoint", 0, READ);
    refused(&system, Rule::BadgesUnique, &["both receive on nvme-server-old.endpoint"]);
}

/// Sets the rights with which a component has an endpoint.
fn has_with(system: &mut Image, name: &str, endpoint: &str, rights: u8) {
    let (cnode, endpoint) = (component(system, name).cnode, id(system, endpoint));
    let run = system.caps.iter_mut().find(|run| run.cnode == cnode && run.object == endpoint);
    run.unwrap_or_else(|| panic!("{name} does not have it")).rights = rights;
}

#[test]
fn the_pci_server_alone_answers_with_capabilities() {
    let mut system = good();
    has_with(&mut system, "pci-server", "pci-server.endpoint", READ);
    refused(&system, Rule::NamedExactly, &["the PCI server has as endpoint", "pci-server.endpoint", "rights 1"]);
    let servers = [(good(), "nvme-server-old"), (good(), "policy-new"), (iommu::virt(), "iommu-server")];
    for (mut system, name) in servers {
        let endpoint = format!("{name}.endpoint");
        has_with(&mut system, name, &endpoint, READ | GRANT);
        refused(&system, Rule::NamedExactly, &["has as endpoint", &endpoint, "rights 5"]);
    }
}

#[test]
fn drivers_alone_send_capabilities_and_to_the_pci_server_alone() {
    let senders = [CALL, CALL_WITH_CAPS, WRITE];
    for (system, who, endpoint, right) in [
        (crowd(), "alice", "nvme-server.endpoint", CALL),
        (crowd(), "alice", "policy.endpoint", CALL),
        (crowd(), "policy", "nvme-server.endpoint", CALL),
        (crowd(), "nvme-server", "pci-server.endpoint", CALL_WITH_CAPS),
        (iommu::virt(), "pci-server", "iommu-server.endpoint", CALL),
    ] {
        for wrong in senders.into_iter().filter(|rights| *rights != right) {
            let mut system = system.clone();
            has_with(&mut system, who, endpoint, wrong);
            refused(&system, Rule::NamedExactly, &[endpoint, &format!("rights {wrong}")]);
        }
    }
}

#[test]
fn badges_are_unique_and_fit() {
    let mut system = crowd();
    plant(&mut system, "mallory", "nvme-server.endpoint", 1, CALL);
    refused(
        &system,
        Rule::BadgesUnique,
        &["client alice and client mallory send on nvme-server.endpoint with the same badge 1"],
    );
    for badge in [0, 1 << 28] {
        let mut system = crowd();
        plant(&mut system, "mallory", "nvme-server.endpoint", badge, CALL);
        refused(&system, Rule::BadgesUnique, &["client mallory sends on nvme-server.endpoint with the badge"]);
    }
}

#[test]
fn components_that_share_a_space_are_refused() {
    let mut system = good();
    let cnode = system.components[0].cnode;
    system.components[1].cnode = cnode;
    refused(&system, Rule::WellFormed, &["share console.cnode"]);
}

#[test]
fn a_specification_that_names_nothing_is_refused() {
    let mut system = good();
    system.caps[0].object = u32::MAX;
    refused(&system, Rule::WellFormed, &["not there"]);
    let mut system = good();
    system.components[0].keeps = Some(u32::MAX);
    refused(&system, Rule::WellFormed, &["console", "a page to keep", "not there"]);
    let mut system = good();
    system.mappings[0].object = u32::MAX;
    refused(&system, Rule::WellFormed, &["not there"]);
}

#[test]
fn two_components_with_a_role_of_which_there_is_one_are_refused() {
    let mut system = good();
    component(&mut system, "alice").role = Role::PciServer;
    refused(&system, Rule::WellFormed, &["pci-server and alice", "the PCI server"]);
}

#[test]
fn a_probe_beside_a_tenant_or_a_server_is_refused() {
    assert_eq!(checked(&Image::of("probe-dma")), Ok(()));
    let mut system = good();
    component(&mut system, "alice").role = Role::Probe;
    refused(
        &system,
        Rule::ProbeAlone,
        &["the test component alice", "the server nvme-server-old is in the same system"],
    );
    refused(&system, Rule::ProbeAlone, &["client bob is in the same system"]);
}
