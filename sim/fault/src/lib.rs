//! The fault model of the simulator: each fault as data, with its effect and the reason why the system survives it.
//!
//! A scenario lists faults (`[[fault]]`), a soak draws them, and the models act on them. The same seed makes the same faults
//! hit. To survive means: no tenant reaches another's memory or blocks, no acknowledged and flushed write is lost, and every
//! request ends. Faults cost time. Where they cost more, the table says so.
//!
//! A fault of commands ([`CommandFault`]) hits commands by queue, opcode, namespace, blocks, time, count and chance:
//!
//! | effect | why it is survivable |
//! |---|---|
//! | `status` | the server passes an error of the device to the client as a typed status; a client may retry |
//! | `not-now` | the state passes: the server retries, as a new command, after the delay that the controller names |
//! | `delay` | nothing relies on an order of completions; a command that is late beyond its timeout is aborted |
//! | `drop-completion` | the timeout frees the request: abort, then another queue pair, then a reset; the client resubmits |
//! | `duplicate-completion` | each command identifier has a generation, so the second one names no command: a reset |
//! | `wrong-cid` | the identifier is that of no command in flight, and so recognised: a reset |
//! | `wrong-sqhd`, `late-sqhd` | the driver counts completions and does not use SQHD |
//! | `stale-phase` | the driver does not see the completion; the queue pair is late, and recreated as after a drop |
//! | `lose-interrupt` | the queue pairs are polled at each tick, 20 times a second |
//! | `corrupt-data` | isolation holds; the data is lost. A client that verifies notices, and reports it |
//! | `wrong-address` | the IOMMU blocks what is outside of the function's memory. Inside it nothing does: the simulator's authority checker fails the run |
//!
//! A fault of a controller ([`ControllerFault`]) happens at a time:
//!
//! | effect | why it is survivable |
//! |---|---|
//! | `spurious-interrupt` | a pass finds no completion; a vector that does not stop is stopped by the server |
//! | `fatal-status` | a tick reads CSTS; a reset brings the controller up again, and clients resubmit |
//! | `all-ones` | no value is used; each of three attempts waits a second for the registers. Without an end, the controller is reported as lost, and requests end with `DeviceGone` |
//! | `stuck-queue-pair` | the timeout recreates that queue pair; the others go on. The admin queue returns by a reset |
//! | `never-ready` | bringing it up ends at CAP.TO; after three attempts the controller is reported as lost, and requests end |
//! | `event` | events are logged and their log page is read; changed namespaces are compared before they are used again |
//! | `removal` | the server touches nothing more; requests end with `DeviceGone`, or wait for the controller's return |
//! | `power-loss` | a tick sees that the controller is not ready: a reset. Writes that were not flushed may be lost, as on any disk with a cache |
//!
//! A fault of a component ([`ComponentFault`]):
//!
//! | effect | why it is survivable |
//! |---|---|
//! | `crash` | the supervisor restarts it, or its capabilities are withdrawn; its peers notice by its liveness page |
//! | `slow` | nobody waits for a peer without a timeout, and a client is charged for its own time |
//!
//! Faults do not reach virtual functions, the memory, the bus, the processor or the kernel.
//!
//! Neighbours: `capdl` reads faults from scenario files and checks the names in them; `sim-nvme` acts on
//! [`CommandFault`]s and [`ControllerFault`]s, `sim` on [`ComponentFault`]s. Left out: the effect of a hit on a model,
//! and any randomness: a fault has a probability, and the model's generator draws.

#![forbid(unsafe_code)]

use serde::{Deserialize, Serialize};

/// A fault: of commands of a controller, of a controller as a whole, or of a component.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case", try_from = "Written")]
pub enum Fault {
    /// A fault of commands of a controller.
    Command(CommandFault),
    /// A fault of a controller as a whole.
    Controller(ControllerFault),
    /// A fault of a component.
    Component(ComponentFault),
}

/// A fault as it is written: one of these.
#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "Fault"))]
#[serde(deny_unknown_fields)]
struct Written {
    /// A fault of commands of a controller.
    command: Option<CommandFault>,
    /// A fault of a controller as a whole.
    controller: Option<ControllerFault>,
    /// A fault of a component.
    component: Option<ComponentFault>,
}

impl TryFrom<Written> for Fault {
    type Error = &'static str;

    fn try_from(Written { command, controller, component }: Written) -> Result<Self, &'static str> {
        match (command, controller, component) {
            (Some(fault), None, None) => Ok(Self::Command(fault)),
            (None, Some(fault), None) => Ok(Self::Controller(fault)),
            (None, None, Some(fault)) => Ok(Self::Component(fault)),
            (None, None, None) => Err("a fault is empty: write `command`, `controller` or `component`"),
            _ => Err("a fault has several of `command`, `controller` and `component`: write a [[fault]] for each"),
        }
    }
}

/// A fault of commands: conditions and effect. It hits a command when every condition holds that is given, and no earlier fault of the
/// scenario had the same effect on the command. Only delays add up.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct CommandFault {
    /// The controller's name in the scenario; may be left out where there is one controller.
    #[serde(default)]
    pub controller: String,
    /// The queues whose commands it hits.
    #[serde(default)]
    pub queues: QueueKind,
    /// Opcodes (NVM command set 1.0c, figure 22; base 2.0c, figure 87 for the admin queue); all when empty.
    #[serde(default)]
    pub opcodes: Vec<u8>,
    /// The namespace; any when absent.
    #[serde(default)]
    pub nsid: Option<u32>,
    /// Only commands that name a block in this range.
    #[serde(default)]
    pub blocks: Option<Blocks>,
    /// The first moment at which it may hit, in nanoseconds of virtual time after the start.
    #[serde(default)]
    pub from_ns: u64,
    /// The moment from which it no longer hits, likewise.
    #[serde(default)]
    pub until_ns: Option<u64>,
    /// Number of matching commands that it skips first.
    #[serde(default)]
    pub skip: u64,
    /// The chance of a hit for each later one, per million: 0 to 1000000.
    #[serde(default = "always")]
    pub per_million: u32,
    /// Hits in all; without a limit when absent.
    #[serde(default)]
    pub times: Option<u64>,
    /// The effect on the command.
    pub effect: CommandEffect,
}

impl CommandFault {
    /// [`CommandFault::per_million`] of a fault that hits every command it concerns.
    pub const ALWAYS: u32 = 1_000_000;

    /// Creates a fault that hits every command of these queues.
    #[must_use]
    pub const fn new(queues: QueueKind, effect: CommandEffect) -> Self {
        Self {
            controller: String::new(),
            queues,
            opcodes: Vec::new(),
            nsid: None,
            blocks: None,
            from_ns: 0,
            until_ns: None,
            skip: 0,
            per_million: always(),
            times: None,
            effect,
        }
    }
}

/// Submission queues by kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum QueueKind {
    /// All I/O queues.
    #[default]
    Io,
    /// The admin queue.
    Admin,
}

/// A run of blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "FaultBlocks"))]
#[serde(deny_unknown_fields)]
pub struct Blocks {
    /// First block.
    pub first: u64,
    /// Blocks, at least 1.
    pub count: u64,
}

const fn always() -> u32 {
    CommandFault::ALWAYS
}

/// An effect on a command.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum CommandEffect {
    /// The command is not executed and completes with this status.
    Status {
        /// Status code type.
        sct: u8,
        /// Status code.
        sc: u8,
        /// Do Not Retry.
        #[serde(default)]
        dnr: bool,
    },
    /// The command is not executed and completes with the status of a state that passes.
    NotNow {
        /// The state.
        status: PassingState,
        /// Command Retry Delay: the number of one of the controller's delays, 1 to 3, or 0 for none. A host that does not keep delays
        /// is named none.
        #[serde(default)]
        crd: u8,
        /// Do Not Retry.
        #[serde(default)]
        dnr: bool,
    },
    /// The command is delayed by this much before it is executed, so the data it moves are moved late.
    Delay {
        /// Nanoseconds.
        ns: u64,
    },
    /// The command is executed, but its completion is never posted.
    DropCompletion,
    /// The completion is posted twice.
    DuplicateCompletion,
    /// The completion names another command identifier.
    WrongCid,
    /// The completion reports an SQHD at which nothing was submitted, which drivers that do not use SQHD do not notice.
    WrongSqhd,
    /// The completion reports the SQHD of the one before it.
    LateSqhd,
    /// The completion is posted with the phase tag of the previous round.
    StalePhase,
    /// The completion is posted without an interrupt.
    LoseInterrupt,
    /// A single bit of the data that the command moves is wrong; it completes with success.
    CorruptData,
    /// The data it moves go to, or come from, 4 KiB beyond the address in its PRPs. If that is possible, it completes
    /// with success.
    WrongAddress,
}

/// States of a controller or namespace that pass, by the status of the commands that meet them (base specification 2.0, figure 94).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum PassingState {
    /// The namespace is not ready.
    NamespaceNotReady,
    /// The controller interrupted the command.
    CommandInterrupted,
    /// An error of the transport that passes.
    TransientTransportError,
}

/// A fault of a controller as a whole.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ControllerFault {
    /// The controller's name in the scenario; may be left out where there is one controller.
    #[serde(default)]
    pub controller: String,
    /// Time of the fault, in nanoseconds of virtual time after the start.
    pub at_ns: u64,
    /// The effect on the controller.
    pub effect: ControllerEffect,
}

/// An effect on a controller.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum ControllerEffect {
    /// A vector is raised without a cause. While the function is not bus master, nothing happens.
    SpuriousInterrupt {
        /// The MSI-X vector.
        vector: u16,
    },
    /// CSTS.CFS is set, and no command is executed until a reset.
    FatalStatus,
    /// All registers read as ones and writes are lost, for this long.
    AllOnes {
        /// Nanoseconds; for ever when absent.
        #[serde(default)]
        for_ns: Option<u64>,
    },
    /// A completion queue treats itself as full: nothing more is posted there until it is created again.
    StuckQueuePair {
        /// Number of the queue pair, as the driver creates them, from 1; 0 is the admin queue, which a reset creates again.
        pair: u16,
    },
    /// From now on CSTS.RDY never becomes 1.
    NeverReady,
    /// Something happens that is an asynchronous event: it completes a request for events (NVM Express base specification 1.4, section
    /// 5.2), if the driver wants to know of it.
    Event(Happening),
    /// The controller is pulled out.
    Removal,
    /// The controller's power fails for an instant. Some data in its volatile write cache may be lost, commands under way are lost,
    /// and its registers are as after power-on.
    PowerLoss,
}

/// Something that is an asynchronous event.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Happening {
    /// The spare falls below its threshold.
    Spare,
    /// The temperature rises above its threshold.
    Temperature,
    /// The media is degraded.
    Reliability,
    /// The media takes no writes any more.
    ReadOnly,
    /// Namespaces changed.
    NamespaceChanged,
    /// An internal error that passed.
    InternalError,
}

/// A fault of a component.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ComponentFault {
    /// The component's name.
    pub component: String,
    /// The effect on the component.
    pub effect: ComponentEffect,
}

/// An effect on a component.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum ComponentEffect {
    /// The component dies, as by a fault, at the await with this number, counted from 1, or at the end of its work if that is
    /// earlier.
    Crash {
        /// The number of the await.
        at_await: u64,
    },
    /// Everything it does takes this percentage of the usual time: 100 changes nothing.
    Slow {
        /// Percent.
        percent: u32,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Fault {
        toml::from_str(text).unwrap()
    }

    #[test]
    fn a_fault_that_says_little_hits_every_io_command() {
        let Fault::Command(fault) = parse("[command]\neffect = \"drop-completion\"") else { panic!("a command's") };
        assert_eq!(fault.queues, QueueKind::Io);
        assert_eq!((fault.from_ns, fault.until_ns, fault.skip), (0, None, 0));
        assert_eq!((fault.per_million, fault.times), (1_000_000, None));
        assert_eq!(fault.effect, CommandEffect::DropCompletion);
    }

    #[test]
    fn conditions_and_counts_are_read() {
        let text = "[command]\nopcodes = [1, 2]\nblocks = { first = 8, count = 1 }\nfrom_ns = 5\nper_million = 10\n\
                    times = 3\neffect = { status = { sct = 2, sc = 0x81 } }";
        let Fault::Command(fault) = parse(text) else { panic!("a command's") };
        assert_eq!(fault.blocks, Some(Blocks { first: 8, count: 1 }));
        assert_eq!((fault.from_ns, fault.per_million, fault.times), (5, 10, Some(3)));
        assert_eq!(fault.effect, CommandEffect::Status { sct: 2, sc: 0x81, dnr: false });
    }

    #[test]
    fn state_that_passes_is_read_by_its_name() {
        let text = "[command]\neffect = { not-now = { status = \"command-interrupted\", crd = 2 } }";
        let Fault::Command(fault) = parse(text) else { panic!("a command's") };
        let status = PassingState::CommandInterrupted;
        assert_eq!(fault.effect, CommandEffect::NotNow { status, crd: 2, dnr: false });
    }

    #[test]
    fn the_fault_model_has_a_row_for_each_effect() {
        let rows: Vec<_> = include_str!("lib.rs").lines().filter_map(|line| line.strip_prefix("//! | `")).collect();
        let kinds = ["[command]", "[controller]\nat_ns = 0", "[component]\ncomponent = \"\""];
        let lacks = |kind: &str| {
            let error = toml::from_str::<Fault>(&format!("{kind}\neffect = \"explode\"")).unwrap_err();
            let names: Vec<_> = error.message().split('`').skip(3).step_by(2).map(str::to_owned).collect();
            assert!(names.len() > 1, "{error}");
            let has_row =
                |name: &str| rows.iter().any(|row| row.split(" |").next().is_some_and(|cell| cell.contains(name)));
            names.into_iter().filter(|name| !has_row(name)).collect::<Vec<_>>()
        };
        let lacking: Vec<_> = kinds.into_iter().flat_map(lacks).collect();
        assert!(lacking.is_empty(), "{lacking:?}");
    }

    #[test]
    fn an_effect_that_is_not_known_is_refused_with_those_that_are() {
        let error = toml::from_str::<Fault>("[command]\neffect = \"explode\"").unwrap_err();
        assert!(error.message().contains("stale-phase"), "{error}");
    }

    #[test]
    fn components_crash_at_an_await_and_controllers_at_a_time() {
        let crash = parse("[component]\ncomponent = \"nvme-server\"\neffect = { crash = { at_await = 7 } }");
        assert!(matches!(crash, Fault::Component(ComponentFault { effect: ComponentEffect::Crash { .. }, .. })));
        let ones = parse("[controller]\nat_ns = 9\neffect = { all-ones = { for_ns = 4 } }");
        assert!(matches!(ones, Fault::Controller(ControllerFault { at_ns: 9, .. })));
        let Fault::Controller(loss) = parse("[controller]\nat_ns = 9\neffect = \"power-loss\"") else { panic!("its") };
        assert_eq!(loss.effect, ControllerEffect::PowerLoss);
        let Fault::Controller(event) = parse("[controller]\nat_ns = 9\neffect = { event = \"spare\" }") else {
            panic!("its")
        };
        assert_eq!(event.effect, ControllerEffect::Event(Happening::Spare));
    }
}
