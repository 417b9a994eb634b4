//! Limits of commands that move no data.

use super::Controller;
use crate::registers::Vs;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// I/O Command Set specific Identify Controller of the NVM command set (NVM command set specification 1.0, section 4.1.5.2,
/// figure 102). A field that is 0 states no limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct NvmLimits {
    /// VSL: a Verify has at most 2^VSL pages of the smallest size. See [`NvmLimits::verify_bytes`].
    pub vsl: u8,
    /// WZSL: the same of a Write Zeroes. See [`NvmLimits::zeroes_bytes`].
    pub wzsl: u8,
    /// WUSL: the same of a Write Uncorrectable.
    pub wusl: u8,
    /// DMRL: ranges of a Dataset Management.
    pub dmrl: u8,
    /// DMRSL: blocks of one of its ranges.
    pub dmrsl: U32,
    /// DMSL: blocks of all its ranges.
    pub dmsl: U64,
    reserved: [u8; 4080],
}

const _: () = assert!(size_of::<NvmLimits>() == 4096 && align_of::<NvmLimits>() == 1);

impl NvmLimits {
    /// The limits of a controller that states none.
    pub const NONE: Self =
        Self { vsl: 0, wzsl: 0, wusl: 0, dmrl: 0, dmrsl: U32::new(0), dmsl: U64::new(0), reserved: [0; 4080] };

    /// Whether a controller of this version has the structure, or one that has several I/O command sets (CAP.CSS bit 43).
    #[must_use]
    pub const fn are_stated(version: Vs, css_other: bool) -> bool {
        version.mjr() >= 2 || css_other
    }

    /// Bytes that a Write Zeroes may name, for a controller whose smallest page is `min_page_bytes`. Without WZSL they are those
    /// of a data transfer ([`Controller::max_transfer_bytes`]): controllers from before it are known to refuse more, though MDTS
    /// is not about commands without data. `None` is no limit.
    #[must_use]
    pub const fn zeroes_bytes(&self, about: &Controller, min_page_bytes: u32) -> Option<u64> {
        let pages = if self.wzsl == 0 { about.mdts } else { self.wzsl };
        super::controller::power_of_pages(pages, min_page_bytes)
    }

    /// Bytes that a Verify may name, for a controller whose smallest page is `min_page_bytes`. `None` is no limit.
    #[must_use]
    pub const fn verify_bytes(&self, min_page_bytes: u32) -> Option<u64> {
        super::controller::power_of_pages(self.vsl, min_page_bytes)
    }

    /// Blocks of a Dataset Management with one range. `None` is no limit.
    #[must_use]
    pub const fn range_blocks(&self) -> Option<u64> {
        match (self.dmrsl.get() as u64, self.dmsl.get()) {
            (0, 0) => None,
            (0, most) | (most, 0) => Some(most),
            (range, all) => Some(if range < all { range } else { all }),
        }
    }
}
