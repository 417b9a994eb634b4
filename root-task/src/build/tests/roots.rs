//! A component that holds its own CNode, with a CNode above it that it cannot name.

use super::restarts::{dies, reported, restartable, restarts};
use super::*;
use capdl_spec::ROOT_BITS;

/// The path of the fault endpoint.
const FAULTS: u64 = 1 << 63;

fn with_root() -> Specification {
    let mut specification = restartable();
    specification.components[0].root = Some(specification.objects.len() as u32);
    specification.objects.push(object("root", ObjectKind::CNode { size_bits: ROOT_BITS }, 1));
    specification
}

/// The paths of its capabilities, without that of the CNode on the way.
fn paths(platform: &TestPlatform) -> Vec<u64> {
    platform.cspace(1).into_keys().filter(|path| *path != 0).collect()
}

#[test]
fn its_capabilities_have_the_same_paths_and_its_fault_endpoint_another_one() {
    let mut expected = paths(&boot_system(&restartable(), &[23]).platform);
    expected.retain(|path| *path != 1);
    expected.push(FAULTS);
    let booted = boot_system(&with_root(), &[23]);
    assert_eq!(paths(&booted.platform), expected);
    assert!(swept(booted).is_empty());
}

#[test]
fn it_can_delete_all_that_it_holds_and_is_seen_to_fault() {
    let booted = boot_system(&with_root(), &[23]);
    let platform = booted.platform.clone();
    let before = paths(&platform);
    let first = platform.component(1);
    for (index, depth) in [(FAULTS, 64), (FAULTS, 1), (1, 1), (0, 1)] {
        let cptr = AbsoluteCPtr { depth, ..own_cptr(index) };
        assert!(first.cnode_delete(cptr).is_err() && first.cnode_revoke(cptr).is_err());
        assert!(first.cnode_copy(cptr, own_cptr(8), Rights::ALL).is_err());
    }
    for index in (0..64).filter(|index| *index != 2).chain([2]) {
        first.cnode_revoke(own_cptr(index)).unwrap();
        first.cnode_delete(own_cptr(index)).unwrap();
    }
    assert_eq!(paths(&platform), [FAULTS]);
    let platform = booted.supervise([dies(1)]);
    let faults = reported(&platform, |report| matches!(report, Report::Fault(_)).then_some(()));
    assert_eq!((faults.len(), restarts(&platform)), (1, vec![1]));
    // Interrupt control is lost: the root task has no second capability to it. IO page tables are new ones.
    let is_kept = |path: &u64| *path != 9;
    assert_eq!(paths(&platform), before.into_iter().filter(is_kept).collect::<Vec<_>>());
    assert!(platform.component(1).kernel().borrow().is_runnable(first.thread()));
}
