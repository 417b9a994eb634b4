//! The data plane: from an entry on a session's ring to a command in a queue pair, and back to its answer.
//!
//! The path of a read, a file per step: [`event_loop`] waits and begins a pass ([`pass`]). `session::submission` takes the entry
//! from the ring, checked by `blk_api::request`; [`extents`] finds its blocks and cuts it into commands;
//! [`io_queue`] reserves a place ([`in_flight`]) and builds the command with `nvme_driver::prp`; `nvme_driver::queue_pair` submits
//! and rings. A completion goes from `queue_pair` through `in_flight` to `session::completion`, which answers.
//!
//! [`readiness`] knows which sessions may have work, and [`schedule`] asks the scheduling policy which of them has its turn. The control
//! plane and the policy component's calls change the data plane by named operations alone: [`operations`], [`queue_operations`],
//! [`rights`] and [`calls`]. None of them waits.

pub(crate) mod alarm;
pub(crate) mod budget;
pub(crate) mod calls;
pub(crate) mod event_loop;
pub(crate) mod extents;
pub(crate) mod hybrid;
pub(crate) mod in_flight;
pub(crate) mod io_queue;
pub(crate) mod latencies;
pub(crate) mod operations;
pub(crate) mod pages;
mod pass;
pub(crate) mod phase;
pub(crate) mod queue_operations;
pub(crate) mod queues;
pub(crate) mod readiness;
pub(crate) mod rights;
pub(crate) mod schedule;
pub(crate) mod session;
mod shares;
mod signals;
pub(crate) mod slot;
mod telemetry;

use crate::jobs::Jobs;
use alloc::boxed::Box;
use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;
use blk_api::config::ServerConfig;
use blk_api::policy::Removal;
use extent_table::ExtentTable;
use nvme_driver::Controller;
use pages::Pages;
use platform::{Cap, Environment, Notification, Platform};
use queues::Queues;
use readiness::ReadySet;
use schedule::Schedule;
use slot::SessionSlot;

/// The state of the data plane: sessions, queue pairs, and the decisions between them.
pub(crate) struct DataPlane<P: Platform> {
    platform: P,
    config: Rc<ServerConfig>,
    controller: Rc<Controller<P>>,
    jobs: Rc<Jobs>,
    /// Sessions by number (badge - 1).
    slots: Vec<SessionSlot<P>>,
    /// The controller's I/O queue pairs.
    queues: Queues<P>,
    /// The schedule, which chooses the session whose turn it is.
    schedule: Schedule,
    /// The blocks that sessions may touch.
    extents: ExtentTable,
    /// The sessions to poll.
    ready: Rc<ReadySet>,
    /// The session that is polled first in the next pass.
    first: usize,
    /// No command may be submitted, so that those in flight come to an end.
    holds_back: bool,
    /// The media is read-only, as the controller has said last.
    pub(crate) media_is_read_only: bool,
    /// The control plane is to be told when no command is in flight.
    awaits_idle: bool,
    /// Removals of rights whose end the policy component is to be notified of, one a session.
    removals: Vec<Removal>,
    /// Passes over the ready sessions.
    passes: u64,
    /// The statistics for the build machine, in a scenario with telemetry.
    pages: Option<Box<Pages<P::Memory>>>,
    /// The policy component's notification.
    policy: Cap<Notification>,
    /// The server's own notification, by which the event loop is woken.
    nudge: Cap<Notification>,
}

/// The notifications that the data plane signals.
pub(crate) struct Signals {
    pub policy: Cap<Notification>,
    pub nudge: Cap<Notification>,
}

impl<P: Platform> DataPlane<P> {
    /// Creates the state, with no session open and no queue pair made.
    ///
    /// # Errors
    /// One sentence on what the environment or the configuration lacks.
    pub(crate) fn new(
        platform: &P,
        environment: &Environment,
        (config, controller, jobs): (&Rc<ServerConfig>, &Rc<Controller<P>>, &Rc<Jobs>),
        callers: u64,
        Signals { policy, nudge }: Signals,
    ) -> Result<Self, String> {
        let ready = ReadySet::new();
        Ok(Self {
            slots: slot::slots(platform, environment, config, callers, &ready).ok_or("it has no CNode of its own")?,
            queues: Queues::new(config.queue_pairs()),
            schedule: Schedule::new(config, platform.ticks_per_second()).map_err(|error| alloc::format!("{error}"))?,
            extents: extents::table(config).map_err(|error| alloc::format!("{error}"))?,
            ready,
            first: 0,
            holds_back: false,
            media_is_read_only: false,
            awaits_idle: false,
            removals: Vec::new(),
            passes: 0,
            pages: Pages::of(platform, environment, config),
            policy,
            nudge,
            platform: platform.clone(),
            config: Rc::clone(config),
            controller: Rc::clone(controller),
            jobs: Rc::clone(jobs),
        })
    }
}
