//! The kind of SMMU that the model imitates, and the ways in which it fails.

use smmu_spec::command::Opcode;

/// The SMMU that the model imitates.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Profile {
    /// An SMMU as the standard specifies: GBPA works, a full event queue sets its overflow flag.
    #[default]
    Standard,
    /// QEMU 7.2: GBPA reads as zero and writes to it are lost, so everything passes while the SMMU is off. A full event
    /// queue is reported as GERROR.EVENTQ_ABT_ERR.
    Qemu72,
}

/// Parameters of a model.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Config {
    /// The SMMU to imitate.
    pub profile: Profile,
    /// Seed of all random choices.
    pub seed: u64,
}

/// Ways in which the model fails. None by default.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Faults {
    /// Commands and handshakes are delayed by at most this many reads of the register that shows them.
    pub max_delay_reads: u32,
    /// The chance in a million that a command is refused as illegal.
    pub command_errors_per_million: u32,
    /// No command is consumed.
    pub is_stuck: bool,
    /// Commands that are consumed without effect, as if the driver had forgotten them.
    pub forget: Option<Forget>,
}

/// Commands to forget.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Forget {
    /// All of an opcode.
    Every(Opcode),
    /// Invalidations of the configuration of a group of streams, but not of all.
    StreamGroups,
    /// Invalidations of addresses at all levels: they reach only the last level.
    UpperLevels,
}
