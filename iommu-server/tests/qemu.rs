//! The driver on QEMU's SMMU, over QEMU's test protocol: no kernel, no program on the machine's processor. Its `edu` device
//! moves memory according to `script`, which is played on the model, too (`tests/smmu/scripted.rs`).
//!
//! Needs `qemu-system-aarch64`, or the program that `CAPNVME_QEMU_AARCH64` names: `cargo xtask test SMMU`, or `cargo test -p iommu-server --test qemu -- --ignored --nocapture`.

mod script;

use std::cell::RefCell;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::rc::Rc;
use std::time::{Duration, Instant};

use iommu_server::{Config, Devices, Direction, Pool, Smmu};
use platform::{Memory, Mmio, OutOfBounds, PAGE_SIZE, Paddr};
use script::{Bench, play};
use smmu_spec::registers::REGISTER_BYTES;
use zerocopy::{FromBytes, Immutable, IntoBytes};

const SMMU: u64 = 0x0905_0000;
const ECAM: u64 = 0x3f00_0000;
const POOL: u64 = 0x4100_0000;
const POOL_PAGES: usize = 16;
/// Address of the configuration space of the device 00:01.0.
const CONFIG: u64 = ECAM + (1 << 15);
const BAR: u64 = 0x1000_0000;
/// The device's buffer, as its DMA names it, and its registers.
const BUFFER: u64 = 0x4_0000;
const SOURCE: u64 = 0x80;
const DESTINATION: u64 = 0x88;
const COUNT: u64 = 0x90;
const COMMAND: u64 = 0x98;

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
    fn power_on() -> Self {
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

    /// Moves bytes by the device's DMA.
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
}

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
    platform::checked_slots!();

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

impl Bench for Qemu {
    type Registers = Registers;
    type Tables = Tables;

    fn start(&self, devices: Devices) -> Smmu<Registers, Tables> {
        let pages: Vec<Paddr> = (0..POOL_PAGES).map(|page| Paddr::new(POOL + (page * PAGE_SIZE) as u64)).collect();
        let pool = Pool::new(Tables(self.clone()), &pages).unwrap();
        Smmu::start(Registers(self.clone()), pool, Config { polls: 100, devices }).unwrap()
    }

    fn read(&self, paddr: u64) -> u64 {
        self.readq(paddr)
    }

    fn write(&self, paddr: u64, value: u64) {
        self.writeq(paddr, value);
    }

    fn transfer(&self, iova: u64, direction: Direction, bytes: u64) {
        let (source, destination) = if direction == Direction::Write { (BUFFER, iova) } else { (iova, BUFFER) };
        self.dma_bytes(source, destination, direction, bytes);
    }
}

#[test]
#[ignore = "needs qemu-system-aarch64"]
fn the_device_reaches_what_it_is_given_on_qemu() {
    play(&Qemu::power_on());
}
