//! Base address registers: their kind, their size, and checks of both (PCI 6.2.5).
//!
//! Sizing writes all ones and reads back which address bits stuck. A function may read back anything; a BAR that passes
//! [`Bar::decode`] has a size that is a power of two and an end that has an address.

use core::fmt;

/// A BAR as read twice: as it stands, and after all ones were written. Decoding must be off in between.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RawBar {
    /// As it stands.
    pub value: u32,
    /// After all ones were written.
    pub sized: u32,
}

/// Kind of address space that a BAR decodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BarKind {
    /// I/O ports.
    Io,
    /// Memory below 4 GiB.
    Memory32(Prefetch),
    /// Memory anywhere; takes this BAR and the next.
    Memory64(Prefetch),
}

/// Whether reading has side effects.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Prefetch {
    /// Reading has side effects, or may have.
    NonPrefetchable,
    /// Reading has none; bridges may forward it in their prefetchable window.
    Prefetchable,
}

/// A BAR that passed all checks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bar {
    index: u8,
    kind: BarKind,
    address: u64,
    size: u64,
}

/// Why a BAR was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BarError {
    /// A reserved bit or type is set, among them 'below 1 MiB', which PCI 3.0 took back.
    ReservedType {
        /// Which BAR.
        index: u8,
    },
    /// Bits that only give the type changed while sizing.
    TypeChanged {
        /// Which BAR.
        index: u8,
    },
    /// A 64-bit BAR in the last place has no upper half.
    NoUpperHalf {
        /// Which BAR.
        index: u8,
    },
    /// The bits that stuck are not those of a power of two, or there are none.
    ImpossibleSize {
        /// Which BAR.
        index: u8,
        /// Address bits that stuck.
        mask: u64,
    },
    /// The address is not a multiple of the size, although bits below the size cannot be set.
    Misaligned {
        /// Which BAR.
        index: u8,
        /// The BAR's address.
        address: u64,
    },
}

impl fmt::Display for BarError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ReservedType { index } => write!(f, "BAR {index} is of a reserved type"),
            Self::TypeChanged { index } => {
                write!(f, "BAR {index} changed its type while it was sized")
            }
            Self::NoUpperHalf { index } => write!(f, "BAR {index} is 64 bits wide but the last"),
            Self::ImpossibleSize { index, mask } => {
                write!(f, "BAR {index} has the impossible size mask {mask:#x}")
            }
            Self::Misaligned { index, address } => {
                write!(f, "BAR {index} is misaligned at {address:#x}")
            }
        }
    }
}

impl core::error::Error for BarError {}

const IO_FLAGS: u32 = 0b11;
const MEMORY_FLAGS: u32 = 0b1111;

impl Bar {
    /// Decodes BAR `index`; `next` is the BAR after it, if there is one. `Ok(None)` for one that is not implemented.
    ///
    /// # Errors
    ///
    /// A [`BarError`] for impossible values.
    pub const fn decode(index: u8, raw: RawBar, next: Option<RawBar>) -> Result<Option<Self>, BarError> {
        if raw.sized == 0 && raw.value == 0 {
            return Ok(None);
        }
        let flags = if raw.value & 1 == 1 { IO_FLAGS } else { MEMORY_FLAGS };
        if (raw.value ^ raw.sized) & flags != 0 {
            return Err(BarError::TypeChanged { index });
        }
        let prefetch = if raw.value & 8 == 0 { Prefetch::NonPrefetchable } else { Prefetch::Prefetchable };
        match raw.value & 0b111 {
            0b000 => {
                let mask = (raw.sized & !MEMORY_FLAGS) as u64;
                let address = (raw.value & !MEMORY_FLAGS) as u64;
                Self::check(index, BarKind::Memory32(prefetch), address, mask)
            }
            0b100 => {
                let Some(upper) = next else {
                    return Err(BarError::NoUpperHalf { index });
                };
                let mask = (raw.sized & !MEMORY_FLAGS) as u64 | ((upper.sized as u64) << 32);
                let address = (raw.value & !MEMORY_FLAGS) as u64 | ((upper.value as u64) << 32);
                Self::check(index, BarKind::Memory64(prefetch), address, mask)
            }
            // Bit 2 of an I/O BAR belongs to its address, bit 1 is reserved.
            0b001 | 0b101 => {
                let mask = (raw.sized & !IO_FLAGS) as u64;
                let address = (raw.value & !IO_FLAGS) as u64;
                Self::check(index, BarKind::Io, address, mask)
            }
            _ => Err(BarError::ReservedType { index }),
        }
    }

    const fn check(index: u8, kind: BarKind, address: u64, mask: u64) -> Result<Option<Self>, BarError> {
        // Bits above what the BAR can hold count as stuck; an I/O BAR may leave out its upper 16 as well.
        let above: u64 = match kind {
            BarKind::Memory64(_) => 0,
            BarKind::Memory32(_) => 0xffff_ffff_0000_0000,
            BarKind::Io if mask >> 16 == 0 => 0xffff_ffff_ffff_0000,
            BarKind::Io => 0xffff_ffff_0000_0000,
        };
        if mask == 0 {
            return Err(BarError::ImpossibleSize { index, mask });
        }
        let size = (mask | above).wrapping_neg();
        if !size.is_power_of_two() {
            return Err(BarError::ImpossibleSize { index, mask });
        }
        if address & size.wrapping_sub(1) != 0 {
            return Err(BarError::Misaligned { index, address });
        }
        Ok(Some(Self { index, kind, address, size }))
    }

    /// Which BAR: 0..=5; the lower of the two if it is 64 bits wide.
    #[must_use]
    pub const fn index(self) -> u8 {
        self.index
    }

    /// The kind of address space that it decodes.
    #[must_use]
    pub const fn kind(self) -> BarKind {
        self.kind
    }

    /// The BAR's first address, a multiple of the size. 0 when it was not placed yet.
    #[must_use]
    pub const fn address(self) -> u64 {
        self.address
    }

    /// Bytes, a power of two; at least 4 ports or 16 bytes of memory.
    #[must_use]
    pub const fn size(self) -> u64 {
        self.size
    }

    /// The last address it decodes. Exists for every BAR, since its address is a multiple of its size.
    #[must_use]
    pub const fn last(self) -> u64 {
        self.address | self.size.wrapping_sub(1)
    }

    /// This BAR at another address. `None` for one that it cannot have: not a multiple of the size, or with too many bits.
    #[must_use]
    pub const fn at(self, address: u64) -> Option<Self> {
        let reaches = match self.kind {
            BarKind::Memory64(_) => true,
            BarKind::Memory32(_) | BarKind::Io => address >> 32 == 0,
        };
        if reaches && address & self.size.wrapping_sub(1) == 0 { Some(Self { address, ..self }) } else { None }
    }

    /// This BAR `number` sizes further: the part of virtual function `number`, counted from 0 (PCIe 9.3.3.14). `None` when it
    /// has no such address.
    #[must_use]
    pub fn following(self, number: u16) -> Option<Self> {
        let offset = self.size.checked_mul(number.into())?;
        self.at(self.address.checked_add(offset)?)
    }

    /// Whether the BAR decodes memory.
    #[must_use]
    pub const fn is_memory(self) -> bool {
        matches!(self.kind, BarKind::Memory32(_) | BarKind::Memory64(_))
    }

    /// How many registers it takes: 1, or 2 if it is 64 bits wide.
    #[must_use]
    pub const fn registers(self) -> u8 {
        match self.kind {
            BarKind::Memory64(_) => 2,
            BarKind::Memory32(_) | BarKind::Io => 1,
        }
    }
}

/// Decodes all BARs of a header, in order; a 64-bit BAR takes two. At most as many items as `raw` has.
pub fn decode_all(raw: &[RawBar]) -> impl Iterator<Item = Result<Bar, BarError>> + '_ {
    let mut index: u8 = 0;
    core::iter::from_fn(move || {
        loop {
            let this = *raw.get(usize::from(index))?;
            let after = index.checked_add(1)?;
            let decoded = Bar::decode(index, this, raw.get(usize::from(after)).copied());
            // A refused 64-bit BAR takes its upper half along: read as a BAR of its own, that would be nonsense.
            let wide = this.value & 0b111 == 0b100;
            index = if wide { after.checked_add(1)? } else { after };
            match decoded {
                Ok(None) => {}
                Ok(Some(bar)) => return Some(Ok(bar)),
                Err(error) => return Some(Err(error)),
            }
        }
    })
}

#[cfg(test)]
#[path = "bar_tests.rs"]
mod tests;
