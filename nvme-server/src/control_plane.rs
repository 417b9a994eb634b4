//! The control plane: slow work at the controller, one job after another, while the data plane goes on.
//!
//! [`run`] takes the jobs. [`bring_up`] makes the controller ready for commands, and [`identity`] compares it with the first;
//! [`provision`] and [`reconcile`] create the queue pairs that it should have; [`open`] and [`close`] begin and end a session;
//! [`events`] acts on what the controller reports; [`reshape`] and [`interrupts`] carry out the policy component's [`changes`].
//! [`administration`] has the commands of a component that may administer the controller, and [`losses`] ends sessions whose namespaces go.
//! [`functions`] sets each [`virtual_function`] online, which a client drives itself. A controller that fails is brought up again
//! ([`recover`]), and so is one queue pair ([`late_queues`]); one that is gone is let go of ([`remove`], [`end_requests`]).

pub(crate) mod administration;
pub(crate) mod arbitration;
mod bring_up;
pub(crate) mod changes;
mod close;
mod end_requests;
mod events;
pub(crate) mod functions;
mod identity;
pub(crate) mod interrupts;
mod late_queues;
mod losses;
mod namespaces;
mod open;
mod provision;
mod reconcile;
mod recover;
pub(crate) mod remove;
mod reshape;
mod run;
pub(crate) mod shares;
pub(crate) mod virtual_function;
mod windows;

use crate::link::Link;
use alloc::vec::Vec;
use identity::{First, Identity};
use nvme_driver::dma::Window;
use platform::Platform;

/// The state of the control plane.
pub(crate) struct ControlPlane<'a, P: Platform> {
    link: &'a Link<P>,
    /// The controller's identity, while it can be used.
    identity: Option<Identity>,
    /// The disk that is served.
    first_seen: First,
    /// By session, the addresses of its window, kept for its next opening.
    windows: Vec<Option<Window>>,
    /// Requests for events that are kept at the controller.
    event_requests: u8,
    /// Events since its last reset.
    events: u16,
}

impl<'a, P: Platform> ControlPlane<'a, P> {
    /// The control plane of a controller that was not brought up yet.
    pub(crate) fn new(link: &'a Link<P>) -> Self {
        let windows = link.config.sessions.iter().map(|_| None).collect();
        Self { link, identity: None, first_seen: First::default(), windows, event_requests: 0, events: 0 }
    }
}
