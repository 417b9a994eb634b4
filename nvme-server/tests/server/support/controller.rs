//! A controller, small and strict, that lies when told to: registers, admin and I/O commands over the function's
//! address space. It does what it is asked at once, unless it is to hold commands back.

use super::bus::{Act, Bus, Wires};
use super::commands::{self, Outcome};
use nvme_spec::admin::{self, CqInterrupt, CreateIoCq, CreateIoSq, Opcode, QueuePriority};
use nvme_spec::cqe::{Phase, SqPosition};
use nvme_spec::feature::ArbitrationWeights;
use nvme_spec::registers::{Aqa, Arbitration, Cap, Cc, Csts, DOORBELL_BASE, Register};
use nvme_spec::{Cid, Cqe, QueueId, Sqe, Status, StatusCode};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;

/// What the controller says of itself.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    /// Entries of its largest queue, less one.
    pub mqes_z: u16,
    /// MDTS: log2 of pages a command may move, 0 for no limit.
    pub mdts: u8,
    /// I/O queue pairs.
    pub queue_pairs: u16,
    /// Blocks of 512 bytes of namespace 1.
    pub blocks: u64,
    /// It knows Write Zeroes and Dataset Management.
    pub optional: bool,
    /// CAP.AMS has weighted round robin.
    pub weighted: bool,
}

struct Sq {
    iova: u64,
    entries: u16,
    head: u16,
    cq: u16,
    priority: QueuePriority,
}

struct Cq {
    iova: u64,
    entries: u16,
    head: u16,
    tail: u16,
    phase: Phase,
    vector: Option<u16>,
}

/// Changes a completion of a queue before it is posted.
pub(crate) type Lie = Box<dyn FnMut(u16, &mut Cqe)>;

/// Changes Identify data before they are written: CNS and the structure.
pub(crate) type Describe = Box<dyn FnMut(u8, &mut [u8])>;

pub(crate) struct Controller {
    pub shape: Shape,
    pub disk: Vec<u8>,
    /// Commands on this block end with a media error.
    pub bad_block: Option<u64>,
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
    /// The queues of such commands.
    pub given_up: BTreeSet<u16>,
    /// Registers read as all ones.
    pub absent: bool,
    /// CSTS.CFS, until it is reset.
    pub fatal: bool,
    /// CSTS.RDY does not come any more.
    pub broken: bool,
    /// Refuses this admin command, this many times.
    pub refuse: Option<(Opcode, u32)>,
    /// Refuses this admin command once, after it did it this many times.
    pub refuse_later: Option<(Opcode, u32)>,
    pub lie: Option<Lie>,
    /// CAP, where it is not made of the shape.
    pub cap: Option<u64>,
    /// DW0 of the answer to Number of Queues, likewise.
    pub granted: Option<u32>,
    /// Changes Identify data.
    pub describe: Option<Describe>,
    /// I/O commands it was given, with their queue.
    pub given: Vec<(u16, Sqe)>,
    /// I/O data it moved: queue, IOVA, bytes.
    pub moved: Vec<(u16, u64, usize)>,
    /// Blocks that commands named, by queue.
    pub named: Vec<(u16, Range<u64>)>,
    pub resets: u32,
    /// The Arbitration feature, once it was set.
    pub weights: Option<ArbitrationWeights>,
    cc: Cc,
    aqa: Aqa,
    asq: u64,
    acq: u64,
    sqs: BTreeMap<u16, Sq>,
    cqs: BTreeMap<u16, Cq>,
    held: VecDeque<(u16, Sqe)>,
}

impl Controller {
    pub(crate) fn new(shape: Shape) -> Self {
        Self {
            disk: (0..shape.blocks * 512).map(|n| (n / 512 + n) as u8).collect(),
            shape,
            bad_block: None,
            hold: false,
            deaf: false,
            deaf_to: None,
            aborts: false,
            lets_go: false,
            given_up: BTreeSet::new(),
            absent: false,
            fatal: false,
            broken: false,
            refuse: None,
            refuse_later: None,
            lie: None,
            cap: None,
            granted: None,
            describe: None,
            given: vec![],
            moved: vec![],
            named: vec![],
            resets: 0,
            weights: None,
            // As firmware may leave it.
            cc: Cc::new().with_en(true),
            aqa: Aqa::new(),
            asq: 0,
            acq: 0,
            sqs: BTreeMap::new(),
            cqs: BTreeMap::new(),
            held: VecDeque::new(),
        }
    }

    /// I/O queues that exist, SQs and CQs.
    pub(crate) fn queues(&self) -> (Vec<u16>, Vec<u16>) {
        let io = |id: &u16| (*id != 0).then_some(*id);
        (self.sqs.keys().filter_map(io).collect(), self.cqs.keys().filter_map(io).collect())
    }

    /// The classes of the I/O SQs that exist.
    pub(crate) fn priorities(&self) -> Vec<QueuePriority> {
        self.sqs.iter().filter(|(id, _)| **id != 0).map(|(_, sq)| sq.priority).collect()
    }

    /// How it chooses between them.
    pub(crate) fn arbitration(&self) -> Arbitration {
        self.cc.ams()
    }

    pub(crate) fn is_enabled(&self) -> bool {
        self.cc.en()
    }

    pub(crate) fn read(&self, offset: usize) -> u64 {
        const CAP: usize = Register::Cap.offset();
        const CC: usize = Register::Cc.offset();
        const VS: usize = Register::Vs.offset();
        const CSTS: usize = Register::Csts.offset();
        if self.absent {
            return u64::MAX;
        }
        match offset {
            CC => u64::from(self.cc.into_bits()),
            CAP => self.capabilities().into_bits(),
            VS => 0x0001_0400,
            CSTS => {
                let ready = self.cc.en() && !self.broken;
                u64::from(Csts::new().with_rdy(ready).with_cfs(self.fatal).into_bits())
            }
            _ => 0,
        }
    }

    fn capabilities(&self) -> Cap {
        let cap = Cap::new().with_mqes_z(self.shape.mqes_z).with_cqr(true).with_to(1).with_css_nvm(true);
        self.cap.map_or(cap.with_ams_wrr(self.shape.weighted), Cap::from_bits)
    }

    pub(crate) fn write(&mut self, bus: &mut Bus, offset: usize, value: u64) {
        const CC: usize = Register::Cc.offset();
        const AQA: usize = Register::Aqa.offset();
        const ASQ: usize = Register::Asq.offset();
        const ACQ: usize = Register::Acq.offset();
        if self.absent {
            return;
        }
        match offset {
            CC => self.configure(bus, Cc::from_bits(value as u32)),
            AQA => self.aqa = Aqa::from_bits(value as u32),
            ASQ => self.asq = value,
            ACQ => self.acq = value,
            DOORBELL_BASE.. => {
                let stride = 4usize << self.capabilities().dstrd();
                let index = (offset - DOORBELL_BASE) / stride;
                if !(offset - DOORBELL_BASE).is_multiple_of(stride) {
                    return bus.complain(format!("a doorbell at {offset:#x}, with {stride} bytes between them"));
                }
                let (queue, value) = ((index / 2) as u16, value as u16);
                if index.is_multiple_of(2) { self.ring(bus, queue, value) } else { self.release(bus, queue, value) }
            }
            _ => bus.complain(format!("write to register {offset:#x}")),
        }
    }

    /// Power was away for an instant: registers and queues are as after power-on.
    pub(crate) fn lose_power(&mut self) {
        (self.cc, self.aqa, self.asq, self.acq) = (Cc::new(), Aqa::new(), 0, 0);
        self.sqs.clear();
        self.cqs.clear();
        self.held.clear();
    }

    fn configure(&mut self, bus: &mut Bus, cc: Cc) {
        self.cc = cc;
        self.sqs.clear();
        self.cqs.clear();
        self.held.clear();
        if !cc.en() {
            bus.acts.push(Act::Reset);
            self.resets += 1;
            self.fatal = false;
            return;
        }
        if cc.ams() != Arbitration::RoundRobin && !(self.shape.weighted && cc.ams() == Arbitration::WeightedUrgent) {
            bus.complain(format!("CC.AMS is {:?}", cc.ams()));
        }
        self.weights = None;
        bus.acts.push(Act::Enabled);
        let (sq_entries, cq_entries) = (self.aqa.asqs_z() + 1, self.aqa.acqs_z() + 1);
        self.sqs.insert(0, Sq { iova: self.asq, entries: sq_entries, head: 0, cq: 0, priority: QueuePriority::Urgent });
        let cq = Cq { iova: self.acq, entries: cq_entries, head: 0, tail: 0, phase: Phase::FIRST, vector: Some(0) };
        self.cqs.insert(0, cq);
    }

    fn ring(&mut self, bus: &mut Bus, queue: u16, tail: u16) {
        let Some(sq) = self.sqs.get(&queue).filter(|sq| tail < sq.entries) else {
            return bus.complain(format!("tail {tail} of submission queue {queue}"));
        };
        let (iova, entries, mut head) = (sq.iova, sq.entries, sq.head);
        while head != tail {
            let Some(sqe) = bus.read::<Sqe>(iova + u64::from(head) * 64) else { return };
            head = (head + 1) % entries;
            self.sqs.get_mut(&queue).expect("the queue").head = head;
            if queue == 0 {
                self.administer(bus, &sqe);
                continue;
            }
            if self.held.iter().any(|(other, held)| *other == queue && held.cid() == sqe.cid()) {
                bus.complain(format!("command identifier {:#x} twice in flight on queue {queue}", sqe.cid().0));
            }
            self.given.push((queue, sqe));
            self.held.push_back((queue, sqe));
        }
        if !self.hold {
            self.finish(bus, usize::MAX);
        }
    }

    /// Does and completes up to `count` of the commands it was given.
    pub(crate) fn finish(&mut self, bus: &mut Bus, count: usize) {
        for _ in 0..count {
            let Some((queue, sqe)) = self.held.pop_front() else { return };
            let status = commands::perform(self, bus, queue, &sqe);
            self.post(bus, queue, &sqe, Outcome { status, dw0: 0 });
        }
    }

    /// Likewise the one it was given last.
    pub(crate) fn finish_newest(&mut self, bus: &mut Bus) {
        let newest = self.held.pop_back().expect("a command");
        self.held.push_front(newest);
        self.finish(bus, 1);
    }

    fn release(&mut self, bus: &mut Bus, queue: u16, head: u16) {
        let Some(cq) = self.cqs.get_mut(&queue).filter(|cq| head < cq.entries) else {
            return bus.complain(format!("head {head} of completion queue {queue}"));
        };
        let (taken, there) = (head + cq.entries - cq.head, cq.tail + cq.entries - cq.head);
        if taken % cq.entries > there % cq.entries {
            bus.complain(format!("head {head} of completion queue {queue} is beyond its tail"));
        }
        cq.head = head;
        bus.acts.push(Act::Released(queue));
        self.level(bus);
    }

    /// Works the pin, with INTx.
    pub(crate) fn level(&self, bus: &mut Bus) {
        let asserted = self.cqs.values().any(|cq| cq.vector.is_some() && cq.head != cq.tail);
        bus.level(asserted);
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
        let outcome = match &mut self.refuse {
            Some((refused, times)) if *refused == opcode && *times > 0 => {
                *times -= 1;
                Outcome::from(StatusCode::InternalError)
            }
            _ => commands::administer(self, bus, opcode, sqe),
        };
        self.post(bus, 0, sqe, outcome);
    }

    pub(super) fn create_cq(&mut self, bus: &mut Bus, wanted: &CreateIoCq) -> StatusCode {
        let id = wanted.qid.0;
        if id == 0 || id > self.shape.queue_pairs || self.cqs.contains_key(&id) {
            return StatusCode::InvalidQueueId;
        }
        if wanted.qsize_z == 0 || wanted.qsize_z > self.shape.mqes_z {
            bus.complain(format!("a queue of {} entries", u32::from(wanted.qsize_z) + 1));
            return StatusCode::InvalidQueueSize;
        }
        let vector = match wanted.interrupt {
            CqInterrupt::Disabled => None,
            CqInterrupt::Vector(vector) => Some(vector),
        };
        if vector.is_some_and(|vector| !bus.vectors.contains_key(&vector)) {
            return StatusCode::InvalidInterruptVector;
        }
        let (iova, entries) = (wanted.memory.address(), wanted.qsize_z + 1);
        self.cqs.insert(id, Cq { iova, entries, head: 0, tail: 0, phase: Phase::FIRST, vector });
        StatusCode::Success
    }

    pub(super) fn create_sq(&mut self, wanted: &CreateIoSq) -> StatusCode {
        let id = wanted.qid.0;
        if !self.cqs.contains_key(&wanted.cqid.0) || wanted.cqid.0 == 0 {
            return StatusCode::CqInvalid;
        }
        if id == 0 || id > self.shape.queue_pairs || self.sqs.contains_key(&id) {
            return StatusCode::InvalidQueueId;
        }
        let (iova, entries) = (wanted.memory.address(), wanted.qsize_z + 1);
        self.sqs.insert(id, Sq { iova, entries, head: 0, cq: wanted.cqid.0, priority: wanted.priority });
        StatusCode::Success
    }

    pub(super) fn delete(&mut self, bus: &mut Bus, opcode: Opcode, sqe: &Sqe) -> StatusCode {
        let id = admin::deleted_queue(sqe).0;
        if opcode == Opcode::DeleteIoSq {
            if self.held.iter().any(|(queue, _)| *queue == id) {
                match (self.given_up.contains(&id), self.lets_go) {
                    (true, true) => self.held.retain(|(queue, _)| *queue != id),
                    (true, false) => return StatusCode::InternalError,
                    (false, _) => bus.complain(format!("queue {id} was deleted with commands in flight")),
                }
            }
            return if self.sqs.remove(&id).is_some() { StatusCode::Success } else { StatusCode::InvalidQueueId };
        }
        if self.sqs.values().any(|sq| sq.cq == id) {
            return StatusCode::InvalidQueueDeletion;
        }
        if self.cqs.remove(&id).is_some() { StatusCode::Success } else { StatusCode::InvalidQueueId }
    }

    /// DW0 of an Abort's completion (section 5.1).
    pub(super) fn abort(&mut self, bus: &mut Bus, sqe: &Sqe) -> u32 {
        let victim = admin::aborted_command(sqe);
        self.given_up.insert(victim.sq.0);
        let found = self.held.iter().position(|(queue, held)| *queue == victim.sq.0 && held.cid() == victim.cid);
        let Some((queue, held)) = found.filter(|_| self.aborts).and_then(|place| self.held.remove(place)) else {
            return 1;
        };
        self.post(bus, queue, &held, StatusCode::AbortRequested.into());
        0
    }

    fn post(&mut self, bus: &mut Bus, queue: u16, sqe: &Sqe, outcome: Outcome) {
        let Some(sq) = self.sqs.get(&queue) else { return };
        let (cq, from) = (sq.cq, SqPosition { sq: QueueId(queue), head: sq.head });
        let phase = self.cqs.get(&cq).expect("a completion queue").phase;
        let mut cqe = Cqe::new(outcome.dw0, from, sqe.cid(), outcome.status, phase);
        if let Some(mut lie) = self.lie.take() {
            lie(cq, &mut cqe);
            self.lie.get_or_insert(lie);
        }
        self.put(bus, cq, &cqe);
    }

    /// Posts a completion nobody waits for: `change` makes it of one that is sound but for its identifier.
    pub(crate) fn forge(&mut self, bus: &mut Bus, queue: u16, change: impl FnOnce(&mut Cqe)) {
        let (Some(cq), Some(sq)) = (self.cqs.get(&queue), self.sqs.get(&queue)) else { return };
        let from = SqPosition { sq: QueueId(queue), head: sq.head };
        let mut cqe = Cqe::new(0, from, Cid(0xffff), Status::SUCCESS, cq.phase);
        change(&mut cqe);
        self.put(bus, queue, &cqe);
    }

    fn put(&mut self, bus: &mut Bus, queue: u16, cqe: &Cqe) {
        let cq = self.cqs.get_mut(&queue).expect("a completion queue");
        if bus.write(cq.iova + u64::from(cq.tail) * 16, cqe).is_none() {
            return;
        }
        // One with a stale phase is no completion, and another will take its place.
        if cqe.phase() == cq.phase {
            cq.tail = (cq.tail + 1) % cq.entries;
            if cq.tail == 0 {
                cq.phase = cq.phase.flipped();
            }
        }
        match (bus.wires, cq.vector) {
            (Wires::Msix | Wires::Msi, Some(vector)) => bus.interrupt(vector),
            _ => self.level(bus),
        }
    }
}
