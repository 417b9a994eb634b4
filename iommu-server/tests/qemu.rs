//! The driver on QEMU's SMMU, over QEMU's test protocol: no kernel, no program on the machine's processor. Its `edu` device
//! moves memory as the test asks.
//!
//! Needs `qemu-system-aarch64`, or the program that `CAPNVME_QEMU_AARCH64` names: `cargo xtask test SMMU`, or `cargo test -p iommu-server --test qemu -- --ignored --nocapture`.

use std::cell::RefCell;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::rc::Rc;
use std::time::{Duration, Instant};

use iommu_server::{Config, Devices, Direction, Drained, EventKind, Fault, FaultKind, Pool, Rights, Smmu, StreamId};
use platform::{Iova, Memory, Mmio, OutOfBounds, PAGE_SIZE, Paddr};
use smmu_spec::registers::REGISTER_BYTES;
use zerocopy::{FromBytes, Immutable, IntoBytes};

const SMMU: u64 = 0x0905_0000;
const ECAM: u64 = 0x3f00_0000;
const POOL: u64 = 0x4100_0000;
const POOL_PAGES: usize = 16;
/// The device is 00:01.0.
const STREAM: StreamId = StreamId(0x0008);
const CONFIG: u64 = ECAM + (1 << 15);
const BAR: u64 = 0x1000_0000;
/// Its buffer, as its DMA names it, and its registers.
const BUFFER: u64 = 0x4_0000;
const SOURCE: u64 = 0x80;
const DESTINATION: u64 = 0x88;
const COUNT: u64 = 0x90;
const COMMAND: u64 = 0x98;

/// Memory for data.
const DATA: [u64; 3] = [0x4200_0000, 0x4200_1000, 0x4200_2000];
const IOVA: u64 = 0x7f_1234_5000;

struct Pipes {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl Drop for Pipes {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A machine; handles are clones.
#[derive(Clone)]
struct Qemu(Rc<RefCell<Pipes>>);

impl Qemu {
    fn start() -> Self {
        let named = std::env::var_os("CAPNVME_QEMU_AARCH64").filter(|program| !program.is_empty());
        let mut child = Command::new(named.unwrap_or_else(|| "qemu-system-aarch64".into()))
            .args(["-M", "virt,iommu=smmuv3,highmem=off", "-cpu", "cortex-a57", "-m", "128", "-nodefaults"])
            .args(["-display", "none", "-qtest", "stdio", "-qtest-log", "none"])
            .args(["-device", "edu,addr=1,dma_mask=0xffffffffffff"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (to, from) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        let qemu = Self(Rc::new(RefCell::new(Pipes { child, to, from })));
        qemu.ask(&format!("writel {:#x} {BAR:#x}", CONFIG + 0x10));
        // Memory decoding and bus mastering.
        qemu.ask(&format!("writel {:#x} 6", CONFIG + 4));
        qemu
    }

    fn ask(&self, line: &str) -> u64 {
        let mut pipes = self.0.borrow_mut();
        writeln!(pipes.to, "{line}").unwrap();
        let mut answer = String::new();
        pipes.from.read_line(&mut answer).unwrap();
        let answer = answer.trim().strip_prefix("OK").unwrap_or_else(|| panic!("{line}: {answer}")).trim();
        answer.strip_prefix("0x").map_or(0, |digits| u64::from_str_radix(digits, 16).unwrap())
    }

    fn readq(&self, at: u64) -> u64 {
        self.ask(&format!("readq {at:#x}"))
    }

    fn writeq(&self, at: u64, value: u64) {
        self.ask(&format!("writeq {at:#x} {value:#x}"));
    }

    /// Moves eight bytes by the device's DMA.
    fn dma(&self, source: u64, destination: u64, direction: Direction) {
        self.dma_bytes(source, destination, direction, 8);
    }

    fn dma_bytes(&self, source: u64, destination: u64, direction: Direction, bytes: u64) {
        for (register, value) in [(SOURCE, source), (DESTINATION, destination), (COUNT, bytes)] {
            self.writeq(BAR + register, value);
        }
        self.writeq(BAR + COMMAND, if direction == Direction::Write { 3 } else { 1 });
        let start = Instant::now();
        while self.readq(BAR + COMMAND) & 1 != 0 {
            assert!(start.elapsed() < Duration::from_secs(20), "the device does not move");
        }
    }

    /// Writes a value at an address of the device's.
    fn store(&self, iova: u64, value: u64) {
        // Through a page that the device may read, or nothing would be known of the buffer.
        self.writeq(DATA[2], value);
        self.dma(SCRATCH, BUFFER, Direction::Read);
        self.dma(BUFFER, iova, Direction::Write);
    }
}

/// The device's address of the page that its buffer is filled from.
const SCRATCH: u64 = 0x20_0000;

#[derive(Clone)]
struct Registers(Qemu);

impl Mmio for Registers {
    fn len(&self) -> usize {
        REGISTER_BYTES
    }

    fn read32(&self, offset: usize) -> Result<u32, OutOfBounds> {
        Ok(self.0.ask(&format!("readl {:#x}", SMMU + offset as u64)) as u32)
    }

    fn write32(&self, offset: usize, value: u32) -> Result<(), OutOfBounds> {
        self.0.ask(&format!("writel {:#x} {value:#x}", SMMU + offset as u64));
        Ok(())
    }

    fn read64(&self, offset: usize) -> Result<u64, OutOfBounds> {
        Ok(self.0.readq(SMMU + offset as u64))
    }

    fn write64(&self, offset: usize, value: u64) -> Result<(), OutOfBounds> {
        self.0.writeq(SMMU + offset as u64, value);
        Ok(())
    }
}

#[derive(Clone)]
struct Tables(Qemu);

impl Memory for Tables {
    fn len(&self) -> usize {
        POOL_PAGES * PAGE_SIZE
    }

    fn load_acquire_u32(&self, _offset: usize) -> Result<u32, OutOfBounds> {
        Err(OutOfBounds)
    }

    fn store_release_u32(&self, _offset: usize, _value: u32) -> Result<(), OutOfBounds> {
        Err(OutOfBounds)
    }

    fn fence(&self) {}

    fn read<T: FromBytes>(&self, offset: usize) -> Result<T, OutOfBounds> {
        T::read_from_bytes(&self.0.readq(POOL + offset as u64).to_le_bytes()).map_err(|_| OutOfBounds)
    }

    fn write<T: IntoBytes + Immutable>(&self, offset: usize, value: &T) -> Result<(), OutOfBounds> {
        let word = value.as_bytes().try_into().map_err(|_| OutOfBounds)?;
        self.0.writeq(POOL + offset as u64, u64::from_le_bytes(word));
        Ok(())
    }

    fn read_bytes(&self, _offset: usize, _bytes: &mut [u8]) -> Result<(), OutOfBounds> {
        Err(OutOfBounds)
    }

    fn write_bytes(&self, _offset: usize, _bytes: &[u8]) -> Result<(), OutOfBounds> {
        Err(OutOfBounds)
    }
}

fn start(qemu: &Qemu, devices: Devices) -> Smmu<Registers, Tables> {
    let pages: Vec<Paddr> = (0..POOL_PAGES).map(|page| Paddr::new(POOL + (page * PAGE_SIZE) as u64)).collect();
    let pool = Pool::new(Tables(qemu.clone()), &pages).unwrap();
    Smmu::start(Registers(qemu.clone()), pool, Config { looks: 100, devices }).unwrap()
}

fn faults(smmu: &mut Smmu<Registers, Tables>) -> Vec<Fault> {
    let mut faults = Vec::new();
    let Drained { lost, .. } = smmu.faults(|fault| faults.push(fault)).unwrap();
    assert!(!lost);
    faults
}

/// The one kind of the faults, all of the device and at `iova` if they have an address.
fn only_kind(faults: &[Fault], iova: Option<(u64, Direction)>) -> EventKind {
    let Some(Fault { kind: FaultKind::Known(kind), .. }) = faults.first().copied() else { panic!("{faults:?}") };
    for fault in faults {
        assert_eq!((fault.stream, fault.kind), (STREAM, FaultKind::Known(kind)));
        // The machine may move the eight bytes in two halves.
        assert_eq!(fault.iova.map(|iova| iova.bits() & !7).zip(fault.direction), iova);
    }
    kind
}

#[test]
#[ignore = "needs qemu-system-aarch64"]
fn the_device_reaches_what_it_is_given_on_qemu() {
    let qemu = Qemu::start();
    let mut smmu = start(&qemu, Devices::Quiet);
    qemu.writeq(DATA[0], 1);

    qemu.dma(BUFFER, DATA[0], Direction::Write);
    assert_eq!(qemu.readq(DATA[0]), 1, "a stream that is not attached reaches nothing");
    assert_eq!(only_kind(&faults(&mut smmu), None), EventKind::BadStream);

    smmu.attach(STREAM).unwrap();
    smmu.map(STREAM, Iova::new(SCRATCH), Paddr::new(DATA[2]), Rights::Read).unwrap();
    smmu.map(STREAM, Iova::new(IOVA), Paddr::new(DATA[0]), Rights::ReadWrite).unwrap();
    qemu.store(IOVA + 8, 0x1122_3344_5566_7788);
    assert_eq!(qemu.readq(DATA[0] + 8), 0x1122_3344_5566_7788);
    assert_eq!(faults(&mut smmu), []);

    qemu.dma(BUFFER, SCRATCH, Direction::Write);
    assert_eq!(only_kind(&faults(&mut smmu), Some((SCRATCH, Direction::Write))), EventKind::Permission);

    smmu.unmap(STREAM, Iova::new(IOVA)).unwrap();
    qemu.store(IOVA + 8, 5);
    assert_eq!(qemu.readq(DATA[0] + 8), 0x1122_3344_5566_7788, "a page taken away is not reached");
    assert_eq!(only_kind(&faults(&mut smmu), Some((IOVA + 8, Direction::Write))), EventKind::Translation);

    smmu.map(STREAM, Iova::new(IOVA), Paddr::new(DATA[1]), Rights::ReadWrite).unwrap();
    qemu.store(IOVA, 6);
    assert_eq!((qemu.readq(DATA[1]), qemu.readq(DATA[0])), (6, 1));

    // A neighbour keeps the level 2 table alive.
    smmu.attach(StreamId(STREAM.0 + 1)).unwrap();
    smmu.detach(STREAM).unwrap();
    qemu.dma(BUFFER, IOVA + 16, Direction::Write);
    assert_eq!(qemu.readq(DATA[1] + 16), 0);
    assert_eq!(only_kind(&faults(&mut smmu), None), EventKind::BadSte);

    smmu.attach(STREAM).unwrap();
    smmu.map(STREAM, Iova::new(IOVA), Paddr::new(DATA[0]), Rights::ReadWrite).unwrap();
    qemu.dma(BUFFER, IOVA + 24, Direction::Write);
    assert_eq!(qemu.readq(DATA[0] + 24), 6);

    // The driver dies; the next one takes the live SMMU over without turning it off.
    let mut smmu = start(&qemu, Devices::MaySend);
    qemu.dma(BUFFER, IOVA + 32, Direction::Write);
    assert_eq!(qemu.readq(DATA[0] + 32), 0);
    assert_eq!(only_kind(&faults(&mut smmu), None), EventKind::BadStream);
    smmu.attach(STREAM).unwrap();
    smmu.map(STREAM, Iova::new(IOVA), Paddr::new(DATA[0]), Rights::ReadWrite).unwrap();
    qemu.dma(BUFFER, IOVA + 32, Direction::Write);
    assert_eq!(qemu.readq(DATA[0] + 32), 6);
    assert_eq!(faults(&mut smmu), []);

    // More faults than the queue holds: the machine moves words, and each is refused.
    for _ in 0..2 {
        qemu.dma_bytes(BUFFER, IOVA + 0x1000, Direction::Write, 2048);
        assert_eq!(smmu.faults(|_| {}).unwrap(), Drained { faults: 128, lost: true, more: false });
        qemu.dma(BUFFER, IOVA + 0x1000, Direction::Write);
        assert_eq!(only_kind(&faults(&mut smmu), Some((IOVA + 0x1000, Direction::Write))), EventKind::Translation);
    }
}
