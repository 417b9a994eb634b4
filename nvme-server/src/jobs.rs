//! The control plane's jobs: what the data plane, clients' calls and the policy component ask of it.

use crate::data_plane::phase::Awaited;
use blk_api::config::ServerConfig;
use core::cell::Cell;
use embassy_sync::blocking_mutex::raw::NoopRawMutex;
use embassy_sync::channel::Channel;
use platform::log::error;

/// Jobs that can wait: each session's opening or teardown, one reconfiguration, two
/// of interrupts, one about functions, two recoveries, an event, administration, and the controller's removal.
const MOST_JOBS: usize = ServerConfig::MOST_SESSIONS + 9;

/// A job of the control plane.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Job {
    /// The client of this session calls for it to be opened and waits for the answer.
    Open(usize),
    /// This session has ended and has nothing in flight.
    TearDown(usize),
    /// A session's queue pairs are to change.
    Reshape,
    /// Clients of virtual functions were started or died, or their rights changed.
    Functions,
    /// The controller's interrupt mode is to change, or the last command in flight has completed that the change waits for.
    ChangeInterrupts,
    /// A queue pair gave no answer in time.
    RecoverQueuePairs,
    /// The controller did something wrong.
    Recover,
    /// The controller reports an event.
    Event,
    /// Commands of the administration wait, or have ended.
    Administer,
    /// The controller is to be removed.
    Leave,
}

/// The jobs that wait, in their order.
pub(crate) struct Jobs {
    waiting: Channel<NoopRawMutex, Job, MOST_JOBS>,
    /// A recovery of the controller is among them.
    recovers_controller: Cell<bool>,
    /// A request about virtual functions is among them.
    follows_clients: Cell<bool>,
    /// An event is among them.
    has_event: Cell<bool>,
    /// Administration is among them.
    administers: Cell<bool>,
    /// A recovery of queue pairs is among them, or under way.
    recovers_queue_pairs: Cell<bool>,
}

impl Jobs {
    /// None waits.
    pub(crate) const fn new() -> Self {
        Self {
            waiting: Channel::new(),
            recovers_controller: Cell::new(false),
            follows_clients: Cell::new(false),
            has_event: Cell::new(false),
            administers: Cell::new(false),
            recovers_queue_pairs: Cell::new(false),
        }
    }

    /// Adds a job; each recovery waits once, and so do an event, administration and the job about functions.
    pub(crate) fn pass(&self, job: Job) {
        let is_known = match job {
            Job::Recover => self.recovers_controller.replace(true),
            Job::Functions => self.follows_clients.replace(true),
            Job::RecoverQueuePairs => self.recovers_queue_pairs.replace(true),
            Job::Event => self.has_event.replace(true),
            Job::Administer => self.administers.replace(true),
            Job::Open(_) | Job::TearDown(_) | Job::Reshape | Job::ChangeInterrupts | Job::Leave => false,
        };
        // The queue holds all that there can be at once.
        if !is_known && self.waiting.try_send(job).is_err() {
            error!("the control plane's queue is full");
        }
    }

    /// Adds the job that waits for session `index` to have nothing in flight.
    pub(crate) fn wait_is_over(&self, index: usize, awaited: Awaited) {
        self.pass(match awaited {
            Awaited::Reshape => Job::Reshape,
            Awaited::Teardown => Job::TearDown(index),
        });
    }

    /// Waits for the next job.
    pub(crate) async fn next(&self) -> Job {
        let job = self.waiting.receive().await;
        match job {
            Job::Recover => self.recovers_controller.set(false),
            Job::Functions => self.follows_clients.set(false),
            Job::Event => self.has_event.set(false),
            Job::Administer => self.administers.set(false),
            _ => {}
        }
        job
    }

    /// The recovery of queue pairs is over.
    pub(crate) fn queue_pairs_recovered(&self) {
        self.recovers_queue_pairs.set(false);
    }
}
