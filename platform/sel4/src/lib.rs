//! The seam's seL4 side.

#![no_std]

extern crate alloc;

#[allow(clippy::all)]
mod bindings {
    include!(concat!(env!("OUT_DIR"), "/bindings.rs"));
}
mod boot_info;
mod component;
mod executor;
mod fault;
mod invocation;
mod ipc_buffer;
mod kernel;
mod local;
mod log;
mod marker;
mod memory;
mod root;
mod runtime;
mod syscall;
mod time;

pub use boot_info::{BootInfo, BootUntyped, initial};
pub use component::Sel4Platform;
pub use fault::Fault;
pub use invocation::Sel4;
pub use marker::marker;
pub use memory::{Sel4Memory, Sel4Mmio};
pub use root::{RootPlatform, STACK, STACK_BYTES, WINDOW, start_root_task};
pub use runtime::start_component;
