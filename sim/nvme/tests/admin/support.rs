//! A machine of memory alone, and a driver that has an admin queue and can make one I/O queue.

use std::collections::BTreeMap;

use nvme_spec::admin::{CqInterrupt, CreateIoCq, CreateIoSq, QueueMemory, QueuePriority};
use nvme_spec::cqe::Phase;
use nvme_spec::log::{LogPage, LogRead};
use nvme_spec::registers::{Cc, Csts, DOORBELL_BASE, IOCQES_16, IOSQES_64, Register};
use nvme_spec::{Cid, Cqe, DataPointer, Nsid, QueueId, Sqe, Status, StatusCode};
use sim_nvme::{AccessSize, Blocked, Config, Controller, Host, Level, NamespaceConfig, ViolationKind};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes};

const ENTRIES: u16 = 32;
const QUEUES: u64 = 0x1000;
const QUEUE_STRIDE: u64 = 0x1000;
/// Where commands have their data.
pub(crate) const BUFFER: u64 = 0x2_0000;
const MEMORY_BYTES: usize = 0x10_0000;
/// Longer than anything takes that is not a timer.
const PATIENCE_NS: u64 = 5_000_000_000;

/// Memory without translation.
struct Machine {
    memory: Vec<u8>,
}

impl Machine {
    fn range(&self, address: u64, bytes: usize) -> Result<std::ops::Range<usize>, Blocked> {
        let start = usize::try_from(address).map_err(|_| Blocked)?;
        let end = start.checked_add(bytes).filter(|&end| end <= self.memory.len()).ok_or(Blocked)?;
        Ok(start..end)
    }
}

impl Host for Machine {
    fn read(&mut self, address: u64, bytes: &mut [u8]) -> Result<(), Blocked> {
        let range = self.range(address, bytes.len())?;
        bytes.copy_from_slice(&self.memory[range]);
        Ok(())
    }

    fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), Blocked> {
        let range = self.range(address, bytes.len())?;
        self.memory[range].copy_from_slice(bytes);
        Ok(())
    }

    fn interrupt(&mut self, _: u16) {}

    fn pin(&mut self, _: Level) {}
}

/// The driver's side of a queue pair.
#[derive(Clone, Copy)]
struct Pair {
    tail: u16,
    head: u16,
    phase: Phase,
}

/// A controller with somebody who drives it.
pub(crate) struct Driver {
    pub(crate) controller: Controller,
    machine: Machine,
    pub(crate) now_ns: u64,
    pairs: BTreeMap<u16, Pair>,
    next_cid: u16,
    /// Completions that nobody asked for yet.
    completions: Vec<Cqe>,
}

/// A configuration with one namespace of 1 MiB and room for another of the same size.
pub(crate) fn config() -> Config {
    Config { namespaces: vec![NamespaceConfig::zeroes(1 << 20)], unallocated_bytes: 1 << 20, ..Config::default() }
}

impl Driver {
    /// A controller that is ready, with its admin queues.
    pub(crate) fn new(config: Config) -> Self {
        let mut driver = Self {
            controller: Controller::new(config, 1),
            machine: Machine { memory: vec![0; MEMORY_BYTES] },
            now_ns: 0,
            pairs: BTreeMap::new(),
            next_cid: 1,
            completions: Vec::new(),
        };
        driver.enable();
        driver
    }

    fn enable(&mut self) {
        let size = u64::from(ENTRIES - 1);
        self.write(Register::Aqa as u64, AccessSize::Four, size | size << 16);
        self.write(Register::Asq as u64, AccessSize::Eight, sq_address(0));
        self.write(Register::Acq as u64, AccessSize::Eight, cq_address(0));
        self.forget_queues();
        let cc = Cc::new().with_en(true).with_iosqes(IOSQES_64).with_iocqes(IOCQES_16);
        self.write(Register::Cc as u64, AccessSize::Four, cc.into_bits().into());
        self.wait_until(|driver| driver.csts().rdy());
    }

    fn forget_queues(&mut self) {
        self.pairs.clear();
        self.completions.clear();
        self.machine.memory[..BUFFER as usize].fill(0);
        self.pairs.insert(0, Pair { tail: 0, head: 0, phase: Phase::FIRST });
    }

    /// Clears CC.EN, waits, sets it again.
    pub(crate) fn reset(&mut self) {
        let cc = Cc::new().with_iosqes(IOSQES_64).with_iocqes(IOCQES_16);
        self.write(Register::Cc as u64, AccessSize::Four, cc.into_bits().into());
        self.wait_until(|driver| !driver.csts().rdy());
        self.enable();
    }

    /// Loses power without a shutdown and starts again.
    pub(crate) fn lose_power(&mut self) {
        self.controller.power_loss(self.now_ns);
        self.enable();
    }

    pub(crate) fn csts(&mut self) -> Csts {
        Csts::from_bits(self.controller.read(Register::Csts as u64, AccessSize::Four) as u32)
    }

    fn write(&mut self, offset: u64, size: AccessSize, value: u64) {
        self.controller.write(offset, size, value, self.now_ns, &mut self.machine);
    }

    /// Rings a tail doorbell with a value of the caller's.
    pub(crate) fn ring(&mut self, queue: u16, value: u16) {
        self.write(DOORBELL_BASE as u64 + u64::from(queue) * 8, AccessSize::Four, value.into());
    }

    /// Puts data where commands have theirs.
    pub(crate) fn put(&mut self, data: &(impl IntoBytes + Immutable + ?Sized)) {
        let bytes = data.as_bytes();
        self.machine.memory[BUFFER as usize..][..bytes.len()].copy_from_slice(bytes);
    }

    /// What is where commands have their data.
    pub(crate) fn data<T: FromBytes>(&self) -> T {
        T::read_from_bytes(&self.machine.memory[BUFFER as usize..][..size_of::<T>()]).unwrap()
    }

    /// Fills the place where commands have their data.
    pub(crate) fn fill(&mut self, byte: u8) {
        self.machine.memory[BUFFER as usize..][..0x8000].fill(byte);
    }

    /// Submits a command under an identifier of its own, which replaces the one it has.
    pub(crate) fn submit(&mut self, queue: u16, sqe: Sqe) -> Cid {
        let cid = self.enqueue(queue, sqe);
        let tail = self.pairs[&queue].tail;
        self.ring(queue, tail);
        cid
    }

    /// Puts a command into an SQ without ringing.
    pub(crate) fn enqueue(&mut self, queue: u16, sqe: Sqe) -> Cid {
        let cid = Cid(self.next_cid);
        self.next_cid += 1;
        let pair = self.pairs.get_mut(&queue).unwrap();
        let address = sq_address(queue) as usize + usize::from(pair.tail) * 64;
        pair.tail = (pair.tail + 1) % ENTRIES;
        self.machine.memory[address..address + 64].copy_from_slice(sqe.with_cid(cid).as_bytes());
        cid
    }

    /// Takes new completions of every queue.
    fn poll(&mut self) {
        let queues: Vec<u16> = self.pairs.keys().copied().collect();
        for queue in queues {
            let pair = self.pairs.get_mut(&queue).unwrap();
            let address = cq_address(queue) as usize + usize::from(pair.head) * 16;
            let entry = Cqe::read_from_bytes(&self.machine.memory[address..address + 16]).unwrap();
            if entry.phase() != pair.phase {
                continue;
            }
            pair.head = (pair.head + 1) % ENTRIES;
            if pair.head == 0 {
                pair.phase = pair.phase.flipped();
            }
            let head = pair.head;
            self.completions.push(entry);
            self.write(DOORBELL_BASE as u64 + u64::from(queue) * 8 + 4, AccessSize::Four, head.into());
            return self.poll();
        }
    }

    /// Lets time pass until something holds.
    pub(crate) fn wait_until(&mut self, mut holds: impl FnMut(&mut Self) -> bool) {
        let end_ns = self.now_ns + PATIENCE_NS;
        while !holds(self) {
            let next_ns = self.controller.next_event_ns().filter(|&next_ns| next_ns <= end_ns);
            self.now_ns = next_ns.expect("something to wait for").max(self.now_ns);
            self.controller.advance(self.now_ns, &mut self.machine);
        }
    }

    /// Lets time pass.
    pub(crate) fn pass(&mut self, ns: u64) {
        self.now_ns += ns;
        self.controller.advance(self.now_ns, &mut self.machine);
        self.poll();
    }

    /// The completion of a command, if it has come.
    pub(crate) fn completion(&mut self, cid: Cid) -> Option<Cqe> {
        self.poll();
        let index = self.completions.iter().position(|entry| entry.cid() == cid)?;
        Some(self.completions.remove(index))
    }

    /// Waits for the completion of a command.
    pub(crate) fn wait(&mut self, cid: Cid) -> Cqe {
        let mut found = None;
        self.wait_until(|driver| {
            found = driver.completion(cid);
            found.is_some()
        });
        found.unwrap()
    }

    /// Executes an admin command.
    pub(crate) fn admin(&mut self, sqe: Sqe) -> Cqe {
        let cid = self.submit(0, sqe);
        self.wait(cid)
    }

    /// Executes an I/O command on queue 1.
    pub(crate) fn io(&mut self, sqe: Sqe) -> Cqe {
        let cid = self.submit(1, sqe);
        self.wait(cid)
    }

    /// Executes an admin command that must succeed. Gives DW0.
    #[track_caller]
    pub(crate) fn succeed(&mut self, sqe: Sqe) -> u32 {
        let entry = self.admin(sqe);
        assert_eq!(entry.status(), Status::SUCCESS, "{sqe:?}");
        entry.dw0
    }

    /// Executes an admin command that must fail like this, with Do Not Retry and an entry in the error log.
    #[track_caller]
    pub(crate) fn refuse(&mut self, sqe: Sqe, code: StatusCode) {
        let expected = Status::new(code).with_more().with_do_not_retry();
        assert_eq!(self.admin(sqe).status(), expected, "{sqe:?}");
    }

    /// As [`Driver::refuse`], and the controller takes it for misuse of this dword of the command.
    #[track_caller]
    pub(crate) fn refuse_field(&mut self, sqe: Sqe, dword: u8) {
        let before = self.controller.violations().len();
        self.refuse(sqe, StatusCode::InvalidField);
        let new: Vec<ViolationKind> =
            self.controller.violations()[before..].iter().map(|violation| violation.kind).collect();
        let is_expected =
            matches!(new.as_slice(), [ViolationKind::CommandField { sq: 0, dword: found, .. }] if *found == dword);
        assert!(is_expected, "{sqe:?}: {new:?}");
    }

    /// Makes I/O queue 1, which interrupts on vector 1.
    pub(crate) fn make_io_queue(&mut self) {
        let (qid, qsize_z) = (QueueId(1), ENTRIES - 1);
        let memory = QueueMemory::Contiguous(cq_address(1));
        let cq = CreateIoCq { qid, qsize_z, interrupt: CqInterrupt::Vector(1), memory };
        self.succeed(cq.sqe(Cid(0)));
        let memory = QueueMemory::Contiguous(sq_address(1));
        let sq = CreateIoSq { qid, qsize_z, cqid: qid, priority: QueuePriority::Medium, memory };
        self.succeed(sq.sqe(Cid(0)));
        self.pairs.insert(1, Pair { tail: 0, head: 0, phase: Phase::FIRST });
    }

    /// Reads the start of a log page.
    pub(crate) fn log<T: FromBytes>(&mut self, page: LogPage) -> T {
        let read = LogRead::whole(page, size_of::<T>() as u32);
        self.succeed(read.sqe(Cid(0), Nsid::ALL, buffer(size_of::<T>())));
        self.data()
    }

    /// No misuse was noticed.
    #[track_caller]
    pub(crate) fn assert_clean(&self) {
        assert_eq!(self.controller.violations(), []);
    }

    /// Calls something that needs the machine.
    pub(crate) fn with_host<R>(&mut self, call: impl FnOnce(&mut Controller, &mut dyn Host) -> R) -> R {
        call(&mut self.controller, &mut self.machine)
    }
}

const fn sq_address(queue: u16) -> u64 {
    QUEUES + queue as u64 * 2 * QUEUE_STRIDE
}

const fn cq_address(queue: u16) -> u64 {
    sq_address(queue) + QUEUE_STRIDE
}

/// The data pointer of a command that moves so many bytes, at most two pages, at [`BUFFER`].
pub(crate) fn buffer(bytes: usize) -> DataPointer {
    let prp2 = if bytes > 4096 { BUFFER + 4096 } else { 0 };
    DataPointer { prp1: BUFFER, prp2 }
}

/// A page of data at [`BUFFER`].
pub(crate) const PAGE: DataPointer = DataPointer::page(BUFFER);

/// A structure of zeroes.
pub(crate) fn zeroed<T: FromZeros>() -> T {
    T::new_zeroed()
}
