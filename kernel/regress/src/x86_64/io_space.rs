//! Tools of the root task that only this architecture's tests need: address spaces of devices, handlers of messages.

use crate::machine::{CNODE, DEPTH, Frame, Machine, READ_WRITE};
use crate::sys::{self, Slot, values};
use crate::verdict::{Check, Failure};

impl Frame {
    /// The frame's first word.
    pub(crate) fn read(&self) -> u64 {
        // SAFETY: the frame is mapped at this address and nothing of this program lies there.
        unsafe { sys::volatile_read(self.address()) }
    }
}

impl Machine {
    /// Deletes every capability derived from one.
    pub(crate) fn revoke(&mut self, slot: Slot) -> Check {
        sys::invoke(CNODE, values::CNODE_REVOKE, &[slot, DEPTH], &[])
            .map_err(|error| Failure::Broken("revoke", error))?;
        Ok(())
    }

    /// The address space of a PCI function, empty.
    pub(crate) fn io_space(&mut self, requester_id: u16, domain: u16) -> Check<Slot> {
        self.mint(values::CAP_IO_SPACE as Slot, u64::from(domain) << 16 | u64::from(requester_id))
            .map_err(|error| Failure::Broken("minting an IOSpace", error))
    }

    /// Installs the next missing IO page table over `iova`.
    pub(crate) fn map_io_table(&mut self, io_space: Slot, iova: u64) -> Check<Slot> {
        let table = self.object(values::IO_PAGE_TABLE_OBJECT)?;
        self.map_this_io_table(table, io_space, iova)?;
        Ok(table)
    }

    /// Installs this IO page table as the next missing one over `iova`.
    pub(crate) fn map_this_io_table(&mut self, table: Slot, io_space: Slot, iova: u64) -> Check {
        sys::invoke(table, values::IO_PAGE_TABLE_MAP, &[iova], &[io_space])
            .map_err(|error| Failure::Broken("mapping an IO page table", error))?;
        Ok(())
    }

    /// Unmaps an IO page table, or returns the kernel's error.
    pub(crate) fn unmap_io_table(&mut self, table: Slot) -> Result<(), u64> {
        sys::invoke(table, values::IO_PAGE_TABLE_UNMAP, &[], &[]).map(|_| ())
    }

    /// Maps a frame for the device through a fresh copy of its capability, and returns that copy.
    pub(crate) fn map_io(&mut self, frame: &Frame, io_space: Slot, iova: u64) -> Check<Slot> {
        self.try_map_io(frame, io_space, iova)?
            .map_err(|error| Failure::Broken("mapping a frame for the device", error))
    }

    /// Whether the slot `io_space` still holds an IOSpace. The test maps a frame at `iova`, which has its tables.
    pub(crate) fn is_io_space(&mut self, io_space: Slot, iova: u64) -> Check<bool> {
        let frame = self.frame()?;
        match self.try_map_io(&frame, io_space, iova)? {
            Ok(_) => Ok(true),
            Err(error) if error == values::ERROR_INVALID_CAPABILITY as u64 => Ok(false),
            Err(error) => Err(Failure::Broken("mapping through an IOSpace that may be gone", error)),
        }
    }

    fn try_map_io(&mut self, frame: &Frame, io_space: Slot, iova: u64) -> Check<Result<Slot, u64>> {
        let copy = self.copy(frame.spare)?;
        Ok(sys::invoke(copy, values::PAGE_MAP_IO, &[READ_WRITE, iova], &[io_space]).map(|_| copy))
    }

    /// A handler for the message-signalled interrupt `irq` of a function, bound to no notification.
    pub(crate) fn msi_handler(&mut self, requester_id: u16, irq: u64) -> Check {
        let slot = self.empty_slot();
        let (bus, device, function) = (requester_id >> 8, requester_id >> 3 & 0x1f, requester_id & 7);
        let words = [slot, DEPTH, bus.into(), device.into(), function.into(), 0, irq];
        sys::invoke(values::CAP_IRQ_CONTROL as Slot, values::IRQ_GET_MSI, &words, &[CNODE])
            .map_err(|error| Failure::Broken("making an interrupt handler", error))?;
        Ok(())
    }
}
