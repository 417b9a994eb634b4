//! Rules in which kernels differ: the project's corrected kernel, and releases of seL4 without the corrections.
//!
//! Each rule is applied where its object is modelled. `docs/FIDELITY.md` lists the differences with their files. Left out are the
//! defects that concern the processor (`kernel/src/gaps.rs` lists all): the model has no processor.

use crate::grants::Grants;

/// The rules of a kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rules {
    /// The rules about capabilities in messages.
    pub grants: Grants,
    /// The origin of a capability to a range of I/O ports.
    pub ports: Ports,
    /// Removing the address space of a device empties the IOMMU's context cache.
    pub context_cache: Correction,
    /// Unmapping an IO page table takes its only capability, and empties it.
    pub io_page_table: Correction,
    /// IOSpace capabilities are derived from others, so that revoking deletes them.
    pub io_space_revoke: Correction,
    /// The interface: order of checks, mappings, guards, badges, limits, equal threads.
    pub interface: Interface,
}

impl Rules {
    /// The project's kernel, with the stricter [`Grants`]: a system that works by them works on every version.
    pub const CORRECTED: Self = Self {
        grants: Grants::Strict,
        ports: Ports::Minted,
        context_cache: Correction::Made,
        io_page_table: Correction::Made,
        io_space_revoke: Correction::Made,
        interface: Interface::Old,
    };
    /// seL4 13.0.0 to 16.0.0 as released.
    pub const STOCK: Self = Self {
        grants: Grants::Strict,
        ports: Ports::Issued,
        context_cache: Correction::Missing,
        io_page_table: Correction::Missing,
        io_space_revoke: Correction::Missing,
        interface: Interface::Current,
    };

    /// Names of the corrections that the kernel lacks, as in `docs/limits.md`.
    pub fn missing(self) -> impl Iterator<Item = &'static str> {
        let Self { grants: _, ports: _, context_cache, io_page_table, io_space_revoke, interface: _ } = self;
        let named =
            [("context-cache", context_cache), ("io-page-table", io_page_table), ("io-space-revoke", io_space_revoke)];
        named.into_iter().filter(|(_, correction)| *correction == Correction::Missing).map(|(name, _)| name)
    }
}

/// The origin of a capability to a range of I/O ports.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ports {
    /// seL4 5.0.0: a range is minted from a capability to a wider one. A range can have any number of owners.
    Minted,
    /// seL4 10.0.0 and later: a control capability issues each range. No other range has its ports until it is deleted.
    Issued,
}

/// The interface of a kernel, where it is neither a correction nor about authority.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Interface {
    /// seL4 5.0.0.
    Old,
    /// seL4 13.0.0 to 16.0.0. `docs/FIDELITY.md` has the differences.
    Current,
}

/// A correction of the project's kernel, by its name in `docs/limits.md`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Correction {
    /// The kernel has it.
    Made,
    /// The kernel has the defect.
    Missing,
}
