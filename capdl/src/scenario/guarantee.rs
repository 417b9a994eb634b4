//! Guarantees of the kernel that a scenario can rely on.

use serde::{Deserialize, Serialize};

/// A correction of the kernel, by its name in `docs/limits.md`, without which a defect of the kernel shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Guarantee {
    /// Revoking an IOSpace capability deletes the capabilities derived from it.
    IoSpaceRevoke,
    /// Removing a device's IO address space empties the IOMMU's context cache.
    ContextCache,
    /// An unmapped IO page table is empty.
    IoPageTable,
    /// A system call leaves none of the caller's flags in the kernel.
    SyscallFlags,
    /// Only the root task may use the processor's physical timer.
    TimerOwner,
}

impl Guarantee {
    /// The name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::IoSpaceRevoke => "io-space-revoke",
            Self::ContextCache => "context-cache",
            Self::IoPageTable => "io-page-table",
            Self::SyscallFlags => "syscall-flags",
            Self::TimerOwner => "timer-owner",
        }
    }
}
