//! The control plane's queue: requests of the data plane and of the policy component.

use blk_api::config::ServerConfig;
use core::cell::Cell;
use embassy_sync::blocking_mutex::raw::NoopRawMutex;
use embassy_sync::channel::Channel;
use platform::log::error;

/// Requests the control plane can have waiting: each session's opening or teardown, one reconfiguration, one
/// of interrupts, one about functions, two recoveries, an event, and the controller's removal.
const CONTROL_QUEUE: usize = ServerConfig::MOST_SESSIONS + 7;

/// A request of the data plane to the control plane.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Control {
    /// The client of this session calls for it to be opened and waits for the answer.
    Open(usize),
    /// This session has ended and has nothing in flight.
    TearDown(usize),
    /// A session's queue pairs are to change ([`Changes::reconfiguration`](crate::control_path::changes::Changes)).
    Reconfigure,
    /// Clients of virtual functions were started or died ([`follow_clients`](crate::control_path::functions::follow_clients)).
    Functions,
    /// The controller's interrupt mode is to change ([`Changes::interrupts`](crate::control_path::changes::Changes)).
    ChangeInterrupts,
    /// A queue pair gave no answer in time.
    RecoverQueuePairs,
    /// The controller did something wrong.
    Recover,
    /// The controller reports an event ([`events`](crate::control_path::events)).
    Event,
    /// The controller is to be removed.
    Leave,
}

/// Requests to the control plane, in their order.
pub(crate) struct ControlQueue {
    requests: Channel<NoopRawMutex, Control, CONTROL_QUEUE>,
    /// A recovery of the controller is among them.
    recovers_controller: Cell<bool>,
    /// A request about virtual functions is among them.
    follows_clients: Cell<bool>,
    /// An event is among them.
    has_event: Cell<bool>,
    /// A recovery of queue pairs is among them, or under way.
    recovers_queue_pairs: Cell<bool>,
}

impl ControlQueue {
    /// Empty.
    pub(crate) const fn new() -> Self {
        Self {
            requests: Channel::new(),
            recovers_controller: Cell::new(false),
            follows_clients: Cell::new(false),
            has_event: Cell::new(false),
            recovers_queue_pairs: Cell::new(false),
        }
    }

    /// Passes a request to the control plane; each recovery is there once, and so are an event and one about functions.
    pub(crate) fn pass(&self, control: Control) {
        let is_known = match control {
            Control::Recover => self.recovers_controller.replace(true),
            Control::Functions => self.follows_clients.replace(true),
            Control::RecoverQueuePairs => self.recovers_queue_pairs.replace(true),
            Control::Event => self.has_event.replace(true),
            Control::Open(_)
            | Control::TearDown(_)
            | Control::Reconfigure
            | Control::ChangeInterrupts
            | Control::Leave => false,
        };
        // The queue holds all that there can be at once.
        if !is_known && self.requests.try_send(control).is_err() {
            error!("the control plane's queue is full");
        }
    }

    /// Waits for the next request.
    pub(crate) async fn next(&self) -> Control {
        let control = self.requests.receive().await;
        match control {
            Control::Recover => self.recovers_controller.set(false),
            Control::Functions => self.follows_clients.set(false),
            Control::Event => self.has_event.set(false),
            _ => {}
        }
        control
    }

    /// The recovery of queue pairs is over.
    pub(crate) fn queue_pairs_recovered(&self) {
        self.recovers_queue_pairs.set(false);
    }
}
