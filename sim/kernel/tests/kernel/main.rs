//! What the kernel model does, concept by concept, and laws that hold whatever is done to it.

mod boot;
mod cnode;
mod endpoint;
mod fault;
mod interrupt;
mod iospace;
mod laws;
mod machine;
mod notification;
mod schedule;
mod thread;
mod untyped;
mod virt;
mod vspace;
