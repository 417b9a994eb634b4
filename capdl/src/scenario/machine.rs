//! The machine of a scenario.

use super::bytes;
use capdl_spec::Arch;
use serde::Deserialize;

/// The machine.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, serde::Serialize))]
#[serde(deny_unknown_fields, default)]
pub struct Machine {
    /// Bytes of its memory: whole MiB, from 64M to 2G on x86_64 and to 1G on AArch64.
    #[serde(deserialize_with = "bytes::deserialize")]
    #[cfg_attr(feature = "schema", schemars(with = "super::schema::Size"))]
    pub memory: u64,
    /// Architecture, in the simulator. On QEMU the command names it.
    pub arch: Arch,
    /// The order of ready threads of one priority, in the simulator.
    pub thread_order: ThreadOrder,
    /// The kernel, in the simulator. On QEMU the command names it.
    pub kernel: KernelKind,
    /// Whether there is an IOMMU. Without one, devices reach all memory, and so do the components that program them. `false` is
    /// for QEMU alone, to show what is left of the isolation.
    pub iommu: bool,
}

impl Default for Machine {
    fn default() -> Self {
        Self {
            memory: 256 << 20,
            arch: Arch::default(),
            thread_order: ThreadOrder::default(),
            kernel: KernelKind::default(),
            iommu: true,
        }
    }
}

/// The order of ready threads of one priority, in the simulator. QEMU always has seL4's order.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, serde::Serialize))]
#[serde(rename_all = "lowercase")]
pub enum ThreadOrder {
    /// Drawn from the seed, at each switch: finds defects that depend on the order.
    #[default]
    Drawn,
    /// The first of the kernel's ready queue: latencies are as on seL4.
    Sel4,
}

impl std::fmt::Display for ThreadOrder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Drawn => "drawn",
            Self::Sel4 => "sel4",
        })
    }
}

impl std::str::FromStr for ThreadOrder {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "drawn" => Ok(Self::Drawn),
            "sel4" => Ok(Self::Sel4),
            _ => Err("write drawn or sel4".to_owned()),
        }
    }
}

/// The kernel's rules, in the simulator.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, serde::Serialize))]
#[serde(rename_all = "lowercase")]
pub enum KernelKind {
    /// The project's own seL4, with its corrections.
    #[default]
    Corrected,
    /// seL4 13.0.0 to 16.0.0 as released: their interface, and none of the project's corrections for the IOMMU.
    Stock,
}

impl std::fmt::Display for KernelKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Corrected => "corrected",
            Self::Stock => "stock",
        })
    }
}

impl std::str::FromStr for KernelKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "corrected" => Ok(Self::Corrected),
            "stock" => Ok(Self::Stock),
            _ => Err("write corrected or stock".to_owned()),
        }
    }
}
