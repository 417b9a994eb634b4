//! The root task with the tests of the kernel's fixes.
//!
//! The crate `kernel` boots it in QEMU (its module `regress`) and names the test in a `fw_cfg` file. The test does the
//! operation that the defect spoils, and the verdict goes to a line that the build machine reads. Each test first shows that
//! its own machinery works, for instance that the device does reach a frame that is mapped for it.
//!
//! Neighbours: nothing but the kernel. It does not use `platform/sel4`, so that a mistake in those bindings cannot hide
//! a defect of the kernel; hence the small layer of system calls in `sys.rs`. Left out: everything a system needs that
//! a test does not (freeing objects, error recovery).

#![cfg_attr(target_os = "none", no_std, no_main)]

#[cfg(all(target_os = "none", target_arch = "x86_64"))]
#[path = "x86_64/mod.rs"]
mod arch;
#[cfg(all(target_os = "none", target_arch = "aarch64"))]
#[path = "aarch64/mod.rs"]
mod arch;
#[cfg(target_os = "none")]
mod endpoint_badge;
#[cfg(target_os = "none")]
mod entry;
#[cfg(target_os = "none")]
mod fastpath_asid;
#[cfg(target_os = "none")]
mod fastpath_reply;
#[cfg(target_os = "none")]
mod frame_copy;
#[cfg(target_os = "none")]
mod fw_cfg;
#[cfg(target_os = "none")]
mod machine;
#[cfg(target_os = "none")]
mod own_space;
#[cfg(target_os = "none")]
mod short_signal;
#[cfg(target_os = "none")]
mod short_wait;
#[cfg(target_os = "none")]
mod suspend_after_call;
#[cfg(target_os = "none")]
mod sys;
#[cfg(target_os = "none")]
mod verdict;

#[cfg(not(target_os = "none"))]
fn main() {
    eprintln!("kernel-regress runs on seL4: build it for x86_64-unknown-none or aarch64-unknown-none-softfloat");
    std::process::exit(2);
}
