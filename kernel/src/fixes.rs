//! The defects of seL4 5.0.0 on x86_64 and AArch64, and their corrections.
//!
//! A correction is a list of edits to a *copy* of the kernel's source. Each edit names a file and an anchor, a text as
//! short as can be unique; unless the anchor is found exactly once the edit fails, so that another version of the
//! source is noticed at once instead of being built half corrected. Each correction can be left out by name, which is
//! how the tests show that they fail without it ([`crate::regress`]).

use std::fmt;
use std::fs;
use std::path::Path;
use std::str::FromStr;

use anyhow::{Context, Result, bail};

use crate::arch::Arch;
use crate::files;

/// The name of a correction, as the command line and the folder names spell it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FixName {
    /// The kernel's stack starts on a boundary of its size.
    StackAlignment,
    /// Deleting any copy of a frame capability removes the mapping made through it.
    FrameCopy,
    /// Removing a device's IO address space empties the IOMMU's context cache.
    ContextCache,
    /// Counting bits needs no routine of the compiler's library.
    Popcount,
    /// A badge that does not fit an endpoint capability is an error.
    EndpointBadge,
    /// An unmapped IO page table is empty and has no copies.
    IoPageTable,
    /// Revoking an IOSpace capability takes back what was derived from it.
    IoSpaceRevoke,
    /// A thread that is suspended after its system call was over goes on behind it.
    SuspendAfterCall,
    /// The processor's physical timer is the root task's alone.
    TimerOwner,
    /// A deleted thread's floating point registers are written nowhere.
    FpuOwner,
    /// Changing the mapping of a frame whose table is gone is an error.
    FrameRemap,
    /// A thread whose address space lost its identifier is not switched to on the short way either.
    FastpathAsid,
}

impl FixName {
    /// The spelling on the command line.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::StackAlignment => "stack-alignment",
            Self::FrameCopy => "frame-copy",
            Self::ContextCache => "context-cache",
            Self::Popcount => "popcount",
            Self::EndpointBadge => "endpoint-badge",
            Self::IoPageTable => "io-page-table",
            Self::IoSpaceRevoke => "io-space-revoke",
            Self::SuspendAfterCall => "suspend-after-call",
            Self::TimerOwner => "timer-owner",
            Self::FpuOwner => "fpu-owner",
            Self::FrameRemap => "frame-remap",
            Self::FastpathAsid => "fastpath-asid",
        }
    }
}

impl fmt::Display for FixName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for FixName {
    type Err = anyhow::Error;

    /// Fails on an unknown name, and says which names there are.
    fn from_str(text: &str) -> Result<Self> {
        Fix::all().iter().map(|fix| fix.name).find(|name| name.as_str() == text).with_context(|| {
            let known: Vec<_> = Fix::all().iter().map(|fix| fix.name.as_str()).collect();
            format!("there is no kernel fix named '{text}'; the fixes are {}", known.join(", "))
        })
    }
}

/// One replacement in one file of the kernel's source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edit {
    /// The file, relative to the kernel's source folder.
    pub file: &'static str,
    /// The text to replace; it must occur exactly once.
    pub anchor: &'static str,
    /// What stands there afterwards.
    pub replacement: &'static str,
}

/// A defect of the kernel and the edits that correct it.
#[derive(Clone, Copy, Debug)]
pub struct Fix {
    /// What to call it.
    pub name: FixName,
    /// Where the defect is: the other architecture's code is right, or has no such thing.
    pub on: &'static [Arch],
    /// What is wrong, why, and what a system sees without the correction.
    pub explanation: &'static str,
    /// The edits, in the order in which they are applied.
    pub edits: &'static [Edit],
}

impl Fix {
    /// Every correction, in the order of application.
    pub const fn all() -> &'static [Fix] {
        ALL
    }

    /// Those of an architecture, in the order of application.
    pub fn of(arch: Arch) -> impl Iterator<Item = &'static Fix> {
        ALL.iter().filter(move |fix| fix.on.contains(&arch))
    }

    /// Applies the correction to the copy of the source in `folder`.
    ///
    /// Fails when a file cannot be read or written, and when an anchor is not found exactly once.
    pub fn apply(&self, folder: &Path) -> Result<()> {
        for edit in self.edits {
            edit.apply(folder).with_context(|| format!("kernel fix '{}' does not apply", self.name))?;
        }
        Ok(())
    }
}

impl Edit {
    fn apply(&self, folder: &Path) -> Result<()> {
        let path = folder.join(self.file);
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let edited = replace_once(&text, self.anchor, self.replacement).with_context(|| format!("in {}", self.file))?;
        files::write_whole(&path, edited.as_bytes())
    }
}

/// `text` with the only occurrence of `anchor` replaced; an error when there is none, or more than one.
fn replace_once(text: &str, anchor: &str, replacement: &str) -> Result<String> {
    match text.matches(anchor).count() {
        1 => Ok(text.replacen(anchor, replacement, 1)),
        0 => bail!("the anchor {anchor:?} is not there; is this the pinned version of the source?"),
        count => bail!("the anchor {anchor:?} is there {count} times instead of once"),
    }
}

/// What the AArch64 kernel asks elsewhere after looking for a page table.
macro_rules! lookup_check {
    () => {
        "            if (unlikely(lu_ret.status != EXCEPTION_NONE)) {\n                \
         current_syscall_error.type = seL4_FailedLookup;\n                \
         current_syscall_error.failedLookupWasSource = false;\n                \
         return EXCEPTION_SYSCALL_ERROR;\n            \
         }\n\n"
    };
}

static ALL: &[Fix] = &[
    Fix {
        name: FixName::StackAlignment,
        on: &[Arch::X86_64],
        explanation: "When an interrupt is pending at kernel exit, the kernel starts over on an empty stack: it rounds \
            rsp down to the stack's size and adds that size. This finds the top only if the stack is aligned to its \
            size (4096), but the 64-bit kernel asks for 16. Without the fix rsp lands beyond the stack, and the next \
            calls overwrite what lies there, in our build the interrupt descriptor table: a general protection fault \
            in the kernel once several MSI-X vectors or IOMMU faults arrive together.",
        edits: &[Edit {
            file: "include/arch/x86/arch/64/mode/kernel/stack.h",
            anchor: "KERNEL_STACK_ALIGNMENT 16",
            replacement: "KERNEL_STACK_ALIGNMENT 4096",
        }],
    },
    Fix {
        name: FixName::FrameCopy,
        on: &[Arch::X86_64],
        explanation: "A mapping belongs to the very capability through which it was made (a copy starts out unmapped), \
            yet it is removed only when the last capability to the frame goes. Without the fix reads, writes and DMA \
            go on through a capability that was deleted. Small and large pages, VSpaces and IOSpaces all pass here; \
            both routines called check that the entry still points to this frame, so a mapping made by another \
            capability stays.",
        edits: &[Edit {
            file: "src/arch/x86/64/object/objecttype.c",
            anchor: "if (final && cap_frame",
            replacement: "/* The mapping is this capability's own: it goes with it, last copy or not. */\n        \
                          if (cap_frame",
        }],
    },
    Fix {
        name: FixName::ContextCache,
        on: &[Arch::X86_64],
        explanation: "The IOMMU caches context entries (which device uses which page table). The kernel clears an \
            entry in memory when an IOSpace capability or a top IO page table goes, and invalidates only the IOTLB. \
            Without the fix the device goes on translating through the page table it was taken from. The same place \
            also set the current thread to run again, which would revive a thread that had just deleted itself; every \
            invocation that gets here has set that state before.",
        edits: &[
            Edit {
                file: "src/arch/x86/object/iospace.c",
                anchor: "invalidate_iotlb();\n    setThreadState(NODE_STATE(ksCurThread), ThreadState_Restart);",
                replacement: "invalidate_context_cache();\n    invalidate_iotlb();",
            },
            Edit {
                file: "src/arch/x86/object/iospace.c",
                anchor: "VTD_CTE_SIZE_BITS);\n        } else",
                replacement: "VTD_CTE_SIZE_BITS);\n            invalidate_context_cache();\n        } else",
            },
        ],
    },
    Fix {
        name: FixName::Popcount,
        on: &[Arch::X86_64],
        explanation: "The compiler turns its bit-counting builtin into a call of its support library, with which the \
            kernel is not linked. Only the multi-core kernel counts bits: without the fix it does not link. AArch64's \
            multi-core kernel cannot be assembled at all (`mul x5,x6` in its entry code).",
        edits: &[Edit {
            file: "include/util.h",
            anchor: "return __builtin_popcountl(x);",
            replacement: "/* Each step clears the lowest bit that is set. */\n    \
                          long count = 0;\n    \
                          for (; x != 0; x &= x - 1) {\n        \
                          count++;\n    \
                          }\n    \
                          return count;",
        }],
    },
    Fix {
        name: FixName::EndpointBadge,
        on: &Arch::ALL,
        explanation: "An endpoint capability has 28 bits for its badge. Minting with a larger value trips an assertion \
            in the debug kernel, which halts the machine, and is cut off silently in the release kernel, so that two \
            clients can get one badge. With the fix the capability cannot be made, and the caller gets an illegal \
            operation. The check stands where capability data are applied and not in the decoding of Mint, because the \
            decoding of TCB configuration passes here too, with whatever capability the user named as CSpace.",
        edits: &[Edit {
            file: "src/object/objecttype.c",
            anchor: "if (!preserve && cap_endpoint",
            replacement: "if (!preserve && (newData >> 28) == 0 && cap_endpoint",
        }],
    },
    Fix {
        name: FixName::IoPageTable,
        on: &[Arch::X86_64],
        explanation: "Unmapping an IO page table leaves its entries in place, and is allowed while copies of the \
            capability exist. Mapped again one level higher, its entries would be taken for page tables, and frames \
            that the user writes freely would say which physical memory the device reaches; a frame deleted meanwhile \
            would stay reachable; and a copy that still remembers the old place could free a table in use. With the \
            fix unmapping asks for the only capability, as it does for a VSpace's page tables, and empties the table.",
        edits: &[
            Edit {
                file: "src/arch/x86/object/iospace.c",
                anchor: "cap = cap_io_page_table_cap_set_capIOPTIsMapped(cap, 0);\n    ctSlot",
                replacement: "memzero((void *)cap_io_page_table_cap_get_capIOPTBasePtr(cap), BIT(seL4_IOPageTableBits));\n    \
                              flushCacheRange((void *)cap_io_page_table_cap_get_capIOPTBasePtr(cap), seL4_IOPageTableBits);\n    \
                              invalidate_iotlb();\n    \
                              cap = cap_io_page_table_cap_set_capIOPTIsMapped(cap, 0);\n    ctSlot",
            },
            Edit {
                file: "src/arch/x86/object/iospace.c",
                anchor: "if (invLabel == X86IOPageTableUnmap) {",
                replacement: "if (invLabel == X86IOPageTableUnmap) {\n        \
                              if (!isFinalCapability(slot)) {\n            \
                              current_syscall_error.type = seL4_RevokeFirst;\n            \
                              return EXCEPTION_SYSCALL_ERROR;\n        \
                              }",
            },
        ],
    },
    Fix {
        name: FixName::IoSpaceRevoke,
        on: &[Arch::X86_64],
        explanation: "A minted IOSpace capability is not marked as one that others derive from, and none counts as \
            derived from the master, because two IOSpaces are related only if they are of one device. Without the fix \
            Revoke does nothing to them: a driver keeps a function's address space after the function went to another \
            driver. With it an IOSpace is treated as a badged endpoint is: minting begins a family, copies belong to \
            it, and revoking takes the copies but not what was minted apart, even for the same device; the master, \
            which alone has domain 0, stands above all. The comparison of objects stays as it is, because it decides \
            which deletion is the last one and clears the device's entry. In the same place: the master was told by \
            its requester id 0 alone, so whoever was given the IOSpace of that id could mint every other; now the \
            domain must be 0 as well, which no minted one has.",
        edits: &[
            Edit {
                file: "src/object/cnode.c",
                anchor: "default:\n        newCapIsRevocable = false;",
                replacement: "#ifdef CONFIG_IOMMU\n    \
                              case cap_io_space_cap:\n        \
                              /* Minting changes the domain, always away from the master's 0. */\n        \
                              newCapIsRevocable = cap_io_space_cap_get_capDomainID(newCap) !=\n                            \
                              cap_io_space_cap_get_capDomainID(srcCap);\n        \
                              break;\n\
                              #endif\n\n    \
                              default:\n        newCapIsRevocable = false;",
            },
            Edit {
                file: "src/object/cnode.c",
                anchor: "if (!sameRegionAs(cte_a->cap, cte_b->cap)) {",
                replacement: "#ifdef CONFIG_IOMMU\n    \
                              if (cap_get_capType(cte_a->cap) == cap_io_space_cap &&\n            \
                              cap_get_capType(cte_b->cap) == cap_io_space_cap &&\n            \
                              cap_io_space_cap_get_capDomainID(cte_a->cap) == 0) {\n        \
                              /* The master: every other comes from it. */\n        \
                              return true;\n    \
                              }\n\
                              #endif\n    \
                              if (!sameRegionAs(cte_a->cap, cte_b->cap)) {",
            },
            Edit {
                file: "src/object/cnode.c",
                anchor: "switch (cap_get_capType(cte_a->cap)) {",
                replacement: "switch (cap_get_capType(cte_a->cap)) {\n\
                              #ifdef CONFIG_IOMMU\n    \
                              case cap_io_space_cap:\n        \
                              return cap_io_space_cap_get_capDomainID(cte_a->cap) ==\n               \
                              cap_io_space_cap_get_capDomainID(cte_b->cap) &&\n               \
                              !mdb_node_get_mdbFirstBadged(cte_b->cteMDBNode);\n\
                              #endif\n",
            },
            Edit {
                file: "src/arch/x86/object/objecttype.c",
                anchor: "if (!preserve && cap_io_space_cap_get_capPCIDevice(cap) == 0 &&",
                replacement: "if (!preserve && cap_io_space_cap_get_capPCIDevice(cap) == 0 &&\n                \
                              cap_io_space_cap_get_capDomainID(cap) == 0 &&",
            },
        ],
    },
    Fix {
        name: FixName::SuspendAfterCall,
        on: &Arch::ALL,
        explanation: "A thread that waited and was woken, but has not run since, is suspended and resumed. Resuming has a \
            thread do its last system call again, and by now the register with its capability holds the badge of what \
            arrived. Without the fix the thread waits for something else, or faults at a capability that it never named. \
            With it a thread that was running is resumed where it would have gone on.",
        edits: &[Edit {
            file: "src/kernel/thread.c",
            anchor: "cancelIPC(target);\n    setThreadState(target, ThreadState_Inactive);",
            replacement: "if (thread_state_get_tsType(target->tcbState) == ThreadState_Running) {\n        \
                          /* What it called for is done: it must not be done again. */\n\
                          #ifdef CONFIG_ARCH_AARCH64\n        \
                          setRegister(target, FaultInstruction, getRegister(target, ELR_EL1));\n\
                          #else\n        \
                          setRegister(target, FaultIP, getRegister(target, NextIP));\n\
                          #endif\n    \
                          }\n    \
                          cancelIPC(target);\n    setThreadState(target, ThreadState_Inactive);",
        }],
    },
    Fix {
        name: FixName::TimerOwner,
        on: &[Arch::Aarch64],
        explanation: "Whether user level reads the generic timer's counters and drives its physical timer is one register, which \
            the kernel leaves as it found it, for every thread alike. Without the fix nobody has a timer, or everybody has \
            the same one, and any client can stop the supervisor's ticks. With it the counters are everybody's, and the \
            physical timer is that of the first address space, the root task's; elsewhere an access to it is a fault.",
        edits: &[Edit {
            file: "include/arch/arm/armv/armv8-a/64/armv/context_switch.h",
            anchor: "setCurrentUserVSpaceRoot(ttbr_new(asid, pptr_to_paddr(vspace)));",
            replacement: "setCurrentUserVSpaceRoot(ttbr_new(asid, pptr_to_paddr(vspace)));\n    \
                          /* EL0PCTEN, EL0VCTEN; and EL0PTEN for the initial thread's address space. */\n    \
                          MSR(\"cntkctl_el1\", BIT(0) | BIT(1) | (asid == 1 ? BIT(9) : 0));",
        }],
    },
    Fix {
        name: FixName::FpuOwner,
        on: &[Arch::Aarch64],
        explanation: "The kernel leaves a thread's floating point registers in the processor until another thread uses them, and \
            saves them then for the thread that it remembers. When that thread is deleted x86_64's kernel forgets it, and \
            AArch64's does not. Without the fix a deleted thread's 528 bytes of registers, with contents that it chose, are \
            written to where its TCB was, whatever that memory has become: another thread, a page table, somebody's page.",
        edits: &[
            Edit {
                file: "src/arch/arm/64/object/objecttype.c",
                anchor: "/* No action required on ARM. */",
                replacement: "#ifdef CONFIG_HAVE_FPU\n    \
                              fpuThreadDelete(thread);\n\
                              #endif",
            },
            Edit {
                file: "src/arch/arm/64/object/objecttype.c",
                anchor: "#include <arch/object/objecttype.h>",
                replacement: "#include <arch/object/objecttype.h>\n#include <machine/fpu.h>",
            },
        ],
    },
    Fix {
        name: FixName::FrameRemap,
        on: &[Arch::Aarch64],
        explanation: "A frame's capability remembers its mapping after the page table that held it was deleted. Remap looks for the \
            table and uses the answer without asking whether there was one, which x86_64's kernel does ask. Without the fix \
            whoever holds a frame, a page table and the VSpace makes the kernel write through a null pointer, which halts \
            the machine. With it the caller gets a failed lookup, as from Map.",
        edits: &[
            Edit {
                file: "src/arch/arm/64/kernel/vspace.c",
                anchor: "lookupPTSlot(pgd, vaddr);\n\n            setThreadState",
                replacement: concat!("lookupPTSlot(pgd, vaddr);\n\n", lookup_check!(), "            setThreadState"),
            },
            Edit {
                file: "src/arch/arm/64/kernel/vspace.c",
                anchor: "lookupPDSlot(pgd, vaddr);\n\n            setThreadState",
                replacement: concat!("lookupPDSlot(pgd, vaddr);\n\n", lookup_check!(), "            setThreadState"),
            },
            Edit {
                file: "src/arch/arm/64/kernel/vspace.c",
                anchor: "lookupPUDSlot(pgd, vaddr);\n\n            setThreadState",
                replacement: concat!("lookupPUDSlot(pgd, vaddr);\n\n", lookup_check!(), "            setThreadState"),
            },
        ],
    },
    Fix {
        name: FixName::FastpathAsid,
        on: &Arch::ALL,
        explanation: "Deleting an ASID pool takes the identifiers from its address spaces, and a thread of one of them is not to run \
            in it any more: the mappings of frames can no longer be found, so deleting a frame's capability leaves its \
            mapping. The kernel's long way looks whether the identifier still means the address space; the short way of IPC \
            looks at the capability alone. Without the fix a called thread goes on in its old address space, with memory \
            that belongs to others by then, under an identifier that another address space may have.",
        edits: &[
            Edit {
                file: "include/arch/arm/arch/64/mode/fastpath/fastpath.h",
                anchor: "return cap_capType_equals(vspace_root_cap, cap_page_global_directory_cap) && \
                         cap_page_global_directory_cap_get_capPGDIsMapped(vspace_root_cap);",
                replacement: "asid_t asid;\n    \
                              asid_pool_t *pool;\n\n    \
                              if (!cap_capType_equals(vspace_root_cap, cap_page_global_directory_cap) ||\n            \
                              !cap_page_global_directory_cap_get_capPGDIsMapped(vspace_root_cap)) {\n        \
                              return false;\n    \
                              }\n    \
                              /* Its identifier must still mean it. */\n    \
                              asid = cap_page_global_directory_cap_get_capPGDMappedASID(vspace_root_cap);\n    \
                              pool = armKSASIDTable[asid >> asidLowBits];\n    \
                              return pool && pool->array[asid & MASK(asidLowBits)] ==\n           \
                              cap_vtable_cap_get_vspace_root_fp(vspace_root_cap);",
            },
            Edit {
                file: "include/arch/x86/arch/64/mode/fastpath/fastpath.h",
                anchor: "return (vspace_root_cap.words[0] >> (64 - 6)) == ((cap_pml4_cap << 1) | 0x1);",
                replacement: "asid_t asid;\n    \
                              asid_pool_t *pool;\n    \
                              asid_map_t map;\n\n    \
                              if ((vspace_root_cap.words[0] >> (64 - 6)) != ((cap_pml4_cap << 1) | 0x1)) {\n        \
                              return false;\n    \
                              }\n    \
                              /* Its identifier must still mean it. */\n    \
                              asid = cap_pml4_cap_get_capPML4MappedASID(vspace_root_cap);\n    \
                              pool = x86KSASIDTable[asid >> asidLowBits];\n    \
                              if (!pool) {\n        \
                              return false;\n    \
                              }\n    \
                              map = pool->array[asid & MASK(asidLowBits)];\n    \
                              return asid_map_get_type(map) == asid_map_asid_map_vspace &&\n           \
                              asid_map_asid_map_vspace_get_vspace_root(map) ==\n           \
                              cap_pml4_cap_get_capPML4BasePtr(vspace_root_cap);",
            },
        ],
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_anchor_found_once_is_replaced() {
        assert_eq!(replace_once("a b c", "b", "x").unwrap(), "a x c");
    }

    #[test]
    fn an_anchor_that_is_missing_is_an_error_that_quotes_it() {
        let error = replace_once("a b c", "d", "x").unwrap_err().to_string();
        assert!(error.contains("\"d\" is not there"), "{error}");
    }

    #[test]
    fn an_anchor_found_twice_is_an_error_that_counts() {
        let error = replace_once("a b b", "b", "x").unwrap_err().to_string();
        assert!(error.contains("\"b\" is there 2 times instead of once"), "{error}");
    }

    #[test]
    fn a_fix_that_does_not_apply_names_itself_and_the_file() {
        let folder = std::env::temp_dir().join(format!("kernel-fix-{}", std::process::id()));
        let file = folder.join("include/util.h");
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, "nothing to find here").unwrap();
        let fix = Fix::all().iter().find(|fix| fix.name == FixName::Popcount).unwrap();
        let error = format!("{:#}", fix.apply(&folder).unwrap_err());
        fs::remove_dir_all(&folder).unwrap();
        assert!(error.contains("'popcount'") && error.contains("include/util.h"), "{error}");
    }

    #[test]
    fn every_name_is_read_back() {
        for fix in Fix::all() {
            assert_eq!(fix.name.to_string().parse::<FixName>().unwrap(), fix.name);
        }
    }

    #[test]
    fn an_unknown_name_lists_the_known_ones() {
        let error = "stack".parse::<FixName>().unwrap_err().to_string();
        assert!(error.contains("'stack'") && error.contains("stack-alignment, frame-copy"), "{error}");
    }

    #[test]
    fn names_are_unique() {
        let mut names: Vec<_> = Fix::all().iter().map(|fix| fix.name).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), Fix::all().len());
    }
}
