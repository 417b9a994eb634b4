//! Functions and bridges that software left in D3hot.

use super::machine::register;
use super::system::{System, bdf};
use pci_spec::Bdf;
use sim_pci::{FunctionConfig, OnWaking, Violation};

const POWER: u16 = 0x64;
const TEN_MS: u64 = 10_000_000;

fn at() -> Bdf {
    bdf(1, 0, 0)
}

/// A function in D3hot that decoded memory before, and the address of its BAR 0.
fn suspended(on_waking: OnWaking) -> (System, u64) {
    let (mut system, id, _) = System::with_function(FunctionConfig::nvme(0x2000, 4));
    let base = system.bar0(at());
    system.store(base + register::DATA, 99);
    system.tree.suspend(id, on_waking, &mut system.above);
    (system, base)
}

#[test]
fn only_configuration_space_answers_in_d3hot() {
    let (mut system, base) = suspended(OnWaking::Keeps);
    assert_eq!(system.read(at(), 0), 0x0010_1b36);
    assert_eq!(system.read(at(), POWER) & 0b1011, 0b1011);
    assert_eq!(system.load(base + register::DATA), u64::MAX);
}

#[test]
fn nothing_answers_for_ten_milliseconds_after_d3hot() {
    let (mut system, base) = suspended(OnWaking::Keeps);
    system.write(at(), POWER, 8);
    system.now_ns = TEN_MS - 1;
    assert_eq!(system.read(at(), 0), u32::MAX);
    assert_eq!(system.violations(), [Violation::AccessDuringReset { register: 0 }]);
    system.now_ns = TEN_MS;
    assert_eq!(system.load(base + register::DATA), 99);
}

#[test]
fn a_function_without_no_soft_reset_loses_its_registers() {
    let (mut system, base) = suspended(OnWaking::Loses);
    assert_eq!(system.bar0(at()), base);
    system.write(at(), POWER, 0);
    system.now_ns = TEN_MS;
    assert_eq!((system.bar0(at()), system.read(at(), 4) & 7), (0, 0));
    assert_eq!(system.read(at(), POWER) & 0b1011, 0);
}

#[test]
fn a_port_in_d3hot_forwards_nothing() {
    let (mut system, id, _) = System::with_function(FunctionConfig::nvme(0x2000, 4));
    let base = system.bar0(at());
    let above = system.tree.bridges_above(id);
    let [port] = above.as_slice() else { panic!("one port, not {above:?}") };
    system.tree.suspend(*port, OnWaking::Keeps, &mut system.above);
    assert_eq!((system.read(at(), 0), system.load(base)), (u32::MAX, u64::MAX));
}
