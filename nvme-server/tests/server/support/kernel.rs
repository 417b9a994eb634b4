//! The kernel as far as the server uses it, and behind `call` the PCI server. Refuses everything else.

use super::bus::{Act, Wires};
use super::world::{ALARM, ARENA, Object, PCI, RECEIVE, State, TICKS_PER_SECOND, World};
use pci_api::{BarRun, Bound, Claimed, Count, Index, MAX_RUNS};
use platform::alarm::SERVER_US;
use platform::fake::{Nobody, Partial};
use platform::{
    AbsoluteCPtr, Badge, CPtr, Cap, CapData, Endpoint, Error, Frame, IoPageTable, IoSpace, Iova, IrqHandler, Message,
    Notification, Result, Rights,
};

/// log2 of the bytes that an entry covers, in the IO page tables below the root, the largest first.
const LEVELS: [u32; 3] = [39, 30, 21];

impl State {
    fn fill(&mut self, slot: u64, object: Object) -> Result<()> {
        if self.slots.contains_key(&slot) {
            return Err(Error::DeleteFirst);
        }
        self.slots.insert(slot, object);
        Ok(())
    }

    fn missing_table(&self, iova: Iova) -> Option<(u32, u64)> {
        LEVELS.iter().map(|shift| (*shift, iova.bits() >> shift)).find(|level| !self.bus.tables.contains(level))
    }

    fn vector(&self, handler: Cap<IrqHandler>) -> u16 {
        match self.slots.get(&handler.bits()) {
            Some(Object::Handler(vector)) => *vector,
            other => panic!("a handler, not {other:?}"),
        }
    }

    /// The PCI server's answer.
    fn pci(&mut self, message: &Message) -> Message {
        let mut given = Message::new(pci_api::GRANTED);
        given.cap_received = true;
        match message.label {
            pci_api::CLAIM => {
                let mut runs = [BarRun::default(); MAX_RUNS];
                runs[0] = BarRun { vaddr: ARENA, first_page: 0, pages: 2, bar: 0 };
                let vectors = self.vectors();
                let claimed = Claimed { bdf: 0x18, requester_id: 0x18, vectors, run_count: 1, runs };
                Message::with(pci_api::GRANTED, &claimed)
            }
            pci_api::IO_SPACE => {
                self.fill(RECEIVE, Object::IoSpace).expect("an empty receive slot");
                given
            }
            pci_api::VECTOR => {
                let vector = message.payload::<Index>().expect("an index").0 as u16;
                let notification = message.cap.and_then(|cap| self.slots.get(&cap.bits()));
                let Some(Object::Notification(badge)) = notification else {
                    return Message::new(pci_api::Refusal::BadRequest as u32);
                };
                self.bus.vectors.insert(vector, *badge);
                self.bus.acts.push(Act::Vector(vector));
                let shared = matches!(self.bus.wires, Wires::SharedIntx { .. });
                let object = if shared { Object::Resume } else { Object::Handler(vector) };
                self.fill(RECEIVE, object).expect("an empty receive slot");
                let by = if shared { pci_api::BY_SERVER } else { pci_api::BY_HANDLER };
                given = Message::with(pci_api::GRANTED, &Bound { by });
                given.cap_received = true;
                given
            }
            pci_api::LIST => {
                if message.payload::<Index>().expect("an index").0 > 0 {
                    return Message::new(pci_api::Refusal::NoSuchFunction as u32);
                }
                let (msix_vectors, msi_vectors) = (self.msix_vectors, self.msi_vectors);
                let (vendor, device, class_code) = (0x1b36, 0x10, 0x01_08_02);
                let parent = u16::MAX;
                let function = pci_api::Function {
                    bdf: 0x18,
                    parent,
                    vendor,
                    device,
                    class_code,
                    msix_vectors,
                    msi_vectors,
                    pin: 1,
                };
                Message::with(pci_api::GRANTED, &function)
            }
            pci_api::VIRTUAL_FUNCTIONS => self.enable_functions(message.payload::<Index>().expect("a number").0),
            pci_api::WITHDRAW | pci_api::RESTORE => {
                if let Some(refusal) = self.refused_withdrawals.checked_sub(1) {
                    self.refused_withdrawals = refusal;
                    return Message::new(pci_api::Refusal::Kernel as u32);
                }
                let Index(number) = message.payload().expect("a number");
                let is_withdrawn = message.label == pci_api::WITHDRAW;
                self.bus.acts.push(if is_withdrawn { Act::Withdrawn(number) } else { Act::Restored(number) });
                Message::new(pci_api::GRANTED)
            }
            pci_api::INTERRUPTS => self.change_interrupts(message.payload::<Index>().expect("a kind").0 as u16),
            pci_api::RELEASE => {
                self.bus.acts.push(Act::Returned);
                self.is_released = true;
                self.slots.retain(|_, object| !matches!(object, Object::Handler(_) | Object::Resume | Object::IoSpace));
                self.bus.vectors.clear();
                Message::new(pci_api::GRANTED)
            }
            pci_api::START => {
                if self.controller.is_enabled() {
                    self.bus.complain("bus mastering of a controller that was not reset");
                }
                self.bus.acts.push(Act::Started);
                Message::new(pci_api::GRANTED)
            }
            _ => Message::new(pci_api::Refusal::BadRequest as u32),
        }
    }

    /// The vectors of a claim.
    fn vectors(&self) -> u16 {
        match self.bus.wires {
            Wires::Msix => self.msix_vectors,
            Wires::Msi => self.msi_vectors.into(),
            Wires::Intx { .. } | Wires::SharedIntx { .. } => 1,
        }
    }

    /// Enables virtual functions, which takes a fifth of a second. The answer is their number, 0 as long as the time runs.
    fn enable_functions(&mut self, number: u64) -> Message {
        if self.controller.is_enabled() {
            self.bus.complain("virtual functions of a controller that is enabled");
        }
        let ready_at = *self.functions_at.get_or_insert_with(|| {
            self.bus.acts.push(Act::Functions(number as u16));
            self.controller.reset_function(&mut self.bus);
            self.now + TICKS_PER_SECOND / 5
        });
        let is_ready = self.now >= ready_at;
        if is_ready {
            self.controller.enable_functions();
        }
        Message::with(pci_api::GRANTED, &Count(if is_ready { number } else { 0 }))
    }

    /// Changes the interrupt mode. All old vectors end, even if the new ones are refused.
    fn change_interrupts(&mut self, kind: u16) -> Message {
        if self.controller.is_enabled() {
            self.bus.complain("interrupts of a controller that is enabled were changed");
        }
        self.bus.acts.push(Act::Interrupts(kind));
        self.slots.retain(|_, object| !matches!(object, Object::Handler(_) | Object::Resume));
        self.bus.vectors.clear();
        if self.refused_interrupts == Some(kind) {
            return Message::new(pci_api::Refusal::Exhausted as u32);
        }
        self.bus.wires = match kind {
            pci_api::INTERRUPTS_MSIX => Wires::Msix,
            pci_api::INTERRUPTS_MSI => Wires::Msi,
            _ => Wires::Intx { masked: false },
        };
        Message::with(pci_api::GRANTED, &Count(self.vectors().into()))
    }

    /// Answers a call, once.
    pub(super) fn answer(&mut self, call: u64, message: &Message) {
        let earlier = self.answers.insert(call, message.clone());
        assert!(earlier.is_none(), "call {call} was answered twice");
    }
}

impl Partial for World {
    type Rest = Nobody;

    fn rest(&self) -> Nobody {
        Nobody("the server")
    }

    fn cnode_mint(&self, dest: AbsoluteCPtr, _: AbsoluteCPtr, rights: Rights, data: CapData) -> Result<()> {
        assert_eq!(rights, Rights::WRITE, "an interrupt needs no more than to signal");
        match data {
            CapData::Badge(Badge(badge)) => self.state().fill(dest.index, Object::Notification(badge)),
            _ => Err(Error::IllegalOperation),
        }
    }

    fn cnode_move(&self, dest: AbsoluteCPtr, src: AbsoluteCPtr) -> Result<()> {
        let object = self.state().slots.remove(&src.index).ok_or(Error::FailedLookup)?;
        self.state().fill(dest.index, object)
    }

    fn cnode_save_caller(&self, slot: AbsoluteCPtr) -> Result<()> {
        let mut state = self.state();
        if state.slots.contains_key(&slot.index) {
            return Err(Error::DeleteFirst);
        }
        // A message that was sent and not called has no caller to save.
        if let Some(call) = state.open_call.take() {
            state.fill(slot.index, Object::Caller(call))?;
        }
        Ok(())
    }

    fn cnode_delete(&self, slot: AbsoluteCPtr) -> Result<()> {
        self.state().slots.remove(&slot.index);
        Ok(())
    }

    fn frame_unmap(&self, frame: Cap<Frame>) -> Result<()> {
        let mut state = self.state();
        if let Some(page) = state.bus.mapped.remove(&frame.bits()) {
            state.bus.pages.remove(&page);
        }
        state.bus.acts.push(Act::Unmapped(frame.bits()));
        Ok(())
    }

    fn frame_map_io(&self, frame: Cap<Frame>, io_space: Cap<IoSpace>, rights: Rights, iova: Iova) -> Result<()> {
        let mut state = self.state();
        assert_eq!(state.slots.get(&io_space.bits()), Some(&Object::IoSpace));
        assert_eq!((rights, iova.page_offset()), (Rights::READ_WRITE, 0));
        let (ram, offset) = state.frames.get(&frame.bits()).ok_or(Error::InvalidCapability(0))?.clone();
        if state.bus.mapped.contains_key(&frame.bits()) {
            return Err(Error::InvalidCapability(0));
        }
        if state.missing_table(iova).is_some() {
            return Err(Error::FailedLookup);
        }
        let page = iova.bits() / 4096;
        let earlier = state.bus.pages.insert(page, (ram, offset));
        assert!(earlier.is_none(), "two frames at {iova}");
        state.bus.mapped.insert(frame.bits(), page);
        state.bus.acts.push(Act::Mapped(frame.bits()));
        Ok(())
    }

    fn io_page_table_map(&self, table: Cap<IoPageTable>, _: Cap<IoSpace>, iova: Iova) -> Result<()> {
        let mut state = self.state();
        if state.refused_tables > 0 {
            state.refused_tables -= 1;
            return Err(Error::IllegalOperation);
        }
        assert!(state.tables_left.remove(&table.bits()), "a page table that is there and unused");
        let missing = state.missing_table(iova).ok_or(Error::DeleteFirst)?;
        state.bus.tables.insert(missing);
        Ok(())
    }

    fn irq_handler_ack(&self, handler: Cap<IrqHandler>) -> Result<()> {
        let mut state = self.state();
        assert_eq!(state.slots.get(&handler.bits()), Some(&Object::Handler(0)));
        state.bus.unmask();
        Ok(())
    }

    fn irq_handler_set_notification(&self, handler: Cap<IrqHandler>, notification: Cap<Notification>) -> Result<()> {
        let mut state = self.state();
        let vector = state.vector(handler);
        let Some(Object::Notification(badge)) = state.slots.get(&notification.bits()).copied() else {
            return Err(Error::InvalidCapability(0));
        };
        state.bus.vectors.insert(vector, badge);
        state.bus.acts.push(Act::Vector(vector));
        Ok(())
    }

    fn irq_handler_clear(&self, handler: Cap<IrqHandler>) -> Result<()> {
        let mut state = self.state();
        let vector = state.vector(handler);
        state.bus.vectors.insert(vector, 0);
        state.bus.acts.push(Act::Stopped(vector));
        Ok(())
    }

    fn signal(&self, notification: Cap<Notification>) {
        let mut state = self.state();
        match state.slots.get(&notification.bits()) {
            _ if (ALARM..ALARM + SERVER_US.len() as u64).contains(&notification.bits()) => state.alarms += 1,
            // Its own.
            Some(Object::Notification(badge)) => state.bus.signals |= *badge,
            Some(Object::Resume) => state.bus.unmask(),
            _ => *state.client_signals.entry(notification.bits()).or_default() += 1,
        }
    }

    fn nb_send(&self, dest: CPtr, message: &Message) {
        let mut state = self.state();
        if let Some(Object::Caller(call)) = state.slots.get(&dest.bits()).copied() {
            state.slots.remove(&dest.bits());
            state.answer(call, message);
        }
    }

    fn reply(&self, message: &Message) {
        let mut state = self.state();
        if let Some(call) = state.open_call.take() {
            state.answer(call, message);
        }
    }

    async fn call(&self, endpoint: Cap<Endpoint>, message: &Message) -> Message {
        assert_eq!(endpoint.bits(), PCI);
        self.state().pci(message)
    }
}
