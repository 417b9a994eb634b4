//! Configuration space of one function as dwords: bits that keep written values, bits that clear when a one is written,
//! and values at reset. The meaning of the bits is left to other modules.

/// Bytes of configuration space of a conventional function.
pub(crate) const CONVENTIONAL_BYTES: u16 = 256;
/// Bytes of configuration space of a PCI Express function.
pub(crate) const EXPRESS_BYTES: u16 = 4096;

#[derive(Clone, Copy, Debug, Default)]
struct Dword {
    value: u32,
    initial: u32,
    /// Bits that keep the values that software writes.
    writable: u32,
    /// Bits that clear when software writes one.
    clears: u32,
}

/// The dwords. Beyond them reads give all ones and writes are lost.
#[derive(Clone, Debug)]
pub(crate) struct Space {
    dwords: Vec<Dword>,
}

impl Space {
    /// Creates a space of zeroes that is read-only.
    pub(crate) fn new(bytes: u16) -> Self {
        Self { dwords: vec![Dword::default(); usize::from(bytes / 4)] }
    }

    /// Returns the dword at a byte offset.
    pub(crate) fn read(&self, register: u16) -> u32 {
        self.dwords.get(usize::from(register / 4)).map_or(u32::MAX, |dword| dword.value)
    }

    /// Appends all dwords to `bytes`, little endian.
    pub(crate) fn copy_to(&self, bytes: &mut Vec<u8>) {
        self.dwords.iter().for_each(|dword| bytes.extend(dword.value.to_le_bytes()));
    }

    /// Writes the bits in `mask` as software does. Returns the previous value.
    pub(crate) fn write(&mut self, register: u16, value: u32, mask: u32) -> u32 {
        let Some(dword) = self.dwords.get_mut(usize::from(register / 4)) else {
            return u32::MAX;
        };
        let before = dword.value;
        let kept = dword.writable & mask;
        dword.value = (before & !kept | value & kept) & !(value & mask & dword.clears);
        before
    }

    /// Sets the bits in `mask`, writable or not, as hardware does.
    pub(crate) fn set(&mut self, register: u16, value: u32, mask: u32) {
        if let Some(dword) = self.dwords.get_mut(usize::from(register / 4)) {
            dword.value = dword.value & !mask | value & mask;
        }
    }

    /// Defines a dword: its value now and after every reset, and the bits that software can write.
    pub(crate) fn define(&mut self, register: u16, value: u32, writable: u32) {
        self.define_with_clears(register, value, writable, 0);
    }

    /// Does the same as [`Space::define`], with bits that clear when a one is written.
    pub(crate) fn define_with_clears(&mut self, register: u16, value: u32, writable: u32, clears: u32) {
        if let Some(dword) = self.dwords.get_mut(usize::from(register / 4)) {
            *dword = Dword { value, initial: value, writable, clears };
        }
    }

    /// Sets bits that are the same after every reset.
    pub(crate) fn fix(&mut self, register: u16, value: u32, mask: u32) {
        self.set(register, value, mask);
        if let Some(dword) = self.dwords.get_mut(usize::from(register / 4)) {
            dword.initial = dword.initial & !mask | value & mask;
        }
    }

    /// Changes which bits of a dword software can write.
    pub(crate) fn make_writable(&mut self, register: u16, writable: u32) {
        if let Some(dword) = self.dwords.get_mut(usize::from(register / 4)) {
            dword.writable = writable;
            dword.value &= writable | dword.initial;
        }
    }

    /// Whether software can change no bit of a dword.
    pub(crate) fn is_read_only(&self, register: u16) -> bool {
        self.dwords.get(usize::from(register / 4)).is_none_or(|dword| dword.writable | dword.clears == 0)
    }

    /// Restores every dword as it was defined.
    pub(crate) fn reset(&mut self) {
        for dword in &mut self.dwords {
            dword.value = dword.initial;
        }
    }
}

#[cfg(test)]
#[path = "space_tests.rs"]
mod tests;
