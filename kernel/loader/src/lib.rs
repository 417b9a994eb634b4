//! The program that runs before the kernel on AArch64, without its assembly text: translation tables, and the handover.
//!
//! QEMU loads one ELF file, in which the build machine has put together the kernel, the root task's image above it and this
//! loader (module `boot` of the crate `kernel`). The loader checks that the machine is the one that all was built for. It
//! turns translation on and enters the kernel, which expects its own addresses to work already. Beyond that point nothing of
//! the loader is used.
//!
//! Left out: more than one core, other machines than QEMU's virt.

#![no_std]

mod handover;
mod registers;
mod tables;

pub use handover::{HANDOVER_ADDRESS, Handover, LOADER_END, PHYSICAL_BASE};
pub use registers::{DEBUG_CONTROL, SYSTEM_CONTROL};
pub use tables::{MEMORY_ATTRIBUTES, Root, TRANSLATION_CONTROL, Tables};
