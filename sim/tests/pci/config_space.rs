//! Configuration space: its answers, the bits that stay, and the enumerator's view of it.

use super::system::{System, bdf, ecam};
use super::walk::walk;
use pci_spec::capability::id;
use sim_pci::{BadAccess, BusId, FunctionConfig, PortConfig, Violation};

#[test]
fn the_host_bridge_is_q35s() {
    let mut system = System::bare();
    assert_eq!(system.read(bdf(0, 0, 0), 0), 0x29c0_8086);
    assert_eq!(system.read(bdf(0, 0, 0), 8) >> 8, 0x06_00_00);
}

#[test]
fn an_enumerator_finds_what_firmware_placed() {
    let (mut system, ..) = System::nvme();
    let seen = walk(&mut system);
    let found: Vec<_> = seen.iter().map(|seen| (seen.bdf, seen.id, seen.secondary)).collect();
    let port = (bdf(0, 1, 0), 0x000c_1b36, Some(1));
    assert_eq!(found, [(bdf(0, 0, 0), 0x29c0_8086, None), port, (bdf(1, 0, 0), 0x0010_1b36, None)]);
    let nvme = seen.last().unwrap();
    assert_eq!(nvme.capabilities, [id::MSIX, id::POWER_MANAGEMENT, id::EXPRESS]);
    assert_eq!(nvme.bars.len(), 1);
    assert_eq!(nvme.bars[0].1, 0x4000);
    assert_eq!(system.violations(), []);
}

#[test]
fn sizing_by_the_book_breaks_no_rule_and_changes_nothing() {
    let (mut system, ..) = System::nvme();
    let first = walk(&mut system);
    assert_eq!(walk(&mut system), first);
    assert_eq!(system.violations(), []);
}

#[test]
fn functions_after_the_first_need_the_multifunction_bit() {
    let mut system = System::bare();
    system.attach(BusId::ROOT, 4, 0, System::small());
    assert_eq!(system.read(bdf(0, 4, 0), 0x0c) & 1 << 23, 0);
    system.attach(BusId::ROOT, 4, 5, System::small());
    assert_ne!(system.read(bdf(0, 4, 0), 0x0c) & 1 << 23, 0);
    assert_eq!(walk(&mut system).len(), 3);
}

#[test]
fn the_chipset_has_what_q35_has() {
    let mut system = System::bare();
    system.tree.attach_q35().unwrap();
    let found: Vec<_> = walk(&mut system).iter().map(|seen| (seen.bdf, seen.id)).collect();
    let device_31 = [(0, 0x2918_8086), (2, 0x2922_8086), (3, 0x2930_8086)];
    assert_eq!(found[1..], device_31.map(|(function, id)| (bdf(0, 31, function), id)));
}

#[test]
fn conventional_functions_have_no_more_than_256_bytes() {
    let mut system = System::bare();
    assert_eq!(system.read(bdf(0, 0, 0), 0xfc), 0);
    assert_eq!(system.read(bdf(0, 0, 0), 0x100), u32::MAX);
}

#[test]
fn read_only_registers_ignore_and_record() {
    let (mut system, id, _) = System::nvme();
    let at = bdf(1, 0, 0);
    system.write(at, 0, 0x1234_5678);
    assert_eq!(system.read(at, 0), 0x0010_1b36);
    assert_eq!(system.violations(), [Violation::ReadOnlyRegister { register: 0 }]);
    assert_eq!(system.tree.violations()[0].function, id);
    let before = system.read(at, 8);
    system.write(at, 8, before);
    assert_eq!(system.violations().len(), 1, "writing back what was read is no change");
}

#[test]
fn bytes_and_words_write_only_their_part() {
    let (mut system, ..) = System::nvme();
    let at = bdf(1, 0, 0);
    let line = ecam(at, 0x3c);
    system.tree.config_write(line, 1, 0x17, 0, &mut system.above).unwrap();
    assert_eq!(system.tree.config_read(line, 4, 0), Ok(0x0117));
    assert_eq!(system.tree.config_read(line + 1, 1, 0), Ok(1));
}

#[test]
fn accesses_no_machine_makes_are_refused() {
    let (mut system, ..) = System::nvme();
    assert_eq!(system.tree.config_read(0, 8, 0), Err(BadAccess::Width { bytes: 8 }));
    assert_eq!(system.tree.config_read(2, 4, 0), Err(BadAccess::Unaligned { address: 2, bytes: 4 }));
    assert_eq!(
        system.tree.memory_read(0xc000_0001, 4, 0).unwrap_err(),
        BadAccess::Unaligned { address: 0xc000_0001, bytes: 4 }
    );
}

#[test]
fn buses_beyond_configuration_space_do_not_answer() {
    let mut system = System::bare();
    system.tree.attach_port(BusId::ROOT, 1, 0, PortConfig::conventional()).unwrap();
    system.write(bdf(0, 1, 0), 0x18, 0x00ff_1000);
    assert_eq!(system.read(bdf(16, 0, 0), 0), u32::MAX);
    assert_eq!(system.tree.config_read(1 << 40, 4, 0), Ok(0xffff_ffff));
}

#[test]
fn power_states_that_are_not_there_are_ignored() {
    let (mut system, ..) = System::with_function(FunctionConfig::nvme(0x2000, 4));
    let at = bdf(1, 0, 0);
    let base = system.bar0(at);
    system.change(at, 0x64, 1, 0);
    assert_eq!(system.read(at, 0x64) & 3, 0);
    system.change(at, 0x64, 3, 0);
    assert_eq!(system.load(base), u64::MAX, "D3hot answers no memory access");
    system.change(at, 0x64, 0, 3);
    assert_eq!(system.load(base), 0);
}

#[test]
fn speed_and_width_of_the_link_can_be_read() {
    let (mut system, ..) = System::nvme();
    let capabilities = system.read(bdf(1, 0, 0), 0x8c);
    assert_eq!((capabilities & 0xf, capabilities >> 4 & 0x3f), (3, 4));
    assert_eq!(system.read(bdf(1, 0, 0), 0x90) >> 16 & 0x3ff, 0x43);
}
