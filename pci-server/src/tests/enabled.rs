//! Virtual functions enabled over the modelled PCI tree, which accepts no access to them before they are there.

use super::trees::{Node, Registers, Tested, WINDOW};
use crate::config_space::ConfigSpace;
use crate::enable::{Refused, Switch};
use crate::function::{Function, Unusable};
use crate::predecessor::disable_all;
use crate::sizing::Note;
use pci_spec::bar::Prefetch;
use pci_spec::sriov::offset;
use pci_spec::{BarKind, Bdf};
use platform::PAGE_SIZE;
use platform::fake::Ram;
use proptest::prelude::*;
use std::boxed::Box;
use std::vec;
use std::vec::Vec;

const PHYSICAL: Bdf = Bdf::from_raw(0x0100);
const PORT: Bdf = Bdf::from_raw(1 << 3);
/// The model's offset of the capability.
const SRIOV: u16 = 0x120;
const CONTROL: u16 = SRIOV + offset::CONTROL;
const BYTES: u64 = 0x4000;
const MS: u64 = 1_000_000;
/// Time at which the tests begin.
const START: u64 = 5_000 * MS;

/// The routing id of virtual function `number_z`.
const fn virtual_at(number_z: u16) -> Bdf {
    Bdf::from_raw(0x0101 + number_z)
}

/// A controller with three virtual functions behind a root port, with a server's state.
struct Running {
    tested: Tested,
    config: ConfigSpace<Registers>,
    note: Note<Ram>,
    functions: Vec<Function>,
    switch: Switch,
}

impl Running {
    fn new() -> Self {
        let kind = BarKind::Memory64(Prefetch::NonPrefetchable);
        let node = Node::nvme().with_virtual_functions(3, kind, 14);
        let mut tested = Tested::new(&[Node::Port(Some(Box::new(node)))], vec![WINDOW]);
        let (functions, left_out) = tested.assign();
        assert_eq!(left_out, []);
        let (config, note) = tested.start();
        Self { tested, config, note, functions, switch: Switch::new() }
    }

    fn physical(&self) -> Function {
        self.functions.iter().find(|function| function.bdf == PHYSICAL).expect("a controller").clone()
    }

    fn enable(&mut self, number: u16, now_ns: u64) -> Result<(), Refused> {
        self.enable_of(&self.physical(), number, now_ns)
    }

    fn enable_of(&mut self, physical: &Function, number: u16, now_ns: u64) -> Result<(), Refused> {
        self.tested.set_time(now_ns);
        self.switch.enable(&mut self.config, &self.note, physical, number, now_ns)
    }

    fn find(&mut self, now_ns: u64) -> Result<Vec<Function>, Refused> {
        self.tested.set_time(now_ns);
        let physical = self.physical();
        let is_taken = |bdf| self.functions.iter().any(|other| other.bdf == bdf);
        self.switch.find(&mut self.config, &physical, is_taken, now_ns)
    }

    fn disable(&mut self, now_ns: u64) {
        self.tested.set_time(now_ns);
        let physical = self.physical();
        self.switch.disable(&mut self.config, &physical, now_ns);
    }

    /// Enables and finds `number` of them.
    fn with(number: u16) -> (Self, Vec<Function>) {
        let mut running = Self::new();
        running.enable(number, START).unwrap();
        let found = running.find(START + 100 * MS).unwrap();
        (running, found)
    }

    /// Whether VF Enable or VF MSE is set.
    fn is_enabled(&self) -> bool {
        self.tested.bus.read(PHYSICAL, CONTROL) & 0b1001 != 0
    }
}

#[test]
fn enabled_virtual_functions_are_found_with_parts_of_the_bars() {
    let (mut running, found) = Running::with(2);
    let base = running.physical().virtual_functions.unwrap().bars[0].address();
    let seen: Vec<_> = found
        .iter()
        .map(|f| (f.bdf, f.requester_id, f.bars[0].address(), f.bars[0].size(), f.msix_vectors(), f.unusable))
        .collect();
    let expected = |number_z: u16| {
        let bdf = virtual_at(number_z);
        (bdf, bdf, base + u64::from(number_z) * BYTES, BYTES, 4, None)
    };
    assert_eq!(seen, [expected(0), expected(1)]);
    assert!(found.iter().all(|f| (f.vendor, f.device, f.class_code_bits()) == (0x1b36, 1, 0x01_08_02)));
    assert!(found.iter().all(|f| f.path == [PORT] && f.root_pin.is_none() && f.msi.is_none()));
    running.tested.reach_found(&found);
    assert_eq!(running.tested.bus.read(virtual_at(2), 8), u32::MAX, "the third one is not there");
    assert_eq!(running.tested.bus.violations(), []);
}

#[test]
fn pages_of_the_table_and_the_pending_bits_are_not_given() {
    let (_, found) = Running::with(3);
    for function in &found {
        let page = |number: u64| function.bars[0].address() + number * PAGE_SIZE as u64;
        let given: Vec<_> = function.given_pages().map(|(bar, paddr)| (bar, paddr.bits())).collect();
        assert_eq!(given, [(0, page(0)), (0, page(2))]);
    }
}

#[test]
fn nothing_is_accessed_before_its_time() {
    let mut running = Running::new();
    running.enable(3, START).unwrap();
    for early in [START, START + 100 * MS - 1] {
        assert_eq!(running.find(early), Err(Refused::TooEarly));
    }
    assert_eq!(running.find(START + 100 * MS).map(|found| found.len()), Ok(3));
    assert_eq!(running.tested.bus.violations(), []);
}

#[test]
fn disabled_virtual_functions_are_gone_and_can_come_back() {
    let (mut running, first) = Running::with(3);
    running.disable(START + 200 * MS);
    assert!(!running.is_enabled());
    assert_eq!(running.tested.bus.read(virtual_at(0), 8), u32::MAX);
    running.disable(START + 900 * MS);
    assert_eq!(running.enable(3, START + 1200 * MS - 1), Err(Refused::TooEarly));
    running.enable(3, START + 1200 * MS).unwrap();
    assert_eq!(running.find(START + 1300 * MS), Ok(first));
    assert_eq!(running.tested.bus.violations(), []);
}

#[test]
fn disabling_ends_a_beginning_too() {
    let mut running = Running::new();
    running.disable(START);
    running.enable(1, START).unwrap();
    running.disable(START + MS);
    assert!(!running.is_enabled());
    assert_eq!(running.find(START + 500 * MS), Err(Refused::OutOfOrder));
}

#[test]
fn steps_out_of_order_are_refused() {
    let mut running = Running::new();
    assert_eq!(running.find(START), Err(Refused::OutOfOrder));
    running.enable(1, START).unwrap();
    assert_eq!(running.enable(1, START), Err(Refused::OutOfOrder));
    running.find(START + 100 * MS).unwrap();
    assert_eq!(running.find(START + 100 * MS), Err(Refused::OutOfOrder));
    assert_eq!(running.enable(2, START + 5000 * MS), Err(Refused::OutOfOrder));
    assert!(running.is_enabled());
}

#[test]
fn numbers_that_there_are_not_are_refused() {
    let mut running = Running::new();
    for asked in [0, 4, u16::MAX] {
        assert_eq!(running.enable(asked, START), Err(Refused::Number { asked }));
    }
    assert!(!running.is_enabled());
}

#[test]
fn functions_that_cannot_have_them_are_refused() {
    let mut running = Running::new();
    let without = Function { virtual_functions: None, ..running.physical() };
    assert_eq!(running.enable_of(&without, 1, START), Err(Refused::NotPhysical));
    let unusable = Function { unusable: Some(Unusable::Overlap), ..running.physical() };
    assert_eq!(running.enable_of(&unusable, 1, START), Err(Refused::Unusable(Unusable::Overlap)));
    let mut unplaced = running.physical();
    unplaced.virtual_functions.as_mut().unwrap().unusable = Some(Unusable::Unassigned);
    assert_eq!(running.enable_of(&unplaced, 1, START), Err(Refused::Unusable(Unusable::Unassigned)));
    assert!(!running.is_enabled());
}

/// A reset of the physical function, which its driver does before, clears the capability's registers.
#[test]
fn registers_that_a_reset_cleared_are_written_again() {
    let mut running = Running::new();
    for register in [offset::BAR0, offset::BAR0 + 4] {
        running.tested.write(PHYSICAL, SRIOV + register, 0);
    }
    running.tested.write(PHYSICAL, SRIOV + offset::SYSTEM_PAGE_SIZE, 1 << 4);
    running.enable(3, START).unwrap();
    let found = running.find(START + 100 * MS).unwrap();
    running.tested.reach_found(&found);
}

#[test]
fn registers_that_keep_nothing_leave_the_function_without_them() {
    // The value before differs from the one to be written, and stays.
    for (register, before) in
        [(offset::CONTROL, 0), (offset::NUMBER, 0), (offset::BAR0, 1 << 16), (offset::SYSTEM_PAGE_SIZE, 1 << 4)]
    {
        let mut running = Running::new();
        running.tested.write(PHYSICAL, SRIOV + register, before);
        running.tested.bus.freeze(PHYSICAL, SRIOV + register);
        assert_eq!(running.enable(2, START), Err(Refused::Changed), "{register:#x}");
        assert!(!running.is_enabled());
    }
}

#[test]
fn function_that_describes_others_than_before_is_refused() {
    for (register, value, reason) in [
        (offset::TOTAL, 0x0004_0004, Refused::Changed),
        (offset::TOTAL, 0, Refused::Changed),
        (offset::DEVICE, 0x0002_0000, Refused::Changed),
        (offset::ROUTING, 0, Refused::Changed),
        (offset::ROUTING, 0x0001_0100, Refused::RoutingId),
        (0, u32::MAX, Refused::Changed),
    ] {
        let mut running = Running::new();
        running.tested.bus.pretend(PHYSICAL, SRIOV + register, value);
        assert_eq!(running.enable(2, START), Err(reason), "{register:#x}");
        assert!(!running.is_enabled());
    }
}

#[test]
fn routing_ids_that_change_after_all_are_refused() {
    for (routing, reason) in [
        (0x0001_0100, Refused::RoutingId),
        (0, Refused::Changed),
        // Nothing answers there.
        (0x0001_0010, Refused::Absent(Bdf::from_raw(0x0110))),
    ] {
        let mut running = Running::new();
        running.enable(2, START).unwrap();
        running.tested.bus.pretend(PHYSICAL, SRIOV + offset::ROUTING, routing);
        assert_eq!(running.find(START + 100 * MS), Err(reason), "{routing:#x}");
        assert!(!running.is_enabled());
    }
}

#[test]
fn virtual_function_over_a_known_function_is_refused() {
    let mut running = Running::new();
    running.enable(2, START).unwrap();
    let twin = Function { bdf: virtual_at(1), ..running.physical() };
    running.functions.push(twin);
    assert_eq!(running.find(START + 100 * MS), Err(Refused::RoutingId));
    assert!(!running.is_enabled());
}

#[test]
fn answers_that_are_no_virtual_functions_are_refused() {
    let second = virtual_at(1);
    for (register, value) in [(0x00, 0x0001_1b36), (0x08, u32::MAX), (0x08, 0x0200_0000), (0x0c, 1 << 16)] {
        let mut running = Running::new();
        running.enable(3, START).unwrap();
        running.tested.bus.pretend(second, register, value);
        assert_eq!(running.find(START + 100 * MS), Err(Refused::Absent(second)), "{register:#x}");
        assert!(!running.is_enabled());
        running.tested.bus.tell_the_truth();
        running.enable(3, START + 1100 * MS).unwrap();
        assert_eq!(running.find(START + 1200 * MS).map(|found| found.len()), Ok(3));
    }
}

#[test]
fn impossible_interrupts_leave_one_virtual_function_unusable() {
    // Where the table is: in a BAR that there is not, beyond the BAR's end.
    for table in [7, 2, 0x8000] {
        let mut running = Running::new();
        running.enable(3, START).unwrap();
        running.tested.bus.pretend(virtual_at(1), 0x44, table);
        let found = running.find(START + 100 * MS).unwrap();
        let reasons: Vec<_> = found.iter().map(|function| function.unusable).collect();
        assert_eq!(reasons, [None, Some(Unusable::Msix), None], "{table:#x}");
    }
}

#[test]
fn successor_disables_all_of_them_on_buses_as_they_are() {
    let (mut running, _) = Running::with(3);
    let buses = running.tested.bus.read(PORT, 0x18);
    disable_all(&mut running.config);
    assert!(!running.is_enabled());
    assert_eq!(running.tested.bus.read(PORT, 0x18), buses);
    assert_eq!(running.tested.bus.violations(), []);
}

#[test]
fn next_server_finds_a_mark_and_the_same_places() {
    let (mut running, _) = Running::with(3);
    assert_eq!(running.note.is_marked_enabled(), Ok(true));
    let (functions, _) = running.tested.assign();
    assert_eq!(functions, running.functions);
    assert!(!running.is_enabled());
    assert_eq!(Running::new().note.is_marked_enabled(), Ok(false));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Whatever the capability and a virtual function report: no panic, and either all are found where they may be, or none is
    /// enabled.
    #[test]
    fn lies_end_in_a_refusal_or_in_possible_functions(
        lies in prop::collection::vec((0u16..0x40, any::<u32>(), any::<bool>()), 0..4),
        late in any::<bool>(),
        number in 1u16..4,
    ) {
        let mut running = Running::new();
        let lie = |running: &mut Running| {
            for (register, value, of_virtual) in &lies {
                let (bdf, at) = if *of_virtual { (virtual_at(0), *register) } else { (PHYSICAL, SRIOV + register) };
                running.tested.bus.pretend(bdf, at & !3, *value);
            }
        };
        if !late {
            lie(&mut running);
        }
        let enabled = running.enable(number, START);
        lie(&mut running);
        let found = enabled.and_then(|()| running.find(START + 100 * MS));
        running.tested.bus.tell_the_truth();
        match found {
            Ok(found) => {
                prop_assert_eq!(found.len(), usize::from(number));
                prop_assert!(found.iter().all(|function| function.bdf.bus() == PHYSICAL.bus() && function.bdf > PHYSICAL));
            }
            Err(reason) => prop_assert!(reason != Refused::TooEarly),
        }
    }
}
