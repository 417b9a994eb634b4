//! The controller: its parts.
//!
//! `clock` is the one place where time passes. The work itself is in the modules of the three groups, which import this one.

use crate::admin::Admin;
use crate::arbitration::Arbiter;
use crate::command::Commands;
use crate::config::Config;
use crate::counters::Counters;
use crate::data::Data;
use crate::fault::{FaultHit, Faults};
use crate::firmware::Firmware;
use crate::generator::Generator;
use crate::interrupt::Interrupts;
use crate::namespace::Namespaces;
use crate::queue::Queues;
use crate::record::{Event, Journal, Transfer};
use crate::registers::Registers;
use crate::resources::{Limits, Resources};
use crate::sanitization::Sanitization;
use crate::settings::Settings;
use crate::subsystem::{self, Member, Subsystem};
use crate::timing::Timing;
use crate::violation::{Violation, ViolationKind, Violations};

/// A controller.
pub struct Controller {
    pub(crate) config: Config,
    pub(crate) registers: Registers,
    pub(crate) settings: Settings,
    pub(crate) queues: Queues,
    pub(crate) arbiter: Arbiter,
    pub(crate) commands: Commands,
    pub(crate) namespaces: Namespaces,
    pub(crate) subsystem: Subsystem,
    pub(crate) member: Member,
    pub(crate) limits: Limits,
    pub(crate) data: Data,
    pub(crate) timing: Timing,
    pub(crate) interrupts: Interrupts,
    pub(crate) faults: Faults,
    pub(crate) admin: Admin,
    pub(crate) counters: Counters,
    pub(crate) journal: Journal,
    pub(crate) violations: Violations,
    pub(crate) generator: Generator,
    pub(crate) clock_ns: u64,
    /// Times that it was enabled.
    pub(crate) enablings: u32,
    /// Most queue pairs that it grants, where an enabling changed that.
    pub(crate) granted: Option<u16>,
    /// Arrival time of the command being fetched.
    pub(crate) fetch_ns: Option<u64>,
    /// Time of the next event; `u64::MAX` when there is none. [`look_ahead`](Self::look_ahead) sets it at the end of
    /// everything that may change it.
    pub(crate) due_ns: u64,
}

/// A controller may be served by a thread of its own.
const _: fn() = || {
    const fn is_send<T: Send>() {}
    is_send::<Controller>();
};

impl Controller {
    /// Creates a controller that was just powered on. All its random choices come from `seed`. If it has virtual functions,
    /// there is nothing in them.
    #[must_use]
    pub fn new(mut config: Config, seed: u64) -> Self {
        config.queue_pairs = config.queue_pairs.clamp(1, u16::MAX - 1);
        config.vectors = config.vectors.max(1);
        config.atomic_blocks = config.atomic_blocks.max(1);
        config.admin = config.admin.sane();
        config.virtualization =
            config.virtualization.map(|virtualization| virtualization.sane(config.queue_pairs, config.vectors));
        if let Some(virtualization) = &config.virtualization {
            config.identity.controller_id = subsystem::first_id(&config, virtualization);
        }
        let resources = config.virtualization.as_ref().map(|virtualization| Resources::new(&config, virtualization));
        let firmware = Firmware::new(config.admin.slots(), &config.identity.firmware);
        let sanitization = Sanitization::new(config.admin.commands.sanitize, config.admin.sanitize_ns);
        let admin = Admin::new(&config);
        let namespaces = Namespaces::new(std::mem::take(&mut config.namespaces));
        let mut controller = Self {
            registers: Registers::new(config.capabilities),
            settings: Settings::new(config.vectors),
            queues: Queues::new(config.queue_pairs),
            arbiter: Arbiter::new(config.queue_pairs),
            commands: Commands::new(config.outstanding),
            namespaces,
            subsystem: Subsystem::new(resources, firmware, sanitization),
            member: Member::ALONE,
            limits: Limits { queue_pairs: config.queue_pairs, vectors: config.vectors },
            data: Data::default(),
            timing: Timing::new(config.profile),
            interrupts: Interrupts::new(config.vectors),
            faults: Faults::new(std::mem::take(&mut config.faults)),
            admin,
            counters: Counters { power_cycles: 1, ..Counters::default() },
            journal: Journal::new(config.recording),
            violations: Violations::default(),
            generator: Generator::new(seed),
            clock_ns: 0,
            enablings: 0,
            granted: None,
            fetch_ns: None,
            config,
            due_ns: u64::MAX,
        };
        controller.look_ahead();
        controller
    }

    /// Has a defect from now on: its I/O commands may name namespaces that are not attached to it. For tests that attacks on a
    /// controller that does not keep namespaces apart are noticed.
    pub const fn ignore_attachments(&mut self) {
        self.namespaces.ignore_attachments();
    }

    /// Updates the time of the next event.
    pub(crate) fn look_ahead(&mut self) {
        self.due_ns = self.earliest_ns();
    }

    pub(crate) fn earliest_ns(&self) -> u64 {
        let moments = [
            self.faults.next_ns(),
            self.registers.next_ns(),
            self.commands.next_ns(),
            self.fetch_ns,
            self.interrupts.next_ns(),
            self.admin.next_event_ns(),
        ];
        moments.into_iter().fold(u64::MAX, |earliest, moment| earliest.min(moment.unwrap_or(u64::MAX)))
    }

    /// Records a violation by the driver.
    pub(crate) fn violation(&mut self, kind: ViolationKind) {
        self.violations.record(self.clock_ns, kind);
    }

    /// Virtual time as the controller knows it, in nanoseconds.
    #[must_use]
    pub const fn clock_ns(&self) -> u64 {
        self.clock_ns
    }

    /// Violations by the driver, oldest first. After many of them later ones are only counted.
    #[must_use]
    pub fn violations(&self) -> &[Violation] {
        self.violations.kept()
    }

    /// Number of violations in all.
    #[must_use]
    pub const fn violation_count(&self) -> u64 {
        self.violations.count()
    }

    /// Whether each fault of the configuration changed nothing, in its order. Of faults that hit by chance and never did, those count
    /// that concerned no command.
    pub fn faults_missed(&self) -> impl Iterator<Item = bool> + '_ {
        self.faults.missed()
    }

    /// Hits of each fault of the configuration, in its order.
    pub fn faults_hit(&self) -> impl Iterator<Item = u64> + '_ {
        self.faults.hits()
    }

    /// The first 1024 commands that faults of the configuration hit, in the order of their times.
    pub fn faulty_commands(&self) -> &[FaultHit] {
        self.faults.on_commands()
    }

    /// Times that the controller was enabled: CC.EN from 0 to 1, of a configuration that it accepts.
    #[must_use]
    pub const fn enablings(&self) -> u32 {
        self.enablings
    }

    /// Counts since the controller was created.
    #[must_use]
    pub fn counters(&self) -> Counters {
        Counters { interrupts: self.interrupts.raised(), ..self.counters }
    }

    /// Whether [`take_events`](Self::take_events) has something.
    #[must_use]
    pub fn has_events(&self) -> bool {
        self.journal.has_events()
    }

    /// Takes the events since the last call, oldest first. None unless the configuration requests recording.
    pub fn take_events(&mut self) -> impl Iterator<Item = Event> + '_ {
        self.journal.drain_events()
    }

    /// Takes the records of data moved. None unless the configuration requests recording.
    pub fn take_transfers(&mut self) -> impl Iterator<Item = Transfer> + '_ {
        self.journal.drain_transfers()
    }
}
