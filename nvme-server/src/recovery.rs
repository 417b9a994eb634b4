//! Recovery from a controller that fails or gives no answer: of one command, of one queue pair, of the controller.

pub(crate) mod controller;
pub(crate) mod queue_pairs;
pub(crate) mod timeouts;
