//! An open session: its ring, its requests, its commands in flight.
//!
//! In a pass a session takes completions ([`Session::completed`]), submits in its turn ([`Session::take_turn`]), and rings
//! and publishes ([`Session::end_poll`]). Identifier, slot, list pages and the answer's place of a command are reserved
//! before the entry is taken, so that nothing on the way back can fail for lack of room. Neighbours: `io_queue` is a queue
//! pair, `queues` has them by number, and `ending` handles a session's end and resets.

mod completion;
mod ending;
mod retries;
mod run;
mod submission;
mod trace;

pub(crate) use retries::Retries;

use run::Run;

pub(crate) use nvme_driver::command::Abilities;

use crate::data_plane::extents::CommandLimits;
use crate::data_plane::in_flight::has_any_of;
use crate::data_plane::latencies::Latencies;
use crate::data_plane::queues::Queues;
use crate::data_plane::readiness::Readiness;
use alloc::boxed::Box;
use blk_api::config::{Interrupts, ServerConfig, SessionConfig};
use blk_api::request::Bounds;
use blk_api::ring::{RingError, ServerEnd};
use blk_api::session::Statistics;
use blk_api::telemetry as layout;
use blk_api::trace::Tracer;
use core::ops::Range;
use nvme_driver::Engine;
use nvme_driver::command::Target;
use nvme_driver::dma::Window;
use nvme_driver::fault::DeviceFault;
use nvme_driver::pending::Pending;
use nvme_driver::retry::RetryDelays;
use nvme_spec::Nsid;
use platform::{Cap, Notification, Platform};

/// The outcome of a pass for a session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PollResult {
    /// The session was not polled.
    None,
    /// There was nothing.
    Nothing,
    /// The session had completions.
    Completions,
    /// The session had a turn.
    Turn,
}

/// Reason for which serving a session ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ServeError {
    /// The client broke the protocol: this session ends.
    Client(RingError),
    /// The controller cannot be trusted: it is reset.
    Device(DeviceFault),
}

impl From<RingError> for ServeError {
    fn from(error: RingError) -> Self {
        Self::Client(error)
    }
}

impl From<DeviceFault> for ServeError {
    fn from(fault: DeviceFault) -> Self {
        Self::Device(fault)
    }
}

const _: () = assert!(Pending::PLACE_BYTES <= ServerConfig::HEAP_A_REQUEST);

/// An open session.
pub(crate) struct Session<P: Platform> {
    pub config: SessionConfig,
    pub bounds: Bounds,
    /// Its number.
    number: u8,
    /// The numbers of its queue pairs.
    pub queues: Range<u16>,
    pub statistics: Statistics,
    /// The session's interrupts by mode; the sum is among the statistics.
    pub interrupts: report::Interrupts,
    pub target: Target,
    pub window: Window,
    /// Blocks of the namespace when the session was opened.
    pub namespace_blocks: u64,
    ring: ServerEnd<P::Memory>,
    client: Cap<Notification>,
    kernel: P::Kernel,
    command_limits: CommandLimits,
    abilities: Abilities,
    /// Entries that may be answered without a command between two ticks, and how many of them are left.
    refusals: u16,
    refusals_left: u16,
    /// The queue pair at which the next batch begins.
    next_queue: u16,
    /// The queue pairs that its commands go to: all, or the slower ones that the scheduling policy allows.
    usable: Range<u16>,
    /// The client was asked to signal when it submits.
    is_signalled: bool,
    /// Its commands in flight.
    in_flight: u32,
    /// Its requests that were taken and not answered.
    outstanding: u32,
    /// Those of them that were not submitted as one command.
    engine: Engine,
    /// The requests that were completed last and are not counted yet.
    run: Run,
    /// The latencies of its requests, in a scenario with telemetry.
    pub latencies: Option<Box<Latencies>>,
    /// The tracer of its requests, where they are traced.
    pub trace: Option<Box<Tracer<P>>>,
    /// The number of the retry that this is, 0 for a first try.
    retrying: u8,
    retries: Retries,
}

/// The parts of a session.
pub(crate) struct Parts<P: Platform> {
    pub config: SessionConfig,
    pub bounds: Bounds,
    pub command_limits: CommandLimits,
    pub abilities: Abilities,
    pub retries: Retries,
    pub window: Window,
    pub namespace_blocks: u64,
    pub refusals: u16,
    pub number: u8,
    pub queues: Range<u16>,
    pub ring: ServerEnd<P::Memory>,
    pub client: Cap<Notification>,
    pub kernel: P::Kernel,
}

impl<P: Platform> Session<P> {
    /// An open session with nothing in flight.
    pub(crate) fn new(parts: Parts<P>) -> Self {
        let Parts { config, bounds, command_limits, abilities, window, namespace_blocks, refusals, .. } = parts;
        let Parts { number, queues, ring, client, kernel, retries, .. } = parts;
        // A ring has at most 4096 entries (`blk_api::ring::MAX_ENTRIES`).
        let entries = config.ring_entries.min(blk_api::ring::MAX_ENTRIES) as u16;
        Self {
            target: Target { nsid: Nsid(config.nsid), window: window.iova },
            window,
            namespace_blocks,
            config,
            bounds,
            number,
            refusals,
            refusals_left: refusals,
            next_queue: queues.start,
            usable: queues.clone(),
            queues,
            is_signalled: true,
            in_flight: 0,
            outstanding: 0,
            statistics: Statistics::default(),
            interrupts: report::Interrupts::default(),
            ring,
            client,
            kernel,
            command_limits,
            abilities,
            // As many places as the ring has entries are enough for all requests that are outstanding.
            engine: Engine::new(entries),
            run: Run::NONE,
            latencies: None,
            trace: None,
            retrying: 0,
            retries,
        }
    }

    /// Counts an interrupt by its mode.
    pub(crate) fn count_interrupt(&mut self, by: Interrupts) {
        self.statistics.interrupts = self.statistics.interrupts.wrapping_add(1);
        let count = match by {
            Interrupts::Msix => &mut self.interrupts.msix,
            Interrupts::Msi => &mut self.interrupts.msi,
            Interrupts::Intx => &mut self.interrupts.intx,
        };
        *count = count.wrapping_add(1);
    }

    /// Replaces the session's queue pairs; their list pages suffice for `max_transfer` bytes. Nothing is in flight on those
    /// that it loses.
    pub(crate) fn set_queues(&mut self, queues: Range<u16>, max_transfer: u64) {
        let limits = CommandLimits::of(max_transfer, self.bounds.block_shift);
        self.command_limits.data_blocks = self.command_limits.data_blocks.min(limits.data_blocks);
        if !queues.contains(&self.next_queue) {
            self.next_queue = queues.start;
        }
        self.usable = queues.clone();
        self.queues = queues;
    }

    /// Keeps to what the controller can do after a reset: commands of `max_transfer` bytes, these operations, these delays.
    pub(crate) fn adapt(&mut self, max_transfer: u64, abilities: Abilities, delays: RetryDelays) {
        self.command_limits = CommandLimits::of(max_transfer, self.bounds.block_shift);
        self.abilities = abilities;
        self.retries.delays = delays;
    }

    /// Latencies for its requests, with none counted yet.
    pub(crate) fn new_latencies(&self) -> Box<Latencies> {
        Latencies::new(self.engine.pending.most())
    }

    /// The statistics that it shows without its latencies.
    pub(crate) fn contents(&self) -> layout::Session {
        layout::Session {
            queue_pairs: self.queues.len() as u32,
            in_ring: self.ring.waiting(),
            in_device: self.in_flight,
            sums: self.statistics,
            ..layout::Session::default()
        }
    }

    /// Whether a command is in flight.
    pub(crate) const fn has_commands(&self) -> bool {
        self.in_flight > 0
    }

    /// Whether a command is in flight that was submitted before or at `then`, in ticks of the clock.
    pub(crate) fn has_commands_of(&self, queues: &Queues<P>, then: u64) -> bool {
        queues.of(self.queues.clone()).any(|queue| has_any_of(&queue.queue.commands, self.number, then))
    }

    /// Commands that were completed.
    pub(crate) fn completed_commands(&self) -> u64 {
        self.statistics.commands.wrapping_sub(u64::from(self.in_flight))
    }

    /// Has the session wait for a signal, where this pass has `found` nothing that could be done: the client is asked to signal, and
    /// then the ring is looked at again. Returns the session's readiness, which is [`Readiness::WaitsTurn`] if there is something to do after
    /// all.
    pub(crate) fn rest(&mut self, found: Readiness, queues: &mut Queues<P>) -> Result<Readiness, RingError> {
        if core::mem::replace(&mut self.is_signalled, true) {
            // It was asked before the ring was polled.
            return Ok(found);
        }
        if self.ring.prepare_sleep()? { self.wants(queues) } else { Ok(found) }
    }

    /// Whether the client signals and has submitted nothing. A ring-index error is left to a poll.
    #[inline]
    pub(crate) fn has_nothing(&mut self) -> bool {
        self.is_signalled && !self.engine.is_cutting() && !self.ring.has_entries().unwrap_or(true)
    }

    /// Asks the client not to signal.
    pub(crate) fn awake(&mut self) -> Result<(), RingError> {
        if core::mem::replace(&mut self.is_signalled, false) { self.ring.awake() } else { Ok(()) }
    }

    /// Restores the refusals, at a tick or after a record was installed for which requests were refused. Returns whether
    /// entries waited for that.
    pub(crate) fn refill_refusals(&mut self) -> bool {
        let refusals = if self.has_too_many_retries() { 0 } else { self.refusals };
        core::mem::replace(&mut self.refusals_left, refusals) == 0
    }

    #[inline]
    fn advance_queue(&mut self) {
        self.next_queue = self.next_queue.wrapping_add(1);
        if self.next_queue >= self.usable.end {
            self.next_queue = self.usable.start;
        }
    }
}
