//! The admin command set by behaviour: a driver of a few lines, a machine of a megabyte, and what the controller
//! answers.

mod abort;
mod commands;
mod errors;
mod events;
mod features;
mod format;
mod health;
mod identify;
mod logs;
mod namespaces;
mod power;
mod support;
