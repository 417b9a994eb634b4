//! The corrections of the kernel on both architectures.

use super::{Edit, Fix, FixName};
use crate::arch::Arch;

pub(super) static FIXES: &[Fix] = &[
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
        name: FixName::FastpathAsid,
        on: &Arch::ALL,
        explanation: "Deleting an ASID pool takes the identifiers from its address spaces, and a thread of one of them is not to run \
            in it any more: the mappings of frames can no longer be found, so deleting a frame's capability leaves its \
            mapping. The kernel's slow path checks that the identifier still means the address space; the fastpath of IPC \
            checks the capability alone. Without the fix a called thread goes on in its old address space, with memory \
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
