//! Writes the kernel's numbers as Rust into `$OUT_DIR/bindings.rs`, by `sel4-bindings`.
//!
//! `CAPNVME_SEL4_x86_64` or `CAPNVME_SEL4_aarch64` names the folder of a prepared kernel. Tests on the build machine do without: then it is
//! the miniature of their architecture.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

fn main() {
    let arch = env::var("CARGO_CFG_TARGET_ARCH").unwrap_or_default();
    let (variable, miniature) = match arch.as_str() {
        "aarch64" => ("CAPNVME_SEL4_aarch64", "bindings/miniatures/aarch64-13"),
        _ => ("CAPNVME_SEL4_x86_64", "bindings/miniatures/x86_64-16"),
    };
    println!("cargo::rerun-if-env-changed={variable}");
    // Programs are linked again with other bases: see `rustc-with-base`.
    println!("cargo::rerun-if-env-changed=CAPNVME_BASES");
    println!("cargo::rerun-if-changed=rustc-with-base");
    println!("cargo::rerun-if-changed=build.rs");
    for feature in sel4_bindings::FEATURES {
        println!("cargo::rustc-check-cfg=cfg({feature})");
    }
    let is_for_sel4 = env::var("CARGO_CFG_TARGET_OS").is_ok_and(|system| system == "none");
    let folder = env::var_os(variable).map(PathBuf::from).or_else(|| (!is_for_sel4).then(|| miniature.into()));
    let text = match folder {
        Some(folder) => bindings(&folder, &arch).unwrap_or_else(|error| stop(&error)),
        None => stop(&format!("{variable} does not name a prepared kernel; run `cargo xtask setup`")),
    };
    let out = env::var_os("OUT_DIR").expect("cargo gives build scripts an output folder");
    fs::write(Path::new(&out).join("bindings.rs"), text).expect("the output folder takes files");
}

fn bindings(folder: &Path, arch: &str) -> Result<String, String> {
    let reads = &mut |file: &Path| println!("cargo::rerun-if-changed={}", file.display());
    let bindings = sel4_bindings::generate(folder, arch, reads)?;
    for feature in bindings.features {
        println!("cargo::rustc-cfg={feature}");
    }
    Ok(bindings.code)
}

/// A program that reports the error when it is compiled: one sentence, and not a build script's backtrace.
fn stop(error: &str) -> String {
    format!("compile_error!({error:?});\n")
}
