//! The shape of a controller, and the simulator's models that have it.

use nvme_spec::identify;
use nvme_spec::registers::{Cap, Vs};
use sim_fault::{CommandEffect, CommandFault, Fault, QueueKind};
use sim_nvme::NamespaceConfig;
use sim_nvme::config::{Cache, Capabilities, CommandLimits, Config, Recording, Virtualization};

/// Time of a command that no test finishes.
pub(super) const FOREVER_NS: u64 = 1 << 62;
/// Properties that the controller reports.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    /// Entries of its largest queue, less one.
    pub mqes_z: u16,
    /// MDTS: log2 of pages a command may move, 0 for no limit.
    pub mdts: u8,
    /// I/O queue pairs.
    pub queue_pairs: u16,
    /// Blocks of 512 bytes of namespace 1.
    pub blocks: u64,
    /// Whether the controller supports Write Zeroes and Dataset Management.
    pub optional: bool,
    /// CAP.AMS has weighted round robin.
    pub weighted: bool,
    /// The revision of the standard: major, minor.
    pub version: (u16, u8),
    /// The I/O command sets of namespaces that are there beside namespace 1.
    pub command_sets: Vec<identify::CommandSetId>,
    /// CAP, where it is not made of the above.
    pub cap: Option<u64>,
    /// The function that an earlier host left the functions' namespaces attached to, from 1 on.
    pub left_attached_to: Option<u8>,
    /// Values of features that an earlier driver saved: identifier and CDW11.
    pub saved: Vec<(u8, u32)>,
    /// Limits of commands without data.
    pub limits: CommandLimits,
    /// CRDT1 to CRDT3, in units of 100 ms.
    pub retry_delays: [u16; 3],
    /// There is a volatile write cache.
    pub cache: bool,
    /// NSSR resets the subsystem.
    pub subsystem_reset: bool,
    /// Virtual functions. That with index i has the secondary controller 1 + i, and a namespace 2 + i can be attached to it.
    pub functions: u8,
    /// Resources of each kind that they share.
    pub flexible: u16,
}

/// The primary controller and the secondary ones.
pub(super) fn models(shape: &Shape) -> (sim_nvme::Controller, Vec<sim_nvme::Controller>) {
    let cap = Cap::from_bits(shape.cap.unwrap_or_default());
    let waits = |queues| Fault::Command(CommandFault::new(queues, CommandEffect::Delay { ns: FOREVER_NS }));
    let base = |offset: u64, bytes: &mut [u8]| {
        (offset..).zip(bytes).for_each(|(at, byte)| *byte = (at / 512 + at) as u8);
    };
    let virtualization = (shape.functions > 0).then_some(Virtualization {
        functions: shape.functions,
        flexible_queues: shape.flexible,
        flexible_interrupts: shape.flexible,
        secondary_queues: shape.flexible,
        secondary_interrupts: shape.flexible,
    });
    let more = (0..shape.functions)
        .map(|_| NamespaceConfig { attached: shape.left_attached_to, ..NamespaceConfig::zeroes(1 << 20) });
    let others = shape.command_sets.iter();
    let more =
        more.chain(others.map(|&command_set| NamespaceConfig { command_set, ..NamespaceConfig::zeroes(1 << 20) }));
    let (major, minor) = shape.version;
    let first = NamespaceConfig { base: Box::new(base), ..NamespaceConfig::zeroes(shape.blocks * 512) };
    let config = Config {
        capabilities: Capabilities {
            queue_entries: u32::from(shape.mqes_z) + 1,
            version: Vs::new().with_mjr(major).with_mnr(minor),
            other_command_sets: !shape.command_sets.is_empty(),
            weighted_arbitration: shape.weighted,
            subsystem_reset: shape.subsystem_reset,
            timeout_500ms: 1,
            doorbell_stride: cap.dstrd(),
            page_min: cap.mpsmin(),
            page_max: cap.mpsmax(),
            ..Capabilities::default()
        },
        queue_pairs: shape.queue_pairs + shape.flexible,
        vectors: Config::default().vectors + shape.flexible,
        virtualization,
        outstanding: 64,
        cache: shape.cache.then_some(Cache { bytes: 1 << 20, linger_ns: 0 }),
        mdts: shape.mdts,
        limits: shape.limits,
        retry_delays_100ms: shape.retry_delays,
        namespaces: std::iter::once(first).chain(more).collect(),
        ready_ns: 0,
        faults: vec![waits(QueueKind::Io), waits(QueueKind::Admin)],
        saved: shape.saved.clone(),
        recording: Recording::On,
        ..Config::default()
    };
    sim_nvme::Controller::with_secondaries(config, 0)
}
