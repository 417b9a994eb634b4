//! The MSI-X table and the pending bits of one function (PCI 6.8.2).
//!
//! A vector that is masked when it is raised waits in its pending bit and is sent once when nothing masks it any more.
//! Neighbours: `function` has enable and function mask, which are in configuration space; `upstream` sends. Left out:
//! clearing a pending bit when its reason is gone, which the standard lets devices do.

use crate::config::MsixConfig;
use core::ops::Range;
use pci_spec::msi::Message;
use pci_spec::msix::Entry;

/// Dwords of an entry.
const ENTRY_DWORDS: usize = 4;
/// The vector control's place in an entry.
const CONTROL: usize = 3;
const MASKED: u32 = 1;

/// Whether messages of a function may go out, by its control register.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Gate {
    /// MSI-X is off.
    Off,
    /// MSI-X is on and the function masked.
    Masked,
    /// The entries decide.
    Open,
}

/// Result of raising a vector.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Raised {
    /// The message is to be sent now.
    Send(Message),
    /// The vector is remembered in the pending bits.
    Pending,
    /// There is no such vector.
    NoSuchVector,
}

/// Result of a write into the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Written {
    /// The vector whose message was changed while it could be sent.
    pub(crate) changed_unmasked: Option<u16>,
    /// The vector that was unmasked while it was pending.
    pub(crate) unmasked_pending: Option<u16>,
}

/// Destination of an access to a BAR that is not the device's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    /// Byte offset in the table.
    Table(u64),
    /// Byte offset in the pending bits.
    Pending(u64),
}

#[derive(Clone, Debug)]
pub(crate) struct Msix {
    table_bar: u8,
    table: Range<u64>,
    pending_bar: u8,
    pending: Range<u64>,
    /// Entries as dwords: address, upper address, data, vector control.
    dwords: Vec<[u32; ENTRY_DWORDS]>,
    /// A bit per vector.
    waiting: Vec<u64>,
    vectors: u16,
}

impl Msix {
    pub(crate) fn new(config: MsixConfig) -> Self {
        let start = |offset: u32| u64::from(offset);
        let (table_bar, table) = config.table;
        let (pending_bar, pending) = config.pending;
        Self {
            table_bar,
            table: start(table)..start(table) + config.table_bytes(),
            pending_bar,
            pending: start(pending)..start(pending) + config.pending_bytes(),
            dwords: vec![[0, 0, 0, MASKED]; usize::from(config.vectors)],
            waiting: vec![0; usize::from(config.vectors.div_ceil(64))],
            vectors: config.vectors,
        }
    }

    /// All entries masked and empty, nothing pending.
    pub(crate) fn reset(&mut self) {
        self.dwords.fill([0, 0, 0, MASKED]);
        self.waiting.fill(0);
    }

    /// All entries unmasked, with the vector's number as data.
    pub(crate) fn number(&mut self, address: u32) {
        for (vector, entry) in (0..).zip(&mut self.dwords) {
            *entry = [address, 0, vector, 0];
        }
    }

    /// Returns the place of `offset` of `bar` in the table or the pending bits, if it lies there.
    pub(crate) fn place(&self, bar: u8, offset: u64) -> Option<Place> {
        if bar == self.table_bar && self.table.contains(&offset) {
            return Some(Place::Table(offset - self.table.start));
        }
        if bar == self.pending_bar && self.pending.contains(&offset) {
            return Some(Place::Pending(offset - self.pending.start));
        }
        None
    }

    /// Returns the byte ranges of `bar` that belong to the table or the pending bits.
    pub(crate) fn places(&self, bar: u8) -> impl Iterator<Item = Range<u64>> {
        let table = (self.table_bar == bar).then(|| self.table.clone());
        let pending = (self.pending_bar == bar).then(|| self.pending.clone());
        table.into_iter().chain(pending)
    }

    /// Reads 4 or 8 aligned bytes.
    pub(crate) fn read(&self, place: Place, bytes: u8) -> u64 {
        let (low, high) = match place {
            Place::Table(at) => (self.table_dword(at), self.table_dword(at | 4)),
            Place::Pending(at) => (self.pending_dword(at), self.pending_dword(at | 4)),
        };
        if bytes == 8 { u64::from(high) << 32 | u64::from(low) } else { u64::from(low) }
    }

    /// Writes a dword of the table at an aligned byte offset.
    pub(crate) fn write(&mut self, at: u64, value: u32, gate: Gate) -> Written {
        let mut written = Written::default();
        let Some((vector, field)) = self.field(at) else { return written };
        let Some(entry) = self.dwords.get_mut(usize::from(vector)) else { return written };
        let masked_before = entry[CONTROL] & MASKED != 0;
        let Some(dword) = entry.get_mut(field) else { return written };
        if field == CONTROL {
            *dword = value & MASKED;
            if masked_before && value & MASKED == 0 && self.is_waiting(vector) {
                written.unmasked_pending = Some(vector);
            }
        } else {
            if *dword != value && !masked_before && gate == Gate::Open {
                written.changed_unmasked = Some(vector);
            }
            *dword = value;
        }
        written
    }

    /// Raises a vector.
    pub(crate) fn raise(&mut self, vector: u16, gate: Gate) -> Raised {
        let Some(entry) = self.entry(vector) else { return Raised::NoSuchVector };
        if gate == Gate::Open && !entry.is_masked() {
            return Raised::Send(entry.message());
        }
        if let Some(word) = self.waiting.get_mut(usize::from(vector / 64)) {
            *word |= 1 << (vector % 64);
        }
        Raised::Pending
    }

    /// Takes the lowest pending vector that nothing masks out of the pending bits, and returns it with its message.
    pub(crate) fn take_deliverable(&mut self, gate: Gate) -> Option<(u16, Message)> {
        if gate != Gate::Open {
            return None;
        }
        for (word, first) in (0usize..).zip((0..self.vectors).step_by(64)) {
            let mut left = self.waiting.get(word).copied().unwrap_or(0);
            while left != 0 {
                let bit = left.trailing_zeros();
                left &= left - 1;
                let vector = first + bit as u16;
                if let Some(entry) = self.entry(vector).filter(|entry| !entry.is_masked()) {
                    if let Some(word) = self.waiting.get_mut(word) {
                        *word &= !(1 << bit);
                    }
                    return Some((vector, entry.message()));
                }
            }
        }
        None
    }

    fn is_waiting(&self, vector: u16) -> bool {
        self.waiting.get(usize::from(vector / 64)).is_some_and(|word| word >> (vector % 64) & 1 != 0)
    }

    fn entry(&self, vector: u16) -> Option<Entry> {
        let [address, address_upper, data, control] = *self.dwords.get(usize::from(vector))?;
        Some(Entry { address, address_upper, data, control })
    }

    /// Returns the vector and the dword in its entry that a byte offset in the table belongs to.
    fn field(&self, at: u64) -> Option<(u16, usize)> {
        let vector = u16::try_from(at >> 4).ok().filter(|vector| *vector < self.vectors)?;
        Some((vector, (at >> 2) as usize & CONTROL))
    }

    fn table_dword(&self, at: u64) -> u32 {
        let dword = self.field(at).and_then(|(vector, field)| self.dwords.get(usize::from(vector))?.get(field));
        dword.copied().unwrap_or(0)
    }

    fn pending_dword(&self, at: u64) -> u32 {
        let word = self.waiting.get((at / 8) as usize).copied().unwrap_or(0);
        if at & 4 == 0 { word as u32 } else { (word >> 32) as u32 }
    }
}

#[cfg(test)]
#[path = "msix_tests.rs"]
mod tests;
