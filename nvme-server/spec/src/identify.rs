//! The structures that Identify returns (section 5.15.2), of 4096 bytes each.
//!
//! They come from a device. Methods check before they compute, and return `None` for impossible values; the raw fields are
//! for reports.

mod attributes;
mod controller;
mod limits;
mod lists;
mod media;
mod namespace;
mod power;
mod virtualization;

pub use attributes::{Cmic, Ctratt, Flbas, Fna, Frmw, Lpa, Nsfeat, Oaes, Sanicap};
pub use controller::{Controller, ControllerType, Oacs, Oncs};
pub use limits::NvmLimits;
pub use lists::{CommandSetId, ControllerList, IdDescriptor, IdKind, IdList, NamespaceList};
pub use media::media;
pub use namespace::{FORMATS, LbaFormat, Namespace, NotPlain, PlainBlocks};
pub use power::{PowerFlags, PowerState};
pub use virtualization::{PrimaryCapabilities, ResourceCounts, SecondaryController, SecondaryList};

#[cfg(test)]
#[path = "identify_tests.rs"]
mod tests;
