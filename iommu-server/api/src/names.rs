//! Names of capabilities and regions in the IOMMU server's environment.

/// Its region of the SMMU's registers.
pub const SMMU: &str = "smmu";
/// The pages of its tables: a run of frames, and the region in which they lie one behind the other.
pub const TABLES: &str = "tables";
/// Its region of the page of blocked transactions ([`blocked`](crate::blocked)).
pub const BLOCKED: &str = "blocked";
/// Its region of the table of the drivers' frames ([`frames`](crate::frames)), which it reads.
pub const FRAMES: &str = "frames";
