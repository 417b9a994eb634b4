//! Writes the kernel's numbers as Rust, from the kernel's own files: `$OUT_DIR/bindings.rs`.
//!
//! The folder named by `CAPNVME_SEL4_x86_64` or `CAPNVME_SEL4_aarch64` is the output of the `kernel` crate: `autoconf.h`,
//! `libsel4/`, and the kernel's `source/`, from which the formats come that libsel4 leaves out. Nothing in these files is
//! repeated here: no label, no object number, no bit position, no order of a message's words.

mod bitfield;
mod header;
mod invocations;
mod structure;

use std::env;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use header::Constants;

type Result<T> = std::result::Result<T, String>;

fn main() {
    let sources = Sources::of_target();
    let variable = sources.variable;
    println!("cargo::rerun-if-env-changed={variable}");
    // Programs are linked again with other bases: see `rustc-with-base`.
    println!("cargo::rerun-if-env-changed=CAPNVME_BASES");
    println!("cargo::rerun-if-changed=rustc-with-base");
    println!("cargo::rerun-if-changed=build");
    println!("cargo::rustc-check-cfg=cfg(sel4_debug)");
    let text = match env::var_os(variable) {
        Some(folder) => bindings(Path::new(&folder), &sources).unwrap_or_else(|error| stop(&error)),
        None => stop(&format!("{variable} does not name a prepared kernel; run `cargo xtask setup`")),
    };
    let out = env::var_os("OUT_DIR").expect("cargo gives build scripts an output folder");
    fs::write(Path::new(&out).join("bindings.rs"), text).expect("the output folder takes files");
}

/// A program that reports the error when it is compiled: one sentence, and not a build script's backtrace.
fn stop(error: &str) -> String {
    format!("compile_error!({error:?});\n")
}

fn bindings(folder: &Path, sources: &Sources) -> Result<String> {
    let files = Files::new(folder)?;
    let mut constants = Constants::default();
    constants.define(&files.configuration()?)?;
    if constants.is_defined("CONFIG_DEBUG_BUILD") {
        println!("cargo::rustc-cfg=sel4_debug");
    }
    let options = constants.clone();
    for name in sources.headers {
        constants.define(&files.user(name)?)?;
    }
    constants.define(&files.kernel(sources.machine)?)?;

    let mut text = String::new();
    module(&mut text, "constant", "Constants of the kernel's headers, by their own names.", &constants.code());
    let mut blocks = String::new();
    for name in sources.bitfields {
        blocks += &bitfield::code(&options.preprocess(&files.user(name)?)?)?;
    }
    if let Some(name) = sources.kernel_bitfields {
        blocks += &bitfield::code(&options.preprocess(&files.kernel(name)?)?)?;
    }
    module(&mut text, "bitfield", "Words made of fields.", &blocks);

    let syscalls = invocations::syscalls(&files.user("include/api/syscall.xml")?, &options)?;
    module(&mut text, "syscall_number", "By name.", &syscalls);
    let mut interfaces = Vec::new();
    for name in sources.interfaces {
        interfaces.push(files.user(name)?);
    }
    let mut types = String::new();
    for name in sources.types {
        types += &options.preprocess(&files.user(name)?)?;
    }
    let types = structure::typedefs(&types);
    module(&mut text, "invoke", "One function a method.", &invocations::code(&interfaces, &types, &options)?);

    let structs = structure::structs(&options.preprocess(&files.user("include/sel4/bootinfo_types.h")?)?);
    let structs = structs.into_iter().chain(structure::structs(&files.user("include/sel4/shared_types.h")?)).collect();
    module(
        &mut text,
        "layout",
        "Where fields of structures lie, in bytes.",
        &structure::layout(structs, &types, &constants)?,
    );
    Ok(text)
}

/// The kernel's files for an architecture.
struct Sources {
    /// The environment variable that names the prepared kernel.
    variable: &'static str,
    /// Headers with enumerations and plain definitions, each after those it needs.
    headers: &'static [&'static str],
    /// The kernel's own, for the number of interrupts (libsel4's copy of it is wrong by one).
    machine: &'static str,
    bitfields: &'static [&'static str],
    /// Formats that are in no file of libsel4: of I/O port and IOSpace data.
    kernel_bitfields: Option<&'static str>,
    /// In the order in which the kernel numbers them: common, then the variant's, then the architecture's.
    interfaces: &'static [&'static str],
    types: &'static [&'static str],
}

const X86_64: Sources = Sources {
    variable: "CAPNVME_SEL4_x86_64",
    headers: &[
        "include/sel4/objecttype.h",
        "sel4_arch_include/x86_64/sel4/sel4_arch/objecttype.h",
        "arch_include/x86/sel4/arch/objecttype.h",
        "include/sel4/errors.h",
        "include/sel4/constants.h",
        "sel4_arch_include/x86_64/sel4/sel4_arch/constants.h",
        "arch_include/x86/sel4/arch/constants.h",
        "arch_include/x86/sel4/arch/types.h",
        "include/sel4/types.h",
        "include/sel4/shared_types.h",
        "include/sel4/bootinfo_types.h",
    ],
    machine: "include/plat/pc99/plat/machine.h",
    bitfields: &[
        "include/sel4/shared_types_64.bf",
        "include/sel4/types_64.bf",
        "sel4_arch_include/x86_64/sel4/sel4_arch/types.bf",
        "arch_include/x86/sel4/arch/shared_types.bf",
    ],
    kernel_bitfields: Some("include/arch/x86/arch/64/mode/object/structures.bf"),
    interfaces: &[
        "include/interfaces/sel4.xml",
        "sel4_arch_include/x86_64/interfaces/sel4arch.xml",
        "arch_include/x86/interfaces/sel4arch.xml",
    ],
    types: &[
        "include/sel4/simple_types.h",
        "sel4_arch_include/x86_64/sel4/sel4_arch/simple_types.h",
        "sel4_arch_include/x86_64/sel4/sel4_arch/types.h",
        "arch_include/x86/sel4/arch/types.h",
        "include/sel4/types.h",
        "include/sel4/bootinfo_types.h",
    ],
};

const AARCH64: Sources = Sources {
    variable: "CAPNVME_SEL4_aarch64",
    headers: &[
        "include/sel4/objecttype.h",
        "sel4_arch_include/aarch64/sel4/sel4_arch/objecttype.h",
        "arch_include/arm/sel4/arch/objecttype.h",
        "include/sel4/errors.h",
        "include/sel4/constants.h",
        "sel4_arch_include/aarch64/sel4/sel4_arch/constants.h",
        "arch_include/arm/sel4/arch/constants.h",
        "arch_include/arm/sel4/arch/types.h",
        "include/sel4/types.h",
        "include/sel4/shared_types.h",
        "include/sel4/bootinfo_types.h",
    ],
    machine: "include/plat/virt/plat/machine.h",
    bitfields: &[
        "include/sel4/shared_types_64.bf",
        "include/sel4/types_64.bf",
        "sel4_arch_include/aarch64/sel4/sel4_arch/types.bf",
        "arch_include/arm/sel4/arch/shared_types.bf",
    ],
    kernel_bitfields: None,
    interfaces: &[
        "include/interfaces/sel4.xml",
        "sel4_arch_include/aarch64/interfaces/sel4arch.xml",
        "arch_include/arm/interfaces/sel4arch.xml",
    ],
    types: &[
        "include/sel4/simple_types.h",
        "sel4_arch_include/aarch64/sel4/sel4_arch/simple_types.h",
        "arch_include/arm/sel4/arch/simple_types.h",
        "sel4_arch_include/aarch64/sel4/sel4_arch/types.h",
        "arch_include/arm/sel4/arch/types.h",
        "include/sel4/types.h",
        "include/sel4/bootinfo_types.h",
    ],
};

impl Sources {
    /// The files of the architecture that the crate is built for. Documentation and lints are made on the build machine.
    fn of_target() -> Self {
        match env::var("CARGO_CFG_TARGET_ARCH").as_deref() {
            Ok("aarch64") => AARCH64,
            _ => X86_64,
        }
    }
}

fn module(text: &mut String, name: &str, doc: &str, code: &str) {
    // Kept whole: the build script does not know which of the kernel's names are used.
    let _ = writeln!(
        text,
        "/// {doc}\n#[allow(dead_code, missing_docs, non_upper_case_globals, non_snake_case, \
         clippy::too_many_arguments, clippy::identity_op, clippy::erasing_op)]\npub(crate) mod {name} {{\n{code}}}"
    );
}

/// The kernel's files, in the layout of the `kernel` crate's output or in that of the kernel's source.
struct Files {
    folder: PathBuf,
    source: PathBuf,
}

impl Files {
    fn new(folder: &Path) -> Result<Self> {
        let prepared = folder.join("source");
        let source = if prepared.is_dir() { prepared } else { folder.to_path_buf() };
        Ok(Self { folder: folder.to_path_buf(), source })
    }

    fn configuration(&self) -> Result<String> {
        let prepared = self.folder.join("autoconf.h");
        if prepared.is_file() { read(&prepared) } else { read(&self.source.join("include/plat/pc99/autoconf.h")) }
    }

    fn user(&self, name: &str) -> Result<String> {
        read(&self.folder.join("libsel4").join(name))
    }

    fn kernel(&self, name: &str) -> Result<String> {
        read(&self.source.join(name))
    }
}

fn read(path: &Path) -> Result<String> {
    println!("cargo::rerun-if-changed={}", path.display());
    fs::read_to_string(path)
        .map_err(|error| format!("cannot read the kernel's file {}: {error}; run `cargo xtask setup`", path.display()))
}
