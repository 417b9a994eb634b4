//! Names of capabilities and regions in the environments of only some programs: a client with a peer, and the probe.

/// A client's capability to signal its peer.
pub const PEER: &str = "peer";

/// The probe's run of untypeds, where the kernel drives the IOMMU.
pub const MEMORY: &str = "memory";
/// The probe's run of frames, where it has no untypeds to make frames of.
pub const FRAMES: &str = "frames";
/// The probe's VSpace.
pub const OWN_VSPACE: &str = "own-vspace";
/// The arena in which the probe maps its pages.
pub const PAGES: &str = "pages";
