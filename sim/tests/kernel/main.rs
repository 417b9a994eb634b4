//! Tests of the kernel model, concept by concept, and laws that hold for any sequence of calls.

mod boot;
mod cnode;
mod endpoint;
mod fault;
mod interrupt;
mod iospace;
mod laws;
mod machine;
mod notification;
mod rules;
mod schedule;
mod thread;
mod untyped;
mod virt;
mod vspace;
