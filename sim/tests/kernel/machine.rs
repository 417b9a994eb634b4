//! A small machine for the tests, and short ways to make objects in it. The kernel's state is checked after every step that
//! goes through here.

use platform::*;
use sim_kernel::{Delivery, Kernel, MachineConfig, RootTask, ThreadId};

/// log2 of the slots of the root task's CNode.
pub(crate) const CNODE_BITS: u8 = 9;
/// log2 of the slots of every other CNode.
pub(crate) const SMALL_CNODE_BITS: u8 = 4;

/// A booted machine and its next free slot.
pub(crate) struct Machine {
    pub(crate) kernel: Kernel,
    pub(crate) root: RootTask,
    pub(crate) me: ThreadId,
    next_slot: u64,
    /// The untyped that all objects are made from.
    pub(crate) untyped: Cap<Untyped>,
}

/// A thread with its own CSpace.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Component {
    pub(crate) thread: ThreadId,
    pub(crate) tcb: Cap<Tcb>,
    pub(crate) cnode: Cap<CNode>,
    pub(crate) vspace: Cap<VSpace>,
}

impl Machine {
    pub(crate) fn new() -> Self {
        Self::with(|_| {})
    }

    pub(crate) fn with(change: impl FnOnce(&mut MachineConfig)) -> Self {
        let mut config = MachineConfig::q35(16 << 20, b"payload".to_vec());
        config.cnode_bits = CNODE_BITS;
        config.kernel_bytes = 1 << 20;
        change(&mut config);
        let (kernel, root) = Kernel::boot(config);
        kernel.check_invariants().unwrap();
        let memory = root.untypeds.iter().filter(|untyped| !untyped.is_device);
        let untyped = memory.max_by_key(|untyped| untyped.size_bits).unwrap().cptr;
        let (me, next_slot) = (root.thread, root.free_cptrs.start);
        Self { kernel, root, me, next_slot, untyped }
    }

    pub(crate) fn slot(&mut self) -> u64 {
        self.next_slot += 1;
        self.next_slot - 1
    }

    /// The root task's slot `cptr`, in the form for CNode invocations.
    pub(crate) fn at(&self, cptr: CPtr) -> AbsoluteCPtr {
        AbsoluteCPtr { root: self.root.cnode, index: cptr.bits(), depth: 64 }
    }

    /// The slot `index` of another CNode.
    pub(crate) fn in_cnode(&self, root: Cap<CNode>, index: u64) -> AbsoluteCPtr {
        AbsoluteCPtr { root, index, depth: SMALL_CNODE_BITS }
    }

    pub(crate) fn make<T: CapType>(&mut self, object_type: ObjectType, size_bits: u8) -> Cap<T> {
        let slot = self.slot();
        let cnode = self.root.cnode;
        self.kernel.untyped_retype(self.me, self.untyped, object_type, size_bits, cnode, slot..slot + 1).unwrap();
        self.check();
        CPtr::new(slot).cast()
    }

    pub(crate) fn copy<T: CapType>(&mut self, cap: Cap<T>, rights: Rights) -> Result<Cap<T>> {
        let to = CPtr::new(self.slot());
        let copied = self.kernel.cnode_copy(self.me, self.at(to), self.at(cap.cptr()), rights);
        self.check();
        copied.map(|()| to.cast())
    }

    pub(crate) fn mint<T: CapType>(&mut self, cap: Cap<T>, rights: Rights, data: CapData) -> Result<Cap<T>> {
        let to = CPtr::new(self.slot());
        let minted = self.kernel.cnode_mint(self.me, self.at(to), self.at(cap.cptr()), rights, data);
        self.check();
        minted.map(|()| to.cast())
    }

    /// Copies into slot `index` of another CNode.
    pub(crate) fn give<T: CapType>(&mut self, cnode: Cap<CNode>, index: u64, cap: Cap<T>, rights: Rights) -> CPtr {
        let dest = self.in_cnode(cnode, index);
        self.kernel.cnode_copy(self.me, dest, self.at(cap.cptr()), rights).unwrap();
        self.check();
        CPtr::new(index)
    }

    pub(crate) fn delete(&mut self, cptr: CPtr) -> Result<()> {
        let deleted = self.kernel.cnode_delete(self.me, self.at(cptr));
        self.check();
        deleted
    }

    pub(crate) fn revoke(&mut self, cptr: CPtr) -> Result<()> {
        let revoked = self.kernel.cnode_revoke(self.me, self.at(cptr));
        self.check();
        revoked
    }

    /// A VSpace with structures for the first 2 MiB.
    pub(crate) fn vspace(&mut self) -> Cap<VSpace> {
        let vspace = self.make::<VSpace>(ObjectType::VSpace, 0);
        self.kernel.asid_pool_assign(self.me, self.root.asid_pool, vspace).unwrap();
        let (pdpt, directory) = (
            self.make(ObjectType::TranslationTable(TableLevel::One), 0),
            self.make(ObjectType::TranslationTable(TableLevel::Two), 0),
        );
        let table = self.make(ObjectType::TranslationTable(TableLevel::Three), 0);
        self.kernel.translation_table_map(self.me, pdpt, TableLevel::One, vspace, Vaddr::new(0)).unwrap();
        self.kernel.translation_table_map(self.me, directory, TableLevel::Two, vspace, Vaddr::new(0)).unwrap();
        self.kernel.translation_table_map(self.me, table, TableLevel::Three, vspace, Vaddr::new(0)).unwrap();
        self.check();
        vspace
    }

    /// A component of this priority that runs.
    pub(crate) fn component(&mut self, priority: u8, fault_endpoint: CPtr) -> Component {
        const BUFFER: Vaddr = Vaddr::new(0x10_0000);
        let (vspace, cnode) = (self.vspace(), self.make::<CNode>(ObjectType::CNode, SMALL_CNODE_BITS));
        let frame = self.make::<Frame>(ObjectType::SmallPage, 0);
        let rights = Rights::READ_WRITE;
        let (me, kernel) = (self.me, &mut self.kernel);
        kernel.frame_map(me, frame, vspace, BUFFER, rights, CacheAttributes::WriteBack).unwrap();
        let tcb = self.make::<Tcb>(ObjectType::Tcb, 0);
        let guard = 64 - SMALL_CNODE_BITS;
        let kernel = &mut self.kernel;
        kernel.tcb_configure(me, tcb, fault_endpoint, priority, cnode, guard, vspace, BUFFER, frame).unwrap();
        let context = UserContext { instruction_pointer: 0x40_0000, stack_pointer: 0x8000, arguments: [1, 2, 3] };
        kernel.tcb_write_registers(me, tcb, Resume::Now, &context).unwrap();
        let thread = kernel.thread_of(me, tcb).unwrap();
        self.check();
        Component { thread, tcb, cnode, vspace }
    }

    pub(crate) fn check(&self) {
        self.kernel.check_invariants().unwrap();
    }

    pub(crate) fn take(&mut self, thread: ThreadId) -> Option<Delivery> {
        self.check();
        self.kernel.take(thread)
    }
}
