//! The kernel's model, with a record of the server's invocations.
//!
//! Only messages are not the model's: requests are put before the server, its answers are kept, and a capability in an
//! answer is copied to the cptrs where the tests find the drivers' capabilities.

use super::machine::{Act, Machine, Object};
use core::future::{Future, ready};
use platform::fake::Partial;
use platform::{
    AbsoluteCPtr, CPtr, CacheAttributes, Cap, Endpoint, Error, Frame, IrqHandler, Kernel as _, Message, Notification,
    Result, Rights, VSpace, Vaddr,
};
use sim_kernel::{Capability, Invoker};
use std::vec::Vec;

/// First cptr for capabilities that the server sends to drivers.
pub(super) const DRIVER_CPTRS: u64 = 4096;

impl Machine {
    fn invoker(&self) -> Invoker {
        self.state().kernel.clone()
    }

    /// The capability at a cptr of the server.
    fn held(&self, cptr: CPtr) -> Capability {
        let invoker = self.invoker();
        let held = invoker.kernel().borrow().cap_at(invoker.thread(), cptr);
        held.unwrap_or_default()
    }

    fn note(&self, act: Act) {
        self.state_mut().acts.push(act);
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

impl Partial for Machine {
    type Rest = Invoker;

    fn rest(&self) -> Invoker {
        self.invoker()
    }

    /// Every message is a call whose caller waits.
    fn cnode_save_caller(&self, cptr: AbsoluteCPtr) -> Result<()> {
        let mut state = self.state_mut();
        if state.callers.contains(&cptr.index) {
            return Err(Error::DeleteFirst);
        }
        state.callers.push(cptr.index);
        Ok(())
    }

    fn nb_send(&self, dest: CPtr, message: &Message) {
        let mut callers = core::mem::take(&mut self.state_mut().callers);
        let answered = callers.iter().position(|caller| *caller == dest.bits()).map(|place| callers.swap_remove(place));
        self.state_mut().callers = callers;
        if answered.is_some() {
            Partial::reply(self, message);
        }
    }

    fn cnode_delete(&self, cptr: AbsoluteCPtr) -> Result<()> {
        self.state_mut().callers.retain(|caller| *caller != cptr.index);
        let held = self.held(CPtr::new(cptr.index));
        self.note_deleted(held);
        self.invoker().cnode_delete(cptr)
    }

    fn cnode_revoke(&self, cptr: AbsoluteCPtr) -> Result<()> {
        let invoker = self.invoker();
        let taken = invoker.kernel().borrow().descendants(invoker.thread(), CPtr::new(cptr.index));
        taken.into_iter().for_each(|cap| self.note_deleted(cap));
        invoker.cnode_revoke(cptr)
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
                self.state_mut().signalled.push(badge);
            }
            other => panic!("a signal to {other:?}"),
        }
    }

    fn reply(&self, message: &Message) {
        let mut received = message.clone();
        if let Some(cap) = received.cap.take() {
            let held: Vec<u64> = self.state().caps().into_iter().map(|(cptr, _)| cptr).collect();
            let next = held.last().map_or(DRIVER_CPTRS, |last| DRIVER_CPTRS.max(last + 1));
            let state = self.state();
            let copied = state.kernel.cnode_copy(state.absolute(next), state.absolute(cap.bits()), Rights::ALL);
            copied.expect("a capability that can be sent");
            received.cap_received = true;
        }
        self.state_mut().replies.push_back(received);
    }

    fn call(&self, _: Cap<Endpoint>, _: &Message) -> impl Future<Output = Message> {
        ready(Message::default())
    }
}
