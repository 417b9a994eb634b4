//! Defects of hardware that is to keep tenants with virtual functions apart.
//!
//! A scenario cannot have them: no component can do anything about them. They are for tests that an attack which such a
//! machine lets through is noticed.

use capdl::scenario::FUNCTION_QUEUES;
use nvme_spec::registers::DOORBELL_BASE;

/// Bytes of a queue pair's doorbells, without a stride.
const PAIR_BYTES: u64 = 8;
/// Bytes of the doorbells of one function.
const FUNCTION_BYTES: u64 = FUNCTION_QUEUES as u64 * PAIR_BYTES;

/// A defect of the hardware, from [`crate::Simulation::plant`] on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Defect {
    /// An address that the IOMMU does not translate reaches the physical memory of the same address.
    Iommu,
    /// Secondary controllers execute I/O commands to namespaces that are not attached to them.
    Namespaces,
    /// Doorbells behind a function's own are those of the next functions' queues, in their order. For controllers without a
    /// doorbell stride.
    Doorbells,
}

/// The place that a write to a virtual function's registers reaches with [`Defect::Doorbells`]: how many functions further,
/// and the offset there.
pub(super) const fn misdirected(offset: u64) -> (usize, u64) {
    match offset.checked_sub(DOORBELL_BASE as u64) {
        Some(doorbell) => ((doorbell / FUNCTION_BYTES) as usize, DOORBELL_BASE as u64 + doorbell % FUNCTION_BYTES),
        None => (0, offset),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doorbells_behind_ones_own_are_those_of_the_next_functions() {
        let base = DOORBELL_BASE as u64;
        for own in [0x14, 0x38, base, base + 12] {
            assert_eq!(misdirected(own), (0, own));
        }
        assert_eq!(misdirected(base + 16), (1, base));
        assert_eq!(misdirected(base + 16 + 8), (1, base + 8));
        assert_eq!(misdirected(base + 2 * 16 + 12), (2, base + 12));
    }
}
