//! The data path: from an entry on a session's ring to a command in a queue pair, and back to its answer.
//!
//! The path of a read, a file per step: [`event_loop`] waits and begins a pass ([`pass`]). `session::submission` takes the entry
//! from the ring, checked by `blk_api::request`; [`split`] finds its blocks and cuts it into commands;
//! [`io_queue`] reserves a place ([`in_flight`]) and builds the command with `controller::prp`; `controller::queue_pair` submits
//! and rings. A completion goes from `queue_pair` through `in_flight` to `session::completion`, which answers.
//!
//! [`ready`] knows which sessions may have work, and [`schedule`] asks the scheduling policy which of them has its turn.

mod alarm;
pub(crate) mod budget;
pub(crate) mod event_loop;
pub(crate) mod hybrid;
pub(crate) mod in_flight;
pub(crate) mod io_queue;
mod pass;
pub(crate) mod queues;
pub(crate) mod ready;
pub(crate) mod schedule;
pub(crate) mod session;
pub(crate) mod split;
