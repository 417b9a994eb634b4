//! Inspection of a tree from outside, for glue code and checkers: names, places, and violations.

use crate::ids::FunctionId;
use crate::machine::Device;
use crate::record::{DmaFault, Record};
use crate::tree::Tree;
use core::ops::Range;
use pci_spec::Bdf;

/// Physical addresses that a BAR of a function answers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Region {
    /// The addresses.
    pub range: Range<u64>,
    /// The function.
    pub function: FunctionId,
    /// Which BAR.
    pub bar: u8,
}

impl<D: Device> Tree<D> {
    /// All functions that are in the tree, ports and the chipset's among them, in the order in which they were put
    /// there.
    pub fn functions(&self) -> impl Iterator<Item = FunctionId> + '_ {
        self.functions.iter().map(|function| function.core.id)
    }

    /// Returns the BDF of a function now. A function on a bus without a number is named as if on bus 0.
    #[must_use]
    pub fn bdf(&self, id: FunctionId) -> Option<Bdf> {
        self.functions.get(id).map(|function| function.core.route.bdf)
    }

    /// Returns the requester id that a function's requests have at the root.
    #[must_use]
    pub fn requester_id(&self, id: FunctionId) -> Option<u16> {
        self.functions.get(id).map(|function| function.core.route.requester_id)
    }

    /// Returns the interrupt line at which a function's interrupt pin ends.
    #[must_use]
    pub fn interrupt_line(&self, id: FunctionId) -> Option<u8> {
        self.functions.get(id)?.core.interrupt_line
    }

    /// Returns the virtual functions of a physical one, enabled or not, in order.
    #[must_use]
    pub fn virtual_functions(&self, id: FunctionId) -> &[FunctionId] {
        let sriov = self.functions.get(id).and_then(|function| function.core.sriov.as_ref());
        sriov.map_or(&[], |sriov| &sriov.functions)
    }

    /// Returns the address in a function's BAR `index` now, decoded or not. A virtual function's is in the registers of its
    /// physical function, and known before the function is enabled. `None` when the function has no such BAR.
    #[must_use]
    pub fn bar_address(&self, id: FunctionId, index: u8) -> Option<u64> {
        let core = &self.functions.get(id)?.core;
        let index = usize::from(index);
        let Some((physical, number)) = core.virtual_of else {
            core.bars.get(index).copied().flatten()?;
            return Some(core.bar_address(index));
        };
        let physical = &self.functions.get(physical)?.core;
        let bar = physical.sriov.as_ref()?.config.bars.get(index).copied().flatten()?;
        Some(physical.virtual_bar_address(index, bar, number))
    }

    /// Whether software has set Bus Master Enable of a function.
    #[must_use]
    pub fn is_bus_master(&self, id: FunctionId) -> bool {
        self.functions.get(id).is_some_and(|function| function.core.command().bus_master())
    }

    /// Returns the regions that are decoded now, by ascending address.
    pub fn regions(&self) -> impl Iterator<Item = Region> + '_ {
        self.decoded.iter().map(|decoded| Region {
            range: decoded.start..decoded.last.saturating_add(1),
            function: decoded.function,
            bar: decoded.bar,
        })
    }

    /// Returns where MSI-X tables and pending bits are decoded now. A writer of a table can send interrupts anywhere.
    #[must_use]
    pub fn message_tables(&self) -> Vec<Region> {
        let mut tables = Vec::new();
        for decoded in &self.decoded {
            let Some(msix) = self.functions.get(decoded.function).and_then(|f| f.core.msix.as_ref()) else { continue };
            for places in msix.places(decoded.bar) {
                let start = decoded.base.saturating_add(places.start);
                let end = decoded.base.saturating_add(places.end);
                let range = start.max(decoded.start)..end.min(decoded.last.saturating_add(1));
                if range.start < range.end {
                    tables.push(Region { range, function: decoded.function, bar: decoded.bar });
                }
            }
        }
        tables
    }

    /// Violations so far, the first [`crate::KEPT`] of them.
    #[must_use]
    pub fn violations(&self) -> &[Record] {
        &self.outer.batch.violations
    }

    /// DMA that was blocked, the first [`crate::KEPT`] of it.
    #[must_use]
    pub fn dma_faults(&self) -> &[DmaFault] {
        &self.outer.batch.dma_faults
    }

    /// Number of violations and DMA faults that came when their lists were full.
    #[must_use]
    pub fn records_lost(&self) -> u64 {
        self.outer.batch.violations_lost.saturating_add(self.outer.batch.dma_faults_lost)
    }

    /// Number of accesses to memory in the PCI windows that nothing answered. They are not violations: a driver cannot know
    /// that its device was pulled out.
    #[must_use]
    pub fn unanswered_accesses(&self) -> u64 {
        self.outer.batch.unanswered
    }
}
