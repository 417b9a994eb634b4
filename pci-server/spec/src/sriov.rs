//! The SR-IOV extended capability: the number of a function's virtual functions, their registers, and their routing ids
//! (PCIe 9.3.3).

use crate::Bdf;
use bitfield_struct::bitfield;

/// Byte offsets from the capability's start, each of an aligned dword.
pub mod offset {
    /// [`super::Control`] (15:0) and status (31:16).
    pub const CONTROL: u16 = 0x08;
    /// InitialVFs (15:0) and TotalVFs (31:16).
    pub const TOTAL: u16 = 0x0c;
    /// First VF Offset (15:0) and VF Stride (31:16): [`super::Routing`].
    pub const ROUTING: u16 = 0x14;
    /// System Page Size: one bit, of which bit n stands for 4 KiB << n.
    pub const SYSTEM_PAGE_SIZE: u16 = 0x20;
    /// The first of six BARs, each of which all virtual functions share, one part after the other.
    pub const BAR0: u16 = 0x24;
}

/// BARs that virtual functions share.
pub const BARS: usize = 6;
/// Bytes of the capability.
pub const BYTES: u16 = 0x40;
/// [`offset::SYSTEM_PAGE_SIZE`] for pages of 4 KiB, which every function supports.
pub const PAGES_OF_4_KIB: u32 = 1;

/// SR-IOV control (PCIe 9.3.3.3).
#[bitfield(u16)]
#[derive(PartialEq, Eq)]
pub struct Control {
    /// There are virtual functions.
    pub vf_enable: bool,
    #[bits(2)]
    __: u8,
    /// They answer memory cycles.
    pub vf_memory_space: bool,
    /// Everything else: to be written back as read.
    #[bits(12)]
    pub others: u16,
}

/// Which routing ids virtual functions have (PCIe 9.3.3.9, 9.3.3.10).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Routing {
    /// From the physical function's to the first one's.
    pub first: u16,
    /// From one to the next.
    pub stride: u16,
}

impl Routing {
    /// From the dword at [`offset::ROUTING`].
    #[must_use]
    pub const fn from_dword(dword: u32) -> Self {
        Self { first: dword as u16, stride: (dword >> 16) as u16 }
    }

    /// The bus of the last of `total` virtual functions of `physical`. `None` when there is none, or no such routing id.
    #[must_use]
    pub fn last_bus(self, physical: Bdf, total: u16) -> Option<u8> {
        let beyond_first = total.checked_sub(1)?.checked_mul(self.stride)?;
        let last = physical.to_raw().checked_add(self.first)?.checked_add(beyond_first)?;
        Some(Bdf::from_raw(last).bus())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn virtual_functions_may_need_further_buses() {
        let routing = Routing::from_dword(0x0002_0001);
        let physical = Bdf::from_raw(0x0100);
        assert_eq!(routing, Routing { first: 1, stride: 2 });
        assert_eq!(routing.last_bus(physical, 1), Some(1));
        assert_eq!(routing.last_bus(physical, 128), Some(1));
        assert_eq!(routing.last_bus(physical, 129), Some(2));
    }

    #[test]
    fn routing_ids_beyond_the_last_are_none() {
        let routing = Routing { first: 0xff00, stride: 1 };
        assert_eq!(routing.last_bus(Bdf::from_raw(0x0100), 1), None);
        assert_eq!(Routing { first: 1, stride: 0xffff }.last_bus(Bdf::default(), 3), None);
        assert_eq!(routing.last_bus(Bdf::default(), 0), None);
    }

    #[test]
    fn control_has_its_bits_in_their_places() {
        assert_eq!(Control::new().with_vf_enable(true).with_vf_memory_space(true).into_bits(), 0b1001);
    }
}
