//! Additions to the driver for tests of the admin command set: memory for data, completions by command, and checks of a
//! command's result.

use crate::driver;
use nvme_spec::admin::QueuePriority;
use nvme_spec::log::{LogPage, LogRead};
use nvme_spec::registers::{Arbitration, Register};
use nvme_spec::{Cid, Cqe, DataPointer, Nsid, Sqe, Status, StatusCode};
use sim_nvme::{AccessSize, Config, Controller, Host, NamespaceConfig, OptionalCommands, ViolationKind};
use std::ops::{Deref, DerefMut};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes};

/// Address of the commands' data: far beyond the memory that the driver allocates.
pub(crate) const BUFFER: u64 = 16 << 20;
/// Bytes of the commands' data.
const BUFFER_BYTES: usize = 0x8000;
/// Entries of I/O queue 1.
const ENTRIES: u32 = 32;
/// Longer than anything but a timer takes.
const STARVATION_LIMIT_NS: u64 = 5_000_000_000;

/// No optional command.
pub(crate) const NO_COMMANDS: OptionalCommands = OptionalCommands {
    namespaces: false,
    format: false,
    doorbell_buffer: false,
    firmware: false,
    lockdown: false,
    self_test: false,
    sanitize: false,
};

/// The driver, with the completions that no test has requested yet.
pub(crate) struct Driver {
    driver: driver::Driver,
    completions: Vec<Cqe>,
}

impl Deref for Driver {
    type Target = driver::Driver;

    fn deref(&self) -> &driver::Driver {
        &self.driver
    }
}

impl DerefMut for Driver {
    fn deref_mut(&mut self) -> &mut driver::Driver {
        &mut self.driver
    }
}

/// Returns a configuration with one namespace of 1 MiB and room for another of the same size.
pub(crate) fn config() -> Config {
    Config { namespaces: vec![NamespaceConfig::zeroes(1 << 20)], unallocated_bytes: 1 << 20, ..Config::default() }
}

impl Driver {
    /// Creates a controller that is ready, with its admin queues.
    pub(crate) fn new(config: Config) -> Self {
        let mut driver = Self::of(Controller::new(config, 1));
        driver.enable();
        driver
    }

    /// Creates the driver of this controller, which it does not enable.
    pub(crate) fn of(controller: Controller) -> Self {
        Self { driver: driver::Driver::of(controller), completions: Vec::new() }
    }

    /// Enables the controller, at power-on or after a reset.
    pub(crate) fn enable(&mut self) {
        self.completions.clear();
        self.set_admin_queues();
        self.set(Register::Cc, driver::Driver::cc(Arbitration::RoundRobin).with_en(true).into_bits());
        self.wait_until(|driver| driver.csts().rdy());
    }

    /// Clears CC.EN, waits, sets it again.
    pub(crate) fn reset(&mut self) {
        self.set(Register::Cc, driver::Driver::cc(Arbitration::RoundRobin).into_bits());
        self.wait_until(|driver| !driver.csts().rdy());
        self.enable();
    }

    /// Loses power without a shutdown and starts again.
    pub(crate) fn lose_power(&mut self) {
        let now_ns = self.now_ns;
        self.controller.power_loss(now_ns);
        self.enable();
    }

    /// Rings a tail doorbell with a value from the caller.
    pub(crate) fn ring(&mut self, queue: u16, value: u16) {
        let doorbell = self.tail_doorbell(queue);
        self.write(doorbell, AccessSize::Four, value.into());
    }

    /// Writes the commands' data.
    pub(crate) fn put(&mut self, data: &(impl IntoBytes + Immutable + ?Sized)) {
        let bytes = data.as_bytes();
        self.bytes_mut(BUFFER, bytes.len()).copy_from_slice(bytes);
    }

    /// Reads the commands' data.
    pub(crate) fn data<T: FromBytes>(&self) -> T {
        T::read_from_bytes(self.bytes(BUFFER, size_of::<T>())).unwrap()
    }

    /// Fills the memory of the commands' data with a byte.
    pub(crate) fn fill(&mut self, byte: u8) {
        self.bytes_mut(BUFFER, BUFFER_BYTES).fill(byte);
    }

    /// Submits a command under a fresh identifier, which replaces its own.
    pub(crate) fn submit(&mut self, queue: u16, sqe: Sqe) -> Cid {
        let cid = self.enqueue(queue, sqe);
        self.driver.ring(queue);
        cid
    }

    /// Puts a command into an SQ without ringing.
    pub(crate) fn enqueue(&mut self, queue: u16, sqe: Sqe) -> Cid {
        self.driver.submit(queue, sqe)
    }

    /// Takes new completions of every queue.
    fn poll(&mut self) {
        for queue in 0..self.pairs.len() as u16 {
            let taken = self.take_all(queue);
            self.completions.extend(taken);
        }
    }

    /// Lets time pass until a condition holds.
    pub(crate) fn wait_until(&mut self, mut holds: impl FnMut(&mut Self) -> bool) {
        let end_ns = self.now_ns + STARVATION_LIMIT_NS;
        while !holds(self) {
            let next_ns = self.controller.next_event_ns().filter(|&next_ns| next_ns <= end_ns);
            self.advance_to(next_ns.expect("something to wait for"));
        }
    }

    /// Lets time pass.
    pub(crate) fn pass(&mut self, ns: u64) {
        let at_ns = self.now_ns + ns;
        self.advance_to(at_ns);
        self.poll();
    }

    /// Returns the completion of a command, if it has come.
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

    /// Executes an admin command that must succeed. Returns DW0.
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

    /// Does the same as [`Driver::refuse`], and expects a violation for this dword of the command.
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

    /// Creates I/O queue 1, which interrupts on vector 1.
    pub(crate) fn make_io_queue(&mut self) {
        let pair = self.queue_memory(1, ENTRIES);
        for sqe in driver::Driver::create(&pair, QueuePriority::Medium) {
            self.succeed(sqe);
        }
        self.pairs.push(pair);
    }

    /// Reads the start of a log page.
    pub(crate) fn log<T: FromBytes>(&mut self, page: LogPage) -> T {
        let read = LogRead::whole(page, size_of::<T>() as u32);
        self.succeed(read.sqe(Cid(0), Nsid::ALL, buffer(size_of::<T>())));
        self.data()
    }

    /// Calls a function that needs the machine.
    pub(crate) fn with_host<R>(&mut self, call: impl FnOnce(&mut Controller, &mut dyn Host) -> R) -> R {
        let driver::Driver { controller, machine, .. } = &mut self.driver;
        call(controller, machine)
    }
}

/// Returns the data pointer of a command that moves this many bytes, at most two pages, at [`BUFFER`].
pub(crate) fn buffer(bytes: usize) -> DataPointer {
    let prp2 = if bytes > 4096 { BUFFER + 4096 } else { 0 };
    DataPointer { prp1: BUFFER, prp2 }
}

/// A page of data at [`BUFFER`].
pub(crate) const PAGE: DataPointer = DataPointer::page(BUFFER);

/// Returns a structure of zeroes.
pub(crate) fn zeroed<T: FromZeros>() -> T {
    T::new_zeroed()
}
