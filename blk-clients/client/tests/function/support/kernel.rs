//! The kernel as far as a client with a function uses it; behind `call`, the PCI server. Refuses everything else.

use super::machine::{ALARM, ARENA, BAR_PAGES, EVENT, Machine, Object, PCI, RECEIVE, State};
use pci_api::{BY_HANDLER, BarRun, Bound, Claim, Claimed, Index, MAX_RUNS, Refusal};
use platform::alarm::CLIENT_US;
use platform::fake::{Nobody, Partial};
use platform::{
    AbsoluteCPtr, Badge, Cap, CapData, Endpoint, Error, Frame, IoPageTable, IoSpace, Iova, IrqHandler, Message,
    Notification, Paddr, Result, Rights,
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

    fn pci(&mut self, message: &Message) -> Message {
        let refused = |refusal: Refusal| Message::new(refusal as u32);
        let mut given = Message::new(pci_api::GRANTED);
        given.cap_received = true;
        match message.label {
            pci_api::CLAIM if self.is_withdrawn => refused(Refusal::Withdrawn),
            pci_api::CLAIM if self.now_ns < self.claimable_at_ns => refused(self.claim_refusal),
            pci_api::CLAIM if self.is_claimed => refused(Refusal::Busy),
            pci_api::CLAIM => {
                let claim: Claim = message.payload().expect("a claim");
                assert_eq!((claim.interrupts, claim.class_code), (pci_api::INTERRUPTS_MSIX, 0x01_08_02));
                self.is_claimed = true;
                let mut runs = [BarRun::default(); MAX_RUNS];
                runs[0] = BarRun { vaddr: ARENA, first_page: 0, pages: BAR_PAGES, bar: 0 };
                let claimed = Claimed { bdf: 0x19, requester_id: 0x19, vectors: self.vectors, run_count: 1, runs };
                Message::with(pci_api::GRANTED, &claimed)
            }
            _ if !self.is_claimed => refused(Refusal::NotClaimed),
            label if self.claim_is_withdrawn && label != pci_api::RELEASE => refused(Refusal::Withdrawn),
            pci_api::LIST => refused(Refusal::NoSuchFunction),
            pci_api::IO_SPACE if !self.iommu => refused(Refusal::NoIommu),
            pci_api::IO_SPACE => {
                self.fill(RECEIVE, Object::IoSpace).expect("an empty receive slot");
                given
            }
            pci_api::VECTOR => {
                let vector = message.payload::<Index>().expect("an index").0 as u16;
                let notification = message.cap.and_then(|cap| self.slots.get(&cap.bits()));
                let Some(Object::Notification(badge)) = notification else { return refused(Refusal::BadRequest) };
                self.bus.vectors.insert(vector, *badge);
                self.fill(RECEIVE, Object::Handler(vector)).expect("an empty receive slot");
                given = Message::with(pci_api::GRANTED, &Bound { by: BY_HANDLER });
                given.cap_received = true;
                given
            }
            pci_api::START => Message::new(pci_api::GRANTED),
            pci_api::RELEASE => {
                (self.is_claimed, self.claim_is_withdrawn) = (false, false);
                self.controller.function_level_reset();
                self.bus.pages.clear();
                self.bus.tables.clear();
                self.bus.vectors.clear();
                self.slots.retain(|_, object| matches!(object, Object::Notification(_)));
                Message::new(pci_api::GRANTED)
            }
            _ => refused(Refusal::BadRequest),
        }
    }
}

impl Partial for Machine {
    type Rest = Nobody;

    fn rest(&self) -> Nobody {
        Nobody("a client")
    }

    fn cnode_mint(&self, dest: AbsoluteCPtr, src: AbsoluteCPtr, rights: Rights, data: CapData) -> Result<()> {
        assert_eq!((rights, src.index), (Rights::WRITE, EVENT), "an interrupt needs no more than to signal");
        match data {
            CapData::Badge(Badge(badge)) => self.state().fill(dest.index, Object::Notification(badge)),
            _ => Err(Error::IllegalOperation),
        }
    }

    fn cnode_move(&self, dest: AbsoluteCPtr, src: AbsoluteCPtr) -> Result<()> {
        let object = self.state().slots.remove(&src.index).ok_or(Error::FailedLookup)?;
        self.state().fill(dest.index, object)
    }

    fn cnode_delete(&self, slot: AbsoluteCPtr) -> Result<()> {
        self.state().slots.remove(&slot.index);
        Ok(())
    }

    fn frame_unmap(&self, frame: Cap<Frame>) -> Result<()> {
        self.state().bus.pages.retain(|_, (_, _, slot)| *slot != frame.bits());
        Ok(())
    }

    fn frame_get_address(&self, frame: Cap<Frame>) -> Result<Paddr> {
        // Without an IOMMU the device reaches all memory.
        let mut state = self.state();
        let (ram, offset) = state.frames.get(&frame.bits()).ok_or(Error::InvalidCapability(0))?.clone();
        let paddr = frame.bits() << 12;
        state.bus.pages.insert(paddr >> 12, (ram, offset, frame.bits()));
        Ok(Paddr::new(paddr))
    }

    fn frame_map_io(&self, frame: Cap<Frame>, io_space: Cap<IoSpace>, rights: Rights, iova: Iova) -> Result<()> {
        let mut state = self.state();
        assert_eq!(state.slots.get(&io_space.bits()), Some(&Object::IoSpace));
        assert_eq!((rights, iova.page_offset()), (Rights::READ_WRITE, 0));
        let (ram, offset) = state.frames.get(&frame.bits()).ok_or(Error::InvalidCapability(0))?.clone();
        if state.bus.pages.values().any(|(_, _, slot)| *slot == frame.bits()) {
            return Err(Error::InvalidCapability(0));
        }
        if state.missing_table(iova).is_some() {
            return Err(Error::FailedLookup);
        }
        let earlier = state.bus.pages.insert(iova.bits() >> 12, (ram, offset, frame.bits()));
        assert!(earlier.is_none(), "two frames at {iova}");
        Ok(())
    }

    fn io_page_table_map(&self, table: Cap<IoPageTable>, _: Cap<IoSpace>, iova: Iova) -> Result<()> {
        let mut state = self.state();
        assert!(state.tables_left.remove(&table.bits()), "a page table that is there and unused");
        let missing = state.missing_table(iova).ok_or(Error::DeleteFirst)?;
        state.bus.tables.insert(missing);
        Ok(())
    }

    fn io_page_table_unmap(&self, table: Cap<IoPageTable>) -> Result<()> {
        self.state().tables_left.insert(table.bits());
        Ok(())
    }

    fn irq_masks_messages(&self) -> bool {
        self.state().bus.has_masks()
    }

    fn irq_handler_ack(&self, handler: Cap<IrqHandler>) -> Result<()> {
        let mut state = self.state();
        let Some(Object::Handler(vector)) = state.slots.get(&handler.bits()).copied() else {
            return Err(Error::InvalidCapability(0));
        };
        state.acknowledged += 1;
        state.bus.unmask(vector);
        Ok(())
    }

    fn signal(&self, notification: Cap<Notification>) {
        let length = notification.bits().checked_sub(ALARM).and_then(|length| CLIENT_US.get(length as usize));
        self.state()
            .set_alarm(u64::from(*length.expect("a client with a function signals the supervisor alone")) * 1000);
    }

    async fn call(&self, endpoint: Cap<Endpoint>, message: &Message) -> Message {
        assert_eq!(endpoint.bits(), PCI, "a client with a function calls the PCI server alone");
        let mut state = self.state();
        state.calls.push(message.label);
        state.pci(message)
    }
}
