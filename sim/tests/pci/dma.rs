//! DMA: permission, requester ids, and the records of blocked DMA.

use super::machine::{WRITTEN, register};
use super::system::{System, bdf};
use sim_pci::{Blocked, Direction, Violation};

#[test]
fn dma_bears_the_functions_name() {
    let (mut system, id, base) = System::placed();
    system.store(base + register::DMA_WRITE, 0x1000);
    system.store(base + register::DMA_READ, 0x1000);
    assert_eq!(system.above.requesters, [0x0100, 0x0100]);
    assert_eq!(system.device(id).data, WRITTEN);
    assert_eq!(system.tree.dma_faults(), []);
}

#[test]
fn dma_without_bus_master_is_dropped_and_recorded() {
    let (mut system, id, base) = System::placed();
    system.change(bdf(1, 0, 0), 4, 0, 4);
    system.now_ns = 77;
    system.store(base + register::DMA_WRITE, 0x1000);
    assert_eq!(system.above.memory.len(), 0);
    assert_eq!(system.device(id).results, [Err(Blocked::NotBusMaster)]);
    assert_eq!(system.violations(), [Violation::DmaWithoutBusMaster]);
    let fault = system.tree.dma_faults()[0];
    assert_eq!((fault.at_ns, fault.function, fault.requester_id), (77, id, 0x0100));
    assert_eq!((fault.address, fault.bytes, fault.direction), (0x1000, 8, Direction::Write));
}

#[test]
fn a_bridge_that_is_not_master_forwards_no_dma() {
    let (mut system, id, base) = System::placed();
    system.change(bdf(0, 1, 0), 4, 0, 4);
    system.store(base + register::DMA_READ, 0x1000);
    assert_eq!(system.device(id).results, [Err(Blocked::NotBusMaster)]);
    system.change(bdf(0, 1, 0), 4, 4, 0);
    system.store(base + register::DMA_READ, 0x1000);
    assert_eq!(system.device(id).results[1], Ok(()));
}

#[test]
fn what_the_iommu_blocks_is_recorded_but_no_violation_of_pci() {
    let (mut system, id, base) = System::placed();
    system.above.blocked = Some(0x0100);
    system.store(base + register::DMA_READ, 0xdead_0000);
    assert_eq!(system.device(id).results, [Err(Blocked::Refused)]);
    assert_eq!(system.violations(), []);
    let fault = system.tree.dma_faults()[0];
    assert_eq!((fault.address, fault.direction, fault.reason), (0xdead_0000, Direction::Read, Blocked::Refused));
}

#[test]
fn a_dword_written_into_the_interrupt_range_is_an_interrupt() {
    let (mut system, _, base) = System::placed();
    system.store(base + register::FAKE_INTERRUPT, 4);
    assert_eq!(system.above.messages, [(0x0100, 0xfee0_0000, 0x42)]);
    assert_eq!(system.violations(), [Violation::DmaIntoInterruptRange { address: 0xfee0_0000 }]);
}

#[test]
fn each_aligned_dword_of_a_longer_write_is_an_interrupt() {
    let (mut system, id, base) = System::placed();
    system.store(base + register::FAKE_INTERRUPT, 8);
    assert_eq!(system.above.messages, [(0x0100, 0xfee0_0000, 0x42), (0x0100, 0xfee0_0004, 0)]);
    assert_eq!(system.device(id).results, [Ok(())]);
    assert_eq!(system.violations(), [Violation::DmaIntoInterruptRange { address: 0xfee0_0000 }]);
}

#[test]
fn anything_else_there_is_an_error() {
    let (mut system, id, base) = System::placed();
    system.store(base + register::FAKE_INTERRUPT, 6);
    // Its last bytes would be in the range.
    system.store(base + register::DMA_READ, 0xfedf_fffc);
    assert_eq!(system.above.messages, []);
    assert_eq!(system.device(id).results, [Err(Blocked::Refused); 2]);
    assert_eq!(system.tree.dma_faults().len(), 2);
}

#[test]
fn records_are_bounded_and_the_rest_is_counted() {
    let (mut system, _, base) = System::placed();
    system.above.blocked = Some(0x0100);
    for _ in 0..sim_pci::KEPT + 3 {
        system.store(base + register::DMA_WRITE, 0x1000);
    }
    assert_eq!(system.tree.dma_faults().len(), sim_pci::KEPT);
    assert_eq!(system.tree.records_lost(), 3);
}

#[test]
fn devices_work_when_their_time_comes() {
    let (mut system, _, base) = System::placed();
    assert_eq!(system.tree.next_event_ns(), None);
    system.store(base + register::TIMER, 500);
    assert_eq!(system.tree.next_event_ns(), Some(500));
    system.tree.advance(499, &mut system.above);
    assert_eq!(system.tree.next_event_ns(), Some(500));
    system.tree.advance(500, &mut system.above);
    assert_eq!(system.tree.next_event_ns(), None);
}
