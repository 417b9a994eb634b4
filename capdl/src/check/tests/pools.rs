//! Pools of servers that are too small for all of their clients at once.

use super::*;

/// A system whose component has another configuration.
fn configured<T: serde::Serialize + serde::de::DeserializeOwned>(
    mut system: Image,
    who: &str,
    change: impl FnOnce(&mut T),
) -> Image {
    reconfigure(&mut system, who, |environment| {
        let mut config = environment.config().unwrap();
        change(&mut config);
        environment.config = postcard::to_stdvec(&config).unwrap();
    })
    .unwrap();
    system
}

#[test]
fn drivers_that_may_take_each_others_interrupts_are_refused() {
    let system = configured(good(), "pci-server", |config: &mut pci_api::ServerConfig| {
        config.drivers[0].max_vectors = 100;
    });
    refused(
        &system,
        Rule::NamedExactly,
        &["the PCI server has 100 interrupts", "nvme-server-old 100", "nvme-server-new"],
    );
    for irqs in [(8, 101), (7, 100), (0, 0)] {
        let system = configured(good(), "pci-server", |config: &mut pci_api::ServerConfig| config.irqs = irqs);
        refused(&system, Rule::NamedExactly, &["the PCI server", "other interrupts than the machine has"]);
    }
}

#[test]
fn claims_without_slots_for_all_of_them_are_refused() {
    let mut system = good();
    reconfigure(&mut system, "pci-server", |environment| {
        environment.free_slots.start = environment.free_slots.end - 2000;
    })
    .unwrap();
    refused(&system, Rule::NamedExactly, &["the PCI server has 1000 slots for claims", "nvme-server-old"]);
}

#[test]
fn sessions_without_records_for_all_of_them_are_refused() {
    let system = configured(good(), "nvme-server-old", |config: &mut blk_api::config::ServerConfig| config.records = 3);
    refused(&system, Rule::NamedExactly, &["the server nvme-server-old has 3 records", "alice 4"]);
}

#[test]
fn domains_without_pages_for_all_of_them_are_refused() {
    let (mut system, _) = super::iommu::virt();
    let tables = id(&system, "iommu-server.tables") as usize;
    system.objects[tables].count -= 1;
    refused(
        &system,
        Rule::NamedExactly,
        &["the IOMMU server has", "pages for tables", "nvme-server", "frida", "fritz"],
    );
}
