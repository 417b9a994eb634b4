//! Typed addresses. A device, a CPU mapping and the memory bus read the same number differently; the types keep the meanings
//! apart.

use core::fmt;
use serde::{Deserialize, Serialize};

/// log2 of the page size.
pub const PAGE_BITS: u32 = 12;
/// Bytes in a page, of the MMU and of the IOMMU.
pub const PAGE_SIZE: usize = 1 << PAGE_BITS;

const PAGE_MASK: u64 = PAGE_SIZE as u64 - 1;

macro_rules! address {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
        #[cfg_attr(feature = "defmt", derive(defmt::Format))]
        #[repr(transparent)]
        pub struct $name(u64);

        impl $name {
            /// The address with this number.
            #[must_use]
            pub const fn new(address: u64) -> Self {
                Self(address)
            }

            /// The bare number.
            #[must_use]
            pub const fn bits(self) -> u64 {
                self.0
            }

            /// `bytes` further on, unless that leaves the 64-bit space.
            #[must_use]
            pub const fn checked_add(self, bytes: u64) -> Option<Self> {
                match self.0.checked_add(bytes) {
                    Some(sum) => Some(Self(sum)),
                    None => None,
                }
            }

            /// Bytes from the start of its page.
            #[must_use]
            pub const fn page_offset(self) -> usize {
                (self.0 & PAGE_MASK) as usize
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({:#x})"), self.0)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:#x}", self.0)
            }
        }
    };
}

address!(
    /// A physical address, of the memory bus.
    Paddr
);
address!(
    /// A virtual address of one component.
    Vaddr
);
address!(
    /// An address that a device behind the IOMMU puts on the bus.
    Iova
);
