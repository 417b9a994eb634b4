//! MSI-X and MSI: messages that are sent, wait, or are lost.

use super::machine::register;
use super::system::{System, bdf};
use pci_spec::Bdf;
use sim_pci::{FunctionConfig, FunctionId, Interrupts, MsiConfig, Violation};

const TABLE: u64 = 0x2000;
const PENDING: u64 = 0x3000;
const ENABLE: u32 = 1 << 31;
const FUNCTION_MASK: u32 = 1 << 30;

fn nvme_at() -> Bdf {
    bdf(1, 0, 0)
}

/// MSI-X on, vectors 0 to 3 send 30h to 33h, all masked in the table.
fn programmed() -> (System, FunctionId, u64) {
    let (mut system, id, base) = System::placed();
    for vector in 0..4 {
        system.store(base + TABLE + vector * 16, 0xfee0_1000);
        system.store32(base + TABLE + vector * 16 + 8, 0x30 + vector as u32);
    }
    system.change(nvme_at(), 0x40, ENABLE, 0);
    (system, id, base)
}

fn mask(system: &mut System, base: u64, vector: u64, masked: u32) {
    system.store32(base + TABLE + vector * 16 + 12, masked);
}

#[test]
fn an_unmasked_vector_sends_its_message() {
    let (mut system, _, base) = programmed();
    mask(&mut system, base, 2, 0);
    system.store(base + register::RAISE, 2);
    assert_eq!(system.above.messages, [(0x0100, 0xfee0_1000, 0x32)]);
    assert_eq!(system.violations(), []);
}

#[test]
fn a_masked_vector_waits_and_is_sent_once_when_it_is_unmasked() {
    let (mut system, _, base) = programmed();
    system.store(base + register::RAISE, 1);
    system.store(base + register::RAISE, 1);
    assert_eq!(system.above.messages, []);
    assert_eq!(system.load(base + PENDING), 0b10);
    mask(&mut system, base, 1, 0);
    assert_eq!(system.above.messages, [(0x0100, 0xfee0_1000, 0x31)]);
    assert_eq!(system.load(base + PENDING), 0);
    mask(&mut system, base, 1, 1);
    mask(&mut system, base, 1, 0);
    assert_eq!(system.above.messages.len(), 1);
}

#[test]
fn the_function_mask_holds_all_vectors_back() {
    let (mut system, _, base) = programmed();
    for vector in [0, 3] {
        mask(&mut system, base, vector, 0);
    }
    system.change(nvme_at(), 0x40, FUNCTION_MASK, 0);
    system.store(base + register::RAISE, 3);
    system.store(base + register::RAISE, 0);
    assert_eq!(system.above.messages, []);
    system.change(nvme_at(), 0x40, 0, FUNCTION_MASK);
    let data: Vec<u32> = system.above.messages.iter().map(|message| message.2).collect();
    assert_eq!(data, [0x30, 0x33]);
}

#[test]
fn nothing_is_sent_while_msix_is_off() {
    let (mut system, _, base) = programmed();
    mask(&mut system, base, 0, 0);
    system.change(nvme_at(), 0x40, 0, ENABLE);
    system.store(base + register::RAISE, 0);
    system.change(nvme_at(), 0x40, ENABLE, 0);
    assert_eq!(system.above.messages, []);
}

#[test]
fn the_device_hears_how_it_interrupts() {
    let (mut system, id, _) = programmed();
    system.change(nvme_at(), 0x40, FUNCTION_MASK, 0);
    system.change(nvme_at(), 0x40, 0, ENABLE);
    assert_eq!(system.device(id).interrupts, [Interrupts::Msix, Interrupts::Pin]);
}

#[test]
fn a_message_without_bus_master_is_lost_and_recorded() {
    let (mut system, _, base) = programmed();
    mask(&mut system, base, 0, 0);
    system.change(nvme_at(), 4, 0, 4);
    system.store(base + register::RAISE, 0);
    system.change(nvme_at(), 4, 4, 0);
    assert_eq!(system.above.messages, []);
    assert_eq!(system.violations(), [Violation::MessageWithoutBusMaster { vector: 0 }]);
}

#[test]
fn an_unprogrammed_vector_writes_to_address_zero() {
    let (mut system, _, base) = System::placed();
    system.change(nvme_at(), 0x40, ENABLE, 0);
    mask(&mut system, base, 1, 0);
    system.store(base + register::RAISE, 1);
    assert_eq!(system.violations(), [Violation::UnprogrammedVector { vector: 1 }]);
    assert_eq!(system.above.memory.len(), 4);
}

#[test]
fn a_message_that_is_no_interrupt_is_a_write_to_memory() {
    let (mut system, _, base) = programmed();
    system.store(base + TABLE, 0x5000);
    mask(&mut system, base, 0, 0);
    system.store(base + register::RAISE, 0);
    assert_eq!(system.violations(), [Violation::MessageElsewhere { vector: 0, address: 0x5000 }]);
    assert_eq!(system.above.memory.get(&0x5000), Some(&0x30));
}

#[test]
fn a_device_cannot_raise_what_it_does_not_have() {
    let (mut system, _, base) = programmed();
    system.store(base + register::RAISE, 4);
    assert_eq!(system.violations(), [Violation::NoSuchVector { vector: 4 }]);
}

#[test]
fn table_and_pending_bits_are_never_the_devices() {
    let (mut system, id, base) = programmed();
    system.device_accesses_cleared(id);
    assert_eq!(system.load(base + TABLE), 0xfee0_1000);
    assert_eq!(system.load(base + TABLE + 8), 1 << 32 | 0x30);
    system.store(base + PENDING, u64::MAX);
    assert_eq!(system.load(base + PENDING), 0);
    assert!(system.device(id).accesses.is_empty());
    system.load(base + TABLE + 0x40);
    assert_eq!(system.device(id).accesses, [(0, TABLE + 0x40)], "what lies behind the table is");
}

#[test]
fn tables_can_be_found_from_outside() {
    let (mut system, id, base) = programmed();
    let tables: Vec<_> = system.tree.message_tables().into_iter().filter(|table| table.function == id).collect();
    let ranges: Vec<_> = tables.iter().map(|table| table.range.clone()).collect();
    assert_eq!(ranges, [base + TABLE..base + TABLE + 64, base + PENDING..base + PENDING + 8]);
    assert!(system.tree.regions().any(|region| region.range == (base..base + 0x4000) && region.function == id));
    system.change(nvme_at(), 4, 0, 2);
    assert!(system.tree.message_tables().iter().all(|table| table.function != id));
}

#[test]
fn narrow_accesses_to_the_table_do_nothing() {
    let (mut system, _, base) = programmed();
    let address = base + TABLE;
    assert_eq!(system.tree.memory_read(address, 2, 0), Ok(0xffff));
    system.tree.memory_write(address, 1, 0, 0, &mut system.above).unwrap();
    assert_eq!(system.load(address), 0xfee0_1000);
    assert_eq!(system.violations(), [Violation::NarrowTableAccess { offset: TABLE }; 2]);
}

#[test]
fn changing_a_vector_that_may_be_sent_is_recorded() {
    let (mut system, _, base) = programmed();
    mask(&mut system, base, 1, 0);
    system.store32(base + TABLE + 16 + 8, 0x99);
    assert_eq!(system.violations(), [Violation::EntryChangedUnmasked { vector: 1 }]);
}

/// A function with four MSI vectors that send 40h to 43h.
fn with_msi(allocated_log2: u32) -> (System, u64) {
    let config = FunctionConfig { msi: Some(MsiConfig { vectors_log2: 2 }), ..System::small() };
    let (mut system, ..) = System::with_function(config);
    let base = system.bar0(nvme_at());
    system.write(nvme_at(), 0xc4, 0xfee0_2000);
    system.write(nvme_at(), 0xcc, 0x40);
    system.change(nvme_at(), 0xc0, 1 << 16 | allocated_log2 << 20, 0);
    (system, base)
}

#[test]
fn msi_puts_the_vector_into_the_data() {
    let (mut system, base) = with_msi(2);
    system.store(base + register::RAISE, 3);
    assert_eq!(system.above.messages, [(0x0100, 0xfee0_2000, 0x43)]);
}

#[test]
fn with_fewer_msi_vectors_some_are_shared() {
    let (mut system, base) = with_msi(1);
    system.store(base + register::RAISE, 3);
    assert_eq!(system.above.messages, [(0x0100, 0xfee0_2000, 0x41)]);
}

#[test]
fn a_masked_msi_vector_waits() {
    let (mut system, base) = with_msi(2);
    system.write(nvme_at(), 0xd0, 0b0010);
    system.store(base + register::RAISE, 1);
    assert_eq!((system.above.messages.len(), system.read(nvme_at(), 0xd4)), (0, 0b0010));
    system.write(nvme_at(), 0xd0, 0);
    assert_eq!(system.above.messages, [(0x0100, 0xfee0_2000, 0x41)]);
    assert_eq!(system.read(nvme_at(), 0xd4), 0);
}

#[test]
fn msi_and_msix_together_are_recorded() {
    let config = FunctionConfig { msi: Some(MsiConfig { vectors_log2: 0 }), ..FunctionConfig::nvme(0x2000, 4) };
    let (mut system, ..) = System::with_function(config);
    system.change(nvme_at(), 0xc0, 1 << 16, 0);
    assert_eq!(system.violations(), []);
    system.change(nvme_at(), 0x40, ENABLE, 0);
    assert_eq!(system.violations(), [Violation::MsiAndMsix]);
}
