//! Planted leaks of memory: held by the wrong component, mapped by it, or held so that a device could be made to read and write
//! it.

use super::*;

/// Changes how `component` maps `object`.
fn remap(specification: &mut Specification, component: &str, object: &str, change: impl Fn(&mut Mapping)) {
    let (vspace, object) = (id(specification, &format!("{component}.vspace")), id(specification, object));
    let of_both = |mapping: &&mut Mapping| mapping.vspace == vspace && mapping.object == object;
    change(specification.mappings.iter_mut().find(of_both).unwrap());
}

#[test]
fn writable_mapping_counts_beside_a_read_only_one() {
    let mut system = crowd();
    map(&mut system, "alice", "alice.constants", true, false);
    map(&mut system, "bob", "alice.constants", false, false);
    refused(&system, Rule::ClientsApart, &["client alice and client bob share alice.constants", "0x70000000"]);
}

#[test]
fn write_capability_counts_beside_a_read_only_mapping() {
    let mut system = crowd();
    new_object(&mut system, "page", ObjectKind::SmallFrame);
    map(&mut system, "alice", "page", false, false);
    map(&mut system, "bob", "page", false, false);
    plant(&mut system, "alice", "page", 0, READ);
    plant(&mut system, "alice", "page", 0, READ_WRITE);
    refused(&system, Rule::ClientsApart, &["client alice and client bob share page", "cptr 200"]);
}

#[test]
fn frames_of_another_server_are_refused_as_capabilities() {
    for object in ["dma", "stack", "data", "ipc-buffer", "log"] {
        let mut system = good();
        let object = format!("nvme-server-new.{object}");
        plant(&mut system, "nvme-server-old", &object, 0, READ_WRITE);
        refused(&system, Rule::OneWriter, &[&object, "the server nvme-server-new", "nvme-server-old by cptr 200"]);
    }
    for object in ["dma", "code", "constants", "environment"] {
        let mut system = good();
        let object = format!("nvme-server-new.{object}");
        plant(&mut system, "nvme-server-old", &object, 0, READ);
        refused(&system, Rule::PrivateMemory, &["server nvme-server-old holds", &object, "cptr 200"]);
    }
}

#[test]
fn capabilities_to_console_and_pci_frames_are_refused() {
    for (object, owner) in [("console.stack", "the console"), ("pci-server.data", "the PCI server")] {
        let mut system = good();
        plant(&mut system, "nvme-server-old", object, 0, READ_WRITE);
        refused(&system, Rule::OneWriter, &[object, owner, "cptr 200"]);
    }
}

#[test]
fn code_that_a_device_could_write_is_refused() {
    let mut system = good();
    plant(&mut system, "nvme-server-old", "nvme-server-new.code", 0, READ_WRITE);
    refused(&system, Rule::WriteXorExecute, &["nvme-server-new.code is writable by the server nvme-server-old"]);
    let mut system = good();
    plant(&mut system, "nvme-server-old", "nvme-server-old.code", 0, READ_WRITE);
    refused(&system, Rule::WriteXorExecute, &["nvme-server-old.code"]);
}

#[test]
fn frames_nobody_maps_have_one_holder() {
    let mut system = good();
    new_object(&mut system, "page", ObjectKind::SmallFrame);
    plant(&mut system, "nvme-server-old", "page", 0, READ_WRITE);
    plant(&mut system, "nvme-server-new", "page", 0, READ_WRITE);
    refused(&system, Rule::OneWriter, &["page is writable by", "nvme-server-old", "nvme-server-new"]);
}

#[test]
fn a_client_that_holds_its_servers_frames_is_refused() {
    let mut system = crowd();
    plant(&mut system, "mallory", "nvme-server.dma", 0, READ_WRITE);
    refused(&system, Rule::OneWriter, &["nvme-server.dma", "client mallory"]);
}

#[test]
fn server_holds_only_the_windows_of_its_clients() {
    let parts =
        ["stack", "data", "code", "constants", "ipc-buffer", "environment", "log", "ring-client", "ring-server"];
    for part in parts {
        for rights in [READ, READ_WRITE] {
            let mut system = crowd();
            let object = format!("alice.{part}");
            plant(&mut system, "nvme-server", &object, 0, rights);
            refused(&system, Rule::WindowsUnreadable, &["nvme-server holds", &object, "that is not the window"]);
        }
    }
}

#[test]
fn a_window_its_client_could_run_is_refused() {
    let mut system = crowd();
    remap(&mut system, "alice", "alice.window", |mapping| (mapping.writable, mapping.executable) = (false, true));
    refused(&system, Rule::WriteXorExecute, &["alice.window is writable by the server nvme-server"]);
}

#[test]
fn private_memory_is_mapped_by_nobody_else() {
    for (who, named) in [("nvme-server", "the server"), ("pci-server", "the PCI server"), ("console", "the console")] {
        for part in ["stack", "data", "code", "ipc-buffer", "environment"] {
            let mut system = crowd();
            let object = format!("alice.{part}");
            map(&mut system, who, &object, false, false);
            refused(&system, Rule::PrivateMemory, &[named, &object, "which is not for it"]);
        }
    }
}

#[test]
fn only_the_console_maps_logs_and_the_called_server_rings() {
    for (who, object) in [
        ("nvme-server-old", "alice.log"),
        ("pci-server", "alice.log"),
        ("nvme-server-new", "alice.ring-client"),
        ("nvme-server-new", "alice.ring-server"),
        ("pci-server", "alice.ring-client"),
        ("console", "alice.ring-server"),
    ] {
        let mut system = good();
        map(&mut system, who, object, false, false);
        refused(&system, Rule::PrivateMemory, &[object, "0x70000000", "which is not for it"]);
    }
}

#[test]
fn servers_map_nothing_of_each_other() {
    let mut system = good();
    map(&mut system, "nvme-server-old", "nvme-server-new.dma", false, false);
    refused(&system, Rule::PrivateMemory, &["nvme-server-new.dma", "0x70000000"]);
}

#[test]
fn the_console_maps_the_log_and_not_something_else_in_its_place() {
    for part in ["data", "window", "ring-client"] {
        let mut system = crowd();
        let object = format!("alice.{part}");
        let other = id(&system, &object);
        remap(&mut system, "console", "alice.log", |mapping| mapping.object = other);
        refused(&system, Rule::ConsoleOnlyReads, &["more than the log of client alice", &object]);
    }
}

#[test]
fn objects_and_components_of_the_same_name_are_refused() {
    let mut system = good();
    new_object(&mut system, "alice.window", ObjectKind::SmallFrame);
    refused(&system, Rule::WellFormed, &["two objects are called alice.window"]);
    let mut system = good();
    component(&mut system, "alice").name = "bob".into();
    refused(&system, Rule::WellFormed, &["two components are called bob"]);
}

#[test]
fn the_page_that_the_pci_server_keeps_is_its_own() {
    let mut system = good();
    map(&mut system, "nvme-server-old", "pci-server.sizing", false, false);
    refused(&system, Rule::PrivateMemory, &["pci-server.sizing"]);
}

/// A system with a client that is started again, and its neighbour that is not.
fn mortal() -> Image {
    let system = Image::of("client-cycles");
    assert_eq!(checked(&system), Ok(()));
    system
}

fn teardown_ack<'a>(specification: &'a mut Specification, client: &str) -> &'a mut Option<capdl_spec::TeardownAck> {
    &mut specification.components.iter_mut().find(|component| component.name == client).unwrap().teardown_ack
}

#[test]
fn a_client_that_is_started_again_has_a_server_that_says_when() {
    let mut system = mortal();
    *teardown_ack(&mut system, "victim") = None;
    refused(&system, Rule::PrivateMemory, &["client victim is started again", "nobody says"]);
    let mut system = mortal();
    teardown_ack(&mut system, "victim").as_mut().unwrap().page = ObjectId::MAX;
    refused(&system, Rule::WellFormed, &["victim names a page of teardown acknowledgements that is not there"]);
    let mut system = mortal();
    new_object(&mut system, "nowhere", ObjectKind::SmallFrame);
    teardown_ack(&mut system, "victim").as_mut().unwrap().page = id(&system.clone(), "nowhere");
    refused(&system, Rule::PrivateMemory, &["nobody writes nowhere"]);
}

#[test]
fn page_of_acks_is_its_servers_with_a_word_for_each_client() {
    let mut system = mortal();
    map(&mut system, "alice", "nvme-server.teardown-acks", true, false);
    refused(&system, Rule::PrivateMemory, &["client alice maps nvme-server.teardown-acks", "not its server"]);
    let mut system = mortal();
    plant(&mut system, "policy", "nvme-server.teardown-acks", 0, READ);
    refused(&system, Rule::PrivateMemory, &["policy holds nvme-server.teardown-acks"]);
    let mut system = mortal();
    *teardown_ack(&mut system, "alice") = *teardown_ack(&mut system.clone(), "victim");
    refused(&system, Rule::PrivateMemory, &["client alice and client victim have the same word"]);
}

#[test]
fn only_a_server_acknowledges_teardowns() {
    for who in ["victim", "pci-server", "policy"] {
        let mut system = mortal();
        plant(&mut system, who, "root-task.event", Badge::SIGNAL | Badge::TORN_DOWN, WRITE);
        refused(&system, Rule::SignalsMarked, &["could signal the supervisor 0x9000000000000000"]);
    }
}
