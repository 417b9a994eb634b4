//! The bus between the controller and the rest: the function's address space, its interrupts, and the record of events.

use super::memory::Ram;
use nvme_spec::admin::Opcode;
use platform::Memory;
use std::collections::{BTreeMap, BTreeSet};
use zerocopy::FromBytes;

const PAGE: u64 = 4096;

/// Something that happened, in order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Act {
    /// The PCI server gave vector number, or the server bound it again.
    Vector(u16),
    /// The server took the notification from vector number.
    Stopped(u16),
    /// The PCI server turned bus mastering on.
    Started,
    /// CC.EN was written as 0.
    Reset,
    /// CC.EN became 1.
    Enabled,
    /// CC.SHN requested a shutdown.
    ShutDown,
    /// The claim was released.
    Returned,
    /// The controller did an admin command; its CDW10's lower half.
    Admin(Opcode, u16),
    /// The head doorbell of a completion queue.
    Released(u16),
    /// The handler of the interrupt was acknowledged, or the PCI server signalled.
    Acknowledged,
    /// The PCI server reset the function, to enable this many virtual functions.
    Functions(u16),
    /// The PCI server withdrew the virtual function of this number, or restored it.
    Withdrawn(u64),
    Restored(u64),
    /// The PCI server was asked for interrupts of this kind.
    Interrupts(u16),
    /// The frame in this slot was mapped for the device, or not any more.
    Mapped(u64),
    Unmapped(u64),
}

/// The function's way to interrupt.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Wires {
    Msix,
    Msi,
    /// The pin is masked from its interrupt to the acknowledgement.
    Intx {
        masked: bool,
    },
    /// A pin that others share, masked as the own one: the PCI server acknowledges.
    SharedIntx {
        masked: bool,
    },
}

#[derive(Debug)]
pub(crate) struct Bus {
    pub acts: Vec<Act>,
    /// Acts that a sound server does not do. A test fails if there are any.
    pub complaints: Vec<String>,
    /// IOVA page -> memory, offset in it.
    pub pages: BTreeMap<u64, (Ram, usize)>,
    /// Slot of a frame -> the IOVA page where it is mapped.
    pub mapped: BTreeMap<u64, u64>,
    /// Levels of IO page tables that are there: (shift, index).
    pub tables: BTreeSet<(u32, u64)>,
    /// Badges by vector; 0 for one without a notification.
    pub vectors: BTreeMap<u16, u64>,
    pub wires: Wires,
    /// The controller asserts its pin.
    asserted: bool,
    /// Signals on the server's notification.
    pub signals: u64,
}

impl Bus {
    pub(crate) fn new(wires: Wires) -> Self {
        Self {
            acts: vec![],
            complaints: vec![],
            pages: BTreeMap::new(),
            mapped: BTreeMap::new(),
            tables: BTreeSet::new(),
            vectors: BTreeMap::new(),
            wires,
            asserted: false,
            signals: 0,
        }
    }

    pub(crate) fn complain(&mut self, what: impl Into<String>) {
        self.complaints.push(what.into());
    }

    fn translate(&self, iova: u64) -> Option<(&Ram, usize)> {
        let (ram, offset) = self.pages.get(&(iova / PAGE))?;
        Some((ram, offset + (iova % PAGE) as usize))
    }

    /// A structure that lies in one page.
    pub(crate) fn read<T: FromBytes>(&mut self, iova: u64) -> Option<T> {
        let read = self.translate(iova).and_then(|(ram, offset)| ram.read(offset).ok());
        if read.is_none() {
            self.complain(format!("DMA read of {iova:#x}, which is not mapped"));
        }
        read
    }

    /// Bytes that lie in one page.
    pub(crate) fn fetch(&mut self, iova: u64, bytes: &mut [u8]) -> Option<()> {
        let done = self.translate(iova).and_then(|(ram, offset)| ram.read_bytes(offset, bytes).ok());
        if done.is_none() {
            self.complain(format!("DMA read of {iova:#x}, which is not mapped"));
        }
        done
    }

    pub(crate) fn store(&mut self, iova: u64, bytes: &[u8]) -> Option<()> {
        let done = self.translate(iova).and_then(|(ram, offset)| ram.write_bytes(offset, bytes).ok());
        if done.is_none() {
            self.complain(format!("DMA write of {iova:#x}, which is not mapped"));
        }
        done
    }

    pub(crate) fn interrupt(&mut self, vector: u16) {
        match self.vectors.get(&vector) {
            Some(badge) => self.signals |= badge,
            None => self.complain(format!("interrupt on vector {vector}, which nobody asked for")),
        }
    }

    /// The controller sends a vector's message, if it does not use its pin.
    pub(crate) fn message(&mut self, vector: u16) {
        if matches!(self.wires, Wires::Msix | Wires::Msi) {
            self.interrupt(vector);
        }
    }

    /// The controller sets its pin, which counts with INTx.
    pub(crate) fn set_pin(&mut self, asserted: bool) {
        self.asserted = asserted;
        if asserted {
            self.raise_pin();
        }
    }

    /// The pin interrupts unless it is masked.
    pub(crate) fn raise_pin(&mut self) {
        match &mut self.wires {
            Wires::Intx { masked } | Wires::SharedIntx { masked } if !*masked => {
                *masked = true;
                self.interrupt(0);
            }
            _ => {}
        }
    }

    /// The pin can interrupt again.
    pub(crate) fn unmask(&mut self) {
        self.acts.push(Act::Acknowledged);
        if let Wires::Intx { masked } | Wires::SharedIntx { masked } = &mut self.wires {
            *masked = false;
        }
        if self.asserted {
            self.raise_pin();
        }
    }
}
