//! Writes the kernel's numbers as Rust, from the kernel's own files: `$OUT_DIR/bindings.rs`.
//!
//! The folder named by `CAPNVME_SEL4_x86_64` or `CAPNVME_SEL4_aarch64` is the output of the `kernel` crate, or the prefix of an installed
//! kernel (see [`sources`]). Nothing in these files is repeated here: no label, no object number, no bit position, no order of a
//! message's words.

mod bitfield;
mod header;
mod invocations;
mod sources;
mod structure;

use std::env;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use header::Constants;
use sources::Files;

type Result<T> = std::result::Result<T, String>;

fn main() {
    let arch = env::var("CARGO_CFG_TARGET_ARCH").unwrap_or_default();
    let variable = match arch.as_str() {
        "aarch64" => "CAPNVME_SEL4_aarch64",
        _ => "CAPNVME_SEL4_x86_64",
    };
    println!("cargo::rerun-if-env-changed={variable}");
    // Programs are linked again with other bases: see `rustc-with-base`.
    println!("cargo::rerun-if-env-changed=CAPNVME_BASES");
    println!("cargo::rerun-if-changed=rustc-with-base");
    println!("cargo::rerun-if-changed=build");
    for feature in FEATURES {
        println!("cargo::rustc-check-cfg=cfg({feature})");
    }
    let text = match env::var_os(variable) {
        Some(folder) => bindings(&Files::of(Path::new(&folder)), &arch).unwrap_or_else(|error| stop(&error)),
        None => stop(&format!("{variable} does not name a prepared kernel; run `cargo xtask setup`")),
    };
    let out = env::var_os("OUT_DIR").expect("cargo gives build scripts an output folder");
    fs::write(Path::new(&out).join("bindings.rs"), text).expect("the output folder takes files");
}

/// Differences between kernels that the crate is compiled for: messages on the serial port, a priority that is set by a call of its own
/// (since seL4 9.0.0; `abi` says what else came with it), and floating point that a thread can do without (14.0.0).
const FEATURES: [&str; 3] = ["sel4_debug", "sel4_sched_params", "sel4_fpu_flag"];

/// A program that reports the error when it is compiled: one sentence, and not a build script's backtrace.
fn stop(error: &str) -> String {
    format!("compile_error!({error:?});\n")
}

fn bindings(files: &Files, arch: &str) -> Result<String> {
    let sources = files.sources(arch);
    let read = |names: &[&str]| names.iter().map(|name| files.read(name)).collect::<Result<Vec<_>>>();
    let mut constants = Constants::default();
    for text in read(sources.configuration)? {
        constants.define(&text)?;
    }
    let options = constants.clone();
    for text in read(sources.headers)? {
        constants.define(&text)?;
    }

    let mut text = String::new();
    module(&mut text, "constant", "Constants of the kernel's headers, by their own names.", &constants.code());
    let mut blocks = String::new();
    for text in read(sources.bitfields)? {
        blocks += &bitfield::code(&options.preprocess(&text)?)?;
    }
    module(&mut text, "bitfield", "Words made of fields.", &blocks);

    let syscalls = invocations::syscalls(&files.read(sources.syscalls)?, &options)?;
    module(&mut text, "syscall_number", "By name.", &syscalls);
    let mut types = String::new();
    for text in read(sources.types)? {
        types += &options.preprocess(&text)?;
    }
    let types = structure::typedefs(&types);
    let invocations = invocations::code(&read(sources.interfaces)?, &types, &constants)?;
    module(&mut text, "invoke", "One function a method.", &invocations);

    let mut structs = Vec::new();
    for text in read(sources.structures)? {
        structs.extend(structure::structs(&options.preprocess(&text)?));
    }
    let layout = structure::layout(structs, &types, &constants)?;
    module(&mut text, "layout", "Where fields of structures lie, in bytes.", &layout);

    let there = [
        constants.is_defined("CONFIG_DEBUG_BUILD"),
        invocations.contains("fn seL4_TCB_SetSchedParams("),
        constants.value("seL4_TCBFlag_fpuDisabled").is_some(),
    ];
    for (feature, _) in FEATURES.iter().zip(there).filter(|(_, is_there)| *is_there) {
        println!("cargo::rustc-cfg={feature}");
    }
    Ok(text)
}

fn module(text: &mut String, name: &str, doc: &str, code: &str) {
    // Kept whole: the build script does not know which of the kernel's names are used.
    let _ = writeln!(
        text,
        "/// {doc}\n#[allow(dead_code, missing_docs, non_upper_case_globals, non_snake_case, \
         clippy::too_many_arguments, clippy::identity_op, clippy::erasing_op)]\npub(crate) mod {name} {{\n{code}}}"
    );
}
