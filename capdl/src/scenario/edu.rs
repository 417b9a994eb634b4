//! The edu device: a function that QEMU has for exercises, with a pin and MSI, and a test component that drives it.

use serde::Deserialize;

/// Name of the edu device's driver.
pub const EDU_DRIVER: &str = "edu-driver";

/// Puts an edu device on the root bus, and its driver into the system, for scenarios about interrupts: on QEMU no NVMe
/// controller has MSI. Such a scenario has no controllers and no tenants.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Edu {}
