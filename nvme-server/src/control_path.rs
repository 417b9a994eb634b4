//! The control path: slow work at the controller, one request after another, while the data path goes on.
//!
//! [`control_plane`] takes the requests. [`bring_up`] makes the controller ready for commands, and
//! [`identity`] compares it with the first; [`provision`] and [`reconcile`] create the queue pairs that it should have; [`events`] acts on
//! what the controller reports; [`reconfiguration`] and [`interrupts_change`] carry out the policy component's [`changes`].
//! [`functions`] sets each [`virtual_function`] online, which a client drives itself.

pub(crate) mod arbitration;
pub(crate) mod bring_up;
pub(crate) mod changes;
pub(crate) mod control_plane;
pub(crate) mod events;
pub(crate) mod functions;
pub(crate) mod identity;
pub(crate) mod interrupts_change;
pub(crate) mod namespaces;
pub(crate) mod on_wake;
pub(crate) mod provision;
pub(crate) mod reconcile;
pub(crate) mod reconfiguration;
pub(crate) mod requests;
pub(crate) mod virtual_function;
