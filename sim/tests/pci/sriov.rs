//! Virtual functions.

use super::machine::register;
use super::system::{System, bdf};
use pci_spec::BarKind;
use pci_spec::Bdf;
use pci_spec::bar::Prefetch;
use sim_pci::VirtualFunction::{Disabled, Enabled};
use sim_pci::{BarConfig, FunctionConfig, FunctionId, FunctionLevelReset, Reset, Violation, VirtualFunction};

const CONTROL: u16 = 0x128;
const COUNT: u16 = 0x130;
const PAGE_SIZE: u16 = 0x140;
const BAR: u16 = 0x144;
const ENABLE: u32 = 1;
const MEMORY: u32 = 1 << 3;
const BYTES: u64 = 0x4000;

fn physical() -> Bdf {
    bdf(1, 0, 0)
}

fn config() -> FunctionConfig {
    FunctionConfig::nvme(0x2000, 8).with_virtual_nvme(3, 0x2000, 4)
}

/// Three virtual functions are there, `count` of them enabled with their BARs one MiB after the window's start.
fn enabled(count: u32) -> (System, FunctionId, u64) {
    let (mut system, id, _) = System::with_function(config());
    let base = system.bar0(physical()) + 0x10_0000;
    system.write(physical(), BAR, base as u32);
    system.write(physical(), COUNT, count);
    system.write(physical(), CONTROL, ENABLE | MEMORY);
    (system, id, base)
}

#[test]
fn the_capability_is_in_the_extended_list() {
    let (mut system, ..) = System::with_function(config());
    assert_eq!(system.read(physical(), 0x100), 0x1201_000e);
    assert_eq!(system.read(physical(), 0x120), 0x0001_0010);
    assert_eq!(system.read(physical(), 0x12c), 0x0003_0003);
    assert_eq!(system.read(physical(), 0x134), 0x0001_0001);
    assert_eq!(system.read(physical(), 0x138) >> 16, 0x0010);
}

#[test]
fn virtual_functions_are_there_once_they_are_enabled() {
    let (mut system, id, _) = System::with_function(config());
    assert_eq!(system.read(bdf(1, 0, 1), 0x08), u32::MAX);
    system.write(physical(), COUNT, 2);
    system.write(physical(), CONTROL, ENABLE);
    for function in [1, 2] {
        let at = bdf(1, 0, function);
        assert_eq!(system.read(at, 0), u32::MAX, "ids are the physical function's");
        assert_eq!(system.read(at, 0x08) >> 8, 0x01_08_02);
        assert_eq!(system.read(at, 0x10), 0, "BARs are the physical function's");
    }
    assert_eq!(system.read(bdf(1, 0, 3), 0x08), u32::MAX);
    let names = system.tree.virtual_functions(id).iter().map(|id| system.tree.bdf(*id).unwrap());
    assert_eq!(names.collect::<Vec<_>>(), [1, 2, 3].map(|function| bdf(1, 0, function)));
    assert_eq!(system.read(physical(), 0x0c) & 1 << 23, 0, "they do not make it a multifunction device");
    assert_eq!(system.violations(), []);
}

#[test]
fn each_virtual_function_has_its_part_of_the_bar() {
    let (mut system, id, base) = enabled(2);
    let functions = system.tree.virtual_functions(id).to_vec();
    assert_eq!(system.load(base + 0x100), 0x100);
    assert_eq!(system.load(base + BYTES + 0x200), 0x200);
    assert_eq!(system.load(base + 2 * BYTES), u64::MAX, "the third is not enabled");
    assert_eq!(system.device(functions[0]).accesses, [(0, 0x100)]);
    assert_eq!(system.device(functions[1]).accesses, [(0, 0x200)]);
}

#[test]
fn without_memory_space_their_bars_do_not_answer() {
    let (mut system, _, base) = enabled(2);
    system.write(physical(), CONTROL, ENABLE);
    assert_eq!(system.load(base), u64::MAX);
}

#[test]
fn sizing_a_virtual_bar_gives_one_functions_size() {
    let (mut system, ..) = System::with_function(config());
    system.write(physical(), BAR, u32::MAX);
    assert_eq!(system.read(physical(), BAR), !(BYTES as u32 - 1) | 0b100);
    assert_eq!(system.violations(), []);
}

#[test]
fn small_virtual_bars_lie_a_page_apart() {
    let mut config = config();
    let sriov = config.sriov.as_mut().unwrap();
    sriov.msix = None;
    sriov.bars[0] = Some(BarConfig { kind: BarKind::Memory32(Prefetch::NonPrefetchable), bytes: 64 });
    let (mut system, ..) = System::with_function(config);
    let base = system.bar0(physical()) + 0x10_0000;
    system.write(physical(), PAGE_SIZE, 1 << 4);
    system.write(physical(), BAR, u32::MAX);
    assert_eq!(system.read(physical(), BAR), 0xffff_0000, "64 KiB pages");
    system.write(physical(), PAGE_SIZE, 0b11);
    assert_eq!(system.read(physical(), PAGE_SIZE), 1 << 4, "one size at a time");
    system.write(physical(), BAR, base as u32);
    system.write(physical(), COUNT, 2);
    system.write(physical(), CONTROL, ENABLE | MEMORY);
    assert_eq!(system.load(base + 0x38), 0x38);
    assert_eq!(system.load(base + 0x40), u64::MAX);
    assert_eq!(system.load(base + 0x1_0000), 0);
}

#[test]
fn they_bear_their_own_names_and_need_their_own_bus_master() {
    let (mut system, id, base) = enabled(2);
    let functions = system.tree.virtual_functions(id).to_vec();
    system.store(base + BYTES + register::DMA_WRITE, 0x1000);
    assert_eq!(system.violations(), [Violation::DmaWithoutBusMaster]);
    assert_eq!(system.tree.violations()[0].function, functions[1]);
    system.write16(bdf(1, 0, 2), 4, 0b111);
    assert_eq!(system.read(bdf(1, 0, 2), 4) & 7, 4, "there is no other enable");
    system.store(base + BYTES + register::DMA_WRITE, 0x1000);
    assert_eq!(system.above.requesters, [0x0102]);
}

#[test]
fn each_has_its_own_messages() {
    let (mut system, _, base) = enabled(2);
    let at = bdf(1, 0, 2);
    system.write16(at, 4, 4);
    system.store(base + BYTES + 0x2000, 0xfee0_0000);
    system.store(base + BYTES + 0x2008, 0x66);
    system.change(at, 0x40, 1 << 31, 0);
    system.store(base + BYTES + register::RAISE, 0);
    system.store(base + register::RAISE, 0);
    assert_eq!(system.above.messages, [(0x0102, 0xfee0_0000, 0x66)]);
    assert_eq!(system.read(at, 0x3c), 0, "no pin");
}

#[test]
fn what_may_not_change_while_they_are_enabled_does_not() {
    let (mut system, ..) = enabled(2);
    system.write(physical(), COUNT, 3);
    assert_eq!(system.read(physical(), COUNT), 2);
    assert_eq!(system.violations(), [Violation::VirtualFunctionsEnabled { register: COUNT }]);
}

#[test]
fn a_virtual_bar_moved_while_it_decodes_is_recorded() {
    let (mut system, _, base) = enabled(2);
    system.write(physical(), BAR, base as u32 + 0x1_0000);
    assert_eq!(system.violations(), [Violation::BarMovedWhileDecoding { register: BAR }]);
}

#[test]
fn more_than_there_are_is_none() {
    let (mut system, ..) = enabled(4);
    assert_eq!(system.violations(), [Violation::TooManyVirtualFunctions { count: 4 }]);
    assert_eq!(system.read(bdf(1, 0, 1), 0x08), u32::MAX);
}

#[test]
fn a_function_level_reset_of_one_leaves_the_others() {
    let (mut system, id, base) = enabled(2);
    let functions = system.tree.virtual_functions(id).to_vec();
    let before = functions.iter().map(|id| system.device(*id).resets.len()).collect::<Vec<_>>();
    system.store(base + BYTES + register::DATA, 7);
    system.change(bdf(1, 0, 1), 0x88, 1 << 15, 0);
    let after = functions.iter().map(|id| system.device(*id).resets.len()).collect::<Vec<_>>();
    assert_eq!(after, [before[0] + 1, before[1], before[2]]);
    assert_eq!(system.load(base + BYTES + register::DATA), 7);
    assert_eq!(system.load(base), 0, "its BAR is its physical function's");
}

#[test]
fn a_function_level_reset_of_the_physical_one_takes_them_along() {
    let (mut system, id, base) = enabled(2);
    system.change(physical(), 0x88, 1 << 15, 0);
    assert_eq!(system.read(bdf(1, 0, 1), 0x08), u32::MAX);
    assert_eq!(system.load(base), u64::MAX);
    let first = system.tree.virtual_functions(id)[0];
    assert_eq!(system.device(first).resets.last(), Some(&Reset::FunctionLevel));
    assert_eq!(system.read(physical(), CONTROL) & 0xffff, 0);
}

/// States of the virtual functions as their devices learned of them.
fn states(system: &System, id: FunctionId) -> Vec<Option<VirtualFunction>> {
    system.tree.virtual_functions(id).iter().map(|id| system.device(*id).state).collect()
}

#[test]
fn devices_learn_whether_their_virtual_functions_are_enabled() {
    let (mut system, id, _) = enabled(2);
    let two = [Some(Enabled), Some(Enabled), Some(Disabled)];
    assert_eq!(states(&system, id), two);
    assert_eq!(system.device(id).state, None, "it is not in a virtual function");
    system.change(bdf(1, 0, 1), 0x88, 1 << 15, 0);
    assert_eq!(states(&system, id), two, "a reset of its own leaves a function enabled");
    system.write(physical(), CONTROL, 0);
    assert_eq!(states(&system, id), [Some(Disabled); 3]);
    let flr = |system: &mut System| system.change(physical(), 0x88, 1 << 15, 0);
    let bus_reset = |system: &mut System| system.change(bdf(0, 1, 0), 0x3c, 1 << 22, 0);
    let resets: [&dyn Fn(&mut System); 2] = [&flr, &bus_reset];
    for reset in resets {
        system.write(physical(), COUNT, 3);
        system.write(physical(), CONTROL, ENABLE);
        assert_eq!(states(&system, id), [Some(Enabled); 3]);
        reset(&mut system);
        assert_eq!(states(&system, id), [Some(Disabled); 3]);
    }
}

#[test]
fn address_of_a_virtual_bar_is_known_before_its_function_is_enabled() {
    let (mut system, id, _) = System::with_function(config());
    let base = system.bar0(physical()) + 0x10_0000;
    system.write(physical(), BAR, base as u32);
    let functions = system.tree.virtual_functions(id).to_vec();
    let addresses = |index| functions.iter().map(|id| system.tree.bar_address(*id, index)).collect::<Vec<_>>();
    assert_eq!(addresses(0), [0, 1, 2].map(|number| Some(base + number * BYTES)));
    assert_eq!(addresses(1), [None; 3]);
    assert_eq!(system.tree.bar_address(id, 0), Some(base - 0x10_0000));
}

#[test]
fn virtual_functions_take_their_time_to_come() {
    let config = FunctionConfig { function_level_reset: FunctionLevelReset::Takes { ns: 100 }, ..config() };
    let (mut system, ..) = System::with_function(config);
    system.now_ns = 50;
    system.write(physical(), COUNT, 1);
    system.write(physical(), CONTROL, ENABLE);
    assert_eq!(system.read(bdf(1, 0, 1), 0x08), u32::MAX);
    assert_eq!(system.violations(), [Violation::AccessDuringReset { register: 8 }]);
    system.now_ns = 150;
    assert_eq!(system.read(bdf(1, 0, 1), 0x08) >> 8, 0x01_08_02);
}
