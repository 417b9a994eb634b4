//! Our configuration of the kernel, as the header `autoconf.h` that its source includes.
//!
//! Left out: what the kernel decides from other values, and settings that only its own user libraries read.

use crate::build::Profile;

/// The kernel's configuration: option names without the prefix `CONFIG_`, and their values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    options: Vec<(&'static str, u32)>,
}

impl Config {
    /// One core of an x86_64 PC, release or debug.
    pub fn new(profile: Profile) -> Self {
        let mut options = PC.to_vec();
        match profile {
            Profile::Release => {}
            Profile::Debug => options.extend_from_slice(DEBUG),
        }
        Self { options }
    }

    /// The same for `cores` cores. Only for the check that such a kernel links: the rest of this project runs on one.
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

/// What does not depend on the profile. An option that is not listed is off: multi-core, process context identifiers
/// and huge pages (QEMU's plain processor models lack them), virtual machines, x2APIC.
const PC: &[(&str, u32)] = &[
    // The machine.
    ("ARCH_X86", 1),
    ("ARCH_X86_64", 1),
    ("PLAT_PC99", 1),
    ("WORD_SIZE", 64),
    ("MAX_NUM_NODES", 1),
    ("CACHE_LN_SZ", 64),
    ("KERNEL_STACK_BITS", 12),
    ("MULTIBOOT_GRAPHICS_MODE_NONE", 1),
    // How the kernel is entered and how it keeps a thread's state. The segment bases go through model-specific
    // registers, because the instructions for it are missing on QEMU's plain models.
    ("SYSCALL", 1),
    ("FASTPATH", 1),
    ("FSGSBASE_MSR", 1),
    ("HAVE_FPU", 1),
    ("FXSAVE", 1),
    ("XSAVE_SIZE", 512),
    ("FPU_MAX_RESTORES_SINCE_SWITCH", 64),
    // Interrupts and DMA.
    ("IRQ_IOAPIC", 1),
    ("MAX_NUM_IOAPIC", 1),
    ("XAPIC", 1),
    ("IOMMU", 1),
    ("MAX_RMRR_ENTRIES", 32),
    // Scheduling and limits.
    ("NUM_DOMAINS", 1),
    ("NUM_PRIORITIES", 256),
    ("TIMER_TICK_MS", 2),
    ("TIME_SLICE", 5),
    ("RETYPE_FAN_OUT_LIMIT", 256),
    ("MAX_NUM_WORK_UNITS_PER_PREEMPTION", 100),
    // What the root task finds: the untypeds of a PC with 64-bit device windows, and room for a whole system's slots.
    ("MAX_NUM_BOOTINFO_UNTYPED_CAPS", 230),
    ("ROOT_CNODE_SIZE_BITS", 16),
];

/// What a debug kernel has on top: assertions, messages on the first serial port, reports of stray interrupts.
const DEBUG: &[(&str, u32)] =
    &[("DEBUG_BUILD", 1), ("PRINTING", 1), ("IRQ_REPORTING", 1), ("USER_STACK_TRACE_LENGTH", 16)];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_debug_kernel_prints() {
        assert_eq!(Config::new(Profile::Release).get("PRINTING"), None);
        assert_eq!(Config::new(Profile::Debug).get("PRINTING"), Some(1));
    }

    #[test]
    fn the_header_defines_every_option_once() {
        let config = Config::new(Profile::Debug);
        let header = config.header();
        for (name, value) in config.options() {
            assert_eq!(header.matches(&format!("#define CONFIG_{name} {value}\n")).count(), 1, "{name}");
        }
    }

    #[test]
    fn cores_change_nothing_else() {
        let one = Config::new(Profile::Release);
        let two = one.clone().with_cores(2);
        assert_eq!(two.get("MAX_NUM_NODES"), Some(2));
        assert_eq!(two.with_cores(1), one);
    }
}
