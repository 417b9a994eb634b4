//! An experiment, and what it is made for.

use super::data::{self, Data};
use super::lab::Lab;
use anyhow::Result;
use kernel::Arch;
use serde::Serialize;

/// Number of points that an experiment measures.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Grid {
    /// All of the figure.
    Full,
    /// Enough points to show that it works and meets its conditions.
    Small,
}

/// Platform on which an experiment runs its systems.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum World {
    /// The simulator.
    Simulator,
    /// seL4 in QEMU.
    Qemu(Arch),
}

impl World {
    /// The name of the experiment `one` on this platform, and of its files.
    pub(super) fn name_of(self, one: &One) -> String {
        match self {
            Self::Simulator => one.name.to_owned(),
            Self::Qemu(Arch::X86_64) => format!("{}-qemu", one.name),
            Self::Qemu(Arch::Aarch64) => format!("{}-aarch64", one.name),
        }
    }
}

/// Results of an experiment.
pub(crate) struct Outcome {
    /// The data: a heading, and a line for each point.
    pub(super) csv: Vec<u8>,
    /// Conditions that do not hold, one sentence each.
    pub(super) misses: Vec<String>,
}

impl Outcome {
    /// Makes the CSV from `rows`, a line each; `misses` are the conditions that do not hold.
    pub(super) fn new<Row: Serialize>(rows: &[Row], misses: Vec<String>) -> Result<Self> {
        Ok(Self { csv: data::csv(rows)?, misses })
    }
}

/// An experiment.
pub(crate) struct One {
    /// The experiment's name.
    pub(crate) name: &'static str,
    /// Subject of the figure, with its row of SEEDS.
    pub(super) shows: &'static str,
    /// Whether the experiment can be run on QEMU too.
    pub(super) on_qemu: bool,
    /// Runs it.
    pub(super) run: fn(&Lab<'_>, Grid) -> Result<Outcome>,
    /// Draws it, from its data alone.
    pub(super) picture: fn(&Data, World) -> Result<String>,
}
