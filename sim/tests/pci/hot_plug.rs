//! Slots: arrival, orderly removal, and the events that software is notified of.

use super::machine::Worker;
use super::system::{System, bdf};
use pci_spec::Bdf;
use sim_pci::{AttachError, BusId, Endpoint, FunctionConfig, Level, PortConfig, Reset, SlotState};

const SLOT: u16 = 0x98;
const LINK: u16 = 0x90;
const PORT_TABLE: u64 = 0;
const BUTTON: u32 = 1 << 16;
const PRESENCE: u32 = 1 << 19;
const COMPLETED: u32 = 1 << 20;
const PRESENT: u32 = 1 << 22;
const LINK_CHANGED: u32 = 1 << 24;
const LINK_ACTIVE: u32 = 1 << 29;
/// Presence, attention button and link enabled, interrupts on.
const WATCH: u32 = 1 | 1 << 3 | 1 << 5 | 1 << 12;
const POWER_OFF: u32 = 1 << 10;

fn port() -> Bdf {
    bdf(0, 1, 0)
}

fn watching(config: Option<FunctionConfig>) -> (System, BusId) {
    let mut system = System::bare();
    let below = system.tree.attach_port(BusId::ROOT, 1, 0, PortConfig::root_port(7)).unwrap();
    if let Some(config) = config {
        system.attach(below, 0, 0, config);
    }
    system.boot();
    system.change(port(), SLOT, WATCH, 0xffff_0000);
    acknowledge(&mut system);
    (system, below)
}

/// Clears all events.
fn acknowledge(system: &mut System) {
    let slot = system.read(port(), SLOT);
    system.write(port(), SLOT, slot);
}

fn events(system: &mut System) -> u32 {
    system.read(port(), SLOT) & (BUTTON | PRESENCE | COMPLETED | LINK_CHANGED)
}

fn insert(system: &mut System, below: BusId) -> Result<Vec<sim_pci::FunctionId>, AttachError> {
    let endpoint = Endpoint::new(FunctionConfig::nvme(0x2000, 4), Worker::default());
    system.tree.insert(below, vec![endpoint], 5, &mut system.above)
}

#[test]
fn the_slot_reports_its_number_and_what_it_can() {
    let (mut system, below) = watching(None);
    let capabilities = system.read(port(), 0x94);
    assert_eq!((capabilities >> 19, capabilities & 0x7f), (7, 0b111_1011));
    assert_eq!(system.tree.slot(below), Some(SlotState::Empty));
    assert_eq!(system.read(port(), SLOT) & PRESENT, 0);
    assert_eq!(system.read(port(), LINK) & LINK_ACTIVE, 0);
    assert_ne!(system.read(port(), 0x8c) & 1 << 20, 0, "it reports its link");
    assert_eq!(system.tree.slot(BusId::ROOT), None);
}

#[test]
fn what_was_there_at_power_on_is_no_event() {
    let mut system = System::nvme().0;
    assert_ne!(system.read(port(), SLOT) & PRESENT, 0);
    assert_ne!(system.read(port(), LINK) & LINK_ACTIVE, 0);
    assert_eq!(events(&mut system), 0);
}

#[test]
fn an_arrival_raises_the_pin_until_it_is_acknowledged() {
    let (mut system, below) = watching(None);
    insert(&mut system, below).unwrap();
    assert_eq!(events(&mut system), PRESENCE | LINK_CHANGED);
    assert_eq!(system.above.pins, [(21, Level::Asserted)]);
    assert_eq!(system.read(bdf(1, 0, 0), 0), 0x0010_1b36);
    assert_eq!(system.bar0(bdf(1, 0, 0)), 0, "nobody has placed it yet");
    system.write(port(), SLOT, WATCH | 0b11 << 6 | 0b11 << 8 | PRESENCE);
    assert_eq!(system.above.pins.len(), 1, "one event is left");
    system.write(port(), SLOT, WATCH | 0b11 << 6 | 0b11 << 8 | LINK_CHANGED);
    assert_eq!(system.above.pins[1..], [(21, Level::Deasserted)]);
}

#[test]
fn an_arrival_sends_one_message_when_the_port_has_them() {
    let (mut system, below) = watching(None);
    let table = u64::from(system.read(port(), 0x10)) + PORT_TABLE;
    system.store(table, 0xfee0_0000);
    system.store(table + 8, 0x55);
    system.change(port(), 0x40, 1 << 31, 0);
    insert(&mut system, below).unwrap();
    assert_eq!(system.above.messages, [(0x0008, 0xfee0_0000, 0x55)]);
    system.tree.press_attention_button(below, 6, &mut system.above);
    assert_eq!(system.above.messages.len(), 1, "the first is not acknowledged yet");
    acknowledge(&mut system);
    system.tree.press_attention_button(below, 7, &mut system.above);
    assert_eq!(system.above.messages.len(), 2);
}

#[test]
fn events_that_are_not_enabled_are_only_noted() {
    let (mut system, below) = watching(None);
    system.change(port(), SLOT, 0, 1 << 5 | 0xffff_0000);
    insert(&mut system, below).unwrap();
    assert_ne!(events(&mut system) & PRESENCE, 0);
    assert_eq!(system.above.pins, []);
    system.change(port(), SLOT, 1 << 5, 0xffff_0000);
    assert_eq!(system.above.pins, [(21, Level::Asserted)]);
}

#[test]
fn a_full_slot_takes_nothing_and_a_bus_without_one_neither() {
    let (mut system, below) = watching(Some(System::small()));
    assert_eq!(insert(&mut system, below), Err(AttachError::Taken));
    assert_eq!(insert(&mut system, BusId::ROOT), Err(AttachError::NoSuchPlace));
}

#[test]
fn an_orderly_removal_goes_by_button_power_and_hand() {
    let (mut system, below) = watching(Some(FunctionConfig::nvme(0x2000, 4)));
    system.tree.press_attention_button(below, 1, &mut system.above);
    assert_eq!(events(&mut system), BUTTON);
    acknowledge(&mut system);
    system.change(port(), SLOT, POWER_OFF, 0xffff_0000);
    assert_eq!(events(&mut system), COMPLETED | LINK_CHANGED);
    assert_eq!(system.tree.slot(below), Some(SlotState::Off));
    assert_eq!(system.read(bdf(1, 0, 0), 0), u32::MAX);
    assert_eq!(system.read(port(), LINK) & LINK_ACTIVE, 0);
    acknowledge(&mut system);
    let devices = system.tree.remove(below, 2, &mut system.above);
    assert_eq!(devices[0].1.resets, [Reset::Power]);
    assert_eq!(events(&mut system), PRESENCE);
    assert_eq!(system.read(port(), SLOT) & PRESENT, 0);
    assert_eq!(system.tree.slot(below), Some(SlotState::Empty));
}

#[test]
fn what_is_put_into_a_slot_without_power_waits_for_it() {
    let (mut system, below) = watching(None);
    system.change(port(), SLOT, POWER_OFF, 0xffff_0000);
    acknowledge(&mut system);
    insert(&mut system, below).unwrap();
    assert_eq!(events(&mut system), PRESENCE);
    assert_eq!(system.read(bdf(1, 0, 0), 0), u32::MAX);
    system.change(port(), SLOT, 0, POWER_OFF | 0xffff_0000);
    assert_ne!(events(&mut system) & LINK_CHANGED, 0);
    assert_eq!(system.read(bdf(1, 0, 0), 0), 0x0010_1b36);
}

#[test]
fn a_link_can_be_switched_off() {
    let (mut system, _) = watching(Some(System::small()));
    system.change(port(), LINK, 1 << 4, 0);
    assert_eq!(system.read(bdf(1, 0, 0), 0), u32::MAX);
    assert_eq!(events(&mut system), LINK_CHANGED);
    system.change(port(), LINK, 0, 1 << 4);
    assert_eq!(system.read(bdf(1, 0, 0), 0), 0x0010_1b36);
    assert_eq!(system.bar0(bdf(1, 0, 0)), 0, "it was reset");
}

#[test]
fn functions_of_one_device_arrive_together() {
    let (mut system, below) = watching(None);
    let functions = (0..3).map(|_| Endpoint::new(System::small(), Worker::default())).collect();
    let ids = system.tree.insert(below, functions, 0, &mut system.above).unwrap();
    let names: Vec<_> = ids.iter().map(|id| system.tree.bdf(*id).unwrap()).collect();
    assert_eq!(names, [bdf(1, 0, 0), bdf(1, 0, 1), bdf(1, 0, 2)]);
    assert_ne!(system.read(bdf(1, 0, 0), 0x0c) & 1 << 23, 0);
}

#[test]
fn a_device_that_cannot_be_is_not_put_in_at_all() {
    let (mut system, below) = watching(None);
    let mut impossible = System::small();
    impossible.bars[5] = impossible.bars[0];
    let functions = [System::small(), impossible].map(|config| Endpoint::new(config, Worker::default()));
    assert!(system.tree.insert(below, functions.into(), 0, &mut system.above).is_err());
    assert_eq!(system.tree.insert(below, Vec::new(), 0, &mut system.above), Ok(Vec::new()));
    assert_eq!(system.tree.slot(below), Some(SlotState::Empty));
    assert_eq!(system.read(bdf(1, 0, 0), 0), u32::MAX);
    assert_eq!(events(&mut system), 0);
}
