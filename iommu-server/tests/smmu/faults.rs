//! Faults reach the caller, and lost ones are reported as lost.

use iommu_server::{Devices, Drained, Error, EventKind, FaultKind, Rights, Smmu, StreamId};
use platform::{Iova, Paddr};
use sim_smmu::{Direction, Interrupts, Profile};

use crate::machine::{Machine, POOL_PAGES};

const STREAM: StreamId = StreamId(0x0008);
const ENTRIES: u32 = 128;

fn started(profile: Profile) -> (Machine, Smmu<Machine, Machine>) {
    let machine = Machine::new(profile, 0);
    let mut smmu = machine.start(Devices::Quiet).unwrap();
    smmu.attach(STREAM, usize::MAX).unwrap();
    (machine, smmu)
}

fn drain(smmu: &mut Smmu<Machine, Machine>) -> (Vec<FaultKind>, Drained) {
    let mut kinds = Vec::new();
    let drained = smmu.faults(|fault| kinds.push(fault.kind)).unwrap();
    (kinds, drained)
}

#[test]
fn each_reason_is_distinguished() {
    let (machine, mut smmu) = started(Profile::Standard);
    smmu.map(STREAM, Iova::new(0x1000), Paddr::new(0x8000_0000), Rights::Read).unwrap();
    assert_eq!(machine.dma(STREAM.0, 0x1234, Direction::Read), Ok(Paddr::new(0x8000_0234)));
    for (stream, iova) in [(0x0008, 0x1000), (0x0008, 0x2000), (0x0008, 1 << 39), (0x0009, 0), (0x0108, 0), (0x8000, 0)]
    {
        machine.dma(stream, iova, Direction::Write).unwrap_err();
    }
    assert_eq!(machine.model(|smmu, _| smmu.take_interrupts()), Interrupts { events: true, gerror: false });
    let (kinds, drained) = drain(&mut smmu);
    let expected = [
        EventKind::Permission,
        EventKind::Translation,
        EventKind::Translation,
        EventKind::BadSte,
        EventKind::BadStream,
        EventKind::BadStream,
    ];
    assert_eq!(kinds, expected.map(FaultKind::Known));
    assert_eq!(drained, Drained { faults: 6, lost: false, more: false });
}

#[test]
fn an_overflow_is_reported_once_and_the_queue_goes_on() {
    for profile in [Profile::Standard, Profile::Qemu72] {
        let (machine, mut smmu) = started(profile);
        for round in 0..5u64 {
            for iova in 0..u64::from(ENTRIES) + 3 + round {
                machine.dma(STREAM.0, iova << 12, Direction::Read).unwrap_err();
            }
            assert_eq!(drain(&mut smmu).1, Drained { faults: ENTRIES, lost: true, more: false }, "{profile:?}");
            machine.dma(STREAM.0, 0, Direction::Read).unwrap_err();
            assert_eq!(drain(&mut smmu).1, Drained { faults: 1, lost: false, more: false }, "{profile:?}");
        }
        assert_eq!(machine.finding(), None);
    }
}

#[test]
fn events_during_a_read_are_announced_without_an_interrupt() {
    let (machine, mut smmu) = started(Profile::Standard);
    machine.dma(STREAM.0, 0, Direction::Read).unwrap_err();
    assert!(machine.model(|smmu, _| smmu.take_interrupts()).events);
    let drained = smmu.faults(|_| {
        machine.dma(STREAM.0, 0x1000, Direction::Read).unwrap_err();
    });
    let drained = drained.unwrap();
    assert_eq!(drained, Drained { faults: 1, lost: false, more: true });
    assert!(!machine.model(|smmu, _| smmu.take_interrupts()).events, "the queue was never empty");
    assert_eq!(drain(&mut smmu).1, Drained { faults: 1, lost: false, more: false });
}

#[test]
fn addresses_that_must_not_be_mapped_are_refused() {
    let (machine, mut smmu) = started(Profile::Standard);
    let map = |smmu: &mut Smmu<_, _>, iova, paddr| smmu.map(STREAM, Iova::new(iova), Paddr::new(paddr), Rights::Read);
    assert_eq!(map(&mut smmu, 0x1001, 0x8000_0000), Err(Error::Address));
    assert_eq!(map(&mut smmu, 1 << 39, 0x8000_0000), Err(Error::Address));
    assert_eq!(map(&mut smmu, 0x1000, 0x8000_0001), Err(Error::Address));
    assert_eq!(map(&mut smmu, 0x1000, 1 << 44), Err(Error::Address));
    assert_eq!(map(&mut smmu, 0x1000, 0x4010_0000), Err(Error::Address), "a page of the pool");
    assert_eq!(smmu.unmap(STREAM, Iova::new(u64::MAX)), Err(Error::Address));
    assert_eq!(smmu.attach(StreamId(0x8000), usize::MAX), Err(Error::StreamId));
    assert!(machine.reached().is_empty());
}

#[test]
fn an_exhausted_pool_changes_nothing_and_comes_back() {
    let (machine, mut smmu) = started(Profile::Standard);
    let page = |index: u64| Iova::new(index << 30);
    let before = smmu.free_pages();
    let mapped = (0..)
        .take_while(|index| smmu.map(STREAM, page(*index), Paddr::new(0x8000_0000), Rights::Read).is_ok())
        .count() as u64;
    assert!(mapped as usize >= (POOL_PAGES - 8) / 2 && smmu.free_pages() < 2);
    assert_eq!(smmu.map(STREAM, page(mapped), Paddr::new(0x8000_0000), Rights::Read), Err(Error::NoPages));
    assert!(machine.dma(STREAM.0, mapped << 30, Direction::Read).is_err());
    for index in 0..mapped {
        smmu.unmap(STREAM, page(index)).unwrap();
    }
    assert_eq!(smmu.free_pages(), before);
    assert_eq!(machine.finding(), None);
}

#[test]
fn as_many_streams_are_attached_as_the_pool_has_pages_for() {
    let (machine, mut smmu) = started(Profile::Standard);
    let mut attached = 1;
    for stream in (0..64).filter(|stream| *stream != STREAM.0) {
        match smmu.attach(StreamId(stream), usize::MAX) {
            Ok(()) => attached += 1,
            Err(error) => assert_eq!(error, Error::NoPages),
        }
    }
    // One page for each, one for the level 2 table they share, four with a fixed use.
    assert_eq!(attached, POOL_PAGES - 4 - 1);
    assert_eq!(machine.finding(), None);
}
