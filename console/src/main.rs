//! The console's program for seL4, with the machine's port.

#![no_std]
#![no_main]

#[cfg(target_arch = "x86_64")]
platform_sel4::component!(console::ns16550::run);
#[cfg(target_arch = "aarch64")]
platform_sel4::component!(console::pl011::run);
