//! The steps of one script: a device's transactions, and the reported faults. QEMU's SMMU and the model must behave the same.

use iommu_server::{Devices, Direction, Drained, EventKind, Fault, FaultKind, Rights, Smmu, StreamId};
use platform::{Iova, Memory, Mmio, Paddr};

/// The device is 00:01.0.
pub(crate) const STREAM: StreamId = StreamId(0x0008);
/// Memory for data.
pub(crate) const DATA: [u64; 3] = [0x4200_0000, 0x4200_1000, 0x4200_2000];
const IOVA: u64 = 0x7f_1234_5000;
/// The device's address of the page that its buffer is filled from.
const SCRATCH: u64 = 0x20_0000;
/// Entries of the event queue.
const ENTRIES: u32 = 128;

/// A machine with an SMMU and a device with a buffer.
pub(crate) trait Bench {
    /// The SMMU's registers.
    type Registers: Mmio;
    /// The SMMU's memory for tables.
    type Tables: Memory;

    /// Starts a new incarnation of the driver.
    fn start(&self, devices: Devices) -> Smmu<Self::Registers, Self::Tables>;
    /// Reads eight bytes of memory.
    fn read(&self, paddr: u64) -> u64;
    /// Writes eight bytes of memory.
    fn write(&self, paddr: u64, value: u64);
    /// Has the device fill its buffer from an address of its own, or write the buffer there.
    fn transfer(&self, iova: u64, direction: Direction, bytes: u64);
}

/// Writes a value at an address of the device.
fn store(bench: &impl Bench, iova: u64, value: u64) {
    // Through a page that the device may read, because otherwise the buffer would be unknown.
    bench.write(DATA[2], value);
    bench.transfer(SCRATCH, Direction::Read, 8);
    bench.transfer(iova, Direction::Write, 8);
}

fn faults<R: Mmio, M: Memory>(smmu: &mut Smmu<R, M>) -> Vec<Fault> {
    let mut faults = Vec::new();
    let Drained { lost, .. } = smmu.faults(|fault| faults.push(fault)).unwrap();
    assert!(!lost);
    faults
}

/// Returns the one kind of the faults, and asserts that all are of the device and at `iova` if they have an address.
fn only_kind(faults: &[Fault], iova: Option<(u64, Direction)>) -> EventKind {
    let Some(Fault { kind: FaultKind::Known(kind), .. }) = faults.first().copied() else { panic!("{faults:?}") };
    for fault in faults {
        assert_eq!((fault.stream, fault.kind), (STREAM, FaultKind::Known(kind)));
        // The machine may move the eight bytes in two halves.
        assert_eq!(fault.iova.map(|iova| iova.bits() & !7).zip(fault.direction), iova);
    }
    kind
}

/// Plays the script.
pub(crate) fn play(bench: &impl Bench) {
    let mut smmu = bench.start(Devices::Quiet);
    bench.write(DATA[0], 1);

    bench.transfer(DATA[0], Direction::Write, 8);
    assert_eq!(bench.read(DATA[0]), 1, "a stream that is not attached reaches nothing");
    assert_eq!(only_kind(&faults(&mut smmu), None), EventKind::BadStream);

    smmu.attach(STREAM, usize::MAX).unwrap();
    smmu.map(STREAM, Iova::new(SCRATCH), Paddr::new(DATA[2]), Rights::Read).unwrap();
    smmu.map(STREAM, Iova::new(IOVA), Paddr::new(DATA[0]), Rights::ReadWrite).unwrap();
    store(bench, IOVA + 8, 0x1122_3344_5566_7788);
    assert_eq!(bench.read(DATA[0] + 8), 0x1122_3344_5566_7788);
    assert_eq!(faults(&mut smmu), []);

    bench.transfer(SCRATCH, Direction::Write, 8);
    assert_eq!(only_kind(&faults(&mut smmu), Some((SCRATCH, Direction::Write))), EventKind::Permission);

    smmu.unmap(STREAM, Iova::new(IOVA)).unwrap();
    store(bench, IOVA + 8, 5);
    assert_eq!(bench.read(DATA[0] + 8), 0x1122_3344_5566_7788, "a page taken away is not reached");
    assert_eq!(only_kind(&faults(&mut smmu), Some((IOVA + 8, Direction::Write))), EventKind::Translation);

    smmu.map(STREAM, Iova::new(IOVA), Paddr::new(DATA[1]), Rights::ReadWrite).unwrap();
    store(bench, IOVA, 6);
    assert_eq!((bench.read(DATA[1]), bench.read(DATA[0])), (6, 1));

    // A neighbour keeps the level 2 table alive.
    smmu.attach(StreamId(STREAM.0 + 1), usize::MAX).unwrap();
    smmu.detach(STREAM).unwrap();
    bench.transfer(IOVA + 16, Direction::Write, 8);
    assert_eq!(bench.read(DATA[1] + 16), 0);
    assert_eq!(only_kind(&faults(&mut smmu), None), EventKind::BadSte);

    smmu.attach(STREAM, usize::MAX).unwrap();
    smmu.map(STREAM, Iova::new(IOVA), Paddr::new(DATA[0]), Rights::ReadWrite).unwrap();
    bench.transfer(IOVA + 24, Direction::Write, 8);
    assert_eq!(bench.read(DATA[0] + 24), 6);

    // The driver dies; the next one takes the live SMMU over without turning it off.
    let mut smmu = bench.start(Devices::MaySend);
    bench.transfer(IOVA + 32, Direction::Write, 8);
    assert_eq!(bench.read(DATA[0] + 32), 0);
    assert_eq!(only_kind(&faults(&mut smmu), None), EventKind::BadStream);
    smmu.attach(STREAM, usize::MAX).unwrap();
    smmu.map(STREAM, Iova::new(IOVA), Paddr::new(DATA[0]), Rights::ReadWrite).unwrap();
    bench.transfer(IOVA + 32, Direction::Write, 8);
    assert_eq!(bench.read(DATA[0] + 32), 6);
    assert_eq!(faults(&mut smmu), []);

    // More faults than the queue holds: the machine moves words, and each is refused.
    for _ in 0..2 {
        bench.transfer(IOVA + 0x1000, Direction::Write, 2048);
        assert_eq!(smmu.faults(|_| {}).unwrap(), Drained { faults: ENTRIES, lost: true, more: false });
        bench.transfer(IOVA + 0x1000, Direction::Write, 8);
        assert_eq!(only_kind(&faults(&mut smmu), Some((IOVA + 0x1000, Direction::Write))), EventKind::Translation);
    }
}
