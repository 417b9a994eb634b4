//! The kernel's model, with a record of the server's invocations.
//!
//! Only messages are not the model's: requests are put before the server, its answers are kept, and a capability in an
//! answer is copied to the slots where the tests find the drivers' capabilities.

use super::machine::{Act, Object, State};
use core::cell::RefCell;
use core::future::{Future, ready};
use core::ops::Range;
use platform::{
    AbsoluteCPtr, AsidControl, AsidPool, CNode, CPtr, CacheAttributes, Cap, CapData, Endpoint, Error, Frame,
    IoPageTable, IoSpace, Iova, IrqControl, IrqHandler, IrqSource, Kernel, Message, Notification, ObjectType, Paddr,
    Result, Resume, Rights, TableLevel, Tcb, TranslationTable, Untyped, UserContext, VSpace, Vaddr,
};
use sim_kernel::{Capability, Invoker};
use std::rc::Rc;
use std::vec::Vec;

/// First slot for capabilities that the server sends to drivers.
pub(super) const DRIVER_SLOTS: u64 = 4096;

#[derive(Clone, Debug)]
pub(super) struct RecordingKernel {
    pub(super) state: Rc<RefCell<State>>,
}

impl RecordingKernel {
    fn invoker(&self) -> Invoker {
        self.state.borrow().kernel.clone()
    }

    /// The capability in a slot of the server.
    fn held(&self, slot: CPtr) -> Capability {
        let invoker = self.invoker();
        let held = invoker.kernel().borrow().cap_at(invoker.thread(), slot);
        held.unwrap_or_default()
    }

    fn note(&self, act: Act) {
        self.state.borrow_mut().acts.push(act);
    }

    fn note_deleted(&self, cap: Capability) {
        let Some(object) = Object::of(&self.invoker().kernel().borrow(), cap) else { return };
        if matches!(object, Object::Frame { mapped: Some(_), .. }) {
            self.note(Act::Unmapped);
        }
        self.note(Act::Deleted(object));
    }
}

/// The kernel interrupt of a handler.
fn irq_of(handler: Capability) -> u8 {
    let Capability::IrqHandler(irq) = handler else { panic!("{handler:?} is no handler") };
    irq
}

/// Methods that are the model's own.
macro_rules! pass_on {
    ($($name:ident($($argument:ident: $kind:ty),* $(,)?) -> $result:ty;)*) => {$(
        #[allow(clippy::too_many_arguments, reason = "one invocation of the kernel, its arguments are given")]
        fn $name(&self, $($argument: $kind),*) -> $result {
            self.invoker().$name($($argument),*)
        }
    )*};
}

impl Kernel for RecordingKernel {
    pass_on! {
        untyped_retype(untyped: Cap<Untyped>, object_type: ObjectType, size_bits: u8, cnode: Cap<CNode>,
            slots: Range<u64>) -> Result<()>;
        cnode_copy(dest: AbsoluteCPtr, src: AbsoluteCPtr, rights: Rights) -> Result<()>;
        cnode_mint(dest: AbsoluteCPtr, src: AbsoluteCPtr, rights: Rights, data: CapData) -> Result<()>;
        cnode_move(dest: AbsoluteCPtr, src: AbsoluteCPtr) -> Result<()>;
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
        frame_unmap(frame: Cap<Frame>) -> Result<()>;
        frame_get_address(frame: Cap<Frame>) -> Result<Paddr>;
        frame_map_io(frame: Cap<Frame>, io_space: Cap<IoSpace>, rights: Rights, iova: Iova) -> Result<()>;
        io_page_table_map(table: Cap<IoPageTable>, io_space: Cap<IoSpace>, iova: Iova) -> Result<()>;
        io_page_table_unmap(table: Cap<IoPageTable>) -> Result<()>;
        irq_control_get(control: Cap<IrqControl>, dest: AbsoluteCPtr, source: IrqSource, irq: u8) -> Result<()>;
        msi_message(irq: u8) -> (u64, u32);
        irq_count() -> u8;
        send(dest: CPtr, message: &Message) -> ();
    }

    /// Every message is a call whose caller waits.
    fn cnode_save_caller(&self, slot: AbsoluteCPtr) -> Result<()> {
        let mut state = self.state.borrow_mut();
        if state.callers.contains(&slot.index) {
            return Err(Error::DeleteFirst);
        }
        state.callers.push(slot.index);
        Ok(())
    }

    fn nb_send(&self, dest: CPtr, message: &Message) {
        let mut callers = core::mem::take(&mut self.state.borrow_mut().callers);
        let answered = callers.iter().position(|caller| *caller == dest.bits()).map(|place| callers.swap_remove(place));
        self.state.borrow_mut().callers = callers;
        if answered.is_some() {
            self.reply(message);
        }
    }

    fn cnode_delete(&self, slot: AbsoluteCPtr) -> Result<()> {
        self.state.borrow_mut().callers.retain(|caller| *caller != slot.index);
        let held = self.held(CPtr::new(slot.index));
        self.note_deleted(held);
        self.invoker().cnode_delete(slot)
    }

    fn cnode_revoke(&self, slot: AbsoluteCPtr) -> Result<()> {
        let invoker = self.invoker();
        let taken = invoker.kernel().borrow().descendants(invoker.thread(), CPtr::new(slot.index));
        taken.into_iter().for_each(|cap| self.note_deleted(cap));
        invoker.cnode_revoke(slot)
    }

    fn frame_map(
        &self,
        frame: Cap<Frame>,
        vspace: Cap<VSpace>,
        vaddr: Vaddr,
        rights: Rights,
        attributes: CacheAttributes,
    ) -> Result<()> {
        assert_eq!(attributes, CacheAttributes::Uncached);
        self.invoker().frame_map(frame, vspace, vaddr, rights, attributes)
    }

    fn irq_handler_ack(&self, handler: Cap<IrqHandler>) -> Result<()> {
        self.note(Act::IrqAcked { irq: irq_of(self.held(handler.cptr())) });
        self.invoker().irq_handler_ack(handler)
    }

    fn irq_handler_set_notification(&self, handler: Cap<IrqHandler>, notification: Cap<Notification>) -> Result<()> {
        self.invoker().irq_handler_set_notification(handler, notification)?;
        if let Capability::Notification { badge, .. } = self.held(notification.cptr()) {
            self.note(Act::IrqBound { irq: irq_of(self.held(handler.cptr())), badge });
        }
        Ok(())
    }

    fn irq_handler_clear(&self, handler: Cap<IrqHandler>) -> Result<()> {
        self.note(Act::IrqCleared { irq: irq_of(self.held(handler.cptr())) });
        self.invoker().irq_handler_clear(handler)
    }

    fn signal(&self, notification: Cap<Notification>) {
        match self.held(notification.cptr()) {
            Capability::Notification { badge, rights: Rights { write: true, .. }, .. } => {
                self.state.borrow_mut().signalled.push(badge);
            }
            other => panic!("a signal to {other:?}"),
        }
    }

    fn reply(&self, message: &Message) {
        let mut received = message.clone();
        if let Some(cap) = received.cap.take() {
            let held: Vec<u64> = self.state.borrow().slots().into_iter().map(|(slot, _)| slot).collect();
            let next = held.last().map_or(DRIVER_SLOTS, |last| DRIVER_SLOTS.max(last + 1));
            let state = self.state.borrow();
            let copied = state.kernel.cnode_copy(state.slot(next), state.slot(cap.bits()), Rights::ALL);
            copied.expect("a capability that can be sent");
            received.cap_received = true;
        }
        self.state.borrow_mut().replies.push_back(received);
    }

    fn call(&self, _: Cap<Endpoint>, _: &Message) -> impl Future<Output = Message> {
        ready(Message::default())
    }
}
