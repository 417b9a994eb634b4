//! The model behind the seam's trait, for one thread: a component's code runs on it in its own tests.
//!
//! Left out: scheduling. A test makes the invocations of other threads, at the latest in [`Invoker::with_others`].

use crate::ThreadId;
use crate::delivery::Delivery;
use core::cell::{Cell, RefCell};
use core::fmt;
use core::future::poll_fn;
use core::ops::Range;
use core::task::Poll;
use platform::x86_64::PortIo;
use platform::{
    AbsoluteCPtr, AsidControl, AsidPool, CNode, CPtr, CacheAttributes, Cap, CapData, Endpoint, Error, Frame,
    IoPageTable, IoPort, IoSpace, Iova, IrqControl, IrqHandler, IrqSource, Kernel, Message, Notification, ObjectType,
    Paddr, Result, Resume, Rights, TableLevel, Tcb, TranslationTable, Untyped, UserContext, VSpace, Vaddr,
};
use std::rc::Rc;

/// A thread's access to the model.
#[derive(Clone)]
pub struct Invoker {
    kernel: Rc<RefCell<crate::kernel::Kernel>>,
    thread: ThreadId,
    invocations: Rc<Cell<u64>>,
    others: Rc<dyn Fn()>,
}

impl Invoker {
    /// The invoker of `thread`.
    #[must_use]
    pub fn new(kernel: Rc<RefCell<crate::kernel::Kernel>>, thread: ThreadId) -> Self {
        Self { kernel, thread, invocations: Rc::default(), others: Rc::new(|| ()) }
    }

    /// This invoker, with `others` run after each message and signal: in it a test makes the invocations of other threads.
    #[must_use]
    pub fn with_others(self, others: impl Fn() + 'static) -> Self {
        Self { others: Rc::new(others), ..self }
    }

    /// The invoker of another thread of the same kernel.
    #[must_use]
    pub fn of(&self, thread: ThreadId) -> Self {
        Self::new(Rc::clone(&self.kernel), thread)
    }

    /// The thread.
    #[must_use]
    pub const fn thread(&self) -> ThreadId {
        self.thread
    }

    /// The kernel.
    #[must_use]
    pub fn kernel(&self) -> &RefCell<crate::kernel::Kernel> {
        &self.kernel
    }

    /// Number of invocations and system calls of this invoker and its clones.
    #[must_use]
    pub fn invocations(&self) -> u64 {
        self.invocations.get()
    }

    /// Makes a system call that other threads may have been waiting for.
    fn reach(&self, act: impl FnOnce(&mut crate::kernel::Kernel, ThreadId)) {
        self.invocations.set(self.invocations.get() + 1);
        act(&mut self.kernel.borrow_mut(), self.thread);
        (self.others)();
    }
}

impl fmt::Debug for Invoker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Invoker").field("thread", &self.thread).finish_non_exhaustive()
    }
}

/// Implements methods by those of the model, with the thread before their arguments.
macro_rules! pass_on {
    ($($name:ident($($argument:ident: $kind:ty),* $(,)?) -> $result:ty;)*) => {$(
        #[allow(clippy::too_many_arguments, reason = "one invocation of the kernel, its arguments are given")]
        fn $name(&self, $($argument: $kind),*) -> $result {
            self.invocations.set(self.invocations.get() + 1);
            self.kernel.borrow_mut().$name(self.thread, $($argument),*)
        }
    )*};
}

impl Kernel for Invoker {
    pass_on! {
        untyped_retype(untyped: Cap<Untyped>, object_type: ObjectType, size_bits: u8, cnode: Cap<CNode>,
            cptrs: Range<u64>) -> Result<()>;
        cnode_copy(dest: AbsoluteCPtr, src: AbsoluteCPtr, rights: Rights) -> Result<()>;
        cnode_mint(dest: AbsoluteCPtr, src: AbsoluteCPtr, rights: Rights, data: CapData) -> Result<()>;
        cnode_move(dest: AbsoluteCPtr, src: AbsoluteCPtr) -> Result<()>;
        cnode_delete(cptr: AbsoluteCPtr) -> Result<()>;
        cnode_revoke(cptr: AbsoluteCPtr) -> Result<()>;
        cnode_save_caller(cptr: AbsoluteCPtr) -> Result<()>;
        tcb_configure(tcb: Cap<Tcb>, fault_endpoint: CPtr, priority: u8, cspace: Cap<CNode>, cspace_guard_bits: u8,
            vspace: Cap<VSpace>, ipc_buffer: Vaddr, ipc_buffer_frame: Cap<Frame>) -> Result<()>;
        tcb_write_registers(tcb: Cap<Tcb>, resume: Resume, context: &UserContext) -> Result<()>;
        tcb_read_registers(tcb: Cap<Tcb>) -> Result<UserContext>;
        tcb_resume(tcb: Cap<Tcb>) -> Result<()>;
        tcb_suspend(tcb: Cap<Tcb>) -> Result<()>;
        tcb_bind_notification(tcb: Cap<Tcb>, notification: Cap<Notification>) -> Result<()>;
        asid_control_make_pool(control: Cap<AsidControl>, untyped: Cap<Untyped>, dest: AbsoluteCPtr) -> Result<()>;
        asid_pool_assign(pool: Cap<AsidPool>, vspace: Cap<VSpace>) -> Result<()>;
        translation_table_map(table: Cap<TranslationTable>, level: TableLevel, vspace: Cap<VSpace>,
            vaddr: Vaddr) -> Result<()>;
        frame_map(frame: Cap<Frame>, vspace: Cap<VSpace>, vaddr: Vaddr, rights: Rights,
            attributes: CacheAttributes) -> Result<()>;
        frame_unmap(frame: Cap<Frame>) -> Result<()>;
        frame_get_address(frame: Cap<Frame>) -> Result<Paddr>;
        frame_map_io(frame: Cap<Frame>, io_space: Cap<IoSpace>, rights: Rights, iova: Iova) -> Result<()>;
        io_page_table_map(table: Cap<IoPageTable>, io_space: Cap<IoSpace>, iova: Iova) -> Result<()>;
        io_page_table_unmap(table: Cap<IoPageTable>) -> Result<()>;
        irq_control_get(control: Cap<IrqControl>, dest: AbsoluteCPtr, source: IrqSource, irq: u8) -> Result<()>;
        irq_handler_ack(handler: Cap<IrqHandler>) -> Result<()>;
        irq_handler_set_notification(handler: Cap<IrqHandler>, notification: Cap<Notification>) -> Result<()>;
        irq_handler_clear(handler: Cap<IrqHandler>) -> Result<()>;
    }

    fn signal(&self, notification: Cap<Notification>) {
        self.reach(|kernel, thread| kernel.signal(thread, notification));
    }

    fn send(&self, dest: CPtr, message: &Message) {
        self.reach(|kernel, thread| kernel.send(thread, dest, message));
    }

    fn nb_send(&self, dest: CPtr, message: &Message) {
        self.reach(|kernel, thread| kernel.nb_send(thread, dest, message));
    }

    fn reply(&self, message: &Message) {
        self.reach(|kernel, thread| kernel.reply(thread, message));
    }

    fn msi_message(&self, irq: u8) -> (u64, u32) {
        self.kernel.borrow().msi_message(irq)
    }

    fn irq_count(&self) -> u8 {
        self.kernel.borrow().irq_count()
    }

    async fn call(&self, endpoint: Cap<Endpoint>, message: &Message) -> Message {
        loop {
            self.reach(|kernel, thread| kernel.call(thread, endpoint.cptr(), message));
            let ended = || self.kernel.borrow_mut().take(self.thread);
            match poll_fn(|_| ended().map_or(Poll::Pending, Poll::Ready)).await {
                Delivery::Reply(answer) => return *answer,
                Delivery::Restart => {}
                other => panic!("a call that ends with {other:?}"),
            }
        }
    }
}

impl Invoker {
    fn ports(&self, ports: Cap<IoPort>, port: u16, bytes: u8) -> core::result::Result<(), Error> {
        self.kernel.borrow_mut().ioport_allowed(self.thread, ports, port, bytes)
    }
}

impl PortIo for Invoker {
    // The model knows the ports of a capability, but no devices behind them: reads return zeros, writes have no effect.
    fn ioport_in8(&self, ports: Cap<IoPort>, port: u16) -> Result<u8> {
        self.ports(ports, port, 1).map(|()| 0)
    }

    fn ioport_out8(&self, ports: Cap<IoPort>, port: u16, _value: u8) -> Result<()> {
        self.ports(ports, port, 1)
    }

    fn ioport_in32(&self, ports: Cap<IoPort>, port: u16) -> Result<u32> {
        self.ports(ports, port, 4).map(|()| 0)
    }

    fn ioport_out32(&self, ports: Cap<IoPort>, port: u16, _value: u32) -> Result<()> {
        self.ports(ports, port, 4)
    }
}
