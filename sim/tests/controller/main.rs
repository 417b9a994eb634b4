//! The controller model against a small driver on a memory that is one vector.

mod driver;

mod admin;
mod arbitration;
mod bring_up;
mod cache;
mod commands;
mod completions;
mod controller_faults;
mod curves;
mod doorbells;
mod faults;
mod guide;
mod hostile;
mod interrupts;
mod later;
mod queue_use;
mod queues;
mod repeatable;
mod shadow;
mod transfers;
mod virtualization;
