//! The admin command set by behaviour: the controller's answers.

mod abort;
mod commands;
mod differences;
mod errors;
mod events;
mod features;
mod firmware;
mod format;
mod health;
mod identify;
mod lockdown;
mod logs;
mod namespaces;
mod power;
mod sanitize;
mod self_test;
pub(crate) mod support;
