//! Upstream traffic of a function: DMA, messages, its pin. The bus master enable of the function and of the bridges is
//! applied here to everything, and blocked traffic is recorded.
//!
//! Neighbours: `msix` decides whether a vector is masked; the machine has the IOMMU. Left out: DMA from one function to
//! another; the machine sees its address and decides.

use crate::function::{Core, Reach};
use crate::host::HostBridge;
use crate::intx::Lines;
use crate::layout::MSI;
use crate::machine::{Blocked, Interrupts, Level, Machine, Upstream};
use crate::msix::{Gate, Raised};
use crate::record::{Batch, Direction, DmaFault, Violation};
use pci_spec::msi::{Control, Message};
use sim_page::{PAGE_BYTES, SharedPage};

/// Bytes of a message.
const DWORD: usize = 4;

/// State that belongs to no single function.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outer {
    pub(crate) host: HostBridge,
    pub(crate) batch: Batch,
    pub(crate) lines: Lines,
}

/// A function on its way up.
pub(crate) struct Line<'a> {
    pub(crate) core: &'a mut Core,
    pub(crate) outer: &'a mut Outer,
    pub(crate) machine: &'a mut dyn Machine,
}

impl Upstream for Line<'_> {
    fn dma_read(&mut self, address: u64, bytes: &mut [u8]) -> Result<(), Blocked> {
        self.read_up(address, bytes.len(), |machine, requester_id| machine.dma_read(requester_id, address, bytes))
    }

    fn dma_read_pages(&mut self, address: u64, count: usize, pages: &mut Vec<SharedPage>) -> Result<(), Blocked> {
        self.read_up(address, count.saturating_mul(PAGE_BYTES), |machine, requester_id| {
            machine.dma_read_pages(requester_id, address, count, pages)
        })
    }

    fn dma_write(&mut self, address: u64, bytes: &[u8]) -> Result<(), Blocked> {
        let done = match self.core.route.reach {
            Reach::Root if self.in_interrupt_range(address, bytes.len()) => self.interrupt_by_dma(address, bytes),
            Reach::Root => self.machine.dma_write(self.core.route.requester_id, address, bytes),
            _ => Err(self.blocked()),
        };
        done.inspect_err(|reason| self.fault(*reason, address, bytes.len(), Direction::Write))
    }

    fn dma_write_pages(&mut self, address: u64, pages: &[SharedPage]) -> Result<(), Blocked> {
        let length = pages.len() * PAGE_BYTES;
        let done = match self.core.route.reach {
            Reach::Root if self.in_interrupt_range(address, length) => {
                let places = (address..).step_by(PAGE_BYTES);
                places.zip(pages).try_for_each(|(place, page)| self.interrupt_by_dma(place, page.bytes()))
            }
            Reach::Root => self.machine.dma_write_pages(self.core.route.requester_id, address, pages),
            _ => Err(self.blocked()),
        };
        done.inspect_err(|reason| self.fault(*reason, address, length, Direction::Write))
    }

    fn interrupt(&mut self, vector: u16) {
        match self.core.interrupts() {
            Interrupts::Msix => self.raise_msix(vector),
            Interrupts::Msi => self.raise_msi(vector),
            Interrupts::Pin => {}
        }
    }

    fn pin(&mut self, level: Level) {
        self.core.wanted = level;
        self.settle_pin();
    }

    fn interrupts(&self) -> Interrupts {
        self.core.interrupts()
    }

    fn is_bus_master(&self) -> bool {
        self.core.route.reach == Reach::Root
    }
}

impl Line<'_> {
    /// Requests a read of `length` bytes from the machine, if the function's requests reach it.
    fn read_up(
        &mut self,
        address: u64,
        length: usize,
        read: impl FnOnce(&mut dyn Machine, u16) -> Result<(), Blocked>,
    ) -> Result<(), Blocked> {
        let done = match self.core.route.reach {
            Reach::Root if !self.in_interrupt_range(address, length) => {
                read(self.machine, self.core.route.requester_id)
            }
            _ => Err(self.blocked()),
        };
        done.inspect_err(|reason| self.fault(*reason, address, length, Direction::Read))
    }

    /// Reports the level of the pin to the machine, if it differs from the one that the machine saw last.
    pub(crate) fn settle_pin(&mut self) {
        const INTERRUPT_STATUS: u32 = 1 << 19;
        let wanted = if self.core.wanted == Level::Asserted { INTERRUPT_STATUS } else { 0 };
        self.core.space.set(crate::layout::COMMAND, wanted, INTERRUPT_STATUS);
        let level = self.core.pin_level();
        let Some(pin) = self.core.interrupt_line.filter(|_| level != self.core.shown) else { return };
        self.core.shown = level;
        self.outer.lines.change(pin, level, self.machine);
    }

    /// Sends pending messages that are not masked any more.
    pub(crate) fn deliver_pending(&mut self) {
        let gate = self.core.msix_gate();
        while let Some((vector, message)) = self.core.msix.as_mut().and_then(|msix| msix.take_deliverable(gate)) {
            self.send(vector, message);
        }
        if self.core.msi_is_on() {
            self.deliver_pending_msi();
        }
    }

    pub(crate) fn violation(&mut self, violation: Violation) {
        self.outer.batch.violation(self.core.id, self.core.route.bdf, violation);
    }

    fn raise_msix(&mut self, vector: u16) {
        let gate = self.core.msix_gate();
        let Some(msix) = &mut self.core.msix else { return };
        match msix.raise(vector, gate) {
            Raised::Send(message) => self.send(vector, message),
            Raised::Pending => debug_assert!(gate != Gate::Off, "raised while MSI-X is off"),
            Raised::NoSuchVector => self.violation(Violation::NoSuchVector { vector }),
        }
    }

    fn raise_msi(&mut self, vector: u16) {
        let space = &mut self.core.space;
        let control = Control::from_bits((space.read(MSI) >> 16) as u16);
        if vector >= u16::from(control.vectors().unwrap_or(1)) {
            return self.violation(Violation::NoSuchVector { vector });
        }
        // A function with fewer allocated vectors than it has sends its last ones as others (PCI 6.8.1).
        let given = 1u16 << control.enabled().min(control.capable()).min(5);
        let vector = vector % given;
        let bit = 1u32 << vector;
        if space.read(MSI + 16) & bit != 0 {
            space.set(MSI + 20, bit, bit);
            return;
        }
        let address = u64::from(space.read(MSI + 4)) | u64::from(space.read(MSI + 8)) << 32;
        let data = space.read(MSI + 12) & !u32::from(given - 1) | u32::from(vector);
        self.send(vector, Message { address, data });
    }

    fn deliver_pending_msi(&mut self) {
        let due = self.core.space.read(MSI + 20) & !self.core.space.read(MSI + 16);
        self.core.space.set(MSI + 20, 0, due);
        for vector in (0..32).filter(|vector| due >> vector & 1 != 0) {
            self.raise_msi(vector);
        }
    }

    /// Sends a message: a write of a dword. Nothing guarantees that its address is an interrupt's.
    fn send(&mut self, vector: u16, message: Message) {
        let Message { address, data } = message;
        if self.core.route.reach != Reach::Root {
            return self.violation(Violation::MessageWithoutBusMaster { vector });
        }
        let requester_id = self.core.route.requester_id;
        if self.outer.host.interrupt_range().contains(&address) {
            return self.machine.message(requester_id, address, data);
        }
        if address == 0 {
            self.violation(Violation::UnprogrammedVector { vector });
        } else {
            self.violation(Violation::MessageElsewhere { vector, address });
        }
        if let Err(reason) = self.machine.dma_write(requester_id, address, &data.to_le_bytes()) {
            self.fault(reason, address, DWORD, Direction::Write);
        }
    }

    /// Handles a device's own write into the interrupt range: an interrupt for each dword if it is aligned and all of it lies
    /// there, and otherwise an error.
    fn interrupt_by_dma(&mut self, address: u64, bytes: &[u8]) -> Result<(), Blocked> {
        self.violation(Violation::DmaIntoInterruptRange { address });
        let range = self.outer.host.interrupt_range();
        let (words, rest) = bytes.as_chunks::<DWORD>();
        let is_inside = address >= range.start && address.saturating_add(bytes.len() as u64) <= range.end;
        if !is_inside || !rest.is_empty() || !address.is_multiple_of(DWORD as u64) {
            return Err(Blocked::Refused);
        }
        for (place, data) in (address..).step_by(DWORD).zip(words) {
            self.machine.message(self.core.route.requester_id, place, u32::from_le_bytes(*data));
        }
        Ok(())
    }

    /// Whether any of the bytes lie in the interrupt range.
    fn in_interrupt_range(&self, address: u64, bytes: usize) -> bool {
        let range = self.outer.host.interrupt_range();
        address < range.end && address.saturating_add(bytes as u64) > range.start
    }

    fn blocked(&self) -> Blocked {
        match self.core.route.reach {
            Reach::Gone => Blocked::Gone,
            Reach::NotMaster => Blocked::NotBusMaster,
            Reach::Root => Blocked::Refused,
        }
    }

    fn fault(&mut self, reason: Blocked, address: u64, bytes: usize, direction: Direction) {
        if reason == Blocked::NotBusMaster {
            self.violation(Violation::DmaWithoutBusMaster);
        }
        let at_ns = self.outer.batch.now_ns;
        let (function, requester_id) = (self.core.id, self.core.route.requester_id);
        let bytes = bytes as u64;
        self.outer.batch.dma_fault(DmaFault { at_ns, function, requester_id, address, bytes, direction, reason });
    }
}
