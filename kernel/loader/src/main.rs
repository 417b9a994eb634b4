//! The loader's program: see the library.

#![cfg_attr(target_os = "none", no_std, no_main)]

#[cfg(target_os = "none")]
mod entry;
#[cfg(target_os = "none")]
mod machine;

#[cfg(not(target_os = "none"))]
fn main() {
    eprintln!("kernel-loader runs before the kernel: build it for aarch64-unknown-none-softfloat");
    std::process::exit(2);
}
