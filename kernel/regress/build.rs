//! Reads the numbers of system calls, invocations, objects and slots from the prepared kernel's interface files.
//!
//! The variable `SEL4_KERNEL` names the kernel's folder; without it the release kernel's is used. Nothing is done for a
//! target other than bare metal, so that the package can be checked on the build machine without a kernel.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

fn main() {
    println!("cargo::rerun-if-changed=probe.c");
    println!("cargo::rerun-if-env-changed=SEL4_KERNEL");
    if env::var("CARGO_CFG_TARGET_OS").as_deref() != Ok("none") {
        return;
    }
    // The kernel loads the root task where its headers say and applies no relocations.
    println!("cargo::rustc-link-arg-bins=-no-pie");
    println!("cargo::rustc-link-arg-bins=--image-base=0x400000");
    let arch = Arch::of_target();
    let kernel = kernel_folder(&arch);
    println!("cargo::rerun-if-changed={}", kernel.join("stamp").display());
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let values = values(&compile(&arch, &kernel, &out));
    fs::write(out.join("values.rs"), values).expect("the output folder can be written");
}

/// The places of an architecture's interface files, and the compiler for it.
struct Arch {
    /// The folder of its release kernel below `target/kernel`.
    release: &'static str,
    gcc: &'static str,
    /// Folders of headers below the kernel's `libsel4`.
    headers: [&'static str; 3],
}

impl Arch {
    fn of_target() -> Self {
        match env::var("CARGO_CFG_TARGET_ARCH").as_deref() {
            Ok("x86_64") => Self {
                release: "release",
                gcc: "gcc",
                headers: ["arch_include/x86", "sel4_arch_include/x86_64", "sel4_plat_include/pc99"],
            },
            Ok("aarch64") => Self {
                release: "aarch64-release",
                gcc: "aarch64-linux-gnu-gcc",
                headers: ["arch_include/arm", "sel4_arch_include/aarch64", "sel4_plat_include/virt"],
            },
            other => panic!("there are no tests for the architecture {other:?}"),
        }
    }
}

fn kernel_folder(arch: &Arch) -> PathBuf {
    let manifest = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR"));
    let release = || manifest.join("../../target/kernel").join(arch.release);
    let folder = env::var_os("SEL4_KERNEL").map_or_else(release, PathBuf::from);
    assert!(
        folder.join("stamp").exists(),
        "there is no prepared kernel in {}; `cargo xtask test` makes one",
        folder.display()
    );
    folder
}

/// Compiles the probe to assembly and returns its text.
fn compile(arch: &Arch, kernel: &Path, out: &Path) -> String {
    write_stand_ins(out);
    let assembly = out.join("probe.s");
    let mut gcc = Command::new(arch.gcc);
    gcc.args(["-std=gnu11", "-S", "-w", "-o"]).arg(&assembly);
    let libsel4 = kernel.join("libsel4");
    let shared = [out.to_owned(), kernel.to_owned(), kernel.join("generated"), libsel4.join("include")];
    for folder in shared.into_iter().chain(arch.headers.map(|folder| libsel4.join(folder))) {
        gcc.arg("-I").arg(folder);
    }
    let status = gcc.arg("probe.c").status().expect("gcc can be run");
    assert!(status.success(), "gcc cannot compile probe.c: {status}");
    fs::read_to_string(assembly).expect("gcc wrote the assembly")
}

/// The headers include others that only the kernel's user library generates. Of those the probe needs only the name and size
/// of one type.
fn write_stand_ins(out: &Path) {
    let folder = out.join("sel4/sel4_arch");
    fs::create_dir_all(&folder).expect("the output folder can be written");
    for (file, text) in [
        ("sel4/types_gen.h", ""),
        ("sel4/syscall.h", ""),
        ("sel4/sel4_arch/types_gen.h", ""),
        ("sel4/shared_types_gen.h", "typedef struct { unsigned long words[1]; } seL4_MessageInfo_t;\n"),
    ] {
        fs::write(out.join(file), text).expect("the output folder can be written");
    }
}

/// Rust constants from the marked lines of the assembly.
fn values(assembly: &str) -> String {
    assembly
        .lines()
        .filter_map(|line| line.trim().strip_prefix("@value "))
        .map(|line| {
            let (name, value) = line.split_once(' ').expect("a marked line has a name and a value");
            format!("pub(crate) const {name}: i64 = {value};\n")
        })
        .collect()
}
