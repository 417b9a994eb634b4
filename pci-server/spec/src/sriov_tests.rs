use proptest::prelude::*;
use std::cell::Cell;
use std::vec;
use std::vec::Vec;

use super::*;
use crate::bar::RawBar;

const PHYSICAL: Bdf = Bdf::from_raw(0x0100);
const AT: u16 = 0x120;

/// The capability of QEMU's NVMe function with two virtual functions, as dwords.
fn qemu() -> Vec<u32> {
    let mut space = vec![0; 0x400];
    space[usize::from(AT / 4)..][..9].copy_from_slice(&[
        0x0001_0010,
        0,
        0,
        0x0002_0002,
        0,
        0x0001_0001,
        0x0010_0000,
        0x553,
        1,
    ]);
    space
}

fn read_at(space: &[u32], offset: u16) -> Result<Sriov, SriovError> {
    Sriov::read(|register| space[usize::from(register / 4)], PHYSICAL, offset)
}

/// The capability with one dword changed.
fn with(register: u16, value: u32) -> Result<Sriov, SriovError> {
    let mut space = qemu();
    space[usize::from((AT + register) / 4)] = value;
    read_at(&space, AT)
}

fn bar(size: u64) -> Bar {
    let sized = !(size - 1);
    let raw = RawBar { value: 0b100, sized: sized as u32 & !0xf | 0b100 };
    Bar::decode(0, raw, Some(RawBar { value: 0, sized: (sized >> 32) as u32 })).unwrap().unwrap()
}

#[test]
fn functions_that_depend_on_another_physical_function_are_refused() {
    // NumVFs may have any value; the link beside it is the function's own number.
    assert!(with(offset::NUMBER, 2).is_ok());
    assert_eq!(with(offset::NUMBER, 1 << 16), Err(SriovError::DependsOn { function: 1 }));
    let other = Bdf::new(1, 0, 1).unwrap();
    let mut space = qemu();
    space[usize::from((AT + offset::NUMBER) / 4)] = 1 << 16;
    assert!(Sriov::read(|register| space[usize::from(register / 4)], other, AT).is_ok());
}

#[test]
fn capability_of_two_functions_is_read() {
    let sriov = read_at(&qemu(), AT).unwrap();
    assert_eq!(sriov, Sriov { offset: AT, total: 2, routing: Routing { first: 1, stride: 1 }, device: 0x10 });
    assert_eq!(sriov.register(offset::BAR0), 0x144);
}

#[test]
fn capability_that_leaves_configuration_space_is_refused() {
    assert_eq!(read_at(&qemu(), 0xfc4), Err(SriovError::Truncated));
    assert_eq!(check_place(0xfc0), Ok(()));
    assert_eq!(check_place(u16::MAX), Err(SriovError::Truncated));
}

#[test]
fn impossible_numbers_of_functions_are_refused() {
    assert_eq!(with(offset::TOTAL, 0), Err(SriovError::NoFunctions));
    assert_eq!(with(offset::TOTAL, 0x0002_0000), Err(SriovError::InitialFunctions { initial: 0, total: 2 }));
    assert_eq!(with(offset::TOTAL, 0x0002_0003), Err(SriovError::InitialFunctions { initial: 3, total: 2 }));
    assert_eq!(with(offset::TOTAL, 0x0003_0002), Err(SriovError::InitialFunctions { initial: 2, total: 3 }));
}

#[test]
fn functions_that_are_elsewhere_at_first_do_not_count() {
    let mut space = qemu();
    space[usize::from((AT + offset::CAPABILITIES) / 4)] = Capabilities::new().with_vf_migration(true).into_bits();
    space[usize::from((AT + offset::TOTAL) / 4)] = 0x0003_0002;
    assert_eq!(read_at(&space, AT).map(|sriov| sriov.total), Ok(2));
}

#[test]
fn offset_or_stride_of_zero_is_refused() {
    let shared = |first, stride| Err(SriovError::SharedRoutingId(Routing { first, stride }));
    assert_eq!(with(offset::ROUTING, 0x0001_0000), shared(0, 1));
    assert_eq!(with(offset::ROUTING, 0x0000_0001), shared(1, 0));
    let mut one = qemu();
    one[usize::from((AT + offset::TOTAL) / 4)] = 0x0001_0001;
    one[usize::from((AT + offset::ROUTING) / 4)] = 0x0000_0001;
    assert!(read_at(&one, AT).is_ok(), "a single function needs no stride");
}

#[test]
fn functions_beyond_the_last_bus_are_refused() {
    let routing = Routing { first: 1, stride: 0xffff };
    assert_eq!(with(offset::ROUTING, 0xffff_0001), Err(SriovError::NoRoutingId(routing)));
}

#[test]
fn missing_pages_of_4_kib_are_refused() {
    assert_eq!(with(offset::SUPPORTED_PAGE_SIZES, 0x552), Err(SriovError::PageSizes { supported: 0x552 }));
}

#[test]
fn function_that_is_gone_is_refused() {
    // All ones are routing ids beyond the last bus.
    let gone = Routing { first: 0xffff, stride: 0xffff };
    assert_eq!(Sriov::read(|_| u32::MAX, PHYSICAL, AT), Err(SriovError::NoRoutingId(gone)));
    assert_eq!(Sriov::read(|_| 0, PHYSICAL, AT), Err(SriovError::PageSizes { supported: 0 }));
}

#[test]
fn virtual_functions_may_need_further_buses() {
    let routing = Routing::from_dword(0x0002_0001);
    assert_eq!(routing, Routing { first: 1, stride: 2 });
    assert_eq!(routing.function(PHYSICAL, 0), Some(Bdf::from_raw(0x0101)));
    assert_eq!(routing.function(PHYSICAL, 2), Some(Bdf::from_raw(0x0105)));
    assert_eq!(routing.last_bus(PHYSICAL, 1), Some(1));
    assert_eq!(routing.last_bus(PHYSICAL, 128), Some(1));
    assert_eq!(routing.last_bus(PHYSICAL, 129), Some(2));
}

#[test]
fn routing_ids_beyond_the_last_are_none() {
    let routing = Routing { first: 0xff00, stride: 1 };
    assert_eq!(routing.last_bus(PHYSICAL, 1), None);
    assert_eq!(Routing { first: 1, stride: 0xffff }.last_bus(Bdf::default(), 3), None);
    assert_eq!(routing.last_bus(Bdf::default(), 0), None);
    assert_eq!(Routing { first: 1, stride: 1 }.function(Bdf::from_raw(0xffff), 0), None);
}

#[test]
fn control_has_its_bits_in_their_places() {
    assert_eq!(Control::new().with_vf_enable(true).with_vf_memory_space(true).into_bits(), 0b1001);
    assert_eq!(Control::new().with_ari_capable_hierarchy(true).into_bits(), 0b1_0000);
}

#[test]
fn parts_of_a_bar_lie_one_after_the_other() {
    let bar = bar(0x4000).at(0x8_0000_0000).unwrap();
    assert_eq!(bytes(&bar, 3), Some(0xc000));
    assert_eq!(bar.following(0), Some(bar));
    assert_eq!(bar.following(2).map(|bar| (bar.address(), bar.size())), Some((0x8_0000_8000, 0x4000)));
}

#[test]
fn impossible_parts_have_no_bytes() {
    assert_eq!(bytes(&bar(0x800), 1), None, "less than a page");
    assert_eq!(bytes(&bar(1 << 62), 4), None, "no end");
    let ports = Bar::decode(0, RawBar { value: 1, sized: 0xffff_f001 }, None).unwrap().unwrap();
    assert_eq!(bytes(&ports, 1), None);
}

#[test]
fn addresses_that_a_bar_cannot_have_are_none() {
    assert_eq!(bar(0x4000).at(0x1000), None, "inside its size");
    let low = Bar::decode(0, RawBar { value: 0, sized: 0xffff_c000 }, None).unwrap().unwrap();
    assert_eq!(low.at(1 << 32), None, "beyond 32 bits");
    assert_eq!(low.at(0xffff_c000).unwrap().following(1), None);
    assert_eq!(bar(1 << 62).at(3 << 62).unwrap().following(1), None);
}

proptest! {
    /// No configuration space panics or loops, and what is accepted holds what it says.
    #[test]
    fn any_configuration_space_is_refused_or_possible(
        seed in any::<u64>(),
        sparse in any::<bool>(),
        physical in any::<u16>(),
    ) {
        let reads = Cell::new(0u32);
        let read = |register: u16| {
            reads.set(reads.get() + 1);
            let mut state = seed ^ u64::from(register) << 17;
            for _ in 0..3 {
                state = (state ^ state >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9).wrapping_add(0x9e37_79b9_7f4a_7c15);
            }
            let word = (state >> 32) as u32;
            // Half of the spaces lead from one capability to the next, the identifier among the first few.
            if sparse { word & 0xffc0_001f | 0x1000_0000 } else { word }
        };
        let physical = Bdf::from_raw(physical);
        let found = extended::find(read, extended::id::SRIOV);
        prop_assert!(reads.get() <= extended::LIMIT);
        for offset in found.ok().flatten().into_iter().chain([AT, 0xffc]) {
            if let Ok(sriov) = Sriov::read(read, physical, offset) {
                let places: Option<Vec<Bdf>> =
                    (0..sriov.total).map(|number| sriov.routing.function(physical, number)).collect();
                let places = places.expect("each has a routing id");
                prop_assert!(places.windows(2).all(|pair| physical < pair[0] && pair[0] < pair[1]));
                prop_assert!(sriov.register(offset::BAR0) + 24 <= extended::END);
            }
        }
    }
}
