//! The whole server, `nvme_server::run`, on a world in memory.
//!
//! Unit tests stand beside the parts. These tests show what clients and a controller see from outside: the order of
//! bring-up, round trips of data, sessions, and the consequences of lies from either side.

mod administration;
mod any_command;
mod arbitration;
mod bring_up;
mod dead_clients;
mod dead_controller;
mod descriptions;
mod device_lies;
mod events;
mod floods;
mod functions;
mod hostile_clients;
mod identity;
mod interrupts;
mod interrupts_change;
mod io;
mod limits;
mod policy;
mod priorities;
mod reconfiguration;
mod removal;
mod resets;
mod retries;
mod sessions;
mod shared_queues;
mod slow_device;
mod support;
