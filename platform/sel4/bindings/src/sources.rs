//! The files of a kernel from which the generator reads, and their order.
//!
//! A kernel that the `kernel` crate built keeps its own source; an installed one (seL4 13.0.0 and later) has the interface alone, with
//! the same paths on every architecture.

use crate::result::Result;
use std::fs;
use std::path::{Path, PathBuf};

/// Names of files, relative to the kernel's folder.
pub(crate) struct Sources {
    /// Headers that define the configuration.
    pub(crate) configuration: &'static [&'static str],
    /// Headers with enumerations and plain definitions, each after those it needs.
    pub(crate) headers: &'static [&'static str],
    pub(crate) bitfields: &'static [&'static str],
    pub(crate) syscalls: &'static str,
    pub(crate) interfaces: &'static [&'static str],
    /// Headers with other names of types.
    pub(crate) types: &'static [&'static str],
    /// Headers with structures, each after those it needs.
    pub(crate) structures: &'static [&'static str],
}

/// The configuration of an installed kernel, which no other has at this place.
const INSTALLED_CONFIGURATION: &str = "libsel4/include/kernel/gen_config.h";

const INSTALLED: Sources = Sources {
    configuration: &[INSTALLED_CONFIGURATION, "libsel4/include/sel4/gen_config.h"],
    headers: &[
        "libsel4/include/sel4/macros.h",
        "libsel4/include/sel4/objecttype.h",
        "libsel4/include/sel4/sel4_arch/objecttype.h",
        "libsel4/include/sel4/arch/objecttype.h",
        "libsel4/include/sel4/errors.h",
        "libsel4/include/sel4/constants.h",
        "libsel4/include/sel4/sel4_arch/constants.h",
        "libsel4/include/sel4/arch/constants.h",
        "libsel4/include/sel4/arch/types.h",
        "libsel4/include/sel4/types.h",
        "libsel4/include/sel4/shared_types.h",
        "libsel4/include/sel4/bootinfo_types.h",
        "libsel4/include/sel4/invocation.h",
        "libsel4/include/sel4/sel4_arch/invocation.h",
        "libsel4/include/sel4/arch/invocation.h",
    ],
    bitfields: &["libsel4/include/sel4/shared_types.pbf", "libsel4/include/sel4/sel4_arch/types.pbf"],
    syscalls: "libsel4/include/api/syscall.xml",
    interfaces: &[
        "libsel4/include/interfaces/object-api.xml",
        "libsel4/include/interfaces/object-api-sel4-arch.xml",
        "libsel4/include/interfaces/object-api-arch.xml",
    ],
    types: &[
        "libsel4/include/sel4/sel4_arch/types.h",
        "libsel4/include/sel4/arch/types.h",
        "libsel4/include/sel4/types.h",
        "libsel4/include/sel4/bootinfo_types.h",
    ],
    structures: &["libsel4/include/sel4/bootinfo_types.h", "libsel4/include/sel4/shared_types.h"],
};

const OLD_X86_64: Sources = Sources {
    configuration: &["autoconf.h"],
    headers: &[
        "libsel4/include/sel4/objecttype.h",
        "libsel4/sel4_arch_include/x86_64/sel4/sel4_arch/objecttype.h",
        "libsel4/arch_include/x86/sel4/arch/objecttype.h",
        "libsel4/include/sel4/errors.h",
        "libsel4/include/sel4/constants.h",
        "libsel4/sel4_arch_include/x86_64/sel4/sel4_arch/constants.h",
        "libsel4/arch_include/x86/sel4/arch/constants.h",
        "libsel4/arch_include/x86/sel4/arch/types.h",
        "libsel4/include/sel4/types.h",
        "libsel4/include/sel4/shared_types.h",
        "libsel4/include/sel4/bootinfo_types.h",
        // The kernel's own, for the number of interrupts: libsel4's copy of it is wrong by one.
        "source/include/plat/pc99/plat/machine.h",
        "generated/api/invocation.h",
        "generated/arch/api/sel4_invocation.h",
        "generated/arch/api/invocation.h",
    ],
    bitfields: &[
        "libsel4/include/sel4/shared_types_64.bf",
        "libsel4/include/sel4/types_64.bf",
        "libsel4/sel4_arch_include/x86_64/sel4/sel4_arch/types.bf",
        "libsel4/arch_include/x86/sel4/arch/shared_types.bf",
        // Formats that are in no file of libsel4: of I/O port and IOSpace data.
        "source/include/arch/x86/arch/64/mode/object/structures.bf",
    ],
    syscalls: "libsel4/include/api/syscall.xml",
    interfaces: &[
        "libsel4/include/interfaces/sel4.xml",
        "libsel4/sel4_arch_include/x86_64/interfaces/sel4arch.xml",
        "libsel4/arch_include/x86/interfaces/sel4arch.xml",
    ],
    types: &[
        "libsel4/sel4_arch_include/x86_64/sel4/sel4_arch/types.h",
        "libsel4/arch_include/x86/sel4/arch/types.h",
        "libsel4/include/sel4/types.h",
        "libsel4/include/sel4/bootinfo_types.h",
    ],
    structures: &["libsel4/include/sel4/bootinfo_types.h", "libsel4/include/sel4/shared_types.h"],
};

const OLD_AARCH64: Sources = Sources {
    headers: &[
        "libsel4/include/sel4/objecttype.h",
        "libsel4/sel4_arch_include/aarch64/sel4/sel4_arch/objecttype.h",
        "libsel4/arch_include/arm/sel4/arch/objecttype.h",
        "libsel4/include/sel4/errors.h",
        "libsel4/include/sel4/constants.h",
        "libsel4/sel4_arch_include/aarch64/sel4/sel4_arch/constants.h",
        "libsel4/arch_include/arm/sel4/arch/constants.h",
        "libsel4/arch_include/arm/sel4/arch/types.h",
        "libsel4/include/sel4/types.h",
        "libsel4/include/sel4/shared_types.h",
        "libsel4/include/sel4/bootinfo_types.h",
        "source/include/plat/virt/plat/machine.h",
        "generated/api/invocation.h",
        "generated/arch/api/sel4_invocation.h",
        "generated/arch/api/invocation.h",
    ],
    bitfields: &[
        "libsel4/include/sel4/shared_types_64.bf",
        "libsel4/include/sel4/types_64.bf",
        "libsel4/sel4_arch_include/aarch64/sel4/sel4_arch/types.bf",
        "libsel4/arch_include/arm/sel4/arch/shared_types.bf",
    ],
    interfaces: &[
        "libsel4/include/interfaces/sel4.xml",
        "libsel4/sel4_arch_include/aarch64/interfaces/sel4arch.xml",
        "libsel4/arch_include/arm/interfaces/sel4arch.xml",
    ],
    types: &[
        "libsel4/sel4_arch_include/aarch64/sel4/sel4_arch/types.h",
        "libsel4/arch_include/arm/sel4/arch/types.h",
        "libsel4/include/sel4/types.h",
        "libsel4/include/sel4/bootinfo_types.h",
    ],
    ..OLD_X86_64
};

/// A kernel's folder.
pub(crate) struct Files(PathBuf);

impl Files {
    pub(crate) fn of(folder: &Path) -> Self {
        Self(folder.to_path_buf())
    }

    /// The names of its files, for programs of this architecture, as cargo calls it.
    pub(crate) fn sources(&self, arch: &str) -> Sources {
        match arch {
            _ if self.0.join(INSTALLED_CONFIGURATION).is_file() => INSTALLED,
            "aarch64" => OLD_AARCH64,
            // Documentation and lints are made on the build machine.
            _ => OLD_X86_64,
        }
    }

    /// The text of a file; `reads` gets its path before.
    pub(crate) fn read(&self, name: &str, reads: &mut dyn FnMut(&Path)) -> Result<String> {
        let path = self.0.join(name);
        reads(&path);
        fs::read_to_string(&path).map_err(|error| {
            format!("cannot read the kernel's file {}: {error}; run `cargo xtask setup`", path.display())
        })
    }
}
