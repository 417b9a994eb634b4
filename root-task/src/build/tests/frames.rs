//! The table of drivers' frames.

use super::*;
use crate::build::tests::restarts::{dies, restartable};
use iommu_api::frames::{self, Frames};
use platform::fake::Ram;
use sim_kernel::VmRights;

/// Address of the table in the second component.
const TABLE_VADDR: u64 = 0x4_0000;
/// Cptrs of the driver's arrays: its code, of three frames, one that it may only read, and many that are in no one place.
const CODE_CPTR: u64 = 14;
const READ_ONLY_CPTR: u64 = 20;
const MANY_CPTR: u64 = 24;
const MANY: u32 = 12;

/// The first component is the driver of domain 2, the second one reads the table.
fn with_table(pages: u32) -> Specification {
    let mut specification = restartable();
    let first = specification.objects.len() as u32;
    specification.objects.extend([
        object("table", ObjectKind::SmallFrame, pages),
        object("read-only", ObjectKind::SmallFrame, 1),
        object("many", ObjectKind::SmallFrame, MANY),
    ]);
    specification.mappings.push(mapping(SECOND + VSPACE, first, TABLE_VADDR));
    specification.caps.push(CapRun { rights: 1, ..run(CNODE, READ_ONLY_CPTR, first + 1, 0) });
    specification.caps.push(run(CNODE, MANY_CPTR, first + 2, 0));
    specification.components[0].driver = Some(1);
    specification.components[1].frames = Some(first);
    specification
}

fn table(platform: &TestPlatform) -> Frames {
    let memory = Ram::new(PAGE_SIZE);
    memory.write_bytes(0, &platform.page(2, TABLE_VADDR)).unwrap();
    Frames::read(&memory).unwrap()
}

/// The driver's small frames as the kernel has them, by cptr.
fn held(platform: &TestPlatform) -> BTreeMap<u64, frames::Frame> {
    let frame = |(cptr, cap): (u64, Capability)| match cap {
        Capability::Frame { paddr, rights, .. } => {
            Some((cptr, frames::Frame { paddr: Paddr::new(paddr), is_writable: rights == VmRights::ReadWrite }))
        }
        _ => None,
    };
    platform.cspace(1).into_iter().filter_map(frame).collect()
}

#[test]
fn the_table_has_each_frame_of_a_driver_by_its_cptr_and_nothing_else() {
    // Small untypeds: an array of frames begins in one and goes on in the next.
    let booted = boot_system(&with_table(1), &[[14; 12].as_slice(), &[23]].concat());
    let platform = booted.platform.clone();
    let held = held(&platform);
    let cptrs = (CODE_CPTR..CODE_CPTR + 3).chain([READ_ONLY_CPTR]).chain(MANY_CPTR..MANY_CPTR + u64::from(MANY));
    assert!(held.keys().copied().eq(cptrs), "{held:?}");
    let table = table(&platform);
    for cptr in 0..64 {
        assert_eq!(table.find(2, cptr), held.get(&cptr).copied(), "cptr {cptr}");
        assert!([0, 1, 3].iter().all(|domain| table.find(*domain, cptr).is_none()));
    }
    let frame = |cptr| held[&cptr].paddr.bits();
    let breaks = (MANY_CPTR + 1..MANY_CPTR + u64::from(MANY)).filter(|cptr| frame(*cptr) != frame(cptr - 1) + 4096);
    assert!(breaks.count() > 0, "an array lies in two places");
    assert_eq!((held[&READ_ONLY_CPTR].is_writable, held[&CODE_CPTR].is_writable), (false, true));
    assert!(!platform.frame(2, TABLE_VADDR).1, "its reader cannot write it");
}

#[test]
fn the_table_and_the_frames_stay_when_components_restart() {
    let mut specification = with_table(1);
    specification.components[1].restart = specification.components[0].restart;
    let booted = boot_system(&specification, &[23]);
    let before = (held(&booted.platform), booted.platform.page(2, TABLE_VADDR));
    let platform = booted.supervise([dies(1), dies(2)]);
    assert_eq!((held(&platform), platform.page(2, TABLE_VADDR)), before);
}

#[test]
fn a_table_without_room_for_all_frames_is_refused() {
    let mut specification = with_table(1);
    // One capability of a frame, and an empty cptr, in turn: nothing is consecutive.
    let cnode = specification.objects.len() as u32;
    let room = 200u32;
    specification.objects.push(object("cnode-3", ObjectKind::CNode { size_bits: 9 }, 1));
    specification.objects.push(object("one", ObjectKind::SmallFrame, 1));
    specification.caps.extend((0..room).map(|index| run(cnode, u64::from(2 * index), cnode + 1, 0)));
    specification.components[0].driver = None;
    let mut driver = component(3, SECOND, 100);
    (driver.cnode, driver.driver) = (cnode, Some(0));
    specification.components.push(driver);
    let error = boot_system(&specification, &[23]).result.err().map(|error| error.to_string()).unwrap();
    assert!(error.contains("table") && error.contains("has no room for the drivers' frames"), "{error}");
}
