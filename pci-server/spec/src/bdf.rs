//! Bus, device and function: the name of a function, and the requester id of its requests.

use core::fmt;
use core::str::FromStr;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// A bus (0..=255), a device on it (0..=31) and a function of that (0..=7), in the 16 bits of a requester id.
///
/// Bus in bits 15:8, device in 7:3, function in 2:0, so that every value is a valid one. Printed as `00:03.0`.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(transparent)]
pub struct Bdf(u16);

impl Bdf {
    /// `None` when the device is above 31 or the function above 7.
    #[must_use]
    pub const fn new(bus: u8, device: u8, function: u8) -> Option<Self> {
        if device > 31 || function > 7 {
            return None;
        }
        Some(Self(((bus as u16) << 8) | ((device as u16) << 3) | function as u16))
    }

    /// From the 16 bits of a requester id.
    #[must_use]
    pub const fn from_raw(raw: u16) -> Self {
        Self(raw)
    }

    /// The 16 bits of a requester id.
    #[must_use]
    pub const fn to_raw(self) -> u16 {
        self.0
    }

    /// The bus.
    #[must_use]
    pub const fn bus(self) -> u8 {
        (self.0 >> 8) as u8
    }

    /// The device on the bus, 0..=31.
    #[must_use]
    pub const fn device(self) -> u8 {
        ((self.0 >> 3) & 31) as u8
    }

    /// The function of the device, 0..=7.
    #[must_use]
    pub const fn function(self) -> u8 {
        (self.0 & 7) as u8
    }

    /// Byte offset of the function's 4 KiB of configuration space in an ECAM region for buses from `first_bus` on
    /// (PCIe 7.2.2). `None` for a bus before that.
    #[must_use]
    pub const fn ecam_offset(self, first_bus: u8) -> Option<usize> {
        match self.bus().checked_sub(first_bus) {
            Some(bus) => Some(((bus as usize) << 20) | (((self.0 & 0xff) as usize) << 12)),
            None => None,
        }
    }
}

impl fmt::Display for Bdf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:02x}:{:02x}.{}", self.bus(), self.device(), self.function())
    }
}

/// The text is not of the form `bus:device.function`: hexadecimal up to `ff`, hexadecimal up to `1f`, up to `7`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ParseBdfError;

impl fmt::Display for ParseBdfError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a bus, device and function such as 00:03.0")
    }
}

impl core::error::Error for ParseBdfError {}

impl FromStr for Bdf {
    type Err = ParseBdfError;

    fn from_str(text: &str) -> Result<Self, ParseBdfError> {
        let (bus, rest) = text.split_once(':').ok_or(ParseBdfError)?;
        let (device, function) = rest.split_once('.').ok_or(ParseBdfError)?;
        Self::new(hex(bus)?, hex(device)?, hex(function)?).ok_or(ParseBdfError)
    }
}

fn hex(digits: &str) -> Result<u8, ParseBdfError> {
    // The library's parser would take a sign as well.
    if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return Err(ParseBdfError);
    }
    u8::from_str_radix(digits, 16).map_err(|_| ParseBdfError)
}

#[cfg(test)]
#[path = "bdf_tests.rs"]
mod tests;
