//! Recovery from a controller that fails or gives no answer: of one command, of one queue pair, of the controller; and from
//! a controller that is gone.

pub(crate) mod controller;
pub(crate) mod give_up;
pub(crate) mod queue_pairs;
pub(crate) mod removal;
pub(crate) mod timeouts;
