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
];
