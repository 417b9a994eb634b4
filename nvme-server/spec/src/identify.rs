//! What Identify returns (section 5.15.2): structures of 4096 bytes.
//!
//! They come from a device. Methods check before they compute and answer `None` to values that cannot be true; the raw
//! fields are there for reports.

mod controller;
mod namespace;

pub use controller::{Controller, Oacs, Oncs};
pub use namespace::{LbaFormat, Namespace, NamespaceList};

#[cfg(test)]
#[path = "identify_tests.rs"]
mod tests;
