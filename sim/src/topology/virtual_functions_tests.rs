//! A controller of a scenario with two virtual functions in its tree, driven by hand: configuration space, BARs, and a driver for each
//! of the three controllers.

use super::build;
use crate::disk::Disk;
use crate::inside::{Inside, Up};
use capdl::{Arch, Scenario};
use nvme_spec::admin::{
    self, Attachment, ControllerResource, CqInterrupt, CreateIoCq, CreateIoSq, QueueMemory, QueuePriority,
};
use nvme_spec::cqe::Phase;
use nvme_spec::identify::ControllerList;
use nvme_spec::nvm::{self, Blocks};
use nvme_spec::registers::{Aqa, Cc, Csts, DOORBELL_BASE, IOCQES_16, IOSQES_64, Register};
use nvme_spec::{Cid, Cqe, DataPointer, Lba, Nsid, QueueId, Sqe, StatusCode};
use sim_fault::ControllerEffect;
use sim_pci::{Blocked, FunctionId, Level, Tree};
use std::collections::BTreeSet;
use zerocopy::{FromBytes, IntoBytes};

const SYSTEM: &str = r#"
name = "a"
description = "b"
[[controller]]
name = "disk"
virtual_functions = 2
[[controller.namespace]]
size = "1M"
[[controller.namespace]]
size = "1M"
[[controller.namespace]]
size = "1M"
[[tenant]]
name = "alice"
queue_pairs = 1
extents = [{ first = 0, blocks = 64 }]
program.name = "bench"
[tenant.program.config]
"#;

const PORT: u16 = 4 << 3;
/// The physical function; its virtual ones follow.
const PHYSICAL: u16 = 1 << 8;
const REGISTERS: u64 = 0xc000_0000;
const VIRTUAL_REGISTERS: u64 = 0xc010_0000;
const CONTROL: u64 = 0x128;
const COUNT: u64 = 0x130;
const VIRTUAL_BAR: u64 = 0x144;
const ENABLE: u32 = 1;
const MEMORY: u32 = 1 << 3;
/// Bytes of memory of each driver: its four queues, then its data, a page each.
const OWN: u64 = 0x1_0000;
const DATA: u64 = 0x4000;
const ENTRIES: u16 = 16;
/// Any identifier: a driver has one command at a time.
const CID: Cid = Cid(7);

/// Memory without an IOMMU, which keeps the senders of what arrives.
struct Memory {
    bytes: Vec<u8>,
    /// Requester ids, and whose memory they transferred from or to.
    transfers: BTreeSet<(u16, u64)>,
}

impl Memory {
    fn place(&mut self, requester_id: u16, address: u64, len: usize) -> Result<&mut [u8], Blocked> {
        self.transfers.insert((requester_id, address / OWN));
        self.bytes.get_mut(address as usize..).and_then(|bytes| bytes.get_mut(..len)).ok_or(Blocked::Refused)
    }
}

impl sim_pci::Machine for Memory {
    fn dma_read(&mut self, requester_id: u16, address: u64, bytes: &mut [u8]) -> Result<(), Blocked> {
        bytes.copy_from_slice(self.place(requester_id, address, bytes.len())?);
        Ok(())
    }

    fn dma_write(&mut self, requester_id: u16, address: u64, bytes: &[u8]) -> Result<(), Blocked> {
        self.place(requester_id, address, bytes.len())?.copy_from_slice(bytes);
        Ok(())
    }

    fn message(&mut self, _: u16, _: u64, _: u32) {}

    fn pin(&mut self, _: u8, _: Level) {}
}

/// A driver's side of one controller.
#[derive(Clone, Copy, Default)]
struct Driver {
    /// The controller's number: 0 for the primary controller.
    number: u64,
    /// Commands so far by queue, the admin queue first.
    commands: [u16; 2],
}

struct System {
    tree: Tree<Inside>,
    memory: Memory,
    controllers: Vec<FunctionId>,
    now_ns: u64,
}

impl System {
    /// The tree as the PCI server leaves it, and a driver of the primary controller.
    fn new() -> (Self, Driver) {
        let scenario = Scenario::parse(SYSTEM, "a").unwrap();
        let disks = [vec![Disk::zeroes(), Disk::zeroes(), Disk::zeroes()]];
        let built = build(Arch::X86_64, &scenario, &disks, &[], 1);
        let memory = Memory { bytes: vec![0; 4 * OWN as usize], transfers: BTreeSet::new() };
        let mut system = Self { tree: built.tree, memory, controllers: built.controllers, now_ns: 0 };
        // Bus 1 below the port, and a window of 2 MiB from the registers on.
        system.configure(PORT, 0x18, 1 << 16 | 1 << 8);
        system.configure(PORT, 0x20, 0xc010_c000);
        system.configure(PORT, 0x04, 6);
        system.place();
        (system, Driver::default())
    }

    /// Places the registers of the physical function and of its virtual ones, which do not exist yet.
    fn place(&mut self) {
        self.configure(PHYSICAL, 0x10, REGISTERS as u32);
        self.configure(PHYSICAL, VIRTUAL_BAR, VIRTUAL_REGISTERS as u32);
        self.configure(PHYSICAL, 0x04, 6);
    }

    fn configure(&mut self, function: u16, register: u64, value: u32) {
        let at = u64::from(function) << 12 | register;
        self.tree.config_write(at, 4, value.into(), self.now_ns, &mut self.memory).unwrap();
    }

    /// Does a function level reset of the physical function.
    fn reset(&mut self) {
        self.configure(PHYSICAL, 0x88, 1 << 15);
        self.place();
    }

    fn enable_functions(&mut self) {
        self.configure(PHYSICAL, COUNT, 2);
        self.configure(PHYSICAL, CONTROL, ENABLE | MEMORY);
        [1, 2].into_iter().for_each(|number| self.configure(PHYSICAL + number, 0x04, 4));
    }

    /// Returns the address of a controller's register.
    fn register(&self, driver: Driver, offset: u64) -> u64 {
        self.tree.bar_address(self.controllers[driver.number as usize], 0).unwrap() + offset
    }

    fn set(&mut self, driver: Driver, register: Register, value: u32) {
        let at = self.register(driver, register as u64);
        self.tree.memory_write(at, 4, value.into(), self.now_ns, &mut self.memory).unwrap();
    }

    fn csts(&mut self, driver: Driver) -> Csts {
        let at = self.register(driver, Register::Csts as u64);
        Csts::from_bits(self.tree.memory_read(at, 4, self.now_ns).unwrap() as u32)
    }

    /// Lets controllers work until none has anything to do.
    fn run(&mut self) {
        while let Some(due_ns) = self.tree.next_event_ns() {
            self.now_ns = self.now_ns.max(due_ns);
            self.tree.advance(self.now_ns, &mut self.memory);
        }
    }

    fn put(&mut self, driver: Driver, bytes: &[u8]) {
        self.memory.bytes[(driver.base() + DATA) as usize..][..bytes.len()].copy_from_slice(bytes);
    }

    fn data(&self, driver: Driver) -> &[u8] {
        &self.memory.bytes[(driver.base() + DATA) as usize..][..512]
    }

    fn enable(&mut self, driver: &mut Driver) {
        driver.commands = [0; 2];
        let base = driver.base();
        self.memory.bytes[base as usize..][..DATA as usize].fill(0);
        self.set(*driver, Register::Aqa, Aqa::new().with_asqs_z(ENTRIES - 1).with_acqs_z(ENTRIES - 1).into_bits());
        self.set(*driver, Register::Asq, base as u32);
        self.set(*driver, Register::Acq, base as u32 + 0x1000);
        self.set(
            *driver,
            Register::Cc,
            Cc::new().with_iosqes(IOSQES_64).with_iocqes(IOCQES_16).with_en(true).into_bits(),
        );
        self.run();
        assert!(self.csts(*driver).rdy());
    }

    /// Writes a command into a queue and rings its doorbell.
    fn submit(&mut self, driver: &mut Driver, queue: u64, sqe: Sqe) {
        let sq = driver.base() + queue * 0x2000;
        let number = &mut driver.commands[queue as usize];
        self.memory.bytes[sq as usize + usize::from(*number) * 64..][..64].copy_from_slice(sqe.as_bytes());
        *number += 1;
        let tail = u64::from(*number);
        let at = self.register(*driver, DOORBELL_BASE as u64 + 8 * queue);
        self.tree.memory_write(at, 4, tail, self.now_ns, &mut self.memory).unwrap();
    }

    /// Executes a command. A test gives each queue fewer than it has entries.
    fn execute(&mut self, driver: &mut Driver, queue: u64, sqe: Sqe) -> StatusCode {
        self.submit(driver, queue, sqe);
        self.run();
        let cq = driver.base() + queue * 0x2000 + 0x1000;
        let last = usize::from(driver.commands[queue as usize] - 1);
        let cqe = Cqe::read_from_bytes(&self.memory.bytes[cq as usize + last * 16..][..16]).unwrap();
        assert_eq!(cqe.phase(), Phase::FIRST, "it has a completion");
        cqe.status().code()
    }

    fn succeed(&mut self, driver: &mut Driver, queue: u64, sqe: Sqe) {
        assert_eq!(self.execute(driver, queue, sqe), StatusCode::Success);
    }

    /// Gives each virtual function's controller its resources and a namespace, sets it online and brings it up. Namespace 2 is that
    /// of the first one.
    fn bring_up(&mut self, primary: &mut Driver) -> [Driver; 2] {
        [1, 2].map(|number: u16| {
            for kind in [ControllerResource::Queues, ControllerResource::Interrupts] {
                self.succeed(primary, 0, admin::assign_to_secondary(CID, number, kind, 2));
            }
            let nsid = Nsid(u32::from(number) + 1);
            self.put(*primary, ControllerList::of([number].into_iter()).as_bytes());
            let attach = admin::namespace_attachment(CID, Attachment::Attach, nsid, primary.pointer());
            self.succeed(primary, 0, attach);
            self.succeed(primary, 0, admin::set_online(CID, number));
            let mut driver = Driver { number: number.into(), commands: [0; 2] };
            self.enable(&mut driver);
            self.make_io_queues(&mut driver);
            driver
        })
    }

    fn make_io_queues(&mut self, driver: &mut Driver) {
        let (base, qid) = (driver.base(), QueueId(1));
        let memory = QueueMemory::Contiguous(base + 0x3000);
        let cq = CreateIoCq { qid, qsize_z: ENTRIES - 1, interrupt: CqInterrupt::Vector(1), memory };
        let memory = QueueMemory::Contiguous(base + 0x2000);
        let sq = CreateIoSq { qid, qsize_z: ENTRIES - 1, cqid: qid, priority: QueuePriority::Medium, memory };
        self.succeed(driver, 0, cq.sqe(CID));
        self.succeed(driver, 0, sq.sqe(CID));
    }

    /// Lets a fault happen to a controller.
    fn inject(&mut self, driver: Driver, effect: ControllerEffect) {
        let Self { tree, memory, controllers, now_ns } = self;
        tree.with_device(controllers[driver.number as usize], *now_ns, memory, |inside, upstream| {
            inside.controller_mut().unwrap().inject(effect, &mut Up(upstream));
        });
    }

    /// Everything up: the primary controller has given its flexible resources back, and both virtual functions are driven.
    fn up() -> (Self, Driver, [Driver; 2]) {
        let (mut system, mut primary) = Self::new();
        system.enable(&mut primary);
        for kind in [ControllerResource::Queues, ControllerResource::Interrupts] {
            system.succeed(&mut primary, 0, admin::allocate_to_primary(CID, 0, kind, 0));
        }
        system.reset();
        system.enable_functions();
        system.enable(&mut primary);
        let drivers = system.bring_up(&mut primary);
        (system, primary, drivers)
    }
}

impl Driver {
    const fn base(self) -> u64 {
        self.number * OWN
    }

    const fn pointer(self) -> DataPointer {
        DataPointer::page(self.base() + DATA)
    }
}

fn block() -> Blocks {
    Blocks::new(Lba(5), 1).unwrap()
}

/// A write to a virtual function's own namespace.
fn write(driver: Driver) -> Sqe {
    nvm::write(CID, Nsid(driver.number as u32 + 1), block(), driver.pointer())
}

#[test]
fn each_function_moves_data_by_its_own_requester_id_and_to_its_own_namespace() {
    let (mut system, _, drivers) = System::up();
    system.memory.transfers.clear();
    for mut driver in drivers {
        let (nsid, byte, data) = (Nsid(driver.number as u32 + 1), driver.number as u8, driver.pointer());
        system.put(driver, &[byte; 512]);
        system.succeed(&mut driver, 1, nvm::write(CID, nsid, block(), data));
        system.put(driver, &[0; 512]);
        system.succeed(&mut driver, 1, nvm::read(CID, nsid, block(), data));
        assert_eq!(system.data(driver), [byte; 512]);
        let others = [1, 2, 3].map(Nsid).into_iter().filter(|other| *other != nsid);
        for other in others {
            let refused = system.execute(&mut driver, 1, nvm::read(CID, other, block(), data));
            assert_eq!(refused, StatusCode::InvalidField, "namespace {other:?} is not attached to it");
        }
    }
    assert_eq!(system.memory.transfers, BTreeSet::from([(PHYSICAL + 1, 1), (PHYSICAL + 2, 2)]));
}

#[test]
fn secondary_controllers_are_offline_before_they_are_set_online() {
    let (mut system, mut primary) = System::new();
    system.enable_functions();
    system.enable(&mut primary);
    for number in [1, 2] {
        let csts = system.csts(Driver { number, commands: [0; 2] });
        assert!(csts.cfs() && !csts.rdy());
    }
    assert_eq!(system.execute(&mut primary, 0, admin::set_online(CID, 1)), StatusCode::InvalidSecondaryState);
}

#[test]
fn resets_of_the_physical_function_and_its_controller_take_the_others_offline() {
    let resets: [fn(&mut System, Driver); 3] = [
        |system, primary| system.set(primary, Register::Cc, 0),
        |system, _| {
            system.reset();
            system.enable_functions();
        },
        |system, _| {
            system.configure(PHYSICAL, CONTROL, 0);
            system.configure(PHYSICAL, CONTROL, ENABLE | MEMORY);
        },
    ];
    for reset in resets {
        let (mut system, primary, drivers) = System::up();
        // A command is in flight.
        let mut first = drivers[0];
        system.put(first, &[9; 512]);
        let command = write(first);
        system.submit(&mut first, 1, command);
        reset(&mut system, primary);
        system.memory.transfers.clear();
        system.run();
        assert_eq!(system.memory.transfers, BTreeSet::new());
        for driver in drivers {
            assert!(system.csts(driver).cfs() && !system.csts(driver).rdy());
        }
    }
}

#[test]
fn a_disabled_virtual_function_answers_nothing_and_a_reset_one_is_still_online() {
    let (mut system, mut primary, drivers) = System::up();
    system.configure(PHYSICAL + 1, 0x88, 1 << 15);
    let [mut first, second] = drivers;
    assert!(!system.csts(first).cfs() && !system.csts(first).rdy() && system.csts(second).rdy());
    system.configure(PHYSICAL + 1, 0x04, 4);
    system.enable(&mut first);
    system.make_io_queues(&mut first);
    let command = write(first);
    system.succeed(&mut first, 1, command);
    system.configure(PHYSICAL, CONTROL, 0);
    for driver in drivers {
        assert_eq!(system.csts(driver).into_bits(), u32::MAX);
    }
    assert_eq!(system.execute(&mut primary, 0, admin::set_online(CID, 1)), StatusCode::InvalidSecondaryState);
}

#[test]
fn a_controller_taken_offline_by_the_primary_has_no_event_left_and_the_other_works() {
    let (mut system, mut primary, [mut first, mut second]) = System::up();
    system.put(first, &[9; 512]);
    let command = write(first);
    system.submit(&mut first, 1, command);
    system.succeed(&mut primary, 0, admin::set_offline(CID, 1));
    assert!(system.csts(first).cfs() && system.tree.next_event_ns().is_none());
    let command = write(second);
    system.succeed(&mut second, 1, command);
}

#[test]
fn faults_of_one_controller_reach_another_only_from_the_primary() {
    use ControllerEffect::{AllOnes, FatalStatus, NeverReady, PowerLoss, Removal, SpuriousInterrupt, StuckQueuePair};
    for effect in [
        AllOnes { for_ns: Some(1000) },
        FatalStatus,
        NeverReady,
        PowerLoss,
        Removal,
        SpuriousInterrupt { vector: 1 },
        StuckQueuePair { pair: 1 },
    ] {
        for faulty in 0..3 {
            let (mut system, primary, drivers) = System::up();
            let all = [primary, drivers[0], drivers[1]];
            let mut first = drivers[0];
            system.submit(&mut first, 1, write(drivers[0]));
            system.inject(all[faulty], effect);
            system.run();
            // A primary controller that loses its power or is gone takes the others along.
            let takes_all = faulty == 0 && matches!(effect, PowerLoss | Removal);
            for driver in drivers.into_iter().filter(|driver| driver.number as usize != faulty) {
                assert_eq!(system.csts(driver).cfs(), takes_all, "{effect:?} of {faulty}");
            }
            system.set(primary, Register::Cc, 0);
            system.run();
        }
    }
}
