//! The driver on the model of the device, with no other component.
//!
//! `machine` is registers and memory with a check of the pages that devices reach, `history` plays operations against a
//! plain map.

mod bring_up;
mod domains;
mod failures;
mod faults;
mod history;
mod hostile;
mod machine;
mod planted;
mod properties;
#[path = "../script/mod.rs"]
mod script;
mod scripted;
