//! The kernel's invocations by a component. Each costs time, is carried out by the kernel model, and may cost the processor.

use crate::coroutine;

use crate::trace::{Kind, Name};
use crate::world::{State, World};
use capdl::Arch;
use iommu_api::calls;
use platform::x86_64::PortIo;
use platform::{
    AbsoluteCPtr, AsidControl, AsidPool, Badge, CNode, CPtr, CacheAttributes, Cap, CapData, Endpoint, Error, Frame,
    IoPageTable, IoPort, IoSpace, Iova, IrqControl, IrqHandler, IrqSource, Kernel, Message, Notification, ObjectType,
    Paddr, Result, Resume, Rights, TableLevel, Tcb, TranslationTable, Untyped, UserContext, VSpace, Vaddr,
};
use sim_kernel::{Capability, Delivery, ThreadId};
use std::ops::Range;
use std::rc::Rc;

/// A signal or message that a wait returned.
pub(crate) enum Received {
    Signal(Badge),
    Message(Badge, Box<Message>),
}

impl Received {
    /// Converts a delivery; `None` when nothing was there.
    pub(crate) fn of(delivery: Delivery) -> Option<Self> {
        match delivery {
            Delivery::Signal(badge) => Some(Self::Signal(badge)),
            Delivery::Message(badge, message) => Some(Self::Message(badge, message)),
            Delivery::Reply(_) | Delivery::Nothing | Delivery::Restart => None,
        }
    }
}

/// The invocations of one thread.
#[derive(Clone)]
pub struct SimKernel {
    world: Rc<World>,
    thread: ThreadId,
}

impl SimKernel {
    pub(crate) const fn new(world: Rc<World>, thread: ThreadId) -> Self {
        Self { world, thread }
    }

    /// Waits until a signal or message arrives at `wait`.
    pub(crate) fn wait(&self, wait: CPtr) -> Option<Received> {
        let cost = self.world.costs().wait_ns;
        let delivery = self.operate(const { Name::new("receive") }, wait.bits(), cost, |state, thread| {
            state.kernel.receive(thread, wait)
        });
        self.received(delivery?)
    }

    /// Returns a signal or message that is already at `wait`.
    pub(crate) fn poll(&self, wait: CPtr) -> Option<Received> {
        let cost = self.world.costs().wait_ns;
        let delivery = self.operate(const { Name::new("poll") }, wait.bits(), cost, |state, thread| {
            state.kernel.nb_receive(thread, wait)
        });
        self.received(delivery?)
    }

    /// Lets other threads of the same priority run.
    pub(crate) fn yield_now(&self) {
        self.begin(const { Name::new("yield") }, 0, self.world.costs().wait_ns, |state, thread| {
            state.kernel.rotate(thread)
        });
        coroutine::suspend();
    }

    /// Ends the thread by a fault.
    pub(crate) fn die(&self, fault: sim_kernel::Fault) {
        self.begin(const { Name::new("fault") }, 0, self.world.costs().call_ns, |state, thread| {
            state.kernel.fault(thread, fault)
        });
        self.world.leave(self.world.outside(), self.thread);
    }

    fn received(&self, delivery: Delivery) -> Option<Received> {
        if let Delivery::Signal(badge) | Delivery::Message(badge, _) = &delivery {
            self.world.outside().note(self.thread, Kind::Received, badge.0);
        }
        Received::of(delivery)
    }

    fn begin(&self, name: Name, value: u64, cost_ns: u64, act: impl FnOnce(&mut State, ThreadId)) {
        if coroutine::is_dying() {
            return;
        }
        let mut state = self.world.enter(cost_ns);
        state.note(self.thread, Kind::Invoked { name, refused: false }, value);
        act(&mut state, self.thread);
    }

    /// Carries out an operation; repeats it when it was cut short, as the kernel does.
    fn operate(
        &self,
        name: Name,
        value: u64,
        cost_ns: u64,
        mut act: impl FnMut(&mut State, ThreadId),
    ) -> Option<Delivery> {
        while !coroutine::is_dying() {
            self.begin(name, value, cost_ns, &mut act);
            match self.world.block(self.thread, |state| state.kernel.take(self.thread)) {
                Some(Delivery::Restart) => {}
                ended => return ended,
            }
        }
        None
    }

    /// Calls and waits for the reply; nothing else of the component runs meanwhile.
    fn call_now(&self, endpoint: CPtr, message: &Message) -> Message {
        let cost = self.world.costs().call_ns;
        let call = |state: &mut State, thread| state.kernel.call(thread, endpoint, message);
        match self.operate(const { Name::new("call") }, endpoint.bits(), cost, call) {
            Some(Delivery::Reply(reply)) => *reply,
            _ => Message::default(),
        }
    }

    /// Whether the kernel has IOSpaces. Otherwise the IOMMU server has them, and is called.
    fn has_io_spaces(&self) -> bool {
        self.world.view().machine.arch == Arch::X86_64
    }

    fn calls(&self) -> impl Fn(CPtr, &Message) -> Message {
        |server, message| self.call_now(server, message)
    }

    /// Invokes a capability. If its CPtr does not resolve, the thread faults, and the result does not count. The
    /// invocation is repeated if the fault is answered.
    fn invoke<R>(&self, name: Name, value: u64, mut act: impl FnMut(&mut State, ThreadId) -> Result<R>) -> Result<R> {
        while !coroutine::is_dying() {
            let mut state = self.world.enter(self.world.costs().invocation_ns);
            let result = act(&mut state, self.thread);
            state.note(self.thread, Kind::Invoked { name, refused: result.is_err() }, value);
            self.world.leave(state, self.thread);
            if self.world.outside().kernel.take(self.thread) != Some(Delivery::Restart) {
                return result;
            }
        }
        Err(Error::IllegalOperation)
    }
}

/// For each invocation: the method, its arguments with the traced one first, and its result type.
macro_rules! invocations {
    ($(fn $name:ident($first:ident: $first_type:ty $(, $argument:ident: $type:ty)*) -> $output:ty, $value:expr;)+) => {$(
        fn $name(&self, $first: $first_type $(, $argument: $type)*) -> Result<$output> {
            self.invoke(const { Name::new(stringify!($name)) }, $value, |state, thread| {
                state.kernel.$name(thread, $first $(, $argument)*)
            })
        }
    )+};
}

impl Kernel for SimKernel {
    fn tcb_suspend(&self, tcb: Cap<Tcb>) -> Result<()> {
        self.invoke(const { Name::new("tcb_suspend") }, tcb.bits(), |state, thread| {
            let named = state.kernel.cap_at(thread, tcb.cptr());
            let suspended = state.kernel.tcb_suspend(thread, tcb);
            if let (Ok(()), Some(Capability::Thread(target))) = (&suspended, named) {
                state.observer.stopped(target, state.now_ns);
            }
            suspended
        })
    }

    invocations! {
        fn cnode_copy(dest: AbsoluteCPtr, src: AbsoluteCPtr, rights: Rights) -> (), dest.index;
        fn cnode_mint(dest: AbsoluteCPtr, src: AbsoluteCPtr, rights: Rights, data: CapData) -> (), dest.index;
        fn cnode_move(dest: AbsoluteCPtr, src: AbsoluteCPtr) -> (), dest.index;
        fn cnode_delete(cptr: AbsoluteCPtr) -> (), cptr.index;
        fn cnode_revoke(cptr: AbsoluteCPtr) -> (), cptr.index;
        fn cnode_save_caller(cptr: AbsoluteCPtr) -> (), cptr.index;
        fn tcb_configure(tcb: Cap<Tcb>, fault_endpoint: CPtr, priority: u8, cspace: Cap<CNode>, cspace_guard_bits: u8,
            vspace: Cap<VSpace>, ipc_buffer: Vaddr, ipc_buffer_frame: Cap<Frame>) -> (), tcb.bits();
        fn tcb_write_registers(tcb: Cap<Tcb>, resume: Resume, context: &UserContext) -> (), tcb.bits();
        fn tcb_read_registers(tcb: Cap<Tcb>) -> UserContext, tcb.bits();
        fn tcb_resume(tcb: Cap<Tcb>) -> (), tcb.bits();
        fn tcb_bind_notification(tcb: Cap<Tcb>, notification: Cap<Notification>) -> (), tcb.bits();
        fn asid_control_make_pool(control: Cap<AsidControl>, untyped: Cap<Untyped>, dest: AbsoluteCPtr) -> (),
            dest.index;
        fn asid_pool_assign(pool: Cap<AsidPool>, vspace: Cap<VSpace>) -> (), vspace.bits();
        fn translation_table_map(table: Cap<TranslationTable>, level: TableLevel, vspace: Cap<VSpace>, vaddr: Vaddr) -> (),
            vaddr.bits();
        fn frame_map(frame: Cap<Frame>, vspace: Cap<VSpace>, vaddr: Vaddr, rights: Rights, attributes: CacheAttributes)
            -> (), vaddr.bits();
        fn frame_unmap(frame: Cap<Frame>) -> (), frame.bits();
        fn frame_get_address(frame: Cap<Frame>) -> Paddr, frame.bits();
        fn io_page_table_map(table: Cap<IoPageTable>, io_space: Cap<IoSpace>, iova: Iova) -> (), iova.bits();
        fn io_page_table_unmap(table: Cap<IoPageTable>) -> (), table.bits();
        fn irq_control_get(control: Cap<IrqControl>, dest: AbsoluteCPtr, source: IrqSource, irq: u8) -> (), dest.index;
        fn irq_handler_set_notification(handler: Cap<IrqHandler>, notification: Cap<Notification>) -> (),
            handler.bits();
        fn irq_handler_clear(handler: Cap<IrqHandler>) -> (), handler.bits();
    }

    fn frame_map_io(&self, frame: Cap<Frame>, io_space: Cap<IoSpace>, rights: Rights, iova: Iova) -> Result<()> {
        if self.has_io_spaces() {
            return self.invoke(const { Name::new("frame_map_io") }, iova.bits(), |state, thread| {
                state.kernel.frame_map_io(thread, frame, io_space, rights, iova)
            });
        }
        calls::map(self.calls(), frame, io_space, rights, iova)
    }

    fn frame_unmap_io(&self, frame: Cap<Frame>, io_space: Cap<IoSpace>, iova: Iova) -> Result<()> {
        if self.has_io_spaces() { self.frame_unmap(frame) } else { calls::unmap(self.calls(), io_space, iova) }
    }

    fn io_space_open(&self, dest: AbsoluteCPtr, master: AbsoluteCPtr, domain: u16, requester_id: u16) -> Result<()> {
        if self.has_io_spaces() {
            return self.cnode_mint(dest, master, Rights::ALL, CapData::IoSpace { domain, requester_id });
        }
        calls::open(self.calls(), self, dest, master, domain, requester_id)
    }

    fn io_space_close(&self, master: AbsoluteCPtr, domain: u16) -> Result<()> {
        if self.has_io_spaces() { Ok(()) } else { calls::close(self.calls(), master, domain) }
    }

    fn untyped_retype(
        &self,
        untyped: Cap<Untyped>,
        object_type: ObjectType,
        size_bits: u8,
        cnode: Cap<CNode>,
        cptrs: Range<u64>,
    ) -> Result<()> {
        self.invoke(const { Name::new("untyped_retype") }, cptrs.start, |state, thread| {
            state.kernel.untyped_retype(thread, untyped, object_type, size_bits, cnode, cptrs.clone())
        })
    }

    fn irq_handler_ack(&self, handler: Cap<IrqHandler>) -> Result<()> {
        self.invoke(const { Name::new("irq_handler_ack") }, handler.bits(), |state, thread| {
            state.kernel.irq_handler_ack(thread, handler)
        })
    }

    fn msi_message(&self, irq: u8) -> (u64, u32) {
        self.world.view().kernel.msi_message(irq)
    }

    fn irq_count(&self) -> u8 {
        self.world.view().kernel.irq_count()
    }

    fn irq_masks_messages(&self) -> bool {
        self.world.view().kernel.irq_masks_messages()
    }

    fn signal(&self, notification: Cap<Notification>) {
        let cost = self.world.costs().signal_ns;
        self.operate(const { Name::new("signal") }, notification.bits(), cost, |state, thread| {
            state.kernel.signal(thread, notification)
        });
    }

    fn send(&self, dest: CPtr, message: &Message) {
        let cost = self.world.costs().call_ns;
        self.operate(const { Name::new("send") }, dest.bits(), cost, |state, thread| {
            state.kernel.send(thread, dest, message)
        });
    }

    fn nb_send(&self, dest: CPtr, message: &Message) {
        let cost = self.world.costs().reply_ns;
        self.operate(const { Name::new("nb_send") }, dest.bits(), cost, |state, thread| {
            state.kernel.nb_send(thread, dest, message)
        });
    }

    fn reply(&self, message: &Message) {
        let cost = self.world.costs().reply_ns;
        self.operate(const { Name::new("reply") }, u64::from(message.label), cost, |state, thread| {
            state.kernel.reply(thread, message)
        });
    }

    async fn call(&self, endpoint: Cap<Endpoint>, message: &Message) -> Message {
        self.call_now(endpoint.cptr(), message)
    }
}

impl PortIo for SimKernel {
    fn ioport_in8(&self, ports: Cap<IoPort>, port: u16) -> Result<u8> {
        self.invoke(const { Name::new("ioport_in8") }, u64::from(port), |state, thread| {
            state.kernel.ioport_allowed(thread, ports, port, 1)?;
            Ok(state.machine.board.port_read(port))
        })
    }

    fn ioport_out8(&self, ports: Cap<IoPort>, port: u16, value: u8) -> Result<()> {
        self.invoke(const { Name::new("ioport_out8") }, u64::from(port), |state, thread| {
            state.kernel.ioport_allowed(thread, ports, port, 1)?;
            state.machine.board.port_write(port, value);
            Ok(())
        })
    }

    fn ioport_in32(&self, ports: Cap<IoPort>, port: u16) -> Result<u32> {
        self.invoke(const { Name::new("ioport_in32") }, u64::from(port), |state, thread| {
            state.kernel.ioport_allowed(thread, ports, port, 4)?;
            Ok((0..4)
                .fold(0, |value, byte| value | u32::from(state.machine.board.port_read(port + byte)) << (8 * byte)))
        })
    }

    fn ioport_out32(&self, ports: Cap<IoPort>, port: u16, value: u32) -> Result<()> {
        self.invoke(const { Name::new("ioport_out32") }, u64::from(port), |state, thread| {
            state.kernel.ioport_allowed(thread, ports, port, 4)?;
            let bytes = (port..).zip(value.to_le_bytes());
            bytes.for_each(|(port, byte)| state.machine.board.port_write(port, byte));
            Ok(())
        })
    }
}
