//! The corrections of the kernel on AArch64.

use super::{Edit, Fix, FixName};
use crate::Arch;

/// The check that the AArch64 kernel makes elsewhere after it looked a page table up.
macro_rules! lookup_check {
    () => {
        "            if (unlikely(lu_ret.status != EXCEPTION_NONE)) {\n                \
         current_syscall_error.type = seL4_FailedLookup;\n                \
         current_syscall_error.failedLookupWasSource = false;\n                \
         return EXCEPTION_SYSCALL_ERROR;\n            \
         }\n\n"
    };
}

pub(super) static FIXES: &[Fix] = &[
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
        explanation: "A frame's capability remembers its mapping after the page table that held it was deleted. Remap looks the \
            table up and does not check the result, as x86_64's kernel does. Without the fix a component that holds a frame, \
            a page table and the VSpace makes the kernel write through a null pointer, which halts the machine. With it the caller gets a failed lookup, as from Map.",
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
        name: FixName::FrameFlush,
        on: &[Arch::Aarch64],
        explanation: "The cache invocations of a frame give the processor the address at which the frame was mapped. Without the fix \
            they do so, too, when the page table that held the mapping is gone: a processor of silicon then faults in the kernel, \
            which halts the machine. With it the caller gets a failed lookup. Likewise the processor wants write access to \
            invalidate, and what is invalidated shows what memory held before the kernel cleared it; with the fix it is \
            written back first. QEMU has no caches and no such faults: its test looks at the answer alone.",
        edits: &[
            Edit {
                file: "src/arch/arm/64/kernel/vspace.c",
                anchor: "        setThreadState(ksCurThread, ThreadState_Restart);\n        return performPageFlush(",
                replacement: "        lookupFrame_ret_t mapped = lookupFrame(find_ret.vspace_root, vaddr);\n        \
                              if (!mapped.valid ||\n                \
                              mapped.frameBase != pptr_to_paddr((void *)cap_frame_cap_get_capFBasePtr(cap))) {\n            \
                              current_syscall_error.type = seL4_FailedLookup;\n            \
                              current_syscall_error.failedLookupWasSource = false;\n            \
                              return EXCEPTION_SYSCALL_ERROR;\n        \
                              }\n\n        \
                              setThreadState(ksCurThread, ThreadState_Restart);\n        return performPageFlush(",
            },
            Edit {
                file: "src/arch/arm/64/kernel/vspace.c",
                anchor: "        invalidateCacheRange_RAM(start, end, pstart);",
                replacement: "        cleanInvalidateCacheRange_RAM(start, end, pstart);",
            },
        ],
    },
];
