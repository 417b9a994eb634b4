//! INTx pins and their route to the root (PCI 2.2.6; Bridge 9.1, table 9-1).

use core::fmt;

/// An interrupt pin, counted from 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum Pin {
    /// INTA.
    A = 0,
    /// INTB.
    B = 1,
    /// INTC.
    C = 2,
    /// INTD.
    D = 3,
}

impl Pin {
    /// From the interrupt pin register, where INTA is 1 (PCI 6.2.4). `None` for 0, no pin, and for impossible values.
    #[must_use]
    pub const fn from_register(register: u8) -> Option<Self> {
        match register {
            1 => Some(Self::A),
            2 => Some(Self::B),
            3 => Some(Self::C),
            4 => Some(Self::D),
            _ => None,
        }
    }

    /// 0..=3.
    #[must_use]
    pub const fn index(self) -> u8 {
        self as u8
    }
}

impl fmt::Display for Pin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "INT{self:?}")
    }
}

/// The pin at a bridge that `pin` of `device` below it is wired to: their sum modulo 4.
#[must_use]
pub const fn swizzle(pin: Pin, device: u8) -> Pin {
    // Two bits each: the sum cannot wrap.
    match (device & 3).wrapping_add(pin.index()) & 3 {
        0 => Pin::A,
        1 => Pin::B,
        2 => Pin::C,
        _ => Pin::D,
    }
}

/// A pin as it arrives at the root bus, where the chipset's own routing takes over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RootPin {
    /// The device on the root bus: the topmost bridge, or the function itself.
    pub device: u8,
    /// The pin of that device.
    pub pin: Pin,
}

/// Follows a pin up to the root bus.
///
/// `device` is the number of the function's device on its bus; `bridges` the device numbers of the bridges above it,
/// each on the bus it is on, from the nearest up to the one on the root bus.
#[must_use]
pub fn route_to_root(pin: Pin, device: u8, bridges: impl IntoIterator<Item = u8>) -> RootPin {
    let here = RootPin { device, pin };
    bridges.into_iter().fold(here, |below, bridge| RootPin { device: bridge, pin: swizzle(below.pin, below.device) })
}

#[cfg(test)]
#[path = "intx_tests.rs"]
mod tests;
