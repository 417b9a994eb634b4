//! The IOMMU server of the AArch64 machine: the frames that each driver may map, and the pages that are kept for it.

use super::*;
use crate::programs::tests::samples_for;
use capdl_spec::Arch;
use iommu_api::ServerConfig;

const SERVER: &str = "iommu-server";

/// Alice at the NVMe server, frida and fritz with functions.
pub(super) fn virt() -> Image {
    Image::new(&scenario_of("functions"), &samples_for(Arch::Aarch64))
}

#[test]
fn it_is_given_no_way_to_receive_a_capability() {
    let mut system = virt();
    let cnode = id(&system, "iommu-server.cnode");
    assert!(system.caps.iter().all(|run| run.cnode != cnode || run.object != cnode));
    system.caps.push(CapRun { cnode, cptr: capdl_spec::RECEIVE_CPTR - 1, object: cnode, badge: 0, rights: ALL });
    refused(&system, Rule::NamedExactly, &["the IOMMU server", "iommu-server.cnode", "not for it"]);
}

#[test]
fn another_number_of_tables_or_role_of_a_driver_is_refused() {
    for number in [0, 1, u32::MAX] {
        let mut system = virt();
        configure(&mut system, SERVER, |config: &mut ServerConfig| config.drivers[1].tables = number);
        refused(&system, Rule::ConfiguredAsDeclared, &["the IOMMU server", "`tables` for frida"]);
    }
    for driver in 0..3 {
        let mut system = virt();
        configure(&mut system, SERVER, |config: &mut ServerConfig| config.drivers[driver].is_client ^= true);
        refused(&system, Rule::ConfiguredAsDeclared, &["the IOMMU server", "`is_client` for"]);
    }
    let mut system = virt();
    configure(&mut system, SERVER, |config: &mut ServerConfig| config.drivers.swap(1, 2));
    refused(&system, Rule::ConfiguredAsDeclared, &["the IOMMU server", "`name` for fritz"]);
    let mut system = virt();
    configure(&mut system, SERVER, |config: &mut ServerConfig| config.messages = platform::Paddr::new(0x0801_0000));
    refused(&system, Rule::ConfiguredAsDeclared, &["the IOMMU server", "`messages`"]);
}

/// A larger window without tables for it, and a table of frames that is too short for all arrays.
#[test]
fn frames_without_pages_for_them_are_refused() {
    let mut system = virt();
    let window = id(&system, "frida.window") as usize;
    system.objects[window].count += 513;
    refused(&system, Rule::ConfiguredAsDeclared, &["the IOMMU server", "`tables` for frida"]);
    for (part, count) in [("tables", 5), ("frames", 1)] {
        let mut system = virt();
        let object = id(&system, &format!("iommu-server.{part}")) as usize;
        system.objects[object].count = count;
        refused(&system, Rule::NamedExactly, &["the IOMMU server has", &format!("iommu-server.{part}")]);
    }
}

#[test]
fn another_table_of_frames_or_one_that_can_be_written_is_refused() {
    let valid = virt();
    for frames in [None, Some(id(&valid, "alice.window")), Some(id(&valid, "iommu-server.blocked"))] {
        let mut system = valid.clone();
        component(&mut system, SERVER).frames = frames;
        refused(&system, Rule::NamedExactly, &["the IOMMU server has as its table of frames"]);
    }
    let mut system = valid.clone();
    component(&mut system, "frida").frames = Some(id(&valid, "frida.window"));
    refused(&system, Rule::NamedExactly, &["client frida has as its table of frames"]);
    let table = id(&valid, "iommu-server.frames");
    for name in [SERVER, "frida"] {
        let mut system = valid.clone();
        map(&mut system, name, "iommu-server.frames", true, false);
        assert!(checked(&system).is_err(), "{name} may write the table of frames");
    }
    let mut system = valid;
    system.mappings.iter_mut().filter(|mapping| mapping.object == table).for_each(|mapping| mapping.writable = true);
    refused(&system, Rule::NamedExactly, &["the IOMMU server", "frames"]);
}
