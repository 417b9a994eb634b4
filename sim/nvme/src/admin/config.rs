//! Configuration of a controller's admin side.

use nvme_spec::identify::{PowerFlags, PowerState};

use super::health::Health;
use crate::namespace::sane_formats;

/// Limits and optional parts of the admin command set.
#[derive(Clone, PartialEq, Debug)]
pub struct AdminConfig {
    /// The optional commands.
    pub commands: OptionalCommands,
    /// The commands of secondary controllers that concern the whole subsystem.
    pub secondary_commands: SecondaryCommands,
    /// Aborts that may be outstanding, at least 1 (ACL + 1).
    pub aborts: u8,
    /// Asynchronous event requests that may be outstanding, at least 1 (AERL + 1).
    pub event_requests: u8,
    /// Entries of the error log, 1 to 256 (ELPE + 1).
    pub error_entries: u16,
    /// The largest NSID (NN), 1 to 1024; at least the number of namespaces at the start.
    pub max_namespaces: u32,
    /// Formats of namespaces that are created: log2 of the bytes of a block, 9 to 16 each; at most 64, at least one.
    pub formats: Vec<u8>,
    /// Power states, 1 to 32, the first of which is in force at the start. The first must be operational.
    pub power_states: Vec<PowerLevel>,
    /// Health at the start.
    pub health: Health,
    /// Composite temperature from which the controller warns (WCTEMP), kelvin.
    pub warning_kelvin: u16,
    /// Composite temperature from which it may stop working (CCTEMP), kelvin.
    pub critical_kelvin: u16,
    /// Granularity of the keep alive timer (KAS), units of 100 ms; 0 for a controller without one.
    pub keep_alive_100ms: u16,
    /// Firmware slots, 2 to 7, if there are commands for them. The first is read-only, and holds the revision of the identity.
    pub firmware_slots: u8,
    /// How long no command is fetched while firmware is activated without a reset, in nanoseconds.
    pub activation_ns: u64,
    /// How long a short self-test takes, in nanoseconds; the standard allows two minutes.
    pub short_test_ns: u64,
    /// How long an extended self-test takes, in nanoseconds.
    pub extended_test_ns: u64,
    /// How long a block erase of a sanitize takes, and each pass of an overwrite, in nanoseconds.
    pub sanitize_ns: u64,
    /// How long a format of one namespace takes, in nanoseconds.
    pub format_ns: u64,
}

/// Optional admin commands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OptionalCommands {
    /// Namespace Management and Namespace Attachment.
    pub namespaces: bool,
    /// Format NVM.
    pub format: bool,
    /// Doorbell Buffer Config.
    pub doorbell_buffer: bool,
    /// Firmware Image Download and Firmware Commit.
    pub firmware: bool,
    /// Lockdown.
    pub lockdown: bool,
    /// Device Self-test.
    pub self_test: bool,
    /// Sanitize.
    pub sanitize: bool,
}

/// The commands of secondary controllers that concern the whole subsystem.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SecondaryCommands {
    /// None of them, because they belong to the primary controller.
    Own,
    /// The primary controller's, but for Virtualization Management. So have QEMU's, which execute Namespace Attachment for any
    /// function.
    AsPrimary,
}

/// A power state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PowerLevel {
    /// The most power drawn, units of 10 mW.
    pub max_power_10mw: u16,
    /// Whether I/O commands are processed in it.
    pub operation: Operation,
    /// Time to enter it, microseconds.
    pub entry_us: u32,
    /// Time to leave it, microseconds.
    pub exit_us: u32,
}

/// Whether a power state processes I/O commands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operation {
    /// The state processes I/O commands.
    Operational,
    /// The state processes none: an I/O command makes the controller leave it.
    NonOperational,
}

impl Default for AdminConfig {
    fn default() -> Self {
        let level =
            |max_power_10mw, operation, entry_us, exit_us| PowerLevel { max_power_10mw, operation, entry_us, exit_us };
        Self {
            commands: OptionalCommands {
                namespaces: true,
                format: true,
                doorbell_buffer: true,
                firmware: true,
                lockdown: true,
                self_test: true,
                sanitize: true,
            },
            secondary_commands: SecondaryCommands::Own,
            aborts: 4,
            event_requests: 4,
            error_entries: 64,
            max_namespaces: 256,
            formats: vec![9, 12],
            power_states: vec![
                level(2500, Operation::Operational, 0, 0),
                level(1200, Operation::Operational, 10, 10),
                level(10, Operation::NonOperational, 2_000, 5_000),
            ],
            health: Health::default(),
            warning_kelvin: 343,
            critical_kelvin: 373,
            keep_alive_100ms: 0,
            firmware_slots: 3,
            activation_ns: 40_000_000,
            short_test_ns: 5_000_000_000,
            extended_test_ns: 60_000_000_000,
            sanitize_ns: 2_000_000_000,
            format_ns: 100_000_000,
        }
    }
}

impl AdminConfig {
    /// Whether a power state processes no I/O, so that an idle controller can enter it by itself.
    pub(crate) fn has_idle_states(&self) -> bool {
        self.power_states.iter().any(|level| level.operation == Operation::NonOperational)
    }

    /// Number of firmware slots.
    pub(crate) const fn slots(&self) -> u8 {
        if self.commands.firmware { self.firmware_slots } else { 1 }
    }

    /// Returns the same configuration with each impossible value replaced by the nearest possible one.
    pub(crate) fn sane(&self) -> Self {
        let mut sane = self.clone();
        sane.aborts = sane.aborts.max(1);
        sane.event_requests = sane.event_requests.max(1);
        sane.error_entries = sane.error_entries.clamp(1, 256);
        sane.max_namespaces = sane.max_namespaces.clamp(1, 1024);
        sane.firmware_slots = sane.firmware_slots.clamp(2, 7);
        sane.formats = sane_formats(sane.formats);
        sane.power_states.truncate(32);
        match sane.power_states.first_mut() {
            Some(first) => first.operation = Operation::Operational,
            None => sane.power_states = Self::default().power_states,
        }
        sane
    }
}

impl PowerLevel {
    /// Returns the descriptor in Identify Controller.
    pub(crate) fn descriptor(&self) -> PowerState {
        let mut state = PowerState::default();
        state.max_power.set(self.max_power_10mw);
        let idle = self.operation == Operation::NonOperational;
        state.flags = PowerFlags::new().with_non_operational(idle).into_bits();
        state.entry_us.set(self.entry_us);
        state.exit_us.set(self.exit_us);
        state
    }
}
