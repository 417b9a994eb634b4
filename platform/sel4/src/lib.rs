//! The seam's seL4 side: system calls, capabilities, mapped memory, executor, time, log, and the start of a program.
//!
//! A component's program is one line over its library, [`component!`], and the root task's one over its own,
//! [`root_task!`]. Inside, [`Sel4Platform`] is the seam's [`platform::Platform`]. The kernel's numbers and message formats
//! are not written here: the build script generates them (`sel4-bindings`) from the kernel's files, which the environment
//! variable `CAPNVME_SEL4_x86_64` or `CAPNVME_SEL4_aarch64` names. What differs between kernels is in `abi/`.
//!
//! This is the only crate with unsafe code on the target. It rests on few assumptions, stated where they are used: the
//! kernel keeps its interface; a component has one thread; the root task starts it once, with a truthful environment, and
//! lays its regions out apart from its image, stack and IPC buffer.
//!
//! # A component's state at its first instruction
//!
//! - Its first argument (rdi, x0): the address of the environment: its length in 8 bytes, little endian, then
//!   [`platform::Environment`] in postcard. Read-only.
//! - Its second argument (rsi, x1): ticks of the clock a second.
//! - The stack pointer, a multiple of 16; at least 64 KiB of stack. The page below the stack should
//!   not be mapped, so that a stack that grows too long is a fault.
//! - Its CSpace is one CNode with a guard of zeros that fills 64 bits, so that slot numbers are cptrs.
//! - Its heap (1 MiB, or what it asks [`component!`] for) is in its .bss.
//!
//! It may find in its environment: a region `log`, one page and a power of two of bytes, read-write, for its log ring, and
//! a capability `log` to the console's notification. Frames in the ring are in defmt's raw encoding, one a record.
//!
//! # Building a program
//!
//! For the target `x86_64-unknown-none`, with `-C relocation-model=static` (in `RUSTFLAGS`, the same for all programs, so
//! that they share their libraries) and the linker's arguments for each program alone:
//!
//! ```text
//! CAPNVME_SEL4_x86_64=$PWD/target/kernel/release DEFMT_LOG=info RUSTFLAGS="-C relocation-model=static" \
//! cargo rustc --release --target x86_64-unknown-none -p PACKAGE --features sel4 --bin PROGRAM -- \
//!     -C link-arg=-Tdefmt.x -C link-arg=-T$PWD/platform/sel4/component.ld \
//!     -C link-arg=--defsym=__image_base=0x10000000
//! ```
//!
//! Any base that keeps the image below 2 GiB is valid: the target's code model needs addresses that fit 31 bits. The
//! root task takes `root-task.ld` and no base. Its payload segment is the last program header, at 0x800000; set its
//! `p_offset`, `p_filesz` and `p_memsz` to the data appended to the file. [`RootPlatform::payload`] returns that data.
//! Strip the files before they are packed: debug information stays with the build machine.

#![no_std]

extern crate alloc;

#[allow(clippy::all, reason = "generated, and not for reading")]
mod bindings {
    include!(concat!(env!("OUT_DIR"), "/bindings.rs"));
}
#[cfg_attr(sel4_sched_params, path = "abi/current.rs")]
#[cfg_attr(not(sel4_sched_params), path = "abi/old.rs")]
mod abi;
#[cfg_attr(target_arch = "x86_64", path = "x86_64/mod.rs")]
#[cfg_attr(target_arch = "aarch64", path = "aarch64/mod.rs")]
mod arch;
mod boot_info;
mod component;
mod executor;
mod fault;
mod flat_message;
pub mod initial;
mod invocation;
mod ipc_buffer;
mod kernel;
mod local;
mod log;
mod marker;
mod memory;
mod page;
mod root;
mod runtime;
mod syscall;
mod time;
mod worker;

#[cfg(target_arch = "aarch64")]
pub use arch::{TIMER_LINE, TimerRegisters};
pub use boot_info::{BootInfo, BootUntyped, RETYPE_LIMIT, object_bits};
pub use component::Sel4Platform;
pub use fault::Fault;
pub use flat_message::FlatMessage;
pub use invocation::Sel4;
pub use marker::marker;
pub use memory::{Sel4Memory, Sel4Mmio};
pub use platform::HEAP_BYTES;
pub use root::{DEVICE_AREA, MAPPING_AREA, RootPlatform, STACK, STACK_BYTES, start_root_task};
pub use runtime::start_component;
pub use worker::Worker;
