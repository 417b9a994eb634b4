//! The simulator's controller as a far end, with the smallest driver: an admin queue and one I/O queue pair, a command at a time.
//!
//! Time is the build machine's, but does not wait: while a command is under way it jumps to the controller's next event. Memory is a
//! vector that the controller reaches by DMA; completions are seen by their phase tag, without interrupts.

use super::{Completion, FarEnd, Refused};
use nvme_passthrough::{Command, Data, MOST_DATA, Queue, Refusal};
use nvme_spec::admin::Opcode;
use nvme_spec::registers::{Aqa, Cap, Cc, Csts, DOORBELL_BASE, DoorbellLayout, NSSR_RESET, Register};
use nvme_spec::{Cid, Cqe, DataPointer, Nsid, QueueId, Sqe};
use sim::Exported;
use sim_vfio_user::{Blocked, Device as _, Host, Level, Snapshot};
use std::time::Instant;
use zerocopy::{FromBytes as _, IntoBytes as _};

/// Entries of each queue.
const ENTRIES: u16 = 16;
/// Virtual time within which a command and a change of state must end: an hour, as a format or a sanitize may take long.
const PATIENCE_NS: u64 = 3_600_000_000_000;
/// PCI command register: memory and bus master.
const COMMAND: (u16, [u8; 2]) = (4, [6, 0]);
/// Pages of the memory: an unused one, the SQ and the CQ of both pairs, the PRP list; then data.
const LIST_PAGE: u64 = 5;
const DATA_PAGE: u64 = 6;
const PRP_BYTES: u64 = 8;

/// A controller with its driver.
pub(crate) struct Model {
    device: Exported,
    memory: Memory,
    began: Instant,
    /// Time of the last step, which may be ahead of the build machine's.
    now_ns: u64,
    cap: Cap,
    page_bytes: u64,
    doorbells: DoorbellLayout,
    pairs: [Pair; 2],
    next_cid: u16,
}

/// Position in a queue pair.
#[derive(Clone, Copy)]
struct Pair {
    tail: u16,
    head: u16,
    phase: bool,
}

impl Pair {
    const NEW: Self = Self { tail: 0, head: 0, phase: true };
}

/// Memory from address 0 on.
struct Memory(Vec<u8>);

impl Memory {
    fn range(&mut self, address: u64, bytes: usize) -> Option<&mut [u8]> {
        let first = usize::try_from(address).ok()?;
        self.0.get_mut(first..first.checked_add(bytes)?)
    }

    fn put(&mut self, address: u64, bytes: &[u8]) {
        if let Some(place) = self.range(address, bytes.len()) {
            place.copy_from_slice(bytes);
        }
    }
}

impl Host for Memory {
    fn dma_read(&mut self, iova: u64, bytes: &mut [u8]) -> Result<(), Blocked> {
        let place = self.range(iova, bytes.len()).ok_or(Blocked::Refused)?;
        bytes.copy_from_slice(place);
        Ok(())
    }

    fn dma_write(&mut self, iova: u64, bytes: &[u8]) -> Result<(), Blocked> {
        self.range(iova, bytes.len()).ok_or(Blocked::Refused)?.copy_from_slice(bytes);
        Ok(())
    }

    fn interrupt(&mut self, _: u16) {}

    fn pin(&mut self, _: Level) {}
}

fn silent() -> Refused {
    Refused(Refusal::Timeout, "the controller does not answer: reset it with nvme reset /dev/nvme0".into())
}

impl Model {
    /// Drives a controller, from its start on.
    ///
    /// # Errors
    /// A controller that does not become ready.
    pub(crate) fn new(device: Exported) -> Result<Self, Refused> {
        let mut model = Self {
            device,
            memory: Memory(Vec::new()),
            began: Instant::now(),
            now_ns: 0,
            cap: Cap::new(),
            page_bytes: 0,
            doorbells: Cap::new().doorbells(),
            pairs: [Pair::NEW; 2],
            next_cid: 0,
        };
        model.device.config_write(COMMAND.0, &COMMAND.1, 0, &mut model.memory);
        model.cap = Cap::from_bits(model.read(Register::Cap, 8));
        model.page_bytes = model.cap.min_page_bytes().into();
        model.doorbells = model.cap.doorbells();
        let bytes = DATA_PAGE * model.page_bytes + u64::from(MOST_DATA);
        model.memory = Memory(vec![0; usize::try_from(bytes).unwrap_or_default()]);
        model.enable()?;
        Ok(model)
    }

    /// Brings the controller up, from whatever state it is in.
    fn enable(&mut self) -> Result<(), Refused> {
        self.write(Register::Cc, Cc::new().into_bits());
        self.wait(|model| !model.csts().rdy())?;
        self.pairs = [Pair::NEW; 2];
        let place = usize::try_from(LIST_PAGE * self.page_bytes).unwrap_or_default();
        if let Some(queues) = self.memory.range(0, place) {
            queues.fill(0);
        }
        self.write(Register::Aqa, Aqa::new().with_asqs_z(ENTRIES - 1).with_acqs_z(ENTRIES - 1).into_bits());
        for (register, address) in [(Register::Asq, self.sq(0)), (Register::Acq, self.cq(0))] {
            self.write_at(register.offset(), &address.to_le_bytes());
        }
        let cc = Cc::new().with_mps(self.cap.mpsmin()).with_iosqes(6).with_iocqes(4).with_en(true);
        self.write(Register::Cc, cc.into_bits());
        self.wait(|model| model.csts().rdy() || model.csts().cfs())?;
        if !self.csts().rdy() {
            return Err(silent());
        }
        let size = u32::from(ENTRIES - 1) << 16;
        // A single pair (0's based), whose queues lie in one piece each; the SQ completes to CQ 1.
        self.prepare(Opcode::SetFeatures, None, [7, 0])?;
        self.prepare(Opcode::CreateIoCq, Some(self.cq(1)), [size | 1, 1])?;
        self.prepare(Opcode::CreateIoSq, Some(self.sq(1)), [size | 1, 1 << 16 | 1])
    }

    /// Executes an admin command of the driver's own, which must succeed.
    fn prepare(&mut self, opcode: Opcode, address: Option<u64>, [cdw10, cdw11]: [u32; 2]) -> Result<(), Refused> {
        let data = address.map_or(DataPointer::NONE, DataPointer::page);
        let sqe = Sqe { cdw10, cdw11, ..Sqe::new(opcode as u8, Cid(0), Nsid(0), data) };
        let cqe = self.submit(0, sqe)?;
        if cqe.status().is_success() {
            return Ok(());
        }
        Err(Refused(Refusal::Timeout, format!("the controller refuses {opcode:?}: status {:?}", cqe.status())))
    }

    /// Submits a command and waits for its completion.
    fn submit(&mut self, queue: u16, sqe: Sqe) -> Result<Cqe, Refused> {
        let index = usize::from(queue);
        let cid = Cid(self.next_cid);
        // 0xffff is no identifier of a command.
        self.next_cid = (self.next_cid + 1) % u16::MAX;
        let Pair { tail, .. } = self.pairs[index];
        self.memory.put(self.sq(queue) + u64::from(tail) * size_of::<Sqe>() as u64, sqe.with_cid(cid).as_bytes());
        self.pairs[index].tail = (tail + 1) % ENTRIES;
        self.ring(self.doorbells.sq_tail(QueueId(queue)), self.pairs[index].tail);
        loop {
            let Pair { head, phase, .. } = self.pairs[index];
            let place = self.cq(queue) + u64::from(head) * size_of::<Cqe>() as u64;
            let entry = |model: &mut Self| {
                let bytes = model.memory.range(place, size_of::<Cqe>())?;
                Cqe::read_from_bytes(bytes).ok().filter(|entry| entry.phase().bit() == phase)
            };
            self.wait(|model| entry(model).is_some())?;
            let found = entry(self).ok_or_else(silent)?;
            let head = (head + 1) % ENTRIES;
            self.pairs[index].head = head;
            self.pairs[index].phase = phase != (head == 0);
            self.ring(self.doorbells.cq_head(QueueId(queue)), head);
            // Another identifier is that of a command given up, or of none.
            if found.cid() == cid {
                return Ok(found);
            }
        }
    }

    /// Lets time pass until `is_over`.
    fn wait(&mut self, mut is_over: impl FnMut(&mut Self) -> bool) -> Result<(), Refused> {
        let begin_ns = self.now_ns();
        loop {
            let now_ns = self.now_ns();
            self.device.advance(now_ns, &mut self.memory);
            if is_over(self) {
                return Ok(());
            }
            let next = self.device.next_event_ns().filter(|at_ns| at_ns.saturating_sub(begin_ns) < PATIENCE_NS);
            self.now_ns = next.ok_or_else(silent)?.max(now_ns);
        }
    }

    fn now_ns(&mut self) -> u64 {
        let real_ns = u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.now_ns = self.now_ns.max(real_ns);
        self.now_ns
    }

    const fn sq(&self, queue: u16) -> u64 {
        (1 + 2 * queue as u64) * self.page_bytes
    }

    const fn cq(&self, queue: u16) -> u64 {
        (2 + 2 * queue as u64) * self.page_bytes
    }

    fn csts(&mut self) -> Csts {
        Csts::from_bits(self.read(Register::Csts, 4) as u32)
    }

    fn read(&mut self, register: Register, size: usize) -> u64 {
        let now_ns = self.now_ns();
        let mut bytes = [0; 8];
        self.device.bar_read(0, register.offset() as u64, &mut bytes[..size], now_ns);
        u64::from_le_bytes(bytes)
    }

    fn write(&mut self, register: Register, value: u32) {
        self.write_at(register.offset(), &value.to_le_bytes());
    }

    fn write_at(&mut self, offset: usize, bytes: &[u8]) {
        let now_ns = self.now_ns();
        self.device.bar_write(0, offset as u64, bytes, now_ns, &mut self.memory);
    }

    fn ring(&mut self, offset: Option<usize>, value: u16) {
        if let Some(offset) = offset {
            self.write_at(offset, &u32::from(value).to_le_bytes());
        }
    }

    /// Describes the data pages to the controller; pages follow each other in memory.
    fn pointer(&mut self, bytes: u64) -> DataPointer {
        let first = DATA_PAGE * self.page_bytes;
        let page = |index: u64| first + index * self.page_bytes;
        match bytes.div_ceil(self.page_bytes) {
            0 => DataPointer::NONE,
            1 => DataPointer::page(first),
            2 => DataPointer { prp1: first, prp2: page(1) },
            pages => {
                let list = LIST_PAGE * self.page_bytes;
                (1..pages)
                    .for_each(|index| self.memory.put(list + (index - 1) * PRP_BYTES, &page(index).to_le_bytes()));
                DataPointer { prp1: first, prp2: list }
            }
        }
    }
}

/// The list of the longest data fits into one page.
const _: () = assert!(MOST_DATA as u64 / 4096 * PRP_BYTES <= 4096);

impl FarEnd for Model {
    fn execute(&mut self, command: &Command, data: &Data) -> Result<Completion, Refused> {
        let bytes = data.bytes().min(MOST_DATA as usize);
        let place = DATA_PAGE * self.page_bytes;
        match data {
            Data::Out(sent) => self.memory.put(place, &sent[..bytes]),
            Data::In(_) | Data::None => self.memory.put(place, &vec![0; bytes]),
        }
        let pointer = self.pointer(bytes as u64);
        let [cdw10, cdw11, cdw12, cdw13, cdw14, cdw15] = command.cdw10;
        let [cdw2, cdw3] = command.cdw2;
        let sqe = Sqe::new(command.opcode, Cid(0), Nsid(command.nsid), pointer);
        let sqe = Sqe { cdw2, cdw3, cdw10, cdw11, cdw12, cdw13, cdw14, cdw15, ..sqe };
        let cqe = match self.submit(u16::from(command.queue == Queue::Io), sqe) {
            Ok(cqe) => cqe,
            Err(refused) => {
                // A command that was given up may write to memory until the controller is reset.
                let _ = self.enable();
                return Err(refused);
            }
        };
        let read = match data {
            Data::In(_) if cqe.status().is_success() => self.memory.range(place, bytes).map(|bytes| bytes.to_vec()),
            _ => None,
        };
        let result = u64::from(cqe.dw1) << 32 | u64::from(cqe.dw0);
        Ok(Completion { status: cqe.status().to_raw(), result, data: read.unwrap_or_default() })
    }

    fn reset(&mut self) -> Result<(), Refused> {
        self.enable()
    }

    fn reset_subsystem(&mut self) -> Result<(), Refused> {
        if !self.cap.nssrs() {
            return Err(Refused(
                Refusal::Unsupported,
                "the controller has no subsystem reset (CAP.NSSRS is 0): reset it with nvme reset /dev/nvme0".into(),
            ));
        }
        self.write(Register::Nssr, NSSR_RESET);
        self.enable()
    }

    fn registers(&mut self) -> Vec<u8> {
        let mut snapshot = Snapshot::default();
        self.device.snapshot(self.now_ns, &mut snapshot);
        let [registers, ..] = snapshot.bars;
        let mut bytes = registers.bytes;
        bytes.resize(DOORBELL_BASE, 0);
        bytes
    }
}
