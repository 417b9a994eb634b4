use super::*;

fn bdf(bus: u8, device: u8) -> Bdf {
    Bdf::new(bus, device, 0).unwrap()
}

#[test]
fn bus_numbers_stand_where_the_standard_puts_them() {
    let buses = BusNumbers::from_bits(0x0003_0100);
    assert_eq!((buses.primary(), buses.secondary(), buses.subordinate()), (0, 1, 3));
    assert!(buses.forwards(1) && buses.forwards(3));
    assert!(!buses.forwards(0) && !buses.forwards(4));
}

#[test]
fn bus_numbers_that_would_lead_in_circles_are_inconsistent() {
    let consistent = |bits, own| BusNumbers::from_bits(bits).is_consistent(own);
    assert!(consistent(0x0003_0100, 0));
    assert!(consistent(0x0002_0201, 1));
    assert!(!consistent(0x0003_0100, 1)); // another primary bus
    assert!(!consistent(0x0003_0000, 0)); // below itself
    assert!(!consistent(0x0001_0201, 1)); // ends before it begins
    assert!(!consistent(0x0000_0000, 0)); // not numbered
    assert!(!consistent(0xffff_ffff, 0)); // gone
}

#[test]
fn memory_window_is_decoded_and_made() {
    // Base FE80_0000, limit FE9F_FFFF.
    let window = MemoryWindow::from_memory(0xfe90_fe80).unwrap();
    assert_eq!((window.base(), window.limit()), (0xfe80_0000, 0xfe9f_ffff));
    assert_eq!(MemoryWindow::new(0xfe80_0000, 0x20_0000), Ok(window));
    assert_eq!(window.to_memory(), Ok(0xfe90_fe80));
}

#[test]
fn closed_windows_forward_nothing() {
    assert_eq!(MemoryWindow::from_memory(CLOSED), None);
    let closed = PrefetchableRegisters { low: CLOSED, base_upper: 0, limit_upper: 0 };
    assert_eq!(MemoryWindow::from_prefetchable(closed), None);
    // All zeroes is not closed: the first mebibyte.
    assert_eq!(MemoryWindow::from_memory(0).map(MemoryWindow::limit), Some(0xf_ffff));
}

#[test]
fn prefetchable_window_has_upper_halves_if_the_bridge_says_so() {
    let registers = PrefetchableRegisters { low: 0x3ff1_0001, base_upper: 0x80, limit_upper: 0x80 };
    let window = MemoryWindow::from_prefetchable(registers).unwrap();
    assert_eq!((window.base(), window.limit()), (0x80_0000_0000, 0x80_3fff_ffff));
    let made = MemoryWindow::new(0x80_0000_0000, 0x4000_0000).unwrap().to_prefetchable();
    assert_eq!(made, PrefetchableRegisters { low: 0x3ff0_0000, base_upper: 0x80, limit_upper: 0x80 });

    let short = PrefetchableRegisters { low: 0xfd00_fc00, base_upper: 0x80, limit_upper: 0x80 };
    assert_eq!(MemoryWindow::from_prefetchable(short).map(MemoryWindow::base), Some(0xfc00_0000));
    assert!(is_prefetchable_64(0x0001_0001));
    assert!(!is_prefetchable_64(0x0000_0001));
}

#[test]
fn windows_that_cannot_be_are_refused() {
    assert_eq!(MemoryWindow::new(0xfe88_0000, 0x10_0000), Err(MemoryWindowError::Misaligned));
    assert_eq!(MemoryWindow::new(0xfe80_0000, 0x1000), Err(MemoryWindowError::Misaligned));
    assert_eq!(MemoryWindow::new(0xfe80_0000, 0), Err(MemoryWindowError::ImpossibleSize));
    assert_eq!(MemoryWindow::new(0xffff_ffff_fff0_0000, 0x20_0000), Err(MemoryWindowError::ImpossibleSize));
    assert_eq!(MemoryWindow::new(0xfff0_0000, 0x20_0000).unwrap().to_memory(), Err(MemoryWindowError::Above4Gib));
}

#[test]
fn window_contains_what_lies_in_it_whole() {
    let window = MemoryWindow::new(0xfe80_0000, 0x10_0000).unwrap();
    assert!(window.contains(0xfe80_0000, 0x10_0000));
    assert!(window.contains(0xfe8f_c000, 0x4000));
    assert!(!window.contains(0xfe8f_c000, 0x8000));
    assert!(!window.contains(0xfe7f_ffff, 2));
    assert!(!window.contains(0xfe80_0000, 0));
    assert!(!window.contains(u64::MAX, 2));
}

#[test]
fn io_window_is_decoded() {
    assert_eq!(IoWindow::from_registers(0xd0c0, 0), Some(IoWindow { base: 0xc000, limit: 0xdfff }));
    assert_eq!(IoWindow::from_registers(0x1101, 0x0002_0001), Some(IoWindow { base: 0x1_0000, limit: 0x2_1fff }));
    assert_eq!(IoWindow::from_registers(0x00f0, 0), None);
}

#[test]
fn kinds_follow_from_the_port_type() {
    let buses = BusNumbers::from_bits(0x0005_0400);
    let kind = |port| BridgeKind::new(bdf(0, 2), buses, port);
    assert_eq!(kind(Some(PortType::RootPort)), BridgeKind::Express);
    assert_eq!(kind(Some(PortType::SwitchDownstream)), BridgeKind::Express);
    assert_eq!(kind(Some(PortType::ExpressToPci)), BridgeKind::ExpressToPci { secondary: 4 });
    assert_eq!(kind(Some(PortType::PciToExpress)), BridgeKind::Conventional { bdf: bdf(0, 2) });
    assert_eq!(kind(None), BridgeKind::Conventional { bdf: bdf(0, 2) });
}

#[test]
fn functions_below_express_ports_keep_their_names() {
    assert_eq!(requester_id(&[], bdf(0, 3)), bdf(0, 3));
    assert_eq!(requester_id(&[BridgeKind::Express; 3], bdf(3, 0)), bdf(3, 0));
}

#[test]
fn functions_below_a_pci_bridge_bear_its_requester_id() {
    let bridge = BridgeKind::Conventional { bdf: bdf(0, 5) };
    assert_eq!(requester_id(&[bridge], bdf(1, 3)), bdf(0, 5));
    assert_eq!(requester_id(&[BridgeKind::Express, bridge], bdf(2, 0)), bdf(0, 5));
}

#[test]
fn functions_below_a_pcie_to_pci_bridge_bear_its_bus() {
    let path = [BridgeKind::ExpressToPci { secondary: 4 }, BridgeKind::Express];
    assert_eq!(requester_id(&path, bdf(4, 7)), bdf(4, 0));
}

#[test]
fn topmost_bridge_that_renames_wins() {
    let inner = BridgeKind::Conventional { bdf: bdf(4, 1) };
    let outer = BridgeKind::ExpressToPci { secondary: 4 };
    assert_eq!(requester_id(&[inner, outer, BridgeKind::Express], bdf(5, 2)), bdf(4, 0));
}
