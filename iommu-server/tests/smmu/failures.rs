//! An SMMU that does not answer, or refuses commands.

use iommu_server::{Devices, Error, Rights, Smmu, StreamId};
use platform::{Iova, Paddr};
use sim_smmu::{Direction, Faults, Profile};

use crate::machine::Machine;

const STREAM: StreamId = StreamId(0x0008);
const OTHER: StreamId = StreamId(0x0108);
const IOVA: Iova = Iova::new(0x1000);
const PAGE: Paddr = Paddr::new(0x8000_0000);
const STUCK: Faults = Faults { is_stuck: true, max_delay_reads: 0, command_errors_per_million: 0, forget: None };

fn mapped() -> (Machine, Smmu<Machine, Machine>) {
    let machine = Machine::new(Profile::Standard, 0);
    let mut smmu = machine.start(Devices::Quiet).unwrap();
    smmu.attach(STREAM, usize::MAX).unwrap();
    smmu.map(STREAM, IOVA, PAGE, Rights::ReadWrite).unwrap();
    machine.dma(STREAM.0, IOVA.bits(), Direction::Write).unwrap();
    (machine, smmu)
}

#[test]
fn a_stuck_queue_is_reported_and_its_pages_are_kept() {
    let (machine, mut smmu) = mapped();
    let free = smmu.free_pages();
    machine.set_faults(STUCK);
    assert_eq!(smmu.unmap(STREAM, IOVA), Err(Error::Stuck));
    assert!(machine.dma(STREAM.0, IOVA.bits(), Direction::Write).is_ok(), "the caller must not free the page");
    assert_eq!(smmu.free_pages(), free, "tables that are maybe in use are not free");
    assert_eq!(smmu.map(STREAM, IOVA, PAGE, Rights::Read), Err(Error::Stuck));
    assert_eq!(smmu.attach(OTHER, usize::MAX), Err(Error::Stuck));
    assert_eq!(smmu.detach(STREAM), Err(Error::Stuck));
    assert!(!smmu.is_attached(STREAM) && !smmu.is_attached(OTHER));
    assert_eq!(smmu.free_pages(), free);
    assert_eq!(smmu.settle(), Err(Error::Stuck));
}

#[test]
fn a_queue_that_goes_on_again_ends_the_doubt() {
    let (machine, mut smmu) = mapped();
    machine.set_faults(STUCK);
    assert_eq!(smmu.unmap(STREAM, IOVA), Err(Error::Stuck));
    machine.set_faults(Faults::default());
    smmu.settle().unwrap();
    assert!(machine.reached().is_empty());
    assert_eq!(smmu.unmap(STREAM, IOVA), Err(Error::NotMapped));
    smmu.map(STREAM, IOVA, PAGE, Rights::Read).unwrap();
    assert_eq!(machine.reached().len(), 1);
    assert_eq!(machine.finding(), None);
}

#[test]
fn a_detach_in_doubt_is_over_when_the_next_operation_succeeds() {
    let (machine, mut smmu) = mapped();
    machine.set_faults(STUCK);
    assert_eq!(smmu.detach(STREAM), Err(Error::Stuck));
    assert_eq!(smmu.attach(OTHER, usize::MAX), Err(Error::Stuck));
    assert!(!smmu.is_attached(OTHER));
    machine.set_faults(Faults::default());
    smmu.attach(OTHER, usize::MAX).unwrap();
    assert!(machine.reached().is_empty());
    assert!(!smmu.is_attached(STREAM));
    smmu.detach(OTHER).unwrap();
    let all = smmu.free_pages();
    assert_eq!(machine.start(Devices::MaySend).unwrap().free_pages(), all);
    assert_eq!(machine.finding(), None);
}

#[test]
fn a_queue_that_always_refuses_is_stuck_in_the_end() {
    let (machine, mut smmu) = mapped();
    machine.set_faults(Faults { command_errors_per_million: 1_000_000, ..Faults::default() });
    assert_eq!(smmu.unmap(STREAM, IOVA), Err(Error::Stuck));
    machine.set_faults(Faults::default());
    smmu.settle().unwrap();
    assert!(machine.reached().is_empty());
}

#[test]
fn refused_commands_are_made_good() {
    for seed in 0..200 {
        let machine = Machine::new(Profile::Standard, seed);
        let mut smmu = machine.start(Devices::Quiet).unwrap();
        machine.set_faults(Faults { command_errors_per_million: 200_000, ..Faults::default() });
        // Too many refusals in a row are possible, and are reported.
        let Ok(()) = smmu.attach(STREAM, usize::MAX) else { continue };
        let Ok(()) = smmu.map(STREAM, IOVA, PAGE, Rights::ReadWrite) else { continue };
        assert_eq!(machine.reached().len(), 2);
        if smmu.unmap(STREAM, IOVA).is_ok() {
            assert!(machine.reached().is_empty(), "seed {seed}");
        }
        assert_eq!(machine.finding(), None);
    }
}

#[test]
fn an_smmu_that_is_stuck_at_the_start_lets_nothing_pass() {
    let machine = Machine::new(Profile::Standard, 0);
    machine.set_faults(STUCK);
    assert_eq!(machine.start(Devices::Quiet).err(), Some(Error::Stuck));
    assert!(machine.reached().is_empty());
    machine.set_faults(Faults::default());
    let _smmu = machine.start(Devices::MaySend).unwrap();
    assert!(machine.reached().is_empty());
}
