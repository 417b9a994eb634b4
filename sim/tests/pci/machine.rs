//! A machine that records everything that reached it, and a device that acts on writes to its registers.

use sim_pci::{Blocked, Device, Interrupts, Level, Machine, Reset, Upstream, VirtualFunction};
use std::collections::BTreeMap;

/// The machine above: memory by bytes, one requester that the IOMMU blocks if there is one.
#[derive(Debug, Default)]
pub(super) struct Above {
    pub(super) memory: BTreeMap<u64, u8>,
    /// Requester id, address, data.
    pub(super) messages: Vec<(u16, u64, u32)>,
    pub(super) pins: Vec<(u8, Level)>,
    /// Requester ids of DMA that arrived.
    pub(super) requesters: Vec<u16>,
    pub(super) blocked: Option<u16>,
}

impl Above {
    fn admit(&mut self, requester_id: u16) -> Result<(), Blocked> {
        if self.blocked == Some(requester_id) {
            return Err(Blocked::Refused);
        }
        self.requesters.push(requester_id);
        Ok(())
    }
}

impl Machine for Above {
    fn dma_read(&mut self, requester_id: u16, address: u64, bytes: &mut [u8]) -> Result<(), Blocked> {
        self.admit(requester_id)?;
        for (at, byte) in (address..).zip(bytes) {
            *byte = self.memory.get(&at).copied().unwrap_or(0);
        }
        Ok(())
    }

    fn dma_write(&mut self, requester_id: u16, address: u64, bytes: &[u8]) -> Result<(), Blocked> {
        self.admit(requester_id)?;
        self.memory.extend((address..).zip(bytes.iter().copied()));
        Ok(())
    }

    fn message(&mut self, requester_id: u16, address: u64, data: u32) {
        self.messages.push((requester_id, address, data));
    }

    fn pin(&mut self, interrupt_line: u8, level: Level) {
        self.pins.push((interrupt_line, level));
    }
}

/// Registers of [`Worker`], in every BAR: a write takes effect at once.
pub(super) mod register {
    /// Raises the vector written.
    pub(crate) const RAISE: u64 = 0x08;
    /// Asserts the pin for 1, lets it go for 0.
    pub(crate) const PIN: u64 = 0x10;
    /// Writes [`super::WRITTEN`] by DMA to the address written.
    pub(crate) const DMA_WRITE: u64 = 0x18;
    /// Reads 8 bytes by DMA from the address written, into [`DATA`].
    pub(crate) const DMA_READ: u64 = 0x20;
    /// The value read last; otherwise kept as written.
    pub(crate) const DATA: u64 = 0x28;
    /// Writes this number of bytes by DMA into the interrupt range.
    pub(crate) const FAKE_INTERRUPT: u64 = 0x30;
    /// Raises vector 0 when the time that was written comes.
    pub(crate) const TIMER: u64 = 0x38;
}

/// The data that [`register::DMA_WRITE`] writes.
pub(super) const WRITTEN: u64 = 0x1122_3344_5566_7788;

#[derive(Debug, Default)]
pub(super) struct Worker {
    pub(super) data: u64,
    /// BAR and offset of each access.
    pub(super) accesses: Vec<(u8, u64)>,
    pub(super) resets: Vec<Reset>,
    /// The state of the virtual function around it, once it was reset.
    pub(super) state: Option<VirtualFunction>,
    pub(super) interrupts: Vec<Interrupts>,
    pub(super) results: Vec<Result<(), Blocked>>,
    timer_ns: Option<u64>,
}

impl Device for Worker {
    fn read(&mut self, bar: u8, offset: u64, _bytes: u8, _now_ns: u64) -> u64 {
        self.accesses.push((bar, offset));
        if offset == register::DATA { self.data } else { u64::from(bar) << 32 | offset }
    }

    fn write(&mut self, bar: u8, offset: u64, _bytes: u8, value: u64, _now_ns: u64, function: &mut dyn Upstream) {
        self.accesses.push((bar, offset));
        match offset {
            register::RAISE => function.interrupt(value as u16),
            register::PIN => function.pin(if value == 1 { Level::Asserted } else { Level::Deasserted }),
            register::DMA_WRITE => self.results.push(function.dma_write(value, &WRITTEN.to_le_bytes())),
            register::DMA_READ => {
                let mut bytes = [0; 8];
                self.results.push(function.dma_read(value, &mut bytes));
                self.data = u64::from_le_bytes(bytes);
            }
            register::DATA => self.data = value,
            register::FAKE_INTERRUPT => {
                self.results
                    .push(function.dma_write(0xfee0_0000, &[0x42, 0, 0, 0, 0, 0, 0, 0][..value.min(8) as usize]));
            }
            register::TIMER => self.timer_ns = Some(value),
            _ => {}
        }
    }

    fn reset(&mut self, reset: Reset, _now_ns: u64) {
        self.resets.push(reset);
        self.data = 0;
        self.timer_ns = None;
    }

    fn advance(&mut self, now_ns: u64, function: &mut dyn Upstream) {
        assert!(self.timer_ns.is_some_and(|at_ns| at_ns <= now_ns), "nothing was due");
        self.timer_ns = None;
        function.interrupt(0);
    }

    fn next_event_ns(&self) -> Option<u64> {
        self.timer_ns
    }

    fn interrupts_changed(&mut self, interrupts: Interrupts) {
        self.interrupts.push(interrupts);
    }

    fn virtual_function(&mut self, state: VirtualFunction) {
        self.state = Some(state);
    }
}
