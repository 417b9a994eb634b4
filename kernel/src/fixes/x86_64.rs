//! The corrections of the kernel on x86_64.

use super::{Edit, Fix, FixName};
use crate::Arch;

pub(super) static FIXES: &[Fix] = &[
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
        name: FixName::SyscallFlags,
        on: &[Arch::X86_64],
        explanation: "SYSCALL clears the flags that one register names, and the kernel names two: single stepping and interrupts. \
            The others are the caller's. Without the fix any program halts the machine with three instructions: it sets the \
            nested-task flag, which every program may, and makes a system call; IRETQ with that flag is a general protection fault \
            (Intel SDM volume 2, IRET), and the kernel executes one when it goes on with another thread. With the direction flag \
            set, the kernel's own string instructions run backwards: those that initialize a new thread's floating point registers \
            write in front of them. With the fix the register names every flag that there is.",
        edits: &[Edit {
            file: "src/arch/x86/64/kernel/vspace.c",
            anchor: "x86_wrmsr(IA32_FMASK_MSR, FLAGS_TF | FLAGS_IF);",
            replacement: "// All the others as well: status flags, DF, IOPL, NT, RF, AC, ID. Linux masks the same.\n    \
                          x86_wrmsr(IA32_FMASK_MSR, 0x257fd5);",
        }],
    },
    Fix {
        name: FixName::InterruptDirection,
        on: &[Arch::X86_64],
        explanation: "Gates of interrupts and exceptions clear the flags TF, NT, RF and IF, and leave DF and AC as the interrupted program \
            had them (Intel SDM volume 3, section 6.12.1.3). Compiled code expects DF to be clear. Without the fix the kernel's string \
            instructions run backwards in interrupts and exceptions that come while a program has it set. Which code has such \
            instructions is the compiler's choice. AC means something to kernel code only where CR4.SMAP is set, which this kernel \
            does not do.",
        edits: &[Edit {
            file: "src/arch/x86/64/traps.S",
            anchor: "#define INT_SAVE_STATE                              \\\n",
            replacement: "#define INT_SAVE_STATE                              \\\n    cld;                                            \\\n",
        }],
    },
    Fix {
        name: FixName::SegmentBases,
        on: &[Arch::X86_64],
        explanation: "The kernel writes the bases of FS and GS only where the next thread has others than it wrote last. A program changes \
            them without the kernel: loading any selector into FS or GS sets its base to that of the segment, which is 0. \
            Without the fix the next thread that has the base of the one before, in another address space or not, runs with \
            base 0: its thread-local data, or its IPC buffer, is somewhere else. With it the kernel remembers whose bases it wrote, in \
            the variable that had the base of FS, and writes both for every other thread. A thread that changes its own, by \
            a capability to itself, gets them written again. The idle thread needs none.",
        edits: &[
            Edit {
                file: "src/object/tcb.c",
                anchor: "        target->tcbIPCBuffer = bufferAddr;\n",
                replacement: "        target->tcbIPCBuffer = bufferAddr;\n\
                              #ifdef CONFIG_ARCH_X86_64\n        \
                              /* The running thread's own, perhaps: nobody's bases are loaded. */\n        \
                              ARCH_NODE_STATE(x86KSCurrentFSBase) = 0;\n\
                              #endif\n",
            },
            Edit {
                file: "src/object/tcb.c",
                anchor: "        setRegister(dest, Error, 0);\n    }\n#endif\n\n    return Arch_performTransfer(transferArch, tcb_src, dest);",
                replacement: "        setRegister(dest, Error, 0);\n    }\n    \
                              ARCH_NODE_STATE(x86KSCurrentFSBase) = 0;\n#endif\n\n    \
                              return Arch_performTransfer(transferArch, tcb_src, dest);",
            },
            Edit {
                file: "src/arch/x86/64/c_traps.c",
                anchor: "    word_t base = getRegister(cur_thread, TLS_BASE);\n    \
                         x86_write_fs_base(base, SMP_TERNARY(cpu, 0));\n\n    \
                         base = cur_thread->tcbIPCBuffer;\n    \
                         x86_write_gs_base(base, SMP_TERNARY(cpu, 0));\n",
                replacement: "    if (unlikely(ARCH_NODE_STATE_ON_CORE(x86KSCurrentFSBase, SMP_TERNARY(cpu, 0)) != (word_t)cur_thread) &&\n            \
                              cur_thread != NODE_STATE_ON_CORE(ksIdleThread, SMP_TERNARY(cpu, 0))) {\n        \
                              ARCH_NODE_STATE_ON_CORE(x86KSCurrentFSBase, SMP_TERNARY(cpu, 0)) = (word_t)cur_thread;\n        \
                              x86_write_fs_base_impl(getRegister(cur_thread, TLS_BASE));\n        \
                              x86_write_gs_base_impl(cur_thread->tcbIPCBuffer);\n    \
                              }\n",
            },
            Edit {
                file: "include/arch/x86/arch/64/mode/fastpath/fastpath.h",
                anchor: "    word_t base = getRegister(cur_thread, TLS_BASE);\n    \
                         x86_write_fs_base(base, SMP_TERNARY(cpu, 0));\n\n    \
                         base = cur_thread->tcbIPCBuffer;\n    \
                         x86_write_gs_base(base, SMP_TERNARY(cpu, 0));\n",
                replacement: "    if (ARCH_NODE_STATE_ON_CORE(x86KSCurrentFSBase, SMP_TERNARY(cpu, 0)) != (word_t)cur_thread) {\n        \
                              ARCH_NODE_STATE_ON_CORE(x86KSCurrentFSBase, SMP_TERNARY(cpu, 0)) = (word_t)cur_thread;\n        \
                              x86_write_fs_base_impl(getRegister(cur_thread, TLS_BASE));\n        \
                              x86_write_gs_base_impl(cur_thread->tcbIPCBuffer);\n    \
                              }\n",
            },
        ],
    },
    Fix {
        name: FixName::UserTop,
        on: &[Arch::X86_64],
        explanation: "The kernel lets user level have every address below its own window, that is also the last page of the lower half, and \
            addresses that are not canonical. A SYSCALL at the end of that page returns to an address that is not canonical: on \
            Intel's processors SYSRET then faults in the kernel (Intel SDM volume 2, SYSRET), and so does IRETQ where a program \
            runs off the page. The address of an IPC buffer goes into the base of GS unchecked, and one that is not canonical \
            faults there. Without the fix whoever holds a VSpace or a TCB halts the machine; here that is the root task alone. \
            With it user level ends one page below. QEMU makes none of these faults: the tests look at the answers.",
        edits: &[
            Edit {
                file: "include/plat/pc99/plat/64/plat_mode/machine/hardware.h",
                anchor: "#define PPTR_USER_TOP TLBBITMAP_PPTR",
                replacement: "#define PPTR_USER_TOP 0x00007ffffffff000ul",
            },
            Edit {
                file: "src/arch/x86/kernel/vspace.c",
                anchor: "    if (!IS_ALIGNED(vptr, 9)) {",
                replacement: "    if (vptr >= PPTR_USER_TOP) {\n        \
                              current_syscall_error.type = seL4_IllegalOperation;\n        \
                              return EXCEPTION_SYSCALL_ERROR;\n    \
                              }\n    \
                              if (!IS_ALIGNED(vptr, 9)) {",
            },
        ],
    },
];
