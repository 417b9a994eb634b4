//! The control component's program for seL4.

#![no_std]
#![no_main]

platform_sel4::component!(control::run);
