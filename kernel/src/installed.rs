//! A seL4 that the user installed: its place, the conditions its configuration must meet, and its release.
//!
//! [`Place::named`] finds the kernel by an option or by the variables that other builders of seL4 systems use. `prepare` makes a folder
//! like that of a kernel of our own. An unsuitable configuration is refused there, before any program is built: a release kernel on the
//! wrong machine prints nothing. No installed file states the release, so the interface decides it.
//!
//! Left out: kernels before 13.0.0, and the kernel's own headers, which are not installed.

use std::env;
use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use crate::Arch;
use crate::build::{Kernel, pack_for_multiboot};
use crate::configure::{VIRT_MEMORY_BYTES, VIRT_MEMORY_START};
use crate::files;
use crate::lock::FolderLock;

/// The configuration, below the folder of headers.
const CONFIGURATION: &str = "kernel/gen_config.json";
/// Least bits of the root task's CNode: the demonstration has some seven thousand objects, and other scenarios many more.
const LEAST_CNODE_BITS: u64 = 16;
/// The files of an installed kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The kernel.
    kernel: PathBuf,
    /// The folder of the interface's headers and descriptions.
    include: PathBuf,
    /// On AArch64: the machine's memory.
    platform: PathBuf,
}

/// Variables that name an installed kernel. A command that must take the project's own is started without them.
pub const VARIABLES: [&str; 6] = [
    "SEL4_PREFIX_x86_64",
    "SEL4_PREFIX_aarch64",
    "SEL4_PREFIX",
    "SEL4_KERNEL",
    "SEL4_INCLUDE_DIRS",
    "SEL4_PLATFORM_INFO",
];

impl Place {
    /// The kernel that `option` names, or else the environment: `SEL4_PREFIX_x86_64` and the like, `SEL4_PREFIX`, or `SEL4_KERNEL` with
    /// `SEL4_INCLUDE_DIRS`. `None` without any of these.
    ///
    /// # Errors
    /// Files that are not there.
    pub fn named(arch: Arch, option: Option<&Path>) -> Result<Option<Self>> {
        Self::of(arch, option, |name| env::var_os(name).filter(|value| !value.is_empty()))
    }

    fn of(arch: Arch, option: Option<&Path>, variable: impl Fn(&str) -> Option<OsString>) -> Result<Option<Self>> {
        if let Some(prefix) = option {
            return Self::installed(prefix, "--kernel").map(Some);
        }
        for name in [format!("SEL4_PREFIX_{arch}"), "SEL4_PREFIX".to_owned()] {
            if let Some(prefix) = variable(&name) {
                return Self::installed(Path::new(&prefix), &name).map(Some);
            }
        }
        let (kernel, folders) = match (variable("SEL4_KERNEL"), variable("SEL4_INCLUDE_DIRS")) {
            (Some(kernel), Some(folders)) => (kernel, folders),
            (Some(_), None) => {
                bail!(
                    "SEL4_KERNEL is set, and SEL4_INCLUDE_DIRS is not: name its folders of headers, or unset SEL4_KERNEL"
                )
            }
            (None, _) => return Ok(None),
        };
        let include = env::split_paths(&folders).find(|folder| folder.join(CONFIGURATION).is_file());
        let include = include.with_context(|| {
            format!(
                "no folder of SEL4_INCLUDE_DIRS has {CONFIGURATION}: name that of seL4 13.0.0 or later, or unset it"
            )
        })?;
        let platform = variable("SEL4_PLATFORM_INFO").unwrap_or_default();
        Ok(Some(Self { kernel: kernel.into(), include, platform: platform.into() }))
    }

    fn installed(prefix: &Path, named_by: &str) -> Result<Self> {
        let place = Self {
            kernel: prefix.join("bin/kernel.elf"),
            include: prefix.join("libsel4/include"),
            platform: prefix.join("support/platform_gen.json"),
        };
        let missing =
            [place.kernel.clone(), place.include.join(CONFIGURATION)].into_iter().find(|file| !file.is_file());
        if let Some(file) = missing {
            bail!("{named_by}: there is no {}: name the prefix of an installed seL4, 13.0.0 or later", file.display());
        }
        Ok(place)
    }

    /// Returns whether the configuration is for the architecture; false if it cannot be read.
    #[must_use]
    pub fn is_for(&self, arch: Arch) -> bool {
        self.options().is_ok_and(|options| options.text("SEL4_ARCH") == arch.name())
    }

    /// Checks the configuration, without building anything.
    ///
    /// # Errors
    /// The first option that does not suit QEMU's machine of this architecture, with its mend.
    pub fn check(&self, arch: Arch) -> Result<Installed> {
        check(&self.options()?, self, arch)
    }

    fn options(&self) -> Result<Options> {
        let options = serde_json::from_str(&self.read(CONFIGURATION)?);
        Ok(Options(options.with_context(|| format!("{} is no JSON", self.include.join(CONFIGURATION).display()))?))
    }

    fn read(&self, name: &str) -> Result<String> {
        let path = self.include.join(name);
        fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
    }
}

/// Properties of an installed kernel that a build of this project does not have by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Installed {
    /// The kernel's file, as the user named it.
    pub file: PathBuf,
    /// The release.
    pub release: Release,
    /// Bits of the root task's CNode: the most slots that a system can have.
    pub cnode_bits: u8,
    /// Support of the machine's IOMMU; a kernel for x86_64 can lack it.
    pub iommu: bool,
    /// QEMU's model of the processor.
    pub(crate) processor: &'static str,
    /// Sentences on options that are in the way, but forbid nothing.
    pub warnings: Vec<&'static str>,
}

/// The release of a kernel, by what its interface has.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Release {
    /// The first number of the first release that has this interface.
    pub first: u8,
    /// First number of the last such release; none if later releases may have it.
    pub last: Option<u8>,
}

impl Release {
    /// Whether a single release can be both.
    pub(crate) fn overlaps(self, other: Self) -> bool {
        let begins_before_end = |one: Self, other: Self| other.last.is_none_or(|last| one.first <= last);
        begins_before_end(self, other) && begins_before_end(other, self)
    }
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.last {
            Some(last) if last == self.first => write!(f, "seL4 {last}.0.0"),
            Some(last) => write!(f, "seL4 {}.0.0 to {last}.0.0", self.first),
            None => write!(f, "seL4 {}.0.0 or later", self.first),
        }
    }
}

/// Finds out the release: scheduling of domains is in its present form since 15.0.0, flags of threads are there since 14.0.0, and the
/// format of an IOSpace capability's data, on x86_64, since 16.0.0.
fn release(place: &Place, arch: Arch) -> Result<Release> {
    let interface = place.read("interfaces/object-api.xml")?;
    let has = |method: &str| interface.contains(&format!("id=\"{method}\""));
    if !has("DomainScheduleConfigure") {
        let number = if has("TCBSetFlags") { 14 } else { 13 };
        return Ok(Release { first: number, last: Some(number) });
    }
    let is_newest = || Ok::<_, anyhow::Error>(place.read("sel4/sel4_arch/types.pbf")?.contains("IOSpace_CapData"));
    Ok(match arch {
        Arch::Aarch64 => Release { first: 15, last: None },
        Arch::X86_64 if is_newest()? => Release { first: 16, last: None },
        Arch::X86_64 => Release { first: 15, last: Some(15) },
    })
}

/// The options of the kernel's configuration, by their names without `CONFIG_`: truth values, and numbers as texts.
struct Options(Map<String, Value>);

impl Options {
    fn is_on(&self, name: &str) -> bool {
        self.0.get(name).and_then(Value::as_bool).unwrap_or(false)
    }

    fn text(&self, name: &str) -> &str {
        self.0.get(name).and_then(Value::as_str).unwrap_or_default()
    }

    fn number(&self, name: &str) -> u64 {
        self.text(name).parse().unwrap_or(0)
    }
}

/// A condition that the configuration must meet.
struct Demand {
    /// The architectures for which it must.
    of: &'static [Arch],
    holds: fn(&Options) -> bool,
    /// Words for a kernel that does not meet it.
    otherwise: &'static str,
    /// The option that the kernel is to be configured with.
    option: &'static str,
}

const X86: &[Arch] = &[Arch::X86_64];
const ARM: &[Arch] = &[Arch::Aarch64];

const DEMANDS: &[Demand] = &[
    Demand {
        of: X86,
        holds: |options| options.text("SEL4_ARCH") == "x86_64" && options.text("PLAT") == "pc99",
        otherwise: "is not for a PC of 64 bits",
        option: "-DKernelPlatform=pc99 -DKernelSel4Arch=x86_64",
    },
    Demand {
        of: ARM,
        holds: |options| options.text("SEL4_ARCH") == "aarch64" && options.text("PLAT") == "qemu-arm-virt",
        otherwise: "is not for QEMU's virt machine of 64 bits",
        option: "-DKernelPlatform=qemu-arm-virt -DKernelSel4Arch=aarch64",
    },
    Demand {
        of: &Arch::ALL,
        holds: |options| !options.is_on("KERNEL_MCS"),
        otherwise: "schedules by budgets (MCS), which this project does not give",
        option: "-DKernelIsMCS=OFF",
    },
    Demand {
        of: &Arch::ALL,
        holds: |options| options.number("MAX_NUM_NODES") <= 1,
        otherwise: "is for several processors",
        option: "-DKernelMaxNumNodes=1",
    },
    Demand {
        of: &Arch::ALL,
        holds: |options| options.number("ROOT_CNODE_SIZE_BITS") >= LEAST_CNODE_BITS,
        otherwise: "gives the root task a CNode that is too small",
        option: "-DKernelRootCNodeSizeBits=17",
    },
    Demand {
        of: X86,
        holds: |options| !options.is_on("SUPPORT_PCID"),
        otherwise: "needs process context identifiers, which QEMU's emulated processor lacks",
        option: "-DKernelSupportPCID=OFF",
    },
    Demand {
        of: ARM,
        holds: |options| options.is_on("ARM_CORTEX_A57"),
        otherwise: "is not for a Cortex-A57",
        option: "-DARM_CPU=cortex-a57",
    },
    Demand {
        of: ARM,
        holds: |options| !options.is_on("ARM_HYPERVISOR_SUPPORT"),
        otherwise: "is a hypervisor, and QEMU's machine starts at EL1",
        option: "-DKernelArmHypervisorSupport=OFF",
    },
    Demand {
        of: ARM,
        holds: |options| !options.is_on("ARM_GIC_V3_SUPPORT"),
        otherwise: "is for the interrupt controller GICv3, and the machine has a GICv2",
        option: "-DQEMU_GIC_VERSION=2",
    },
    Demand {
        of: ARM,
        holds: |options| options.is_on("EXPORT_PCNT_USER"),
        otherwise: "keeps the physical counter from user level, which the root task reads",
        option: "-DKernelArmExportPCNTUser=ON",
    },
    Demand {
        of: ARM,
        holds: |options| options.is_on("EXPORT_VCNT_USER"),
        otherwise: "keeps the virtual counter from user level, which every component reads",
        option: "-DKernelArmExportVCNTUser=ON",
    },
    Demand {
        of: ARM,
        holds: |options| options.is_on("EXPORT_PTMR_USER"),
        otherwise: "keeps the timer from user level, which the supervisor sets",
        option: "-DKernelArmExportPTMRUser=ON",
    },
];

/// Options that are in the way, and the sentence about each.
const WARNINGS: &[(&str, &str)] = &[
    (
        "KERNEL_SKIM_WINDOW",
        "the kernel changes address spaces at each entry, which is slow in QEMU, so times may be missed: configure it with \
         -DKernelSkimWindow=OFF",
    ),
    (
        "FSGSBASE_MSR",
        "the kernel takes segment bases for unchanged that another thread changed: configure it with -DKernelFSGSBase=inst",
    ),
    (
        "PRINTING",
        "the kernel's messages go to the serial line, too, and break records there: configure it with -DKernelDebugBuild=OFF \
         -DKernelPrinting=OFF",
    ),
];

/// Options of a PC's kernel that need instructions which QEMU's plain models of processors lack.
const NEED_NEWER: [&str; 3] = ["HUGE_PAGE", "FSGSBASE_INST", "XSAVE"];

fn check(options: &Options, place: &Place, arch: Arch) -> Result<Installed> {
    let file = place.kernel.display();
    let other = Arch::ALL.into_iter().find(|other| *other != arch && options.text("SEL4_ARCH") == other.name());
    if let Some(other) = other {
        bail!("the kernel {file} is for {other}: add --arch {other}, or name another prefix");
    }
    let broken = DEMANDS.iter().filter(|demand| demand.of.contains(&arch)).find(|demand| !(demand.holds)(options));
    if let Some(Demand { otherwise, option, .. }) = broken {
        bail!("the kernel {file} {otherwise}: configure it with {option}, or name another prefix");
    }
    if arch == Arch::Aarch64 {
        check_memory(place)?;
    }
    let processor = match arch {
        Arch::Aarch64 => "cortex-a57",
        Arch::X86_64 if NEED_NEWER.iter().any(|name| options.is_on(name)) => "max",
        Arch::X86_64 => "Nehalem",
    };
    Ok(Installed {
        file: place.kernel.clone(),
        release: release(place, arch)?,
        cnode_bits: options.number("ROOT_CNODE_SIZE_BITS").try_into().unwrap_or(u8::MAX),
        iommu: arch == Arch::Aarch64 || options.is_on("IOMMU"),
        processor,
        warnings: WARNINGS.iter().filter(|(name, _)| options.is_on(name)).map(|(_, sentence)| *sentence).collect(),
    })
}

/// Checks that the memory compiled into the kernel is that of the machine. Where it is not stated, the loader compares it.
fn check_memory(place: &Place) -> Result<()> {
    let Ok(text) = fs::read_to_string(&place.platform) else { return Ok(()) };
    let Ok(Value::Object(platform)) = serde_json::from_str(&text) else { return Ok(()) };
    let memory = platform.get("memory").cloned().unwrap_or_default();
    let expected =
        serde_json::json!([{"start": VIRT_MEMORY_START, "end": VIRT_MEMORY_START + u64::from(VIRT_MEMORY_BYTES)}]);
    ensure!(
        memory == expected,
        "the kernel {} is for memory at {memory}, and the machine has {expected}: configure it with -DQEMU_MEMORY={}",
        place.kernel.display(),
        VIRT_MEMORY_BYTES >> 20
    );
    Ok(())
}

/// Makes a folder in `target/kernel/` with links to the files of the kernel, and for QEMU's multiboot loader a copy. The folder is named for
/// the interface, so programs for different kernels are never mixed.
///
/// # Errors
/// A configuration that does not suit the project's machine, in one sentence with the option and its mend.
pub(crate) fn prepare(workspace_root: &Path, arch: Arch, place: &Place, log: &mut dyn FnMut(&str)) -> Result<Kernel> {
    let place = &Place {
        kernel: absolute(&place.kernel)?,
        include: absolute(&place.include)?,
        platform: place.platform.clone(),
    };
    let installed = check(&place.options()?, place, arch)?;
    let mut hash = Sha256::new();
    for text in files::texts(&place.include)? {
        hash.update((text.len() as u64).to_le_bytes());
        hash.update(text);
    }
    let digest: String = hash.finalize().iter().take(6).map(|byte| format!("{byte:02x}")).collect();
    let name = match arch {
        Arch::X86_64 => format!("installed-{digest}"),
        Arch::Aarch64 => format!("{arch}-installed-{digest}"),
    };
    let kernel = Kernel::in_folder(arch, workspace_root.join("target/kernel").join(name), Some(installed));
    let interface = kernel.libsel4();
    fs::create_dir_all(&interface).with_context(|| format!("cannot make {}", interface.display()))?;
    let _lock = FolderLock::take(&kernel.folder, log)?;
    link(&place.include, &interface.join("include"))?;
    link(&place.kernel, &kernel.elf64)?;
    if arch == Arch::X86_64 {
        pack_for_multiboot(&kernel)?;
    }
    Ok(kernel)
}

fn absolute(path: &Path) -> Result<PathBuf> {
    std::path::absolute(path).with_context(|| format!("{} has no absolute path", path.display()))
}

/// Makes the link `at`, in the place of another.
fn link(to: &Path, at: &Path) -> Result<()> {
    if fs::read_link(at).is_ok_and(|old| old == to) {
        return Ok(());
    }
    match fs::remove_file(at) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => symlink(to, at),
    }
    .with_context(|| format!("cannot make the link {}", at.display()))
}

#[cfg(test)]
mod tests;
