//! The QEMU program: the one on the search path, or the one the user names.

use std::ffi::OsString;

use crate::Arch;

/// The environment variable that names another QEMU program than the one on the search path.
#[must_use]
pub const fn variable(arch: Arch) -> &'static str {
    match arch {
        Arch::X86_64 => "CAPNVME_QEMU",
        Arch::Aarch64 => "CAPNVME_QEMU_AARCH64",
    }
}

/// The Debian package of QEMU for the architecture.
#[must_use]
pub const fn package(arch: Arch) -> &'static str {
    match arch {
        Arch::X86_64 => "qemu-system-x86",
        Arch::Aarch64 => "qemu-system-arm",
    }
}

/// QEMU's program: the value of [`variable`], or `qemu-system-` and the architecture's name.
#[must_use]
pub fn program(arch: Arch) -> OsString {
    chosen(arch, std::env::var_os(variable(arch)))
}

/// An empty variable counts as none.
fn chosen(arch: Arch, named: Option<OsString>) -> OsString {
    named.filter(|program| !program.is_empty()).unwrap_or_else(|| format!("qemu-system-{arch}").into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_users_program_comes_before_the_one_on_the_search_path() {
        assert_eq!(chosen(Arch::X86_64, Some("/opt/qemu".into())), "/opt/qemu");
        assert_eq!(chosen(Arch::X86_64, None), "qemu-system-x86_64");
        assert_eq!(chosen(Arch::Aarch64, Some("".into())), "qemu-system-aarch64");
    }
}
