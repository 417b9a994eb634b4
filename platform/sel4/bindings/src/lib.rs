//! Writes the kernel's numbers as Rust, from the kernel's own files.
//!
//! [`generate`] reads the output folder of the `kernel` crate, or the prefix of an installed kernel (see `sources.rs`). The result
//! repeats nothing by hand: no label, no object number, no bit position, no order of a message's words. `platform-sel4` includes it
//! as its module `bindings`, and its build script is the only caller.
//!
//! Left out: the system calls' instructions, and the choice of the kernel. `miniatures/` has two small prefixes in the layout of an
//! installed kernel, with texts of our own, for tests without a kernel.

mod bitfield;
mod header;
mod invocations;
mod result;
mod sources;
mod structure;

use std::fmt::Write as _;
use std::path::Path;

use header::Constants;
use result::Result;
use sources::Files;

/// Names of the `cfg`s for differences between kernels. `sel4_debug`: messages on the serial port. `sel4_sched_params`: a call sets the
/// priority (since 9.0.0). `sel4_fpu_flag`: a thread can do without floating point (since 14.0.0).
pub const FEATURES: [&str; 3] = ["sel4_debug", "sel4_sched_params", "sel4_fpu_flag"];

/// The interface of one kernel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Bindings {
    /// Rust modules: `constant`, `bitfield`, `syscall_number`, `invoke`, and `layout`.
    pub code: String,
    /// The members of [`FEATURES`] that the kernel has.
    pub features: Vec<&'static str>,
}

/// Generates the bindings of the kernel in `folder`, for programs of `arch`, as cargo calls it. `reads` gets the path of each file
/// before it is read.
///
/// # Errors
/// A missing file, or one with a form that the generator does not know, in one sentence.
pub fn generate(folder: &Path, arch: &str, reads: &mut dyn FnMut(&Path)) -> Result<Bindings> {
    let files = Files::of(folder);
    let sources = files.sources(arch);
    let mut read = |names: &[&str]| names.iter().map(|name| files.read(name, reads)).collect::<Result<Vec<_>>>();
    let mut constants = Constants::default();
    for text in read(sources.configuration)? {
        constants.define(&text)?;
    }
    let options = constants.clone();
    for text in read(sources.headers)? {
        constants.define(&text)?;
    }

    let mut code = String::new();
    module(&mut code, "constant", "Constants of the kernel's headers, by their own names.", &constants.code());
    let mut blocks = String::new();
    for text in read(sources.bitfields)? {
        blocks += &bitfield::code(&options.preprocess(&text)?)?;
    }
    module(&mut code, "bitfield", "Words made of fields.", &blocks);

    let syscalls = read(&[sources.syscalls])?.concat();
    let syscalls = invocations::syscalls(&syscalls, &options)?;
    module(&mut code, "syscall_number", "By name.", &syscalls);
    let mut types = String::new();
    for text in read(sources.types)? {
        types += &options.preprocess(&text)?;
    }
    let types = structure::typedefs(&types);
    let invocations = invocations::code(&read(sources.interfaces)?, &types, &constants)?;
    module(&mut code, "invoke", "One function a method.", &invocations);

    let mut structs = Vec::new();
    for text in read(sources.structures)? {
        structs.extend(structure::structs(&options.preprocess(&text)?));
    }
    let layout = structure::layout(structs, &types, &constants)?;
    module(&mut code, "layout", "Where fields of structures lie, in bytes.", &layout);

    let there = [
        syscalls.contains("const DebugPutChar:"),
        invocations.contains("fn seL4_TCB_SetSchedParams("),
        constants.value("seL4_TCBFlag_fpuDisabled").is_some(),
    ];
    let features = FEATURES.into_iter().zip(there).filter(|(_, is_there)| *is_there).map(|(feature, _)| feature);
    Ok(Bindings { code, features: features.collect() })
}

fn module(text: &mut String, name: &str, doc: &str, code: &str) {
    // Kept whole: the generator does not know which of the kernel's names are used.
    let _ = writeln!(
        text,
        "/// {doc}\n#[allow(dead_code, missing_docs, non_upper_case_globals, non_snake_case, \
         clippy::too_many_arguments, clippy::identity_op, clippy::erasing_op)]\npub(crate) mod {name} {{\n{code}}}"
    );
}
