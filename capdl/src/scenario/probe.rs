//! The probe: a test component in an NVMe server's place, for scenarios about what the IOMMU and revocation stop.

use serde::Deserialize;
use workload::LastProbe;

/// Name of the probe's component.
pub const PROBE: &str = "probe";

/// Gives a controller to the probe instead of an NVMe server. A scenario with a probe has no tenants: the probe holds untyped
/// memory and control of its VSpace, which no server of tenants holds.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Probe {
    /// The controller; may be left out when there is one.
    #[serde(default)]
    pub controller: String,
    /// The access with which the probe ends, and which must be a fault.
    pub last: LastProbe,
}
