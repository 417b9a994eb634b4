//! The server on a machine made up: a bus of functions that size, bridge and interrupt, and the kernel's model with a record
//! of the server's invocations.

mod assigned;
mod bars;
mod budgets;
mod bus;
mod changed_interrupts;
mod claims;
mod dead_drivers;
mod dead_servers;
mod enabled;
mod enumeration;
mod hostile;
mod interrupts;
mod kernel;
mod layouts;
mod liars;
mod machine;
mod messages;
mod power;
mod provisions;
mod shared_lines;
mod slot_system;
mod slots;
mod system;
mod tree_bus;
mod trees;
mod virtual_claims;
mod virtual_functions;
mod virtual_system;
mod withdrawals;

use crate::run;
