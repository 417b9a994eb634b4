//! A kernel that keeps the books of capabilities as far as the server uses them, and refuses everything else.
//!
//! As seL4 does with our fixes: a retyped object, an interrupt handler and a minted IOSpace are parents of their
//! copies, and the IOSpace master is the parent of all that is minted from it.

use super::machine::{Act, Object, Slot, State};
use core::cell::{RefCell, RefMut};
use core::future::{Future, ready};
use core::ops::Range;
use platform::{
    AbsoluteCPtr, AsidControl, AsidPool, Badge, CNode, CPtr, CacheAttributes, Cap, CapData, Endpoint, Error, Frame,
    IoPageTable, IoSpace, Iova, IrqControl, IrqHandler, IrqSource, Kernel, Message, Notification, ObjectType, Paddr,
    Result, Resume, Rights, TableLevel, Tcb, TranslationTable, Trigger, Untyped, UserContext, VSpace, Vaddr,
};
use std::rc::Rc;
use std::vec::Vec;

/// Where capabilities land that the server sends to drivers.
pub(super) const DRIVER_SLOTS: u64 = 1_000_000;

#[derive(Clone, Debug)]
pub(super) struct RecordingKernel {
    pub(super) state: Rc<RefCell<State>>,
}

impl RecordingKernel {
    fn state(&self) -> RefMut<'_, State> {
        self.state.borrow_mut()
    }
}

impl State {
    fn object(&self, slot: u64) -> Result<Object> {
        self.slots.get(&slot).map(|slot| slot.object).ok_or(Error::InvalidCapability(0))
    }

    pub(super) fn fill(&mut self, slot: u64, object: Object, parent: Option<u64>) -> Result<()> {
        if self.slots.contains_key(&slot) {
            return Err(Error::DeleteFirst);
        }
        self.slots.insert(slot, Slot { object, parent });
        Ok(())
    }

    fn copy(&mut self, dest: u64, source: u64) -> Result<()> {
        let object = match self.object(source)? {
            Object::Frame { paddr, mapped: _ } => Object::Frame { paddr, mapped: None },
            other => other,
        };
        self.fill(dest, object, Some(source))
    }

    fn delete(&mut self, slot: u64) {
        let Some(gone) = self.slots.remove(&slot) else { return };
        for child in self.slots.values_mut().filter(|child| child.parent == Some(slot)) {
            child.parent = gone.parent;
        }
        if let Object::Frame { paddr, mapped: Some((vspace, _)) } = gone.object {
            self.acts.push(Act::Unmapped { vspace, paddr });
        }
        self.acts.push(Act::Deleted(gone.object));
    }

    fn revoke(&mut self, slot: u64) {
        let children: Vec<u64> =
            self.slots.iter().filter(|(_, child)| child.parent == Some(slot)).map(|(slot, _)| *slot).collect();
        for child in children {
            self.revoke(child);
            self.delete(child);
        }
    }

    fn make_handler(&mut self, dest: u64, irq: u8, pin: Option<u8>) -> Result<()> {
        let taken = |slot: &Slot| matches!(slot.object, Object::IrqHandler { irq: other, .. } if other == irq);
        if self.slots.values().any(taken) {
            return Err(Error::RevokeFirst);
        }
        self.fill(dest, Object::IrqHandler { irq, pin }, None)
    }

    fn irq_of(&self, handler: Cap<IrqHandler>) -> Result<u8> {
        match self.object(handler.bits())? {
            Object::IrqHandler { irq, .. } => Ok(irq),
            _ => Err(Error::InvalidCapability(0)),
        }
    }
}

impl Kernel for RecordingKernel {
    fn untyped_retype(
        &self,
        untyped: Cap<Untyped>,
        object_type: ObjectType,
        size_bits: u8,
        _cnode: Cap<CNode>,
        slots: Range<u64>,
    ) -> Result<()> {
        let mut state = self.state();
        let Object::Untyped { paddr, bits, used: false } = state.object(untyped.bits())? else {
            return Err(Error::InvalidCapability(0));
        };
        let step = match object_type {
            ObjectType::Untyped if size_bits < bits => 1u64 << size_bits,
            ObjectType::SmallPage if bits == 12 => 4096,
            _ => return Err(Error::IllegalOperation),
        };
        for (number, slot) in (0..).zip(slots) {
            let paddr = paddr + number * step;
            let object = match object_type {
                ObjectType::Untyped => Object::Untyped { paddr, bits: size_bits, used: false },
                _ => Object::Frame { paddr, mapped: None },
            };
            state.fill(slot, object, Some(untyped.bits()))?;
        }
        let parent = state.slots.get(&untyped.bits()).and_then(|slot| slot.parent);
        state.slots.insert(untyped.bits(), Slot { object: Object::Untyped { paddr, bits, used: true }, parent });
        Ok(())
    }

    fn cnode_copy(&self, dest: AbsoluteCPtr, src: AbsoluteCPtr, _rights: Rights) -> Result<()> {
        self.state().copy(dest.index, src.index)
    }

    fn cnode_mint(&self, dest: AbsoluteCPtr, src: AbsoluteCPtr, _rights: Rights, data: CapData) -> Result<()> {
        let mut state = self.state();
        match (state.object(src.index)?, data) {
            (Object::IoSpaceMaster, CapData::IoSpace { domain, requester_id }) => {
                state.fill(dest.index, Object::IoSpace { domain, requester_id }, Some(src.index))
            }
            (Object::Notification { badge: 0 }, CapData::Badge(Badge(badge))) => {
                state.fill(dest.index, Object::Notification { badge }, Some(src.index))
            }
            _ => Err(Error::IllegalOperation),
        }
    }

    fn cnode_move(&self, dest: AbsoluteCPtr, src: AbsoluteCPtr) -> Result<()> {
        let mut state = self.state();
        let Slot { object, parent } = state.slots.remove(&src.index).ok_or(Error::FailedLookup)?;
        state.fill(dest.index, object, parent)
    }

    fn cnode_delete(&self, slot: AbsoluteCPtr) -> Result<()> {
        self.state().delete(slot.index);
        Ok(())
    }

    fn cnode_revoke(&self, slot: AbsoluteCPtr) -> Result<()> {
        self.state().object(slot.index)?;
        self.state().revoke(slot.index);
        Ok(())
    }

    fn frame_map(
        &self,
        frame: Cap<Frame>,
        vspace: Cap<VSpace>,
        vaddr: Vaddr,
        _rights: Rights,
        attributes: CacheAttributes,
    ) -> Result<()> {
        assert_eq!(attributes, CacheAttributes::Uncached);
        let mut state = self.state();
        match state.mappings_left.as_mut() {
            Some(0) => return Err(Error::FailedLookup),
            Some(left) => *left -= 1,
            None => {}
        }
        let vspace = vspace.bits();
        assert_eq!(state.object(vspace)?, Object::VSpace);
        let slot = state.slots.get_mut(&frame.bits()).ok_or(Error::InvalidCapability(0))?;
        let Object::Frame { paddr, mapped: None } = slot.object else {
            return Err(Error::InvalidCapability(0));
        };
        slot.object = Object::Frame { paddr, mapped: Some((vspace, vaddr.bits())) };
        state.acts.push(Act::Mapped { vspace, paddr });
        Ok(())
    }

    fn irq_control_get(&self, control: Cap<IrqControl>, dest: AbsoluteCPtr, source: IrqSource, irq: u8) -> Result<()> {
        let line = match source {
            IrqSource::Line { line, trigger } => {
                assert_eq!(trigger, Trigger::LevelLow);
                Some(line)
            }
            IrqSource::Message { .. } => None,
        };
        let mut state = self.state();
        assert_eq!(state.object(control.bits())?, Object::IrqControl);
        state.make_handler(dest.index, irq, line)
    }

    fn msi_message(&self, irq: u8) -> (u64, u32) {
        (0xfee0_0000, 0x30 + u32::from(irq))
    }

    fn irq_count(&self) -> u8 {
        108
    }

    fn irq_handler_ack(&self, handler: Cap<IrqHandler>) -> Result<()> {
        let mut state = self.state();
        let irq = state.irq_of(handler)?;
        state.acts.push(Act::IrqAcked { irq });
        Ok(())
    }

    fn irq_handler_set_notification(&self, handler: Cap<IrqHandler>, notification: Cap<Notification>) -> Result<()> {
        let mut state = self.state();
        let irq = state.irq_of(handler)?;
        let Object::Notification { badge } = state.object(notification.bits())? else {
            return Err(Error::InvalidCapability(1));
        };
        state.acts.push(Act::IrqBound { irq, badge });
        Ok(())
    }

    fn irq_handler_clear(&self, handler: Cap<IrqHandler>) -> Result<()> {
        let mut state = self.state();
        let irq = state.irq_of(handler)?;
        state.acts.push(Act::IrqCleared { irq });
        Ok(())
    }

    fn reply(&self, message: &Message) {
        let mut state = self.state();
        let mut received = message.clone();
        if let Some(cap) = received.cap.take() {
            let slot = DRIVER_SLOTS.max(state.slots.last_key_value().map_or(0, |(slot, _)| slot + 1));
            state.copy(slot, cap.bits()).expect("a capability that can be sent");
            received.cap_received = true;
        }
        state.replies.push_back(received);
    }

    // What follows the server has no business with.

    fn cnode_save_caller(&self, _: AbsoluteCPtr) -> Result<()> {
        Err(Error::IllegalOperation)
    }
    fn tcb_configure(
        &self,
        _: Cap<Tcb>,
        _: CPtr,
        _: u8,
        _: Cap<CNode>,
        _: u8,
        _: Cap<VSpace>,
        _: Vaddr,
        _: Cap<Frame>,
    ) -> Result<()> {
        Err(Error::IllegalOperation)
    }
    fn tcb_write_registers(&self, _: Cap<Tcb>, _: Resume, _: &UserContext) -> Result<()> {
        Err(Error::IllegalOperation)
    }
    fn tcb_read_registers(&self, _: Cap<Tcb>) -> Result<UserContext> {
        Err(Error::IllegalOperation)
    }
    fn tcb_resume(&self, _: Cap<Tcb>) -> Result<()> {
        Err(Error::IllegalOperation)
    }
    fn tcb_suspend(&self, _: Cap<Tcb>) -> Result<()> {
        Err(Error::IllegalOperation)
    }
    fn tcb_bind_notification(&self, _: Cap<Tcb>, _: Cap<Notification>) -> Result<()> {
        Err(Error::IllegalOperation)
    }
    fn asid_control_make_pool(&self, _: Cap<AsidControl>, _: Cap<Untyped>, _: AbsoluteCPtr) -> Result<()> {
        Err(Error::IllegalOperation)
    }
    fn asid_pool_assign(&self, _: Cap<AsidPool>, _: Cap<VSpace>) -> Result<()> {
        Err(Error::IllegalOperation)
    }
    fn translation_table_map(&self, _: Cap<TranslationTable>, _: TableLevel, _: Cap<VSpace>, _: Vaddr) -> Result<()> {
        Err(Error::IllegalOperation)
    }
    fn frame_unmap(&self, _: Cap<Frame>) -> Result<()> {
        Err(Error::IllegalOperation)
    }
    fn frame_get_address(&self, _: Cap<Frame>) -> Result<Paddr> {
        Err(Error::IllegalOperation)
    }
    fn frame_map_io(&self, _: Cap<Frame>, _: Cap<IoSpace>, _: Rights, _: Iova) -> Result<()> {
        Err(Error::IllegalOperation)
    }
    fn io_page_table_map(&self, _: Cap<IoPageTable>, _: Cap<IoSpace>, _: Iova) -> Result<()> {
        Err(Error::IllegalOperation)
    }
    fn io_page_table_unmap(&self, _: Cap<IoPageTable>) -> Result<()> {
        Err(Error::IllegalOperation)
    }
    fn signal(&self, notification: Cap<Notification>) {
        let mut state = self.state();
        let badge = match state.object(notification.bits()) {
            Ok(Object::Notification { badge }) => badge,
            other => panic!("a signal to {other:?}"),
        };
        state.signalled.push(badge);
    }
    fn send(&self, _: CPtr, _: &Message) {}
    fn nb_send(&self, _: CPtr, _: &Message) {}
    fn call(&self, _: Cap<Endpoint>, _: &Message) -> impl Future<Output = Message> {
        ready(Message::default())
    }
}
