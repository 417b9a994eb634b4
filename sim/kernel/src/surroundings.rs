//! A kernel around a component that is tested alone: its first thread stands for the component's supervisor and peers. It
//! has one endpoint and one notification, bound to it; badges identify the component's messages and signals.

use crate::delivery::Delivery;
use crate::kernel::Kernel;
use crate::{Arch, Invoker, Iommu, MachineConfig, RootTask, Rules};
use core::cell::RefCell;
use core::ops::Range;
use platform::{AbsoluteCPtr, Badge, CPtr, Cap, CapData, Kernel as _, ObjectType, Rights, Tcb, Untyped, Vaddr};
use std::rc::Rc;

const RAM: Range<u64> = 0x10_0000..0x100_0000;
/// log2 of the slots of a component's CSpace in [`Surroundings`].
pub const CNODE_BITS: u8 = 6;
const IPC_BUFFER: Vaddr = Vaddr::new(0x1010_0000);

/// A capability that a component starts with: its cptr, the object in the first thread's CSpace, the rights and the badge.
pub type Given = (u64, CPtr, Rights, Badge);

/// The kernel, and its first thread.
#[derive(Debug)]
pub struct Surroundings {
    invoker: Invoker,
    root: RootTask,
    ram: Cap<Untyped>,
    endpoint: CPtr,
    notification: CPtr,
}

impl Surroundings {
    /// A kernel with nothing but its first thread.
    ///
    /// # Panics
    /// Never: there is memory for it.
    #[must_use]
    pub fn new() -> Self {
        let (kernel, root) = Kernel::boot(MachineConfig {
            arch: Arch::X86_64,
            rules: Rules::CORRECTED,
            ram: vec![RAM],
            device: vec![],
            iommu: Iommu::Absent,
            payload: vec![],
            cnode_bits: 8,
            kernel_bytes: 0,
        });
        let invoker = Invoker::new(Rc::new(RefCell::new(kernel)), root.thread);
        let ram = root.untypeds.iter().max_by_key(|untyped| untyped.size_bits).expect("memory").cptr;
        let none = CPtr::new(0);
        let mut this = Self { invoker, root, ram, endpoint: none, notification: none };
        this.endpoint = this.make(ObjectType::Endpoint, 0);
        this.notification = this.make(ObjectType::Notification, 0);
        let bound = this.invoker.tcb_bind_notification(this.root.tcb, this.notification.cast());
        bound.expect("a thread and a notification");
        this
    }

    /// The first thread's endpoint.
    #[must_use]
    pub const fn endpoint(&self) -> CPtr {
        self.endpoint
    }

    /// The first thread's notification.
    #[must_use]
    pub const fn notification(&self) -> CPtr {
        self.notification
    }

    /// The next signal or message for the first thread, if there is one.
    #[must_use]
    pub fn receive(&self) -> Option<Delivery> {
        let kernel = &mut *self.invoker.kernel().borrow_mut();
        kernel.nb_receive(self.root.thread, self.endpoint);
        kernel.take(self.root.thread).filter(|delivery| *delivery != Delivery::Nothing)
    }

    /// The first thread's invoker.
    #[must_use]
    pub const fn invoker(&self) -> &Invoker {
        &self.invoker
    }

    /// Makes an object and returns its cptr in the first thread's CSpace.
    ///
    /// # Panics
    /// When cptrs or memory are used up.
    pub fn make(&mut self, kind: ObjectType, size_bits: u8) -> CPtr {
        let cptr = self.root.free_cptrs.next().expect("a free cptr");
        let made = self.invoker.untyped_retype(self.ram, kind, size_bits, self.root.cnode, cptr..cptr + 1);
        made.expect("memory for an object");
        CPtr::new(cptr)
    }

    /// Makes a component with these capabilities and returns its thread's invoker.
    ///
    /// # Panics
    /// When cptrs or memory are used up, or the kernel refuses to mint one of them.
    pub fn component(&mut self, given: &[Given]) -> Invoker {
        let cnode = self.make(ObjectType::CNode, CNODE_BITS).cast();
        for &(cptr, object, rights, badge) in given {
            let dest = AbsoluteCPtr { root: cnode, index: cptr, depth: CNODE_BITS };
            let src = AbsoluteCPtr { root: self.root.cnode, index: object.bits(), depth: 64 };
            self.invoker.cnode_mint(dest, src, rights, CapData::Badge(badge)).expect("a capability to give");
        }
        let tcb: Cap<Tcb> = self.make(ObjectType::Tcb, 0).cast();
        let buffer = self.make(ObjectType::SmallPage, 0).cast();
        let (none, guard, vspace) = (CPtr::new(0), 64 - CNODE_BITS, self.root.vspace);
        let configured = self.invoker.tcb_configure(tcb, none, 1, cnode, guard, vspace, IPC_BUFFER, buffer);
        configured.and_then(|()| self.invoker.tcb_resume(tcb)).expect("a thread to run");
        let thread = self.invoker.kernel().borrow().thread_of(self.root.thread, tcb).expect("a thread");
        self.invoker.of(thread)
    }
}

impl Default for Surroundings {
    fn default() -> Self {
        Self::new()
    }
}
