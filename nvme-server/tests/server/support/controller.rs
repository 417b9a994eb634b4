//! The model of a controller under a test's control: a test may hold each command, and alter the controller's answers. By
//! default it does all at once.

use super::bus::{Act, Bus};
use super::shape::{FOREVER_NS, Shape, models};
use nvme_spec::admin::{
    self, Attachment, Cns, ControllerResource, Opcode, QueuePriority, VirtualizationAction, VirtualizationDw10,
    VirtualizationDw11,
};
use nvme_spec::feature::{ArbitrationWeights, Feature, NumberOfQueues};
use nvme_spec::nvm::{self, Blocks};
use nvme_spec::registers::{
    Aqa, Arbitration, Cap, Cc, Csts, DOORBELL_BASE, IOCQES_16, IOSQES_64, Register, ShutdownNotification, Vs,
};
use nvme_spec::{Cid, Cqe, Nsid, QueueId, Sqe, Status, StatusCode, identify};
use sim_fault::ControllerEffect;
use sim_nvme::{AccessSize, Blocked, Event, Host, Level, ViolationKind};
use std::collections::BTreeSet;
use std::ops::Range;
use zerocopy::FromBytes;

/// The burst it recommends, as a power of two.
pub(crate) const RAB: u8 = 2;

/// A change of secondary controllers that the controller made: the identifier of the controller comes first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Managed {
    /// Flexible resources of the primary one from its next reset on.
    Allocated(ControllerResource, u16),
    Assigned(u16, ControllerResource, u16),
    Attached(u16, Nsid),
    Detached(u16, Nsid),
    Online(u16),
    Offline(u16),
}

/// Changes Identify data before they are written: CNS, NSID and the structure.
pub(crate) type Describe = Box<dyn FnMut(u8, u32, &mut [u8])>;

/// Answers of the controller that the model need not know.
pub(crate) struct Lies {
    /// The controller's shape, as it was made or as a test changed it.
    pub shape: Shape,
    /// DW0 of the answer to Number of Queues, where it is not made of the shape.
    pub granted: Option<u32>,
    /// Changes Identify data.
    pub describe: Option<Describe>,
    /// Answers to admin commands that name another command.
    pub wrong_cids: u32,
    /// Changes of secondary controllers so far.
    managed: Vec<Managed>,
    /// The admin command that is being done.
    current: Option<Sqe>,
}

/// The function's access to memory, with the lies applied.
struct Port<'a> {
    bus: &'a mut Bus,
    lies: &'a mut Lies,
}

pub(crate) struct Controller {
    /// Commands on this block end with a media error.
    pub bad_block: Option<u64>,
    /// I/O commands end with this status, so many of them.
    pub fails: Option<(Status, u32)>,
    /// I/O commands wait for [`Controller::finish`].
    pub hold: bool,
    /// Admin commands are not answered.
    pub deaf: bool,
    /// This admin command is not answered.
    pub deaf_to: Option<Opcode>,
    /// Abort ends the command it names.
    pub aborts: bool,
    /// A submission queue of which a command was to be aborted can be deleted with commands in flight.
    pub lets_go: bool,
    /// Fields of commands may have any value: somebody else than the server chooses them.
    pub forgives_fields: bool,
    /// Registers read as all ones.
    pub absent: bool,
    /// Requests for a shutdown are lost.
    pub never_shuts_down: bool,
    /// VS, where it is not the shape's.
    pub claimed_version: Option<Vs>,
    /// Refuses to state limits.
    pub refuses_limits: bool,
    /// The status of refused admin commands.
    pub refusal: Status,
    /// Refuses this admin command, this many times.
    pub refuse: Option<(Opcode, u32)>,
    /// Refuses this admin command once, after it did it this many times.
    pub refuse_later: Option<(Opcode, u32)>,
    /// I/O commands it received, with their queue.
    pub submitted: Vec<(u16, Sqe)>,
    /// I/O data it moved: queue, IOVA, bytes.
    pub moved: Vec<(u16, u64, usize)>,
    /// Blocks that commands named, by queue.
    pub named: Vec<(u16, Range<u64>)>,
    pub resets: u32,
    pub lies: Lies,
    /// The Arbitration feature, once it was set.
    pub weights: Option<ArbitrationWeights>,
    model: sim_nvme::Controller,
    /// Controllers of virtual functions, which nobody drives.
    secondaries: Vec<sim_nvme::Controller>,
    /// Commands fetched and not over, oldest first.
    in_flight: Vec<(u16, Sqe)>,
    /// Queues of commands that were to be aborted.
    given_up: BTreeSet<u16>,
    /// Violations that were reported to the bus.
    violations: usize,
}

impl Controller {
    /// Creates a controller that firmware left enabled.
    pub(crate) fn new(shape: Shape, bus: &mut Bus) -> Self {
        let (model, secondaries) = models(&shape);
        let mut controller = Self {
            bad_block: None,
            fails: None,
            refuses_limits: false,
            refusal: Status::new(StatusCode::InternalError),
            hold: false,
            deaf: false,
            deaf_to: None,
            aborts: false,
            lets_go: false,
            forgives_fields: false,
            absent: false,
            never_shuts_down: false,
            claimed_version: None,
            refuse: None,
            refuse_later: None,
            submitted: vec![],
            moved: vec![],
            named: vec![],
            resets: 0,
            weights: None,
            model,
            secondaries,
            lies: Lies { shape, granted: None, describe: None, wrong_cids: 0, managed: vec![], current: None },
            in_flight: vec![],
            given_up: BTreeSet::new(),
            violations: 0,
        };
        let cap = controller.model.read(Register::Cap as u64, AccessSize::Eight);
        let cc = Cc::new().with_en(true).with_mps(Cap::from_bits(cap).mpsmin());
        let cc = cc.with_iosqes(IOSQES_64).with_iocqes(IOCQES_16);
        let aqa = Aqa::new().with_asqs_z(1).with_acqs_z(1);
        controller.write(bus, Register::Aqa.offset(), AccessSize::Four, aqa.into_bits().into());
        controller.write(bus, Register::Cc.offset(), AccessSize::Four, cc.into_bits().into());
        bus.acts.clear();
        controller
    }

    /// Bytes of namespace 1.
    pub(crate) fn disk(&self, range: Range<usize>) -> Vec<u8> {
        let mut bytes = vec![0; range.len()];
        self.model.read_contents(1, range.start as u64, &mut bytes).expect("blocks of the namespace");
        bytes
    }

    /// Resets the function, as the PCI server does before it enables virtual functions.
    pub(crate) fn reset_function(&mut self, bus: &mut Bus) {
        self.model.function_level_reset();
        self.run(bus);
    }

    /// The virtual functions are there.
    pub(crate) fn enable_functions(&mut self) {
        self.secondaries.iter_mut().for_each(sim_nvme::Controller::function_enabled);
    }

    /// Whether the secondary controller of the virtual function with this index is online: an offline one reports a fatal
    /// status.
    pub(crate) fn is_online(&mut self, index: usize) -> bool {
        !Csts::from_bits(self.secondaries[index].read(Register::Csts as u64, AccessSize::Four) as u32).cfs()
    }

    /// The changes of secondary controllers so far, taken.
    pub(crate) fn take_managed(&mut self) -> Vec<Managed> {
        std::mem::take(&mut self.lies.managed)
    }

    /// I/O queues that exist, SQs and CQs.
    pub(crate) fn queues(&self) -> (Vec<u16>, Vec<u16>) {
        let io = |id: QueueId| (id != QueueId::ADMIN).then_some(id.0);
        let sqs = self.model.submission_queues().filter_map(|(id, _)| io(id));
        (sqs.collect(), self.model.completion_queues().filter_map(io).collect())
    }

    /// The classes of the I/O SQs that exist.
    pub(crate) fn priorities(&self) -> Vec<QueuePriority> {
        let io = self.model.submission_queues().filter(|(id, _)| *id != QueueId::ADMIN);
        io.map(|(_, priority)| priority).collect()
    }

    /// The controller's arbitration between its I/O SQs.
    pub(crate) fn arbitration(&mut self) -> Arbitration {
        self.configuration().ams()
    }

    pub(crate) fn is_enabled(&mut self) -> bool {
        self.configuration().en()
    }

    fn configuration(&mut self) -> Cc {
        Cc::from_bits(self.model.read(Register::Cc as u64, AccessSize::Four) as u32)
    }

    pub(crate) fn read(&mut self, offset: usize, size: AccessSize) -> u64 {
        const CAP: usize = Register::Cap.offset();
        const VS: usize = Register::Vs.offset();
        if self.absent {
            return size.truncate(u64::MAX);
        }
        let said = self.model.read(offset as u64, size);
        let shape = &self.lies.shape;
        match offset {
            VS => self.claimed_version.map_or(said, |version| version.into_bits().into()),
            CAP => shape.cap.unwrap_or_else(|| Cap::from_bits(said).with_mqes_z(shape.mqes_z).into_bits()),
            _ => said,
        }
    }

    pub(crate) fn write(&mut self, bus: &mut Bus, offset: usize, size: AccessSize, value: u64) {
        const CC: usize = Register::Cc.offset();
        if self.absent {
            return;
        }
        match offset {
            CC if Cc::from_bits(value as u32).shn() != ShutdownNotification::None => {
                bus.acts.push(Act::ShutDown);
                if self.never_shuts_down {
                    return;
                }
            }
            CC if Cc::from_bits(value as u32).en() => {
                bus.acts.push(Act::Enabled);
                self.weights = None;
            }
            CC => {
                bus.acts.push(Act::Reset);
                self.resets += 1;
            }
            DOORBELL_BASE.. => {
                let stride = 4usize << Cap::from_bits(self.lies.shape.cap.unwrap_or_default()).dstrd();
                let index = (offset - DOORBELL_BASE) / stride;
                if !index.is_multiple_of(2) {
                    bus.acts.push(Act::Released((index / 2) as u16));
                }
            }
            _ => {}
        }
        let mut port = Port { bus, lies: &mut self.lies };
        self.model.write(offset as u64, size, value, self.model.clock_ns(), &mut port);
        self.run(bus);
    }

    /// Applies an effect to the whole controller.
    pub(crate) fn strike(&mut self, bus: &mut Bus, effect: ControllerEffect) {
        self.model.strike(effect, &mut Port { bus, lies: &mut self.lies });
        self.run(bus);
    }

    /// Does and completes up to `count` of the commands it received.
    pub(crate) fn finish(&mut self, bus: &mut Bus, count: usize) {
        for _ in 0..count {
            let Some((queue, sqe)) = self.in_flight.iter().find(|(queue, _)| *queue != 0).copied() else { return };
            self.finish_one(bus, queue, &sqe);
        }
    }

    /// Does and completes the newest command.
    pub(crate) fn finish_newest(&mut self, bus: &mut Bus) {
        let (queue, sqe) = self.in_flight.iter().rfind(|(queue, _)| *queue != 0).copied().expect("a command");
        self.finish_one(bus, queue, &sqe);
    }

    /// Does the admin commands that it was deaf to.
    pub(crate) fn hear(&mut self, bus: &mut Bus) {
        self.deaf_to = None;
        for (_, sqe) in self.in_flight.clone().into_iter().filter(|(queue, _)| *queue == 0) {
            self.lies.current = Some(sqe);
            self.model.hurry(QueueId::ADMIN, sqe.cid());
            self.advance(bus);
        }
    }

    fn finish_one(&mut self, bus: &mut Bus, queue: u16, sqe: &Sqe) {
        if let Some((status, left)) = self.fails.filter(|(_, left)| *left > 0) {
            self.fails = Some((status, left - 1));
            self.end(bus, queue, sqe, status);
        } else if self.bad_block.is_some_and(|bad| blocks(sqe).is_some_and(|blocks| blocks.contains(&bad))) {
            self.end(bus, queue, sqe, Status::new(StatusCode::UnrecoveredRead));
        } else {
            self.model.hurry(QueueId(queue), sqe.cid());
        }
        self.advance(bus);
    }

    fn end(&mut self, bus: &mut Bus, queue: u16, sqe: &Sqe, status: Status) {
        let mut port = Port { bus, lies: &mut self.lies };
        self.model.end(QueueId(queue), sqe.cid(), status, &mut port);
    }

    /// Posts a completion that no command waits for: `change` makes it from one that is sound but for its identifier.
    pub(crate) fn forge(&mut self, bus: &mut Bus, queue: u16, change: impl FnOnce(&mut Cqe)) {
        self.model.forge(QueueId(queue), change, &mut Port { bus, lies: &mut self.lies });
        self.run(bus);
    }

    /// Does all work that is not held.
    fn run(&mut self, bus: &mut Bus) {
        self.advance(bus);
        if !self.hold {
            self.finish(bus, usize::MAX);
        }
        let new = self.model.violations().iter().skip(self.violations);
        let is_forgiven = |kind: &ViolationKind| {
            self.forgives_fields
                && matches!(kind, ViolationKind::CommandField { .. } | ViolationKind::CommandSize { .. })
        };
        let new = new.filter(|violation| !is_forgiven(&violation.kind));
        new.for_each(|violation| bus.complain(format!("{:?}", violation.kind)));
        self.violations = self.model.violations().len();
    }

    /// Does all work but the commands that a test has to finish.
    fn advance(&mut self, bus: &mut Bus) {
        let until_ns = self.model.clock_ns() + FOREVER_NS / 2;
        while let Some(at_ns) = self.model.next_event_ns().filter(|at_ns| *at_ns < until_ns) {
            self.model.advance(at_ns, &mut Port { bus, lies: &mut self.lies });
            self.listen(bus);
        }
        self.listen(bus);
    }

    /// Takes the model's record of its acts.
    fn listen(&mut self, bus: &mut Bus) {
        let discards = |queue: u16, cid| {
            let opcode = Some(nvm::Opcode::DatasetManagement as u8);
            self.in_flight.iter().find(|held| (held.0, held.1.cid()) == (queue, cid)).map(|held| held.1.opcode())
                == opcode
        };
        let data = self.model.take_transfers().filter(|one| one.sq != 0 && !discards(one.sq, Cid(one.cid)));
        self.moved.extend(data.map(|one| (one.sq, one.address, one.bytes as usize)));
        for event in self.model.take_events().collect::<Vec<_>>() {
            match event {
                Event::Fetched { sq, sqe } => {
                    self.in_flight.push((sq, sqe));
                    if sq == 0 { self.administer(bus, &sqe) } else { self.note(bus, sq, sqe) }
                }
                Event::Over(record) => {
                    self.in_flight.retain(|(queue, sqe)| (*queue, sqe.cid().0) != (record.sq, record.cid));
                }
                Event::Stopped => self.in_flight.clear(),
                Event::Held { .. } | Event::Reset | Event::PowerLost => {}
            }
        }
    }

    fn note(&mut self, bus: &mut Bus, queue: u16, sqe: Sqe) {
        self.submitted.push((queue, sqe));
        let named = if sqe.opcode() == nvm::Opcode::DatasetManagement as u8 {
            // The server's own have a list page.
            let range: Option<nvm::Range> = if sqe.prp1.is_multiple_of(4096) { bus.read(sqe.prp1) } else { None };
            range.map(|range| range.start..range.start + u64::from(range.blocks))
        } else {
            blocks(&sqe)
        };
        self.named.extend(named.map(|blocks| (queue, blocks)));
    }

    fn administer(&mut self, bus: &mut Bus, sqe: &Sqe) {
        if self.deaf {
            return;
        }
        let opcode = Opcode::from_raw(sqe.opcode()).expect("an admin command of the standard");
        bus.acts.push(Act::Admin(opcode, sqe.cdw10 as u16));
        if self.deaf_to == Some(opcode) {
            return;
        }
        if let Some((refused, left)) = self.refuse_later.filter(|(refused, _)| *refused == opcode) {
            self.refuse_later = left.checked_sub(1).map(|left| (refused, left));
            self.refuse = self.refuse_later.is_none().then_some((refused, 1)).or(self.refuse);
        }
        self.lies.current = Some(*sqe);
        if self.refuses(bus, opcode, sqe) {
            self.end(bus, 0, sqe, self.refusal);
        } else {
            if opcode == Opcode::SetFeatures && sqe.cdw10 as u8 == Feature::Arbitration as u8 {
                self.weights = Some(ArbitrationWeights::from_bits(sqe.cdw11));
            }
            self.model.hurry(QueueId::ADMIN, sqe.cid());
        }
    }

    fn refuses(&mut self, bus: &mut Bus, opcode: Opcode, sqe: &Sqe) -> bool {
        match &mut self.refuse {
            Some((refused, times)) if *refused == opcode && *times > 0 => {
                *times -= 1;
                return true;
            }
            _ => {}
        }
        match opcode {
            Opcode::Identify => self.refuses_limits && sqe.cdw10 as u8 == Cns::CommandSetController as u8,
            Opcode::Abort => {
                self.given_up.insert(admin::aborted_command(sqe).sq.0);
                !self.aborts
            }
            Opcode::DeleteIoSq => {
                let id = admin::deleted_queue(sqe).0;
                let is_busy = self.in_flight.iter().any(|(queue, _)| *queue == id);
                if is_busy && !self.given_up.contains(&id) {
                    bus.complain(format!("queue {id} was deleted with commands in flight"));
                }
                is_busy && !self.lets_go
            }
            Opcode::CreateIoCq => sqe.cdw10 as u16 > self.lies.shape.queue_pairs,
            _ => false,
        }
    }
}

/// The change of secondary controllers that a command makes.
fn managed(sqe: &Sqe, bus: &mut Bus) -> Option<Managed> {
    match Opcode::from_raw(sqe.opcode())? {
        Opcode::VirtualizationManagement => {
            let dw10 = VirtualizationDw10::from_bits(sqe.cdw10);
            let count = VirtualizationDw11::from_bits(sqe.cdw11).nr();
            let (controller, resource) = (dw10.cntlid(), ControllerResource::from_raw(dw10.rt())?);
            Some(match VirtualizationAction::from_raw(dw10.act())? {
                VirtualizationAction::PrimaryAllocation => Managed::Allocated(resource, count),
                VirtualizationAction::SecondaryAssign => Managed::Assigned(controller, resource, count),
                VirtualizationAction::SecondaryOnline => Managed::Online(controller),
                VirtualizationAction::SecondaryOffline => Managed::Offline(controller),
            })
        }
        Opcode::NamespaceAttachment => {
            let list: identify::ControllerList = bus.read(sqe.prp1)?;
            let [controller] = list.listed()? else { panic!("one controller at a time") };
            let (controller, nsid) = (controller.get(), sqe.nsid());
            Some(match Attachment::from_dw10(sqe.cdw10)? {
                Attachment::Attach => Managed::Attached(controller, nsid),
                Attachment::Detach => Managed::Detached(controller, nsid),
            })
        }
        _ => None,
    }
}

/// Blocks that a command names by itself.
fn blocks(sqe: &Sqe) -> Option<Range<u64>> {
    use nvm::Opcode::{Compare, Read, Verify, Write, WriteZeroes};
    let named = Blocks::from_sqe(sqe)?;
    let names = matches!(nvm::Opcode::from_raw(sqe.opcode())?, Read | Write | Compare | Verify | WriteZeroes);
    names.then(|| named.start().0..named.start().0 + u64::from(named.count()))
}

impl Lies {
    /// Identify data as the shape has them, and then as a test does.
    fn identify(&mut self, cns: u8, nsid: u32, bytes: &mut [u8]) {
        let Self { shape, describe, .. } = self;
        match Cns::from_raw(cns) {
            Some(Cns::Controller) => {
                let (about, _) = identify::Controller::mut_from_prefix(bytes).expect("the whole structure");
                (about.mdts, about.rab) = (shape.mdts, RAB);
                let known = identify::Oncs::from_bits(about.oncs.get());
                let known = known.with_write_zeroes(shape.optional).with_dataset_management(shape.optional);
                let known = known.with_verify(shape.optional).with_compare(shape.optional);
                about.oncs.set(known.into_bits());
            }
            Some(Cns::Namespace) if nsid == 1 => {
                let (about, _) = identify::Namespace::mut_from_prefix(bytes).expect("the whole structure");
                about.nsze.set(shape.blocks);
            }
            _ => {}
        }
        describe.iter_mut().for_each(|describe| describe(cns, nsid, bytes));
    }

    /// The answer to an admin command.
    fn answer(&mut self, sqe: &Sqe, cqe: &mut Cqe) {
        if sqe.opcode() == Opcode::SetFeatures as u8 && sqe.cdw10 as u8 == Feature::NumberOfQueues as u8 {
            let pairs = || NumberOfQueues::pairs(self.shape.queue_pairs).expect("queue pairs").into_bits();
            cqe.dw0 = self.granted.unwrap_or_else(pairs);
        }
        if let Some(left) = self.wrong_cids.checked_sub(1) {
            self.wrong_cids = left;
            cqe.dw3.set_cid(cqe.dw3.cid() ^ 0x8000);
        }
    }
}

impl Host for Port<'_> {
    fn read(&mut self, address: u64, bytes: &mut [u8]) -> Result<(), Blocked> {
        self.bus.fetch(address, bytes).ok_or(Blocked)
    }

    fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), Blocked> {
        let Some(sqe) = self.lies.current else { return self.bus.store(address, bytes).ok_or(Blocked) };
        let mut bytes = bytes.to_vec();
        if sqe.opcode() == Opcode::Identify as u8 && sqe.prp1 == address {
            self.lies.identify(sqe.cdw10 as u8, sqe.nsid, &mut bytes);
        } else if let Ok(cqe) = Cqe::mut_from_bytes(&mut bytes) {
            if cqe.status().is_success() {
                self.lies.managed.extend(managed(&sqe, self.bus));
            }
            self.lies.answer(&sqe, cqe);
            self.lies.current = None;
        }
        self.bus.store(address, &bytes).ok_or(Blocked)
    }

    fn interrupt(&mut self, vector: u16) {
        self.bus.message(vector);
    }

    fn is_bus_master(&self) -> bool {
        true
    }

    fn pin(&mut self, level: Level) {
        self.bus.set_pin(level == Level::Asserted);
    }
}
