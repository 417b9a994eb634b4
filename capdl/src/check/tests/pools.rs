//! Pools of servers that are too small for all of their clients at once.

use super::*;

#[test]
fn drivers_that_may_take_each_others_interrupts_are_refused() {
    let mut system = good();
    configure(&mut system, "pci-server", |config: &mut pci_api::ServerConfig| config.drivers[0].max_vectors = 100);
    refused(
        &system,
        Rule::NamedExactly,
        &["the PCI server has 100 interrupts", "nvme-server-old 100", "nvme-server-new"],
    );
    for irqs in [(8, 101), (7, 100), (0, 0)] {
        let mut system = good();
        configure(&mut system, "pci-server", |config: &mut pci_api::ServerConfig| config.irqs = irqs);
        refused(&system, Rule::ConfiguredAsDeclared, &["the PCI server", "another `irqs`"]);
    }
}

#[test]
fn claims_without_cptrs_for_all_of_them_are_refused() {
    let mut system = good();
    reconfigure(&mut system, "pci-server", |environment| {
        environment.free_cptrs.start = environment.free_cptrs.end - 1000;
    })
    .unwrap();
    refused(&system, Rule::NamedExactly, &["the PCI server has 500 cptrs for claims", "nvme-server-old"]);
}

#[test]
fn sessions_without_records_for_all_of_them_are_refused() {
    let mut system = good();
    configure(&mut system, "nvme-server-old", |config: &mut blk_api::config::ServerConfig| config.records = 3);
    refused(&system, Rule::NamedExactly, &["the server nvme-server-old has 3 records", "alice 4"]);
}

#[test]
fn domains_without_pages_for_all_of_them_are_refused() {
    let mut system = super::iommu::virt();
    let tables = id(&system, "iommu-server.tables") as usize;
    system.objects[tables].count -= 1;
    refused(
        &system,
        Rule::NamedExactly,
        &["the IOMMU server has", "pages for tables", "nvme-server", "frida", "fritz"],
    );
}
