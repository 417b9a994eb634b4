//! The kind of SMMU that the model is, and the ways in which it fails.

use smmu_spec::command::Opcode;

/// Which SMMU the model is like.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Profile {
    /// As the standard says: GBPA works, a full event queue sets its overflow flag.
    #[default]
    Standard,
    /// QEMU 7.2: GBPA reads as zero and writes to it are lost, so that everything passes while the SMMU is off; a full
    /// event queue is reported as GERROR.EVENTQ_ABT_ERR.
    Qemu72,
}

/// How a model is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Config {
    /// Which SMMU.
    pub profile: Profile,
    /// All chance comes from this.
    pub seed: u64,
}

/// Ways in which the model fails. None by default.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Faults {
    /// Commands and handshakes wait for up to so many reads of the register that shows them.
    pub max_delay_reads: u32,
    /// The chance in a million that a command is refused as illegal.
    pub command_errors_per_million: u32,
    /// No command is consumed.
    pub is_stuck: bool,
    /// Commands that are consumed and do nothing: a driver that forgot them, as it were.
    pub forget: Option<Forget>,
}

/// Commands to forget.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Forget {
    /// All of an opcode.
    Every(Opcode),
    /// Invalidations of the configuration of a group of streams, but not of all.
    StreamGroups,
    /// Invalidations of addresses that are to reach all levels reach only the last.
    UpperLevels,
}
