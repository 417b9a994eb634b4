//! Policies over models of devices, in virtual time: what sessions get beside each other.
//!
//! Nothing here is chance: a test gives the same figures on every machine.

#![forbid(unsafe_code)]
#![expect(unreachable_pub, reason = "a test has no interface")]

mod direct;
mod limits;
mod model;
mod paced;
mod refusals;
mod run;
mod shares;
mod tails;
