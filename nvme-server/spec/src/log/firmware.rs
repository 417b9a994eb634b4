//! The log page about firmware slots (section 5.14.1.3).

use bitfield_struct::bitfield;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Firmware Slot Information, log page 03h (section 5.14.1.3).
#[derive(Clone, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct FirmwareSlots {
    /// AFI. See [`ActiveFirmware`].
    pub afi: u8,
    reserved_1: [u8; 7],
    /// FRS1 to FRS7: the revision in each slot, ASCII; all zeroes for a slot that is empty or does not exist.
    pub revisions: [[u8; 8]; 7],
    reserved_64: [u8; 448],
}

const _: () = assert!(size_of::<FirmwareSlots>() == 512 && align_of::<FirmwareSlots>() == 1);

/// AFI of [`FirmwareSlots`].
#[bitfield(u8)]
#[derive(PartialEq, Eq)]
pub struct ActiveFirmware {
    /// The slot that runs, 1 to 7.
    #[bits(3)]
    pub active: u8,
    __: bool,
    /// The slot that runs after the next controller reset; 0 when none was chosen.
    #[bits(3)]
    pub next: u8,
    __: bool,
}
