//! A small driver and the machine it runs on, for the tests: memory is one vector, time goes on when the driver waits.

use std::collections::BTreeMap;
use std::ops::Range;

use nvme_spec::admin::{CqInterrupt, CreateIoCq, CreateIoSq, QueueMemory, QueuePriority};
use nvme_spec::cqe::Phase;
use nvme_spec::registers::{Aqa, Arbitration, Cap, Cc, Csts, DoorbellLayout, IOCQES_16, IOSQES_64, Register};
use nvme_spec::{Cid, Cqe, DataPointer, QueueId, Sqe, Status};
use sim_nvme::{AccessSize, Blocked, Config, Controller, Event, Host, Level, NamespaceConfig, Record, ViolationKind};
use zerocopy::{FromBytes, IntoBytes};

/// Memory of the machine, in bytes.
const MEMORY: usize = 32 << 20;
pub(crate) const PAGE: u64 = 4096;
/// Bytes of a namespace of the tests.
pub(crate) const NAMESPACE_BYTES: u64 = 64 << 20;

/// Memory and interrupt lines.
pub(crate) struct Machine {
    pub(crate) memory: Vec<u8>,
    /// Messages of each vector.
    pub(crate) messages: BTreeMap<u16, u32>,
    pub(crate) pin: Level,
    /// Addresses at which DMA is blocked.
    pub(crate) blocked: Range<u64>,
    pub(crate) is_bus_master: bool,
}

impl Machine {
    fn range(&self, address: u64, len: usize) -> Result<Range<usize>, Blocked> {
        let start = usize::try_from(address).map_err(|_| Blocked)?;
        let end = start.checked_add(len).filter(|&end| end <= self.memory.len()).ok_or(Blocked)?;
        if address < self.blocked.end && self.blocked.start < address + len as u64 {
            return Err(Blocked);
        }
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

    fn interrupt(&mut self, vector: u16) {
        *self.messages.entry(vector).or_default() += 1;
    }

    fn is_bus_master(&self) -> bool {
        self.is_bus_master
    }

    fn pin(&mut self, level: Level) {
        assert_ne!(level, self.pin, "the pin is set only when it changes");
        self.pin = level;
    }
}

/// The SQ and the CQ of one number.
#[derive(Clone, Copy)]
pub(crate) struct Pair {
    pub(crate) id: u16,
    /// Entries of the SQ.
    pub(crate) entries: u32,
    /// Entries of the CQ.
    pub(crate) cq_entries: u32,
    pub(crate) sq: u64,
    pub(crate) cq: u64,
    pub(crate) tail: u32,
    pub(crate) head: u32,
    pub(crate) phase: Phase,
}

impl Pair {
    /// Creates empty queues: entries of the SQ and of the CQ, and their memory.
    pub(crate) const fn new(id: u16, [entries, cq_entries]: [u32; 2], sq: u64, cq: u64) -> Self {
        Self { id, entries, cq_entries, sq, cq, tail: 0, head: 0, phase: Phase::FIRST }
    }
}

/// The driver.
pub(crate) struct Driver {
    pub(crate) controller: Controller,
    pub(crate) machine: Machine,
    pub(crate) now_ns: u64,
    pub(crate) doorbells: DoorbellLayout,
    pub(crate) pairs: Vec<Pair>,
    free: u64,
    next_cid: u16,
}

/// Returns the configuration of most tests: two namespaces of zeroes, quick media.
pub(crate) fn config() -> Config {
    let namespaces = (0..2).map(|_| NamespaceConfig::zeroes(NAMESPACE_BYTES)).collect();
    Config { namespaces, ..Config::default() }
}

impl Driver {
    /// Creates the driver of a controller that was just powered on.
    pub(crate) fn new(config: Config) -> Self {
        Self::seeded(config, 1)
    }

    /// Does the same, with this seed for the controller's random choices.
    pub(crate) fn seeded(config: Config, seed: u64) -> Self {
        Self::of(Controller::new(config, seed))
    }

    /// Creates the driver of this controller, on a machine of its own.
    pub(crate) fn of(mut controller: Controller) -> Self {
        let cap = Cap::from_bits(controller.read(Register::Cap as u64, AccessSize::Eight));
        let machine = Machine {
            memory: vec![0; MEMORY],
            messages: BTreeMap::new(),
            pin: Level::Deasserted,
            blocked: 0..0,
            is_bus_master: true,
        };
        let doorbells = cap.doorbells();
        Self { controller, machine, now_ns: 0, doorbells, pairs: Vec::new(), free: PAGE, next_cid: 0 }
    }

    /// Creates the driver, with the controller enabled and its admin queues there.
    pub(crate) fn up(config: Config) -> Self {
        let mut driver = Self::new(config);
        driver.enable(Arbitration::RoundRobin);
        driver
    }

    /// Creates the driver, with I/O queue pairs 1 to `pairs` as well, of 64 entries each.
    pub(crate) fn with_queues(config: Config, pairs: u16) -> Self {
        let mut driver = Self::up(config);
        for id in 1..=pairs {
            driver.create_pair(id, 64, QueuePriority::Urgent);
        }
        driver
    }

    pub(crate) fn get(&mut self, register: Register) -> u32 {
        self.controller.read(register as u64, AccessSize::Four) as u32
    }

    pub(crate) fn set(&mut self, register: Register, value: u32) {
        self.write(register as u64, AccessSize::Four, u64::from(value));
    }

    pub(crate) fn write(&mut self, offset: u64, size: AccessSize, value: u64) {
        self.controller.write(offset, size, value, self.now_ns, &mut self.machine);
    }

    pub(crate) fn csts(&mut self) -> Csts {
        Csts::from_bits(self.get(Register::Csts))
    }

    pub(crate) const fn cc(arbitration: Arbitration) -> Cc {
        Cc::new().with_ams(arbitration).with_iosqes(IOSQES_64).with_iocqes(IOCQES_16)
    }

    /// Gives the controller admin queues of 32 entries.
    pub(crate) fn set_admin_queues(&mut self) {
        let entries = 32;
        let (sq, cq) = (self.allocate(PAGE), self.allocate(PAGE));
        self.set(Register::Aqa, Aqa::new().with_asqs_z(entries - 1).with_acqs_z(entries - 1).into_bits());
        self.write(Register::Asq as u64, AccessSize::Eight, sq);
        self.write(Register::Acq as u64, AccessSize::Eight, cq);
        self.pairs = vec![Pair::new(0, [u32::from(entries); 2], sq, cq)];
    }

    /// Enables the controller, at power-on or after a reset, until it is ready.
    pub(crate) fn enable(&mut self, arbitration: Arbitration) {
        self.set_admin_queues();
        self.set(Register::Cc, Self::cc(arbitration).with_en(true).into_bits());
        self.run();
        assert!(self.csts().rdy(), "ready when nothing is left to do");
    }

    /// Returns zeroed memory, aligned to a page, that has no other user.
    pub(crate) fn allocate(&mut self, bytes: u64) -> u64 {
        let address = self.free;
        self.free += bytes.next_multiple_of(PAGE);
        assert!(self.free <= MEMORY as u64, "the tests have so much memory");
        address
    }

    pub(crate) fn bytes(&self, address: u64, len: usize) -> &[u8] {
        &self.machine.memory[address as usize..][..len]
    }

    pub(crate) fn bytes_mut(&mut self, address: u64, len: usize) -> &mut [u8] {
        &mut self.machine.memory[address as usize..][..len]
    }

    /// Writes a PRP list of these entries on fresh pages, and returns the pointer to it.
    pub(crate) fn list(&mut self, entries: &[u64]) -> u64 {
        assert!(entries.len() <= 512, "chaining is the test's");
        let list = self.allocate(PAGE);
        for (index, entry) in entries.iter().enumerate() {
            self.bytes_mut(list + 8 * index as u64, 8).copy_from_slice(&entry.to_le_bytes());
        }
        list
    }

    /// Returns a buffer in one piece of memory, with PRPs for it.
    pub(crate) fn buffer(&mut self, bytes: u64) -> (u64, DataPointer) {
        let address = self.allocate(bytes);
        let pages: Vec<u64> = (address..address + bytes).step_by(PAGE as usize).collect();
        let prp2 = match pages.as_slice() {
            [] | [_] => 0,
            [_, second] => *second,
            [_, rest @ ..] => self.list(rest),
        };
        (address, DataPointer { prp1: address, prp2 })
    }

    pub(crate) fn create_pair(&mut self, id: u16, entries: u32, priority: QueuePriority) {
        let pair = self.queue_memory(id, entries);
        self.add_pair(pair, priority);
    }

    /// Creates the queues of a pair, whose number is the next one.
    pub(crate) fn add_pair(&mut self, pair: Pair, priority: QueuePriority) {
        let [cq, sq] = Self::create(&pair, priority);
        assert_eq!(self.execute(0, cq).status(), Status::SUCCESS);
        assert_eq!(self.execute(0, sq).status(), Status::SUCCESS);
        assert_eq!(self.pairs.len(), usize::from(pair.id));
        self.pairs.push(pair);
    }

    pub(crate) fn queue_memory(&mut self, id: u16, entries: u32) -> Pair {
        let (sq, cq) = (self.allocate(u64::from(entries) * 64), self.allocate(u64::from(entries) * 16));
        Pair::new(id, [entries; 2], sq, cq)
    }

    /// Returns the commands that create a pair: CQ first.
    pub(crate) fn create(pair: &Pair, priority: QueuePriority) -> [Sqe; 2] {
        let cq = CreateIoCq {
            qid: QueueId(pair.id),
            qsize_z: (pair.cq_entries - 1) as u16,
            interrupt: CqInterrupt::Vector(pair.id),
            memory: QueueMemory::Contiguous(pair.cq),
        };
        let sq = CreateIoSq {
            qid: QueueId(pair.id),
            qsize_z: (pair.entries - 1) as u16,
            cqid: QueueId(pair.id),
            priority,
            memory: QueueMemory::Contiguous(pair.sq),
        };
        [cq.sqe(Cid(0)), sq.sqe(Cid(0))]
    }

    /// Writes a command into the SQ under a fresh identifier, without ringing.
    pub(crate) fn submit(&mut self, queue: u16, sqe: Sqe) -> Cid {
        let cid = Cid(self.next_cid);
        self.next_cid = self.next_cid.wrapping_add(1);
        self.submit_as(queue, sqe.with_cid(cid));
        cid
    }

    /// Writes a command into the SQ as it is.
    pub(crate) fn submit_as(&mut self, queue: u16, sqe: Sqe) {
        let pair = &mut self.pairs[usize::from(queue)];
        let address = pair.sq + u64::from(pair.tail) * 64;
        pair.tail = (pair.tail + 1) % pair.entries;
        self.bytes_mut(address, 64).copy_from_slice(sqe.as_bytes());
    }

    pub(crate) fn tail_doorbell(&self, queue: u16) -> u64 {
        self.doorbells.sq_tail(QueueId(queue)).unwrap() as u64
    }

    pub(crate) fn head_doorbell(&self, queue: u16) -> u64 {
        self.doorbells.cq_head(QueueId(queue)).unwrap() as u64
    }

    pub(crate) fn ring(&mut self, queue: u16) {
        let tail = self.pairs[usize::from(queue)].tail;
        self.write(self.tail_doorbell(queue), AccessSize::Four, u64::from(tail));
    }

    /// Returns the next completion, if it is there. The head doorbell is not written.
    pub(crate) fn peek(&mut self, queue: u16) -> Option<Cqe> {
        let pair = self.pairs[usize::from(queue)];
        let bytes = self.bytes(pair.cq + u64::from(pair.head) * 16, 16);
        let cqe = Cqe::read_from_bytes(bytes).unwrap();
        if cqe.phase() != pair.phase {
            return None;
        }
        let pair = &mut self.pairs[usize::from(queue)];
        pair.head = (pair.head + 1) % pair.cq_entries;
        if pair.head == 0 {
            pair.phase = pair.phase.flipped();
        }
        Some(cqe)
    }

    pub(crate) fn ring_head(&mut self, queue: u16) {
        let head = self.pairs[usize::from(queue)].head;
        self.write(self.head_doorbell(queue), AccessSize::Four, u64::from(head));
    }

    /// Takes the records of the commands that finished since the last call.
    pub(crate) fn take_records(&mut self) -> Vec<Record> {
        let over = |event| if let Event::Over(record) = event { Some(record) } else { None };
        self.controller.take_events().filter_map(over).collect()
    }

    /// Takes everything completed on a queue, with one head doorbell.
    pub(crate) fn take_all(&mut self, queue: u16) -> Vec<Cqe> {
        let taken: Vec<Cqe> = std::iter::from_fn(|| self.peek(queue)).collect();
        if !taken.is_empty() {
            self.ring_head(queue);
        }
        taken
    }

    /// Lets time go on until the controller has nothing to do.
    pub(crate) fn run(&mut self) {
        while let Some(at_ns) = self.controller.next_event_ns() {
            self.advance_to(at_ns);
        }
    }

    /// Does one step of the controller; false when it has nothing to do.
    pub(crate) fn step(&mut self) -> bool {
        let next = self.controller.next_event_ns();
        if let Some(at_ns) = next {
            self.advance_to(at_ns);
        }
        next.is_some()
    }

    pub(crate) fn advance_to(&mut self, at_ns: u64) {
        self.now_ns = self.now_ns.max(at_ns);
        self.controller.advance(self.now_ns, &mut self.machine);
    }

    /// Submits, rings, waits, takes.
    pub(crate) fn execute(&mut self, queue: u16, sqe: Sqe) -> Cqe {
        let cid = self.submit(queue, sqe);
        self.ring(queue);
        let cqe = self.wait(queue);
        assert_eq!(cqe.cid(), cid, "nothing else was outstanding");
        cqe
    }

    /// Waits for the next completion, and takes it with its head doorbell.
    pub(crate) fn wait(&mut self, queue: u16) -> Cqe {
        loop {
            if let Some(cqe) = self.peek(queue) {
                self.ring_head(queue);
                return cqe;
            }
            assert!(self.step(), "the controller has nothing to do and completed nothing");
        }
    }

    /// Kinds of all violations by the driver.
    pub(crate) fn violations(&self) -> Vec<ViolationKind> {
        self.controller.violations().iter().map(|violation| violation.kind).collect()
    }

    #[track_caller]
    pub(crate) fn assert_clean(&self) {
        assert_eq!(self.violations(), [], "a clean driver");
    }
}
