//! The stage: objects and memory that sequences find when they begin, made by the same invocations on every kernel.
//!
//! Once per machine, [`Stage::build`] divides one untyped into three parts: memory for sequences, memory for objects that
//! are recreated for each ([`Stage::begin`], [`Stage::end`]), and a permanent part. The permanent part is mapped memory for
//! journal, stacks and IPC buffers, and the lowest thread of all. That thread signals for ever, so it ends a wait of the
//! root thread ([`crate::Op::Settle`]) as soon as no other thread can run. Its notification is bound to the root thread, so
//! it ends waits at endpoints likewise.
//!
//! Left out: the programs of the threads.

use crate::Answer;
use crate::invoke::CSpaceLayout;
use crate::op::{HELPERS, Slot};
use alloc::vec::Vec;
use core::ops::Range;
use platform::{
    AbsoluteCPtr, AsidControl, AsidPool, Badge, CNode, CPtr, CacheAttributes, Cap, CapData, Error, Frame, IoPort,
    IoSpace, IrqControl, Kernel, Notification, ObjectType, PAGE_SIZE, Paddr, Rights, TableLevel, Tcb, Untyped,
    UserContext, VSpace, Vaddr,
};

/// Slots of the root thread's CSpace that sequences use.
pub const SLOTS: u16 = 128;
/// log2 of the bytes of the untypeds that sequences find in [`MEMORY`].
pub const MEMORY_BITS: [u8; 4] = [22, 16, 14, 12];
/// log2 of the bytes of the device untyped that sequences find in [`DEVICE`].
pub const DEVICE_BITS: u8 = 16;
/// Slots of the untypeds.
pub const MEMORY: [Slot; 4] = [Slot(1), Slot(2), Slot(3), Slot(4)];
/// Slot of the device untyped.
pub const DEVICE: Slot = Slot(5);
/// Slots of the helpers' TCBs.
pub const HELPER_TCB: [Slot; HELPERS] = [Slot(6), Slot(7), Slot(8)];
/// Slots of the helpers' CNodes.
pub const HELPER_CNODE: [Slot; HELPERS] = [Slot(9), Slot(10), Slot(11)];
/// The first slot that sequences find empty, except [`Slot::EMPTY`].
pub const FIRST_FREE: u16 = 12;

/// log2 of the slots of a helper's CNode.
pub const HELPER_CNODE_BITS: u8 = 5;
/// Slot of a helper's own CNode in its CSpace.
pub const OWN_CNODE: u16 = 1;
/// Slot of its own TCB, with which it ends.
pub const OWN_TCB: u16 = 2;
/// Slot of its fault endpoint.
pub const FAULT_ENDPOINT: u16 = 3;
/// The first slot of a helper's CSpace that is empty and free to use.
pub const HELPER_FREE: u16 = 4;
/// Slot of the lowest thread's notification.
pub const LOWEST_SIGNAL: u16 = 4;

/// The badge of the signal that no other thread can run.
pub const SETTLED: Badge = Badge(Badge::SIGNAL | 1);

/// Threads beside the root thread: the helpers, then the lowest.
pub const WORKERS: usize = HELPERS + 1;
/// Bytes of the journal's memory.
pub const JOURNAL_BYTES: u64 = 64 * PAGE;
/// Bytes of the memory behind it, where the sequence being played lies.
pub const SCRIPT_BYTES: u64 = 16 * PAGE;
/// Bytes of a worker's stack; an unmapped page lies below each.
pub const STACK_BYTES: u64 = 15 * PAGE;
const PAGE: u64 = PAGE_SIZE as u64;
const STACK_SPAN: u64 = STACK_BYTES + PAGE;
/// Offsets in the root thread's mapping area. Its first 2 MiB are the stage's, the rest is for sequences.
const STACKS: u64 = JOURNAL_BYTES + SCRIPT_BYTES;
const BUFFERS: u64 = STACKS + WORKERS as u64 * STACK_SPAN;
/// Start of the mapping area.
pub const MAPPING_AREA: u64 = 0x4000_0000;
/// The first address in the mapping area where nothing is mapped, no table either.
pub const OPEN: u64 = MAPPING_AREA + 0x1000_0000;

const LOWEST_PRIORITY: u8 = 1;
/// log2 of the bytes of the untyped that is divided.
const ALL_BITS: u8 = 24;
/// log2 of the bytes for the objects that are recreated for each sequence.
const FRESH_BITS: u8 = 14;
/// The depth that finds a slot of the root thread's CSpace.
const DEPTH: u8 = 64;
const HELPER_GUARD_BITS: u8 = 64 - HELPER_CNODE_BITS;

/// The root thread's capabilities from boot.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the names of the capabilities say it")]
pub struct Boot {
    pub untypeds: Vec<BootUntyped>,
    pub free_cptrs: Range<u64>,
    pub cnode: Cap<CNode>,
    pub vspace: Cap<VSpace>,
    pub tcb: Cap<Tcb>,
    pub asid_pool: Cap<AsidPool>,
    pub asid_control: Cap<AsidControl>,
    pub irq_control: Cap<IrqControl>,
    pub io_ports: Cap<IoPort>,
    pub io_spaces: Cap<IoSpace>,
}

/// An untyped from boot.
#[derive(Clone, Copy, Debug)]
pub struct BootUntyped {
    /// The capability.
    pub cap: Cap<Untyped>,
    /// The untyped's physical address.
    pub paddr: Paddr,
    /// log2 of its bytes.
    pub size_bits: u8,
    /// Whether the untyped is device memory.
    pub is_device: bool,
}

/// The memory of the untypeds that sequences find: those of [`MEMORY`], then [`DEVICE`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Ground([(Paddr, u8); 5]);

impl Ground {
    /// `paddr` in the form that answers have.
    #[must_use]
    pub fn answer(&self, paddr: Paddr) -> Answer {
        let inside = |(number, (start, bits)): (usize, &(Paddr, u8))| {
            let offset = paddr.bits().checked_sub(start.bits())?;
            (offset >> bits == 0).then_some(Answer::Address(number as u8, offset))
        };
        self.0.iter().enumerate().find_map(inside).unwrap_or(Answer::Elsewhere)
    }
}

/// The step that failed, and the kernel's error.
#[derive(Clone, Copy, Debug)]
pub struct Failure(pub &'static str, pub Option<Error>);

type Result<T> = core::result::Result<T, Failure>;

fn step<T>(what: &'static str, result: platform::Result<T>) -> Result<T> {
    result.map_err(|error| Failure(what, Some(error)))
}

/// The stage.
#[derive(Debug)]
pub struct Stage {
    boot: Boot,
    next_slot: u64,
    /// The first slot for sequences.
    first: u64,
    memory: [Cap<Untyped>; 4],
    device: Cap<Untyped>,
    fresh: Cap<Untyped>,
    fresh_slots: u64,
    notification: Cap<Notification>,
    buffers: u64,
    lowest: (Cap<Tcb>, Cap<CNode>),
    /// The location of the memory for sequences.
    pub ground: Ground,
}

impl Stage {
    /// Sets the stage.
    ///
    /// # Errors
    /// The step that failed; nothing is undone.
    pub fn build<K: Kernel>(kernel: &K, boot: Boot) -> Result<Self> {
        let is_usable = |u: &&BootUntyped| !u.is_device && u.size_bits >= ALL_BITS;
        let all = *boot.untypeds.iter().find(is_usable).ok_or(Failure("finding memory", None))?;
        // An answer without an address reads as address 0, which must be nowhere.
        let is_usable = |u: &&BootUntyped| u.is_device && u.size_bits >= DEVICE_BITS && u.paddr != Paddr::default();
        let registers = *boot.untypeds.iter().find(is_usable).ok_or(Failure("finding device memory", None))?;
        let first = boot.free_cptrs.start;
        let zero = (Paddr::default(), 0);
        let mut stage = Self {
            next_slot: first + u64::from(SLOTS),
            first,
            memory: [Cap::from_bits(0); 4],
            device: Cap::from_bits(0),
            fresh: Cap::from_bits(0),
            fresh_slots: 0,
            notification: Cap::from_bits(0),
            buffers: 0,
            lowest: (Cap::from_bits(0), Cap::from_bits(0)),
            ground: Ground([zero; 5]),
            boot,
        };
        stage.divide(kernel, &all, &registers)?;
        stage.map_memory(kernel, all.cap)?;
        stage.make_lowest(kernel, all.cap)?;
        Ok(stage)
    }

    /// The root thread's CSpace.
    #[must_use]
    pub fn layout(&self) -> CSpaceLayout {
        CSpaceLayout::Root { first: self.first, boot: self.boot.clone() }
    }

    /// A helper's CSpace.
    #[must_use]
    pub const fn helper_layout() -> CSpaceLayout {
        CSpaceLayout::Helper { cnode: OWN_CNODE }
    }

    /// The notification that the lowest thread signals, where the root thread waits for it.
    #[must_use]
    pub const fn notification(&self) -> CPtr {
        self.notification.cptr()
    }

    /// The thread that ends the root thread's waits.
    #[must_use]
    pub const fn lowest(&self) -> Cap<Tcb> {
        self.lowest.0
    }

    /// The address of a worker's IPC buffer.
    #[must_use]
    pub const fn buffer(worker: usize) -> Vaddr {
        Vaddr::new(MAPPING_AREA + BUFFERS + worker as u64 * PAGE)
    }

    /// The upper end of a worker's stack.
    #[must_use]
    pub const fn stack_top(worker: usize) -> Vaddr {
        Vaddr::new(MAPPING_AREA + STACKS + (worker as u64 + 1) * STACK_SPAN)
    }

    /// Makes all that a sequence finds, with helpers of these priorities. None of them runs yet.
    ///
    /// # Errors
    /// As [`Stage::build`].
    pub fn begin<K: Kernel>(&self, kernel: &K, priorities: [u8; HELPERS]) -> Result<()> {
        for (untyped, slot) in self.memory.iter().chain([&self.device]).zip(MEMORY.iter().chain([&DEVICE])) {
            step("giving memory", kernel.cnode_copy(self.own(*slot), self.at(untyped.bits()), Rights::ALL))?;
        }
        let tcbs = self.fresh_slots..self.fresh_slots + HELPERS as u64;
        let cnodes = tcbs.end..tcbs.end + HELPERS as u64;
        let made = kernel.untyped_retype(self.fresh, ObjectType::Tcb, 0, self.boot.cnode, tcbs.clone());
        step("making the helpers' threads", made)?;
        let made =
            kernel.untyped_retype(self.fresh, ObjectType::CNode, HELPER_CNODE_BITS, self.boot.cnode, cnodes.clone());
        step("making the helpers' CNodes", made)?;
        for (helper, (tcb, cnode)) in tcbs.zip(cnodes).enumerate() {
            self.fill(kernel, Cap::from_bits(tcb), Cap::from_bits(cnode))?;
            let slots = HELPER_TCB.get(helper).zip(HELPER_CNODE.get(helper)).zip(priorities.get(helper));
            let ((tcb_slot, cnode_slot), priority) = slots.ok_or(Failure("counting helpers", None))?;
            self.configure(kernel, helper, Cap::from_bits(tcb), Cap::from_bits(cnode), *priority)?;
            step("giving a thread", kernel.cnode_copy(self.own(*tcb_slot), self.at(tcb), Rights::ALL))?;
            step("giving a CNode", kernel.cnode_copy(self.own(*cnode_slot), self.at(cnode), Rights::ALL))?;
        }
        Ok(())
    }

    /// Removes all that a sequence was given or made.
    ///
    /// # Errors
    /// As [`Stage::build`].
    pub fn end<K: Kernel>(&self, kernel: &K) -> Result<()> {
        let untypeds = self.memory.iter().chain([&self.device, &self.fresh]).map(|cap| cap.bits());
        for parent in untypeds.chain([self.boot.irq_control.bits(), self.boot.io_spaces.bits()]) {
            step("taking things back", kernel.cnode_revoke(self.at(parent)))?;
        }
        for slot in self.first..self.first + u64::from(SLOTS) {
            step("emptying a slot", kernel.cnode_delete(self.at(slot)))?;
        }
        Ok(())
    }

    /// Starts the lowest thread.
    ///
    /// # Errors
    /// As [`Stage::build`].
    pub fn start_lowest<K: Kernel>(&self, kernel: &K, context: &UserContext) -> Result<()> {
        let (tcb, cnode) = self.lowest;
        self.configure(kernel, HELPERS, tcb, cnode, LOWEST_PRIORITY)?;
        step("starting the lowest thread", kernel.tcb_write_registers(tcb, platform::Resume::Now, context))
    }

    /// Memory, large pieces first so that nothing is lost between them.
    fn divide<K: Kernel>(&mut self, kernel: &K, all: &BootUntyped, registers: &BootUntyped) -> Result<()> {
        let mut at = all.paddr.bits();
        let [large, medium, small, page] = MEMORY_BITS;
        let mut caps = [Cap::from_bits(0); 5];
        for (cap, (bits, number)) in caps.iter_mut().zip([
            (large, Some(0)),
            (medium, Some(1)),
            (FRESH_BITS, None),
            (small, Some(2)),
            (page, Some(3)),
        ]) {
            *cap = self.make(kernel, all.cap, ObjectType::Untyped, bits, 1)?.cast();
            if let Some(ground) = number.and_then(|number: usize| self.ground.0.get_mut(number)) {
                *ground = (Paddr::new(at), bits);
            }
            at = at.wrapping_add(1 << bits);
        }
        let [first, second, fresh, third, fourth] = caps;
        self.memory = [first, second, third, fourth];
        self.fresh = fresh;
        self.device = self.make(kernel, registers.cap, ObjectType::Untyped, DEVICE_BITS, 1)?.cast();
        if let Some(ground) = self.ground.0.last_mut() {
            *ground = (registers.paddr, DEVICE_BITS);
        }
        self.fresh_slots = self.slots(2 * HELPERS as u64);
        Ok(())
    }

    /// Journal, script, stacks and IPC buffers.
    fn map_memory<K: Kernel>(&mut self, kernel: &K, all: Cap<Untyped>) -> Result<()> {
        let directory = self.make(kernel, all, ObjectType::TranslationTable(TableLevel::Two), 0, 1)?;
        let mapping_area = Vaddr::new(MAPPING_AREA);
        let mapped = kernel.translation_table_map(directory.cast(), TableLevel::Two, self.boot.vspace, mapping_area);
        step("mapping the mapping area's table of the second level", mapped)?;
        let table = self.make(kernel, all, ObjectType::TranslationTable(TableLevel::Three), 0, 1)?;
        let mapped = kernel.translation_table_map(table.cast(), TableLevel::Three, self.boot.vspace, mapping_area);
        step("mapping the mapping area's table of the last level", mapped)?;
        self.map(kernel, all, 0, (JOURNAL_BYTES + SCRIPT_BYTES) / PAGE)?;
        for worker in 0..WORKERS as u64 {
            self.map(kernel, all, STACKS + worker * STACK_SPAN + PAGE, STACK_BYTES / PAGE)?;
        }
        self.buffers = self.map(kernel, all, BUFFERS, WORKERS as u64)?;
        Ok(())
    }

    fn map<K: Kernel>(&mut self, kernel: &K, all: Cap<Untyped>, offset: u64, pages: u64) -> Result<u64> {
        let first = self.make(kernel, all, ObjectType::SmallPage, 0, pages)?.bits();
        for page in 0..pages {
            let (frame, vaddr) =
                (Cap::<Frame>::from_bits(first + page), Vaddr::new(MAPPING_AREA + offset + page * PAGE));
            let cache = CacheAttributes::WriteBack;
            step("mapping", kernel.frame_map(frame, self.boot.vspace, vaddr, Rights::READ_WRITE, cache))?;
        }
        Ok(first)
    }

    fn make_lowest<K: Kernel>(&mut self, kernel: &K, all: Cap<Untyped>) -> Result<()> {
        let tcb: Cap<Tcb> = self.make(kernel, all, ObjectType::Tcb, 0, 1)?.cast();
        let cnode: Cap<CNode> = self.make(kernel, all, ObjectType::CNode, HELPER_CNODE_BITS, 1)?.cast();
        self.notification = self.make(kernel, all, ObjectType::Notification, 0, 1)?.cast();
        self.fill(kernel, tcb, cnode)?;
        let dest = AbsoluteCPtr { root: cnode, index: u64::from(LOWEST_SIGNAL), depth: HELPER_CNODE_BITS };
        let src = self.at(self.notification.bits());
        let minted = kernel.cnode_mint(dest, src, Rights::ALL, CapData::Badge(SETTLED));
        step("giving the lowest thread its notification", minted)?;
        let bound = kernel.tcb_bind_notification(self.boot.tcb, self.notification);
        step("binding the lowest thread's notification", bound)?;
        self.lowest = (tcb, cnode);
        Ok(())
    }

    /// Puts the capabilities that every worker has into its CNode.
    fn fill<K: Kernel>(&self, kernel: &K, tcb: Cap<Tcb>, cnode: Cap<CNode>) -> Result<()> {
        let inside = |slot: u16| AbsoluteCPtr { root: cnode, index: u64::from(slot), depth: HELPER_CNODE_BITS };
        // Without a guard CNode invocations reach its slots by their own few bits, with it by a whole word.
        let guard = CapData::Guard { size: HELPER_GUARD_BITS, value: 0 };
        let minted = kernel.cnode_mint(inside(OWN_CNODE), self.at(cnode.bits()), Rights::ALL, guard);
        step("giving a thread its CNode", minted)?;
        step("giving a thread itself", kernel.cnode_copy(inside(OWN_TCB), self.at(tcb.bits()), Rights::ALL))
    }

    fn configure<K: Kernel>(
        &self,
        kernel: &K,
        worker: usize,
        tcb: Cap<Tcb>,
        cnode: Cap<CNode>,
        priority: u8,
    ) -> Result<()> {
        let fault_endpoint = CPtr::new(u64::from(FAULT_ENDPOINT));
        let (buffer, frame) = (Self::buffer(worker), Cap::from_bits(self.buffers + worker as u64));
        let configured = kernel.tcb_configure(
            tcb,
            fault_endpoint,
            priority,
            cnode,
            HELPER_GUARD_BITS,
            self.boot.vspace,
            buffer,
            frame,
        );
        step("configuring a thread", configured)
    }

    fn make<K: Kernel>(
        &mut self,
        kernel: &K,
        untyped: Cap<Untyped>,
        object: ObjectType,
        size_bits: u8,
        count: u64,
    ) -> Result<CPtr> {
        let first = self.slots(count);
        let made = kernel.untyped_retype(untyped, object, size_bits, self.boot.cnode, first..first + count);
        step("making an object", made)?;
        Ok(CPtr::new(first))
    }

    fn slots(&mut self, count: u64) -> u64 {
        let first = self.next_slot;
        self.next_slot += count;
        first
    }

    fn own(&self, slot: Slot) -> AbsoluteCPtr {
        self.at(self.first + u64::from(slot.0))
    }

    const fn at(&self, slot: u64) -> AbsoluteCPtr {
        AbsoluteCPtr { root: self.boot.cnode, index: slot, depth: DEPTH }
    }
}
