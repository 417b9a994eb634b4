//! The invocations of the kernel that keeps books. Those the root task never makes are refused.

use super::{FakeKernel, Memorable, Told, What, object_bits};
use core::ops::Range;
use platform::{
    AbsoluteCPtr, AsidControl, AsidPool, CNode, CPtr, CacheAttributes, Cap, CapData, Endpoint, Error, Frame,
    IoPageTable, IoSpace, Iova, IrqControl, IrqHandler, IrqSource, Kernel, Message, Notification, ObjectType, Paddr,
    Result, Resume, Rights, TableLevel, Tcb, TranslationTable, Untyped, UserContext, VSpace, Vaddr,
};

impl Kernel for FakeKernel {
    fn untyped_retype(
        &self,
        untyped: Cap<Untyped>,
        object_type: ObjectType,
        size_bits: u8,
        cnode: Cap<CNode>,
        slots: Range<u64>,
    ) -> Result<()> {
        let mut state = self.0.borrow_mut();
        let object = state.own_object(untyped.bits(), ObjectType::Untyped)?;
        let cnode = state.own_object(cnode.bits(), ObjectType::CNode)?;
        let count = slots.end - slots.start;
        if !(1..=256).contains(&count) {
            return Err(Error::RangeError { min: 1, max: 256 });
        }
        if slots.clone().any(|slot| state.slots.contains_key(&(cnode, slot))) {
            return Err(Error::DeleteFirst);
        }
        let bytes = 1 << object_bits(object_type, size_bits);
        let memory = state.untypeds.get_mut(&object).unwrap();
        let start = memory.used.next_multiple_of(bytes);
        if start + count * bytes > memory.bytes {
            return Err(Error::NotEnoughMemory(memory.bytes - memory.used));
        }
        memory.used = start + count * bytes;
        let is_device = memory.is_device;
        let frames = matches!(object_type, ObjectType::SmallPage | ObjectType::LargePage | ObjectType::Untyped);
        if is_device && !frames {
            return Err(Error::InvalidArgument(1));
        }
        state.retypes.push((object_type, count));
        for slot in slots {
            let made = state.put((cnode, slot), What::Object(object_type));
            if object_type == ObjectType::Untyped {
                state.untypeds.insert(made, Memorable { bytes, used: 0, is_device });
            }
        }
        Ok(())
    }

    fn cnode_copy(&self, dest: AbsoluteCPtr, src: AbsoluteCPtr, rights: Rights) -> Result<()> {
        self.0.borrow_mut().derive(dest, src, rights, None)
    }
    fn cnode_mint(&self, dest: AbsoluteCPtr, src: AbsoluteCPtr, rights: Rights, data: CapData) -> Result<()> {
        self.0.borrow_mut().derive(dest, src, rights, Some(data))
    }
    fn cnode_move(&self, dest: AbsoluteCPtr, src: AbsoluteCPtr) -> Result<()> {
        let mut state = self.0.borrow_mut();
        let (to, from) = (state.place(dest)?, state.place(src)?);
        if state.slots.contains_key(&to) {
            return Err(Error::DeleteFirst);
        }
        let held = state.slots.remove(&from).ok_or(Error::FailedLookup)?;
        state.slots.insert(to, held);
        Ok(())
    }
    fn cnode_delete(&self, slot: AbsoluteCPtr) -> Result<()> {
        let mut state = self.0.borrow_mut();
        let place = state.place(slot)?;
        state.slots.remove(&place);
        Ok(())
    }
    fn cnode_revoke(&self, slot: AbsoluteCPtr) -> Result<()> {
        // It keeps no derivations. What others have of an object was derived from the root task's own.
        let mut state = self.0.borrow_mut();
        let (cnode, index) = state.place(slot)?;
        let own = state.own_object(super::OWN_CNODE, ObjectType::CNode)?;
        let original = state.slots.get(&(cnode, index)).map(|held| held.object).filter(|_| cnode == own);
        state.slots.retain(|(holder, _), held| *holder == own || Some(held.object) != original);
        Ok(())
    }
    fn cnode_save_caller(&self, _slot: AbsoluteCPtr) -> Result<()> {
        Err(Error::IllegalOperation)
    }

    fn tcb_configure(
        &self,
        tcb: Cap<Tcb>,
        fault_endpoint: CPtr,
        priority: u8,
        cspace: Cap<CNode>,
        cspace_guard_bits: u8,
        vspace: Cap<VSpace>,
        _ipc_buffer: Vaddr,
        ipc_buffer_frame: Cap<Frame>,
    ) -> Result<()> {
        let mut state = self.0.borrow_mut();
        state.own_object(ipc_buffer_frame.bits(), ObjectType::SmallPage)?;
        let tcb = state.own_object(tcb.bits(), ObjectType::Tcb)?;
        let cspace = state.own_object(cspace.bits(), ObjectType::CNode)?;
        let vspace = state.own_object(vspace.bits(), ObjectType::VSpace)?;
        let fault_slot = fault_endpoint.bits();
        let told = state.threads.entry(tcb).or_default();
        *told = Told { priority, fault_slot, guard_bits: cspace_guard_bits, cspace, vspace, ..told.clone() };
        Ok(())
    }
    fn tcb_write_registers(&self, tcb: Cap<Tcb>, resume: Resume, context: &UserContext) -> Result<()> {
        assert_eq!(resume, Resume::Later);
        let mut state = self.0.borrow_mut();
        let tcb = state.own_object(tcb.bits(), ObjectType::Tcb)?;
        state.threads.entry(tcb).or_default().context = *context;
        Ok(())
    }
    fn tcb_read_registers(&self, _tcb: Cap<Tcb>) -> Result<UserContext> {
        Err(Error::IllegalOperation)
    }
    fn tcb_resume(&self, tcb: Cap<Tcb>) -> Result<()> {
        let mut state = self.0.borrow_mut();
        let tcb = state.own_object(tcb.bits(), ObjectType::Tcb)?;
        state.resumed.push(tcb);
        Ok(())
    }
    fn tcb_suspend(&self, tcb: Cap<Tcb>) -> Result<()> {
        let mut state = self.0.borrow_mut();
        let tcb = state.own_object(tcb.bits(), ObjectType::Tcb)?;
        state.suspended.push(tcb);
        Ok(())
    }
    fn tcb_bind_notification(&self, tcb: Cap<Tcb>, notification: Cap<Notification>) -> Result<()> {
        let mut state = self.0.borrow_mut();
        let notification = state.own_object(notification.bits(), ObjectType::Notification)?;
        let tcb = state.own_object(tcb.bits(), ObjectType::Tcb)?;
        state.threads.entry(tcb).or_default().bound = Some(notification);
        Ok(())
    }

    fn asid_control_make_pool(&self, _: Cap<AsidControl>, _: Cap<Untyped>, _: AbsoluteCPtr) -> Result<()> {
        Err(Error::IllegalOperation)
    }
    fn asid_pool_assign(&self, pool: Cap<AsidPool>, vspace: Cap<VSpace>) -> Result<()> {
        let mut state = self.0.borrow_mut();
        assert_eq!(state.own(pool.bits())?.what, What::AsidPool);
        let vspace = state.own_object(vspace.bits(), ObjectType::VSpace)?;
        state.assigned.insert(vspace);
        Ok(())
    }

    fn translation_table_map(
        &self,
        table: Cap<TranslationTable>,
        level: TableLevel,
        vspace: Cap<VSpace>,
        vaddr: Vaddr,
    ) -> Result<()> {
        self.0.borrow_mut().map_table(table.bits(), level, vspace.bits(), vaddr)
    }
    fn frame_map(
        &self,
        frame: Cap<Frame>,
        vspace: Cap<VSpace>,
        vaddr: Vaddr,
        rights: Rights,
        _attributes: CacheAttributes,
    ) -> Result<()> {
        let mut state = self.0.borrow_mut();
        let is_large = state.own_object(frame.bits(), ObjectType::LargePage).is_ok();
        let vspace = state.mappable(vspace.bits(), vaddr.bits(), if is_large { 30 } else { 21 })?;
        let held = state.slots.get_mut(&(0, frame.bits())).ok_or(Error::InvalidCapability(0))?;
        let place = (vspace, vaddr.bits());
        if held.mapped.replace(place).is_some() {
            return Err(Error::InvalidCapability(0));
        }
        let mapped = (held.object, rights.write);
        let before = state.frames.insert(place, mapped);
        if before.is_some() { Err(Error::DeleteFirst) } else { Ok(()) }
    }
    fn frame_unmap(&self, frame: Cap<Frame>) -> Result<()> {
        let mut state = self.0.borrow_mut();
        let held = state.slots.get_mut(&(0, frame.bits())).ok_or(Error::InvalidCapability(0))?;
        if let Some(place) = held.mapped.take() {
            state.frames.remove(&place);
        }
        Ok(())
    }
    fn frame_get_address(&self, _frame: Cap<Frame>) -> Result<Paddr> {
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

    fn irq_control_get(&self, control: Cap<IrqControl>, dest: AbsoluteCPtr, _: IrqSource, _irq: u8) -> Result<()> {
        let mut state = self.0.borrow_mut();
        if state.own(control.bits())?.what != What::IrqControl {
            return Err(Error::InvalidCapability(0));
        }
        let place = state.place(dest)?;
        state.put(place, What::IrqHandler);
        Ok(())
    }
    fn msi_message(&self, _irq: u8) -> (u64, u32) {
        (0, 0)
    }
    fn irq_count(&self) -> u8 {
        108
    }
    fn irq_handler_ack(&self, handler: Cap<IrqHandler>) -> Result<()> {
        let mut state = self.0.borrow_mut();
        assert_eq!(state.own(handler.bits())?.what, What::IrqHandler);
        state.acked += 1;
        state.pin_masked.set(false);
        Ok(())
    }
    fn irq_handler_set_notification(&self, handler: Cap<IrqHandler>, notification: Cap<Notification>) -> Result<()> {
        let state = self.0.borrow();
        assert_eq!(state.own(handler.bits())?.what, What::IrqHandler);
        state.own_object(notification.bits(), ObjectType::Notification).map(|_| ())
    }
    fn irq_handler_clear(&self, _handler: Cap<IrqHandler>) -> Result<()> {
        Err(Error::IllegalOperation)
    }

    fn signal(&self, notification: Cap<Notification>) {
        self.0.borrow_mut().signalled.push(notification.bits());
    }
    fn send(&self, _dest: CPtr, _message: &Message) {}
    fn nb_send(&self, _dest: CPtr, _message: &Message) {}
    fn reply(&self, _message: &Message) {}
    async fn call(&self, _endpoint: Cap<Endpoint>, _message: &Message) -> Message {
        Message::default()
    }
}
