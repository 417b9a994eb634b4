//! Systems with a controller in a hot-plug slot, beside one that stays.

use super::*;
use pci_api::{Match, ServerConfig};

/// The server of the controller in the slot, and its page.
const SERVER: &str = "nvme-server-comes";
const PAGE: &str = "nvme-server-comes.presence";

fn hot_plug() -> Image {
    Image::of("hotplug")
}

#[test]
fn a_server_in_a_slot_passes() {
    assert_eq!(checked(&hot_plug()), Ok(()));
}

#[test]
fn a_page_of_presence_that_others_write_is_refused() {
    for other in [SERVER, "nvme-server-stays", "alice", "console"] {
        let mut system = hot_plug();
        map(&mut system, other, PAGE, true, false);
        refused(&system, Rule::OneWriter, &[PAGE, "the PCI server"]);
    }
}

#[test]
fn a_page_of_presence_that_others_read_is_refused() {
    for other in ["nvme-server-stays", "alice", "policy-comes"] {
        let mut system = hot_plug();
        map(&mut system, other, PAGE, false, false);
        refused(&system, Rule::PrivateMemory, &[other, "maps nvme-server-comes.presence"]);
    }
    let mut system = hot_plug();
    plant(&mut system, "nvme-server-stays", PAGE, 0, READ);
    refused(&system, Rule::PrivateMemory, &["nvme-server-stays holds nvme-server-comes.presence"]);
}

#[test]
fn a_slots_driver_without_its_page_is_refused() {
    let page = |system: &Image| id(system, PAGE);
    let mut system = hot_plug();
    system.components.iter_mut().for_each(|component| component.presence = None);
    refused(&system, Rule::NamedExactly, &[SERVER, "page of presence"]);
    // One that the supervisor takes for a page of presence, at a server whose controller stays.
    let mut system = hot_plug();
    let page = page(&system);
    let stays = system.components.iter_mut().find(|component| component.name == "nvme-server-stays");
    stays.unwrap().presence = Some(page);
    refused(&system, Rule::NamedExactly, &["nvme-server-stays", "page of presence"]);
}

#[test]
fn a_slot_that_the_pci_server_gives_another_driver_is_refused() {
    let mut system = hot_plug();
    configure(&mut system, "pci-server", |config: &mut ServerConfig| config.drivers.swap(0, 1));
    assert!(checked(&system).is_err());
    let mut system = hot_plug();
    configure(&mut system, "pci-server", |config: &mut ServerConfig| {
        config.drivers[1].allowed = config.drivers[0].allowed.clone()
    });
    refused(&system, Rule::ConfiguredAsDeclared, &["the PCI server", "another `allowed` for nvme-server-stays"]);
    // A slot for a driver that has no page, and none for the one that has it.
    let mut system = hot_plug();
    configure(&mut system, "pci-server", |config: &mut ServerConfig| config.drivers[1].allowed = Match::Slot(9));
    refused(&system, Rule::NamedExactly, &["nvme-server-stays"]);
    let mut system = hot_plug();
    configure(&mut system, "pci-server", |config: &mut ServerConfig| {
        config.drivers[0].allowed = Match::ClassCode { class_code: [1, 8, 2], index: 1 };
    });
    refused(&system, Rule::NamedExactly, &[SERVER]);
}
