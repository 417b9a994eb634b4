//! Looking at a tree from outside, for glue and checkers: names, places, and what went wrong.

use crate::machine::Device;
use crate::record::{DmaFault, Record};
use crate::tree::{FunctionId, Tree};
use core::ops::Range;
use pci_spec::Bdf;

/// Physical addresses that a BAR of a function answers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Region {
    /// The addresses.
    pub range: Range<u64>,
    /// Whose.
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

    /// The name of a function now. One on a bus without a number is named as if on bus 0.
    #[must_use]
    pub fn bdf(&self, id: FunctionId) -> Option<Bdf> {
        self.functions.get(id).map(|function| function.core.route.bdf)
    }

    /// The name a function's requests bear at the root.
    #[must_use]
    pub fn requester_id(&self, id: FunctionId) -> Option<u16> {
        self.functions.get(id).map(|function| function.core.route.requester_id)
    }

    /// The interrupt line at which a function's interrupt pin ends.
    #[must_use]
    pub fn interrupt_line(&self, id: FunctionId) -> Option<u8> {
        self.functions.get(id)?.core.interrupt_line
    }

    /// Virtual functions of a physical one, enabled or not, in order.
    #[must_use]
    pub fn virtual_functions(&self, id: FunctionId) -> &[FunctionId] {
        let sriov = self.functions.get(id).and_then(|function| function.core.sriov.as_ref());
        sriov.map_or(&[], |sriov| &sriov.functions)
    }

    /// What is decoded now, by ascending address.
    pub fn regions(&self) -> impl Iterator<Item = Region> + '_ {
        self.decoded.iter().map(|decoded| Region {
            range: decoded.start..decoded.last.saturating_add(1),
            function: decoded.function,
            bar: decoded.bar,
        })
    }

    /// Where MSI-X tables and pending bits are decoded now: whoever writes a table sends interrupts anywhere.
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

    /// What was done that must not be, the first [`crate::KEPT`] of it.
    #[must_use]
    pub fn violations(&self) -> &[Record] {
        &self.outer.batch.violations
    }

    /// DMA that was blocked, the first [`crate::KEPT`] of it.
    #[must_use]
    pub fn dma_faults(&self) -> &[DmaFault] {
        &self.outer.batch.dma_faults
    }

    /// Violations and DMA faults that came when their lists were full.
    #[must_use]
    pub fn records_lost(&self) -> u64 {
        self.outer.batch.violations_lost.saturating_add(self.outer.batch.dma_faults_lost)
    }

    /// Accesses to memory in the windows that nothing answered. Not wrong in itself: a driver cannot know that its
    /// device was pulled out.
    #[must_use]
    pub fn unanswered_accesses(&self) -> u64 {
        self.outer.batch.unanswered
    }
}
