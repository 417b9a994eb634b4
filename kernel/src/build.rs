//! From options to a built kernel: source copy, fixes, configuration, the kernel's makefile, the output folder.
//!
//! The makefile is the kernel's own, run outside its tree. It is old; variables on its command line, which override those
//! inside, adapt it to today's tools without edits.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use anyhow::{Context, Result, bail, ensure};

use crate::Arch;
use crate::configure::Config;
use crate::fixes::{Fix, FixName};
use crate::gaps::Gap;
use crate::installed::{self, Installed, Place};
use crate::lock::FolderLock;
use crate::obtain::{self, Source};
use crate::{complaint, files, python, stamp};

/// The kind of kernel to build.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Profile {
    /// Silent and quick, for demonstrations and measurements.
    #[default]
    Release,
    /// With assertions and messages on the first serial port.
    Debug,
}

/// Options of [`build`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BuildOptions {
    /// The architecture, and so its machine.
    pub arch: Arch,
    /// Release or debug.
    pub profile: Profile,
    /// The fixes to leave out, to show their effect.
    pub without: Vec<FixName>,
    /// The kernel that the user installed, which is taken as it is; one of our own is built without it.
    pub installed: Option<Place>,
}

impl BuildOptions {
    /// The name of the output folder: the architecture unless it is x86_64, the profile, and the fixes left out.
    pub fn name(&self) -> String {
        let mut name = match self.arch {
            Arch::X86_64 => String::new(),
            arch => format!("{arch}-"),
        };
        name.push_str(match self.profile {
            Profile::Release => "release",
            Profile::Debug => "debug",
        });
        for fix in self.left_out() {
            name.push_str("-without-");
            name.push_str(fix.as_str());
        }
        name
    }

    /// The fixes that are applied, in order.
    pub fn fixes(&self) -> Vec<&'static Fix> {
        Fix::of(self.arch).filter(|fix| !self.without.contains(&fix.name)).collect()
    }

    /// The fixes left out, in the order of application and each once, whatever the caller's list looks like.
    fn left_out(&self) -> impl Iterator<Item = FixName> + '_ {
        Fix::of(self.arch).map(|fix| fix.name).filter(|name| self.without.contains(name))
    }
}

/// A kernel with all that programs for it are built from.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// The kernel's architecture.
    pub arch: Arch,
    /// The output folder, `target/kernel/<name>/`: the files that the other fields name; the user-level interface (XML, bitfield
    /// definitions, headers) in `libsel4/`; and of a kernel built here the configuration, the generated headers, and `source/`, the
    /// corrected copy of the source, for a debugger.
    pub folder: PathBuf,
    /// The kernel as the linker made it, with symbols.
    pub elf64: PathBuf,
    /// The kernel in a 32-bit container for QEMU's multiboot loader (`-kernel`): on x86_64 alone.
    pub elf32: PathBuf,
    /// Properties of a kernel that the user installed; none of one built here.
    pub installed: Option<Installed>,
}

impl Kernel {
    pub(crate) fn in_folder(arch: Arch, folder: PathBuf, installed: Option<Installed>) -> Self {
        Self { arch, elf64: folder.join("kernel.elf"), elf32: folder.join("kernel32.elf"), folder, installed }
    }

    /// The kernel's user-level interface files, laid out as in its source or as they are installed.
    pub(crate) fn libsel4(&self) -> PathBuf {
        self.folder.join("libsel4")
    }

    /// Defects that the project's own kernel does not have. One that lacks a fix is built to be seen to fail.
    pub fn gaps(&self) -> impl Iterator<Item = &'static Gap> {
        self.installed.iter().flat_map(|installed| Gap::of(self.arch, installed.release))
    }

    /// QEMU's model of the processor.
    #[must_use]
    pub fn processor(&self) -> &'static str {
        match (&self.installed, self.arch) {
            (Some(installed), _) => installed.processor,
            (None, Arch::X86_64) => "Nehalem",
            (None, Arch::Aarch64) => "cortex-a57",
        }
    }
}

/// Builds the kernel of `options`, unless it is there already or the user's, and returns where it is.
///
/// `workspace_root` is the folder of the project's top manifest; everything is written below its `target/`. `log` gets one
/// line per step. Fails when the source cannot be fetched, a tool is missing, a fix does not apply, or the makefile fails
/// (its output is in the output folder's `make.log`). The error contains the remedy.
pub fn build(workspace_root: &Path, options: &BuildOptions, log: &mut dyn FnMut(&str)) -> Result<Kernel> {
    if let Some(place) = &options.installed {
        return installed::prepare(workspace_root, options.arch, place, log);
    }
    let config = Config::new(options.arch, options.profile);
    build_configured(workspace_root, options, &options.name(), &config, log)
}

/// Checks that the kernel for two cores links, with all fixes but `without`.
///
/// This is the test of [`FixName::Popcount`]: the multi-core kernel cannot be booted by this project, so linking is all
/// that can be shown. Fails like [`build`].
pub fn check_multicore_links(
    workspace_root: &Path,
    arch: Arch,
    without: &[FixName],
    log: &mut dyn FnMut(&str),
) -> Result<()> {
    let options = BuildOptions { arch, without: without.to_vec(), ..BuildOptions::default() };
    let config = Config::new(options.arch, options.profile).with_cores(2);
    let name = format!("multicore-{}", options.name());
    build_configured(workspace_root, &options, &name, &config, log).map(|_| ())
}

fn build_configured(
    workspace_root: &Path,
    options: &BuildOptions,
    name: &str,
    config: &Config,
    log: &mut dyn FnMut(&str),
) -> Result<Kernel> {
    let fixes = &options.fixes();
    let tools = tools(options.arch)?;
    // Make runs in another folder.
    let workspace_root = &std::path::absolute(workspace_root).context("the project's folder has no absolute path")?;
    let source = obtain::source(workspace_root)?;
    let kernels = workspace_root.join("target/kernel");
    let kernel = Kernel::in_folder(options.arch, kernels.join(name), None);
    fs::create_dir_all(&kernel.folder).with_context(|| format!("cannot make {}", kernel.folder.display()))?;
    let _lock = FolderLock::take(&kernel.folder, log)?;

    let overlay = workspace_root.join("kernel/overlay");
    let stamp = stamp::stamp(&source.version, &files::texts(&overlay)?, config, fixes, &tools);
    let stamp_file = kernel.folder.join("stamp");
    if fs::read_to_string(&stamp_file).is_ok_and(|old| old == stamp) && kernel.elf64.exists() {
        return Ok(kernel);
    }
    // Without a stamp the folder's content is ignored, so a failure on the way leaves no wrong kernel.
    files::remove_file(&stamp_file)?;
    log(&format!("kernel {name}: preparing the source of {}", source.version));
    let tree = prepare(&kernel, config, &source, &overlay, fixes)?;
    let programs = {
        let _lock = FolderLock::take(&kernels, log)?;
        python::environment(&kernels.join("python"), python::GENERATORS, "seL4's code generators", log)?
    };
    log(&format!("kernel {name}: compiling"));
    let made = make(&kernel, config, &programs, compiler_variables(options))?;
    install(&kernel, config, &tree, &made)?;
    files::write_whole(&stamp_file, stamp.as_bytes())?;
    log(&format!("kernel {name}: done"));
    Ok(kernel)
}

/// Copies the source, adds our platform to the copy, corrects it, and puts our configuration where the makefile takes it from.
fn prepare(kernel: &Kernel, config: &Config, source: &Source, overlay: &Path, fixes: &[&Fix]) -> Result<PathBuf> {
    let tree = kernel.folder.join("source");
    files::remove_folder(&tree)?;
    files::copy_folder(&source.folder, &tree)?;
    files::copy_folder(overlay, &tree)?;
    for fix in fixes {
        fix.apply(&tree)?;
    }
    let header = tree.join("include/plat").join(platform(kernel.arch)).join("autoconf.h");
    files::write_whole(&header, config.header().as_bytes())?;
    Ok(tree)
}

/// Rust's name for a program of the architecture on bare metal.
///
/// The programs use no floating point registers: nothing here needs them, and the kernel saves them for those who do.
#[must_use]
pub const fn target(arch: Arch) -> &'static str {
    match arch {
        Arch::X86_64 => "x86_64-unknown-none",
        Arch::Aarch64 => "aarch64-unknown-none-softfloat",
    }
}

/// The prefix of the C tools' names.
const fn tool_prefix(arch: Arch) -> &'static str {
    match arch {
        Arch::X86_64 => "",
        Arch::Aarch64 => "aarch64-linux-gnu-",
    }
}

/// The kernel's name of the architecture's machine.
const fn platform(arch: Arch) -> &'static str {
    match arch {
        Arch::X86_64 => "pc99",
        Arch::Aarch64 => "virt",
    }
}

/// Variables of the kernel's makefile that select the target.
fn machine_variables(arch: Arch) -> &'static [&'static str] {
    match arch {
        Arch::X86_64 => &["ARCH=x86", "SEL4_ARCH=x86_64"],
        Arch::Aarch64 => &[
            "ARCH=arm",
            "SEL4_ARCH=aarch64",
            "CPU=cortex-a57",
            "ARMV=armv8-a",
            // The makefile's own list lacks our platform, and its flags are for 32 bits.
            "PLAT_LIST=virt",
            "CONFIG_KERNEL_CFLAGS=-std=gnu99 ${OPTIMIZATION} -ffreestanding -nostdlib -nostdinc -fno-pic -fno-stack-protector \
             -mgeneral-regs-only -mno-outline-atomics -Wall \
             ${DEBUG_INFORMATION} ${INCLUDES}",
        ],
    }
}

/// Variables of the makefile, and ours above, for the compiler. Debug information is for profiles and debuggers, has relative paths, and
/// stays out of the machine. A kernel that lacks a fix is there to show a defect: it has none and is optimized less, so that
/// its compiler takes half the time.
fn compiler_variables(options: &BuildOptions) -> &'static [&'static str] {
    if options.without.is_empty() {
        &["DEBUG_INFORMATION=-g -fdebug-prefix-map=${CURDIR}=.", "OPTIMIZATION=-O2"]
    } else {
        &["DEBUG_INFORMATION=", "OPTIMIZATION=-O1", "CONFIG_OPTIMISATION_O1=y"]
    }
}

/// Runs the kernel's makefile in a folder beside the source, and returns the kernel it linked.
fn make(kernel: &Kernel, config: &Config, python_programs: &Path, compiler_variables: &[&str]) -> Result<PathBuf> {
    let folder = kernel.folder.join("make");
    files::remove_folder(&folder)?;
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let output = Command::new("make")
        .current_dir(&folder)
        .args(["-f", "../source/Makefile"])
        .args(compiler_variables)
        // The makefile adds its own; on AArch64 the variable above replaces both.
        .env("CFLAGS", "${DEBUG_INFORMATION}")
        // Relative, so that the kernel does not depend on where the project lies.
        .arg("SOURCE_ROOT=../source")
        .args(machine_variables(kernel.arch))
        .arg(format!("PLAT={}", platform(kernel.arch)))
        .arg(format!("TOOLPREFIX={}", tool_prefix(kernel.arch)))
        .args(["FASTPATH=1", "PYTHON=python3"])
        // Its checker of circular includes cannot read what today's preprocessor writes.
        .arg("CIRCULAR_INCLUDES=cat >/dev/null")
        // The generator of bit fields would search all sources for the functions that are used. The compiler drops the others.
        .arg("PRUNES=")
        // Today's compiler warns about things that were fine then: warnings, but not as errors.
        .arg("WARNINGS=all")
        .args(profile_variables(config))
        .arg("kernel.elf")
        .env("PATH", search_path(python_programs)?)
        .envs((kernel.arch == Arch::Aarch64).then_some(("DEFINES", "ARM_CORTEX_A57")))
        // Settings of a make that may have started this program are not for this one.
        .env_remove("MAKEFLAGS")
        .env_remove("MFLAGS")
        .stdin(Stdio::null())
        .output()
        .context("cannot run make; install it with: apt-get install make")?;
    write_log(kernel, &output)?;
    ensure!(
        output.status.success(),
        "the kernel's makefile failed ({}), saying: {}; the whole output is in {}",
        output.status,
        complaint::line(&output),
        log_file(kernel).display()
    );
    Ok(folder.join("kernel.elf"))
}

/// The makefile has a switch of its own for the debug kernel, which also brings symbols; the configuration alone is not
/// enough.
fn profile_variables(config: &Config) -> &'static [&'static str] {
    match config.get("DEBUG_BUILD") {
        Some(_) => &["DEBUG=1"],
        None => &[],
    }
}

/// Python's environment first. The makefile puts quotes around the whole list, which spoils the last entry, so the last
/// one is a folder that does not matter.
fn search_path(python_programs: &Path) -> Result<std::ffi::OsString> {
    let inherited = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::iter::once(python_programs.to_path_buf())
        .chain(std::env::split_paths(&inherited))
        .chain(std::iter::once(PathBuf::from("/nonexistent")));
    std::env::join_paths(folders).context("the search path PATH cannot be extended")
}

/// The headers with the numbers of invocations and system calls, which the kernel's own generators made from the XML.
const GENERATED: &[&str] =
    &["api/invocation.h", "arch/api/invocation.h", "arch/api/sel4_invocation.h", "arch/api/syscall.h"];

/// Puts the results in place, each file whole.
fn install(kernel: &Kernel, config: &Config, tree: &Path, made: &Path) -> Result<()> {
    files::copy_whole(made, &kernel.elf64)?;
    if kernel.arch == Arch::X86_64 {
        pack_for_multiboot(kernel)?;
    }
    files::write_whole(&kernel.folder.join("autoconf.h"), config.header().as_bytes())?;
    for name in GENERATED {
        let target = kernel.folder.join("generated").join(name);
        if let Some(folder) = target.parent() {
            fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        }
        files::copy_whole(&kernel.folder.join("make").join(name), &target)?;
    }
    let part = kernel.folder.join("libsel4.part");
    files::remove_folder(&part)?;
    files::copy_folder(&tree.join("libsel4"), &part)?;
    let libsel4 = kernel.libsel4();
    files::remove_folder(&libsel4)?;
    fs::rename(&part, &libsel4).with_context(|| format!("cannot write {}", libsel4.display()))
}

/// Puts the kernel into the container that QEMU's multiboot loader takes.
pub(crate) fn pack_for_multiboot(kernel: &Kernel) -> Result<()> {
    let small = kernel.folder.join("kernel32.elf.part");
    let output = Command::new("objcopy")
        .args(["-O", "elf32-i386", "--strip-debug"])
        .arg(&kernel.elf64)
        .arg(&small)
        .output()
        .context("cannot run objcopy; install it with: apt-get install binutils")?;
    if !output.status.success() {
        bail!("objcopy failed, saying: {}", complaint::line(&output));
    }
    fs::rename(&small, &kernel.elf32).with_context(|| format!("cannot write {}", kernel.elf32.display()))
}

/// A text that changes when the compiler does; an error that names the missing packages when a tool is not there.
fn tools(arch: Arch) -> Result<String> {
    check_tools(arch, is_there)?;
    let compiler = format!("{}gcc", tool_prefix(arch));
    let output = Command::new(&compiler).arg("--version").output().with_context(|| format!("cannot run {compiler}"))?;
    Ok(String::from_utf8_lossy(&output.stdout).lines().next().unwrap_or_default().to_owned())
}

fn check_tools(arch: Arch, is_there: fn(&str) -> bool) -> Result<()> {
    let needed = crate::TOOLS.iter().chain(if arch == Arch::Aarch64 { crate::CROSS_TOOLS } else { &[] });
    let mut packages: Vec<&str> = needed.filter(|(tool, _)| !is_there(tool)).map(|(_, package)| *package).collect();
    packages.dedup();
    ensure!(
        packages.is_empty(),
        "building the kernel needs tools that are missing; install them with: apt-get install {}",
        packages.join(" ")
    );
    Ok(())
}

fn is_there(tool: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(tool).is_file())
}

fn log_file(kernel: &Kernel) -> PathBuf {
    kernel.folder.join("make.log")
}

fn write_log(kernel: &Kernel, output: &Output) -> Result<()> {
    let mut text = output.stdout.clone();
    text.extend_from_slice(&output.stderr);
    files::write_whole(&log_file(kernel), &text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_is_named_for_what_is_left_out() {
        let options = BuildOptions {
            arch: Arch::X86_64,
            profile: Profile::Debug,
            // In any order, and twice.
            without: vec![FixName::ContextCache, FixName::FrameCopy, FixName::ContextCache],
            installed: None,
        };
        assert_eq!(options.name(), "debug-without-frame-copy-without-context-cache");
        assert_eq!(BuildOptions::default().name(), "release");
        assert_eq!(BuildOptions { arch: Arch::Aarch64, ..BuildOptions::default() }.name(), "aarch64-release");
    }

    #[test]
    fn a_missing_cross_compiler_is_named_by_its_package() {
        let lacks = |tool: &str| !tool.starts_with("aarch64-");
        assert!(check_tools(Arch::X86_64, lacks).is_ok());
        let error = check_tools(Arch::Aarch64, lacks).unwrap_err().to_string();
        assert!(error.ends_with("apt-get install gcc-aarch64-linux-gnu binutils-aarch64-linux-gnu"), "{error}");
    }

    #[test]
    fn a_fix_left_out_is_not_applied() {
        let options = BuildOptions { without: vec![FixName::Popcount], ..BuildOptions::default() };
        assert_eq!(options.fixes().len(), Fix::of(options.arch).count() - 1);
        assert!(options.fixes().iter().all(|fix| fix.name != FixName::Popcount));
    }
}
