//! The checkers of a simulated run, written apart from all that they check: plain numbers in, findings out.
//!
//! The simulator reports to the checkers what it observes. Each checker knows one law:
//!
//! | checker | law |
//! |---|---|
//! | [`Data`] | a read returns content that each block could hold at that moment, across failures and power losses |
//! | [`Authority`] | no component and no device touches a page that it was not given |
//! | [`Liveness`] | once faults stop, every request is answered, and every component that can run does run, within a bound |
//! | [`Accounting`] | requests and commands are answered once each, and nothing is left over at the end |
//! | [`Fairness`] | sessions with equal shares that ask without pause are served alike |
//!
//! A broken law becomes a [`Finding`]: one sentence with the time, the subject, and the state that should have been.
//! [`Checker::Kernel`] is the name of a checker outside this crate: the kernel's model checks its own invariants.
//!
//! Neighbours: `sim` observes the run and calls; nothing else does. Left out on purpose: every type of a component,
//! of a model and of an interface crate, so that a mistake in one of those cannot repeat itself here. Also left out:
//! clocks, randomness and any output. The order of the calls is the order of the events.

#![forbid(unsafe_code)]

mod accounting;
mod authority;
mod data;
mod fairness;
mod finding;
mod liveness;

pub use accounting::{Accounting, QueueId};
pub use authority::{Access, Authority, Rights};
pub use data::{
    BlockRange, Data, Discard, Hash, NamespaceRules, Operation, Outcome, Persistence, WriteCache, hash_block,
};
pub use fairness::{Fairness, FairnessRules, Share};
pub use finding::{Checker, Finding, Findings, RequestId, Subject};
pub use liveness::{Liveness, LivenessBounds};
