//! BARs: sizing, moving, and the function that answers each address.

use super::machine::Worker;
use super::system::{System, WINDOW, bdf};
use pci_spec::bar::Prefetch;
use pci_spec::{BarKind, ClassCode};
use proptest::prelude::*;
use sim_pci::{BarConfig, BusId, Endpoint, FunctionConfig, FunctionId, Violation};

const MEMORY32: BarKind = BarKind::Memory32(Prefetch::NonPrefetchable);

fn with_bar(kind: BarKind, bytes: u64) -> FunctionConfig {
    let mut config = FunctionConfig::new(0x1b36, 1, ClassCode::NVME);
    config.bars[0] = Some(BarConfig { kind, bytes });
    config
}

#[test]
fn each_offset_of_a_bar_reaches_the_device_as_itself() {
    let (mut system, id, base) = System::placed();
    assert_eq!(system.load(base + 0x1ff8), 0x1ff8);
    assert_eq!(system.device(id).accesses, [(0, 0x1ff8)]);
}

#[test]
fn nothing_is_decoded_while_memory_space_is_off() {
    let (mut system, id, base) = System::placed();
    system.change(bdf(1, 0, 0), 4, 0, 0b10);
    assert_eq!(system.load(base), u64::MAX);
    system.store(base, 1);
    assert_eq!(system.device(id).accesses, []);
    assert_eq!(system.tree.unanswered_accesses(), 2);
}

#[test]
fn a_narrow_read_of_nothing_is_ones_of_its_width() {
    let mut system = System::bare();
    assert_eq!(system.tree.memory_read(WINDOW.start, 2, 0), Ok(0xffff));
    assert_eq!(system.tree.config_read(0x1_0000, 1, 0), Ok(0xff));
}

#[test]
fn a_bar_moved_while_it_decodes_is_recorded_and_moved() {
    let (mut system, ..) = System::nvme();
    let at = bdf(1, 0, 0);
    let base = system.bar0(at);
    system.write(at, 0x10, base as u32 + 0x10_0000);
    assert_eq!(system.violations(), [Violation::BarMovedWhileDecoding { register: 0x10 }]);
    assert_eq!(system.load(base), u64::MAX);
    assert_eq!(system.load(base + 0x10_0000), 0);
}

#[test]
fn two_functions_at_one_address_are_recorded_once() {
    let mut system = System::bare();
    let first = system.attach(BusId::ROOT, 2, 0, with_bar(MEMORY32, 0x4000));
    let second = system.attach(BusId::ROOT, 3, 0, with_bar(MEMORY32, 0x1000));
    let base = WINDOW.start as u32;
    system.write(bdf(0, 2, 0), 0x10, base);
    system.write(bdf(0, 3, 0), 0x10, base + 0x2000);
    system.write16(bdf(0, 2, 0), 4, 2);
    assert_eq!(system.violations(), []);
    system.write16(bdf(0, 3, 0), 4, 2);
    system.write16(bdf(0, 3, 0), 4, 6);
    let address = WINDOW.start + 0x2000;
    assert_eq!(system.violations(), [Violation::Overlap { other: second, address }]);
    assert_eq!(system.tree.violations()[0].function, first);
    assert_eq!(system.load(WINDOW.start + 0x3000), 0x3000, "behind the overlap");
}

#[test]
fn everything_inside_a_large_bar_overlaps_it() {
    let mut system = System::bare();
    let base = WINDOW.start;
    let sizes = [(2, 0x10000, base), (3, 0x1000, base + 0x2000), (4, 0x1000, base + 0x8000)];
    let ids = sizes.map(|(device, bytes, address)| {
        let id = system.attach(BusId::ROOT, device, 0, with_bar(MEMORY32, bytes));
        system.write(bdf(0, device, 0), 0x10, address as u32);
        system.write16(bdf(0, device, 0), 4, 2);
        id
    });
    let overlap = |other: usize, offset: u64| Violation::Overlap { other: ids[other], address: base + offset };
    assert_eq!(system.violations(), [overlap(1, 0x2000), overlap(2, 0x8000)]);
    assert!(system.tree.violations().iter().all(|record| record.function == ids[0]));
}

#[test]
fn ports_are_sized_but_not_decoded() {
    let mut system = System::bare();
    system.attach(BusId::ROOT, 2, 0, with_bar(BarKind::Io, 64));
    system.write(bdf(0, 2, 0), 0x10, u32::MAX);
    assert_eq!(system.read(bdf(0, 2, 0), 0x10), 0xffff_ffc1);
}

fn memory_kind() -> impl Strategy<Value = BarKind> {
    let prefetch = prop_oneof![Just(Prefetch::NonPrefetchable), Just(Prefetch::Prefetchable)];
    (any::<bool>(), prefetch).prop_map(|(wide, p)| if wide { BarKind::Memory64(p) } else { BarKind::Memory32(p) })
}

/// Functions on the root bus with BARs at places that do not overlap: log2 size, and which multiple of the largest
/// size.
fn layout() -> impl Strategy<Value = Vec<(u32, u64, bool)>> {
    let places = Just((0u64..24).collect::<Vec<_>>()).prop_shuffle();
    (prop::collection::vec((4u32..=20, any::<bool>()), 1..8), places).prop_map(|(bars, places)| {
        bars.into_iter().zip(places).map(|((log2, enabled), place)| (log2, place, enabled)).collect()
    })
}

proptest! {
    /// After all ones were written, a BAR reads its size mask, and nothing else but its kind.
    #[test]
    fn sizing_reads_back_the_mask(kind in memory_kind(), log2 in 4u32..=31, value in any::<u32>()) {
        let bytes = 1u64 << log2;
        let mut system = System::bare();
        system.attach(BusId::ROOT, 2, 0, with_bar(kind, bytes));
        let at = bdf(0, 2, 0);
        let flags = system.read(at, 0x10);
        prop_assert_eq!(flags & !0xf, 0);
        system.write(at, 0x10, u32::MAX);
        prop_assert_eq!(system.read(at, 0x10), !(bytes as u32 - 1) | flags);
        system.write(at, 0x10, value);
        prop_assert_eq!(system.read(at, 0x10), value & !(bytes as u32 - 1) | flags);
        system.write(at, 0x14, u32::MAX);
        let wide = matches!(kind, BarKind::Memory64(_));
        prop_assert_eq!(system.read(at, 0x14), if wide { u32::MAX } else { 0 });
    }

    /// An address reaches a BAR exactly when it is in it and it decodes.
    #[test]
    fn decode_is_exact(layout in layout(), probes in prop::collection::vec((0usize..8, -2i64..=2, any::<bool>()), 40)) {
        const LARGEST: u64 = 1 << 20;
        let mut system = System::bare();
        let mut placed: Vec<(FunctionId, u64, u64, bool)> = Vec::new();
        for (device, (log2, place, enabled)) in (2u8..).zip(&layout) {
            let endpoint = Endpoint::new(with_bar(MEMORY32, 1 << log2), Worker::default());
            let id = system.tree.attach(BusId::ROOT, device, 0, endpoint).unwrap();
            let base = WINDOW.start + place * LARGEST;
            system.write(bdf(0, device, 0), 0x10, base as u32);
            system.write16(bdf(0, device, 0), 4, if *enabled { 2 } else { 0 });
            placed.push((id, base, 1 << log2, *enabled));
        }
        for (bar, off, at_end) in probes {
            let (_, base, bytes, _) = placed[bar % placed.len()];
            let edge = if at_end { base + bytes } else { base };
            let address = edge.wrapping_add_signed(off * 8);
            let hit = placed.iter().find(|(_, base, bytes, on)| *on && (*base..base + bytes).contains(&address));
            let expected = hit.map_or(u64::MAX, |(_, base, ..)| address - base);
            prop_assert_eq!(system.load(address), if expected == 0x28 { 0 } else { expected });
        }
        prop_assert_eq!(system.violations(), []);
    }
}
