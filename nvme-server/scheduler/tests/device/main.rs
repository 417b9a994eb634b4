//! Policies over models of devices, in virtual time: the rates and latencies of sessions beside each other.
//!
//! Nothing here is random: a test gives the same figures on every machine.

#![forbid(unsafe_code)]
#![expect(unreachable_pub, reason = "a test has no interface")]

mod controller;
mod direct;
mod limits;
mod load;
mod matrix;
mod model;
mod neighbourhoods;
mod paced;
mod refusals;
mod run;
mod shares;
mod tails;
