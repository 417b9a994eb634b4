//! Obtains, corrects, configures, builds and checks the seL4 kernel.
//!
//! [`build()`] is the entry point. It takes the source of seL4 5.0.0 from a crate on crates.io ([`obtain`]), copies it under
//! `target/`, applies the corrections this project needs ([`fixes`]), puts our configuration in place ([`configure`]) and
//! runs the kernel's own makefile outside its tree. The result is a folder `target/kernel/<name>/` with `kernel.elf`,
//! `kernel32.elf` for QEMU's multiboot loader, the configuration used, and the kernel's interface files (`libsel4/`) from
//! which the bindings are generated. [`regress`] boots such a kernel in QEMU with a small root task and reads the verdict.
//!
//! Neighbours: `xtask` calls this crate; `platform/sel4` reads `libsel4/` and `autoconf.h` from the output folder. A kernel that the user
//! installed ([`installed`]) can take the place of the one that is built here.
//!
//! The AArch64 kernel is the same source with a platform of ours added to the copy, `overlay/`, and no line of the kernel's changed for it.

#![forbid(unsafe_code)]

pub mod boot;
mod build;
mod complaint;
pub mod configure;
pub mod elf;
mod files;
pub mod fixes;
pub mod gaps;
pub mod installed;
mod lock;
pub mod obtain;
pub mod python;
pub mod qemu;
pub mod regress;
mod stamp;

pub use build::{BuildOptions, Kernel, Profile, build, check_multicore_links, target};
pub use capdl_spec::Arch;
pub use configure::Config;
pub use fixes::{Fix, FixName};

/// The Debian packages that building the kernel of any architecture needs.
const PACKAGES: [&str; 6] = ["gcc", "binutils", "make", "libxml2-utils", "python3", "python3-venv"];

/// The Debian packages that building the kernel of an architecture and booting it in QEMU need.
pub fn packages(arch: Arch) -> impl Iterator<Item = &'static str> {
    let of_arch: &[&str] = match arch {
        // The firmware that it boots with is a package of its own.
        Arch::X86_64 => &["qemu-system-x86", "seabios"],
        Arch::Aarch64 => &["gcc-aarch64-linux-gnu", "binutils-aarch64-linux-gnu", "qemu-system-arm"],
    };
    PACKAGES.into_iter().chain(of_arch.iter().copied())
}

/// The programs [`build()`] runs, each with the package that brings it.
pub const TOOLS: &[(&str, &str)] = &[
    ("gcc", "gcc"),
    ("cpp", "gcc"),
    ("as", "binutils"),
    ("ld", "binutils"),
    ("objcopy", "binutils"),
    ("make", "make"),
    ("xmllint", "libxml2-utils"),
    ("python3", "python3"),
];

/// Tools that the build runs besides for AArch64.
pub const CROSS_TOOLS: &[(&str, &str)] = &[
    ("aarch64-linux-gnu-gcc", "gcc-aarch64-linux-gnu"),
    ("aarch64-linux-gnu-cpp", "gcc-aarch64-linux-gnu"),
    ("aarch64-linux-gnu-as", "binutils-aarch64-linux-gnu"),
    ("aarch64-linux-gnu-ld", "binutils-aarch64-linux-gnu"),
];
