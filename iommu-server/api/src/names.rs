//! Names of capabilities and regions in the IOMMU server's environment.

/// The server's region of the SMMU's registers.
pub const SMMU: &str = "smmu";
/// The pages of its tables: a run of frames, and the region in which they lie one behind the other.
pub const TABLES: &str = "tables";
/// The server's region of the page of blocked transactions ([`blocked`](crate::blocked)).
pub const BLOCKED: &str = "blocked";
/// The server's region of the table of the drivers' frames ([`frames`](crate::frames)), which it reads.
pub const FRAMES: &str = "frames";
