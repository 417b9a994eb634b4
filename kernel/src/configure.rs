//! Our configuration of the kernel, as the header `autoconf.h` that its source includes.
//!
//! Left out: options that the kernel derives from others, and settings that only its own user libraries read.

use crate::Arch;
use crate::build::Profile;

/// The kernel's configuration: option names without the prefix `CONFIG_`, and their values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    options: Vec<(&'static str, u32)>,
}

impl Config {
    /// A configuration for one core of the architecture's machine, release or debug.
    pub fn new(arch: Arch, profile: Profile) -> Self {
        let mut options = COMMON.to_vec();
        options.extend_from_slice(match arch {
            Arch::X86_64 => PC,
            Arch::Aarch64 => VIRT,
        });
        match profile {
            Profile::Release => {}
            Profile::Debug => options.extend_from_slice(DEBUG),
        }
        Self { options }
    }

    /// This configuration for `cores` cores. Only for the check that such a kernel links: the rest of this project runs on one.
    pub fn with_cores(mut self, cores: u32) -> Self {
        for (name, value) in &mut self.options {
            if *name == "MAX_NUM_NODES" {
                *value = cores;
            }
        }
        self
    }

    /// The options, in the order in which they are written.
    pub fn options(&self) -> &[(&'static str, u32)] {
        &self.options
    }

    /// The value of the option `name` (without the prefix `CONFIG_`); `None` when it is off.
    pub fn get(&self, name: &str) -> Option<u32> {
        self.options.iter().find(|(key, _)| *key == name).map(|(_, value)| *value)
    }

    /// The text of `autoconf.h`.
    pub fn header(&self) -> String {
        let mut text = String::from("/* Written by the kernel crate; change kernel/src/configure.rs instead. */\n");
        for (name, value) in &self.options {
            text.push_str(&format!("#define CONFIG_{name} {value}\n"));
        }
        text
    }
}

/// Options of both machines. An option that is not listed is off, multi-core and virtual machines among them.
const COMMON: &[(&str, u32)] = &[
    ("WORD_SIZE", 64),
    ("MAX_NUM_NODES", 1),
    ("KERNEL_STACK_BITS", 12),
    ("FASTPATH", 1),
    ("HAVE_FPU", 1),
    ("FPU_MAX_RESTORES_SINCE_SWITCH", 64),
    // Scheduling and limits.
    ("NUM_DOMAINS", 1),
    ("NUM_PRIORITIES", 256),
    ("TIMER_TICK_MS", 2),
    ("TIME_SLICE", 5),
    ("RETYPE_FAN_OUT_LIMIT", 256),
    ("MAX_NUM_WORK_UNITS_PER_PREEMPTION", 100),
    // The root task finds the untypeds of a PC with 64-bit device windows, and room for a whole system's slots: a page of memory
    // takes one, and 1 GiB of windows takes half of them.
    ("MAX_NUM_BOOTINFO_UNTYPED_CAPS", 230),
    ("ROOT_CNODE_SIZE_BITS", 19),
];

/// An x86_64 PC. Off are process context identifiers, huge pages and x2APIC: QEMU's plain processor models lack them.
const PC: &[(&str, u32)] = &[
    ("ARCH_X86", 1),
    ("ARCH_X86_64", 1),
    ("PLAT_PC99", 1),
    ("CACHE_LN_SZ", 64),
    ("MULTIBOOT_GRAPHICS_MODE_NONE", 1),
    // Entry of the kernel, and the way it keeps a thread's state. The segment bases go through model-specific registers,
    // because QEMU's plain models lack the instructions for it.
    ("SYSCALL", 1),
    ("FSGSBASE_MSR", 1),
    ("FXSAVE", 1),
    ("XSAVE_SIZE", 512),
    // Interrupts and DMA.
    ("IRQ_IOAPIC", 1),
    ("MAX_NUM_IOAPIC", 1),
    ("XAPIC", 1),
    ("IOMMU", 1),
    ("MAX_RMRR_ENTRIES", 32),
];

/// QEMU's virt with a Cortex-A57: the platform in `kernel/overlay/`.
const VIRT: &[(&str, u32)] = &[
    ("ARCH_ARM", 1),
    ("ARCH_AARCH64", 1),
    ("PLAT_VIRT", 1),
    ("ARM_CORTEX_A57", 1),
    // The kernel keeps the address of a thread's IPC buffer in TPIDR_EL0.
    ("IPC_BUF_TPIDRURW", 1),
    ("VIRT_MEMORY_BYTES", VIRT_MEMORY_BYTES),
];

/// Memory of the AArch64 machine, the most that a scenario's may have. The kernel has it compiled in, and the loader stops on a
/// machine that has less.
pub const VIRT_MEMORY_BYTES: u32 = 1 << 30;
/// Physical address of the first byte of virt's memory.
pub const VIRT_MEMORY_START: u64 = 1 << 30;

/// Additional options of a debug kernel: assertions, messages on the first serial port, reports of stray interrupts.
const DEBUG: &[(&str, u32)] =
    &[("DEBUG_BUILD", 1), ("PRINTING", 1), ("IRQ_REPORTING", 1), ("USER_STACK_TRACE_LENGTH", 16)];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_debug_kernel_prints() {
        assert_eq!(Config::new(Arch::X86_64, Profile::Release).get("PRINTING"), None);
        assert_eq!(Config::new(Arch::X86_64, Profile::Debug).get("PRINTING"), Some(1));
    }

    #[test]
    fn the_header_defines_every_option_once() {
        let config = Config::new(Arch::X86_64, Profile::Debug);
        let header = config.header();
        for (name, value) in config.options() {
            assert_eq!(header.matches(&format!("#define CONFIG_{name} {value}\n")).count(), 1, "{name}");
        }
    }

    #[test]
    fn cores_change_nothing_else() {
        let one = Config::new(Arch::X86_64, Profile::Release);
        let two = one.clone().with_cores(2);
        assert_eq!(two.get("MAX_NUM_NODES"), Some(2));
        assert_eq!(two.with_cores(1), one);
    }
}
