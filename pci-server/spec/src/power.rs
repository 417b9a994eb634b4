//! Power management: a function's power state (PCI Power Management 1.2, section 3.2).

use bitfield_struct::bitfield;

/// Byte offset of the dword with [`Control`] in its lower half (PMCSR) from the capability's start.
pub const CONTROL: u8 = 4;
/// Milliseconds from the write that leaves D3hot to the next access to the function (PCI Power Management 1.2, section 5.6.1;
/// PCIe 5.0, section 5.9).
pub const RECOVERY_MS: u64 = 10;
/// D0: the only state in which a function works.
pub const D0: u8 = 0;

/// PMCSR (section 3.2.4).
#[bitfield(u16)]
#[derive(PartialEq, Eq)]
pub struct Control {
    /// PowerState: 0 to 3 for D0 to D3hot.
    #[bits(2)]
    pub state: u8,
    __: bool,
    /// No_Soft_Reset: the function keeps its registers on the way from D3hot to D0.
    pub no_soft_reset: bool,
    #[bits(4)]
    __: u8,
    /// PME_En: it reports events that wake it.
    pub event_enable: bool,
    #[bits(6)]
    __: u8,
    /// PME_Status, which a written one clears.
    pub event: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_has_the_bits_of_the_standard() {
        let control = Control::new().with_state(3).with_no_soft_reset(true).with_event_enable(true).with_event(true);
        assert_eq!(control.into_bits(), 0x810b);
    }
}
