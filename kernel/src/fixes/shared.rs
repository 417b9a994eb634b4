//! The corrections of the kernel on both architectures.

use super::{Edit, Fix, FixName};
use crate::Arch;

/// Includes of the system calls' file: the headers that the fastpath's header needs, and that one.
const SYSCALL_INCLUDES: &str = "#include <arch/machine.h>\n#include <machine/fpu.h>\n#include <smp/lock.h>\n\
                                #ifdef CONFIG_ARCH_X86\n#include <arch/kernel/tlb_bitmap.h>\n#endif\n\
                                #include <fastpath/fastpath.h>\n#include <object/notification.h>";

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
                              /* Its identifier must still mean it. Entries are compared whole, which saves taking them apart. */\n    \
                              asid = cap_pml4_cap_get_capPML4MappedASID(vspace_root_cap);\n    \
                              pool = x86KSASIDTable[asid >> asidLowBits];\n    \
                              map = asid_map_asid_map_vspace_new(cap_pml4_cap_get_capPML4BasePtr(vspace_root_cap));\n    \
                              return pool && pool->array[asid & MASK(asidLowBits)].words[0] == map.words[0];",
            },
        ],
    },
    Fix {
        name: FixName::FastpathReply,
        on: &Arch::ALL,
        explanation: "A server that answers and waits again (ReplyRecv) gets the fastpath only when its caller has at least its \
            priority, and servers here stand above their clients: each answer takes the slow path, three times as many instructions. \
            The condition is stricter than it has to be. On the slow path the caller goes to the front of the ready queue of its \
            priority, the server blocks, and the scheduler takes the first thread of the highest queue of the current domain. \
            That is the caller, ahead of its equals, unless a queue above the caller's priority has a thread. With the fix the \
            fastpath looks at the bitmap of the ready queues, as the scheduler does, and leaves to the slow path only the callers \
            below somebody who is ready. The bitmap tells the truth at this point: a thread that stops being runnable leaves its \
            queue at once in this version of the kernel, and the running thread, which is the server, is in no queue. All other \
            conditions stay: no thread waits to send and no signal is pending, so that the server blocks; no fault is answered; \
            and the caller is of the current domain. Afterwards the caller runs and is in no queue, as the slow path \
            leaves it.",
        edits: &[
            Edit {
                file: "src/fastpath/fastpath.c",
                anchor: "void\nfastpath_reply_recv(word_t cptr, word_t msgInfo)\n{",
                replacement: "/* Whether a thread above this priority is ready in the current domain. */\n\
                              static inline bool_t\n\
                              isReadyAbove_fp(prio_t prio)\n\
                              {\n    \
                              word_t dom = CONFIG_NUM_DOMAINS > 1 ? ksCurDomain : 0;\n    \
                              word_t l1 = NODE_STATE(ksReadyQueuesL1Bitmap[dom]);\n    \
                              word_t l1index, l2index;\n\n    \
                              if (l1 == 0) {\n        \
                              return false;\n    \
                              }\n    \
                              l1index = (wordBits - 1) - clzl(l1);\n    \
                              l2index = (wordBits - 1) - clzl(NODE_STATE(ksReadyQueuesL2Bitmap[dom][l1index]));\n    \
                              return (l1index_to_prio(l1index) | l2index) > prio;\n\
                              }\n\n\
                              void\nfastpath_reply_recv(word_t cptr, word_t msgInfo)\n{",
            },
            Edit {
                file: "src/fastpath/fastpath.c",
                anchor: "if (unlikely(caller->tcbPriority < NODE_STATE(ksCurThread)->tcbPriority)) {",
                replacement: "if (unlikely(caller->tcbPriority < NODE_STATE(ksCurThread)->tcbPriority &&\n                 \
                              isReadyAbove_fp(caller->tcbPriority))) {",
            },
            Edit {
                file: "src/fastpath/fastpath.c",
                anchor: "#include <fastpath/fastpath.h>",
                replacement: "#include <fastpath/fastpath.h>\n#include <kernel/thread.h>",
            },
        ],
    },
    Fix {
        name: FixName::ShortSignal,
        on: &Arch::ALL,
        explanation: "A signal is an invocation like all others: its capability is looked up by the general way, its message is looked \
            through for capabilities and its IPC buffer is found, before it is seen that there is nothing to decode. That is more \
            than half of its instructions, and a read at depth 1 has one or two signals. With the fix a send through a capability \
            to a notification, with the right to send and without capabilities in the message, goes straight to sendSignal. The \
            capability is found by the fastpath's lookup, which gives the same as the general one or nothing; then, and for \
            everything else, all is as it was. What is left out has no effect for a signal: the general way reads the message's \
            length, and sets the thread's state to Restart and back to Running, both of which are runnable, around sendSignal, \
            which does not look at it. The scheduler runs afterwards as before. A thread that waits alone at its endpoint and is woken \
            through its notification leaves the endpoint idle, whatever the general way would find out about its queue.",
        edits: &[
            Edit {
                file: "src/api/syscall.c",
                anchor: "    /* faulting section */\n    lu_ret = lookupCapAndSlot(thread, cptr);",
                replacement: "    if (!isCall && seL4_MessageInfo_get_extraCaps(info) == 0) {\n        \
                              /* A signal has nothing but its badge: there is nothing to decode. */\n        \
                              cap_t cap = lookup_fp(TCB_PTR_CTE_PTR(thread, tcbCTable)->cap, cptr);\n\n        \
                              if (cap_capType_equals(cap, cap_notification_cap) &&\n                \
                              cap_notification_cap_get_capNtfnCanSend(cap)) {\n            \
                              sendSignal(NTFN_PTR(cap_notification_cap_get_capNtfnPtr(cap)),\n                       \
                              cap_notification_cap_get_capNtfnBadge(cap));\n            \
                              return EXCEPTION_NONE;\n        \
                              }\n    \
                              }\n\n    \
                              /* faulting section */\n    lu_ret = lookupCapAndSlot(thread, cptr);",
            },
            Edit {
                file: "src/object/notification.c",
                anchor: "cancelIPC(tcb);\n                setThreadState(tcb, ThreadState_Running);",
                replacement: "if (!tcb->tcbEPPrev && !tcb->tcbEPNext) {\n                    \
                              /* It waits alone, so its endpoint is idle now; and it is not the running thread. */\n                    \
                              endpoint_t *ep = EP_PTR(thread_state_ptr_get_blockingObject(&tcb->tcbState));\n\n                    \
                              endpoint_ptr_set_epQueue_head(ep, 0);\n                    \
                              endpoint_ptr_set_epQueue_tail(ep, 0);\n                    \
                              endpoint_ptr_set_state(ep, EPState_Idle);\n                    \
                              thread_state_ptr_set_tsType(&tcb->tcbState, ThreadState_Running);\n                \
                              } else {\n                    \
                              cancelIPC(tcb);\n                    \
                              setThreadState(tcb, ThreadState_Running);\n                \
                              }",
            },
            Edit { file: "src/api/syscall.c", anchor: "#include <arch/machine.h>", replacement: SYSCALL_INCLUDES },
        ],
    },
    Fix {
        name: FixName::ShortWait,
        on: &Arch::ALL,
        explanation: "A thread that waits (Recv) mostly finds nothing and blocks. The general way looks its capability up with all that a \
            fault would have to know, deletes a reply capability that is not there, asks for the scheduler, and has that find out \
            that the thread does not run any more. With the fix a wait for which nothing is there blocks at once and the next \
            thread is chosen. The capability is found by the fastpath's lookup, which gives the same as the general one or nothing. \
            The general way keeps everything else: no right to receive, a caller that was not answered, a signal or a sender that is \
            there, a notification that is bound to another thread, and every other kind of capability. The thread's state and its \
            place at the end of the queue are those of receiveIPC and receiveSignal. A system call begins with the running thread in \
            no ready queue, with no other thread chosen, and within its domain's time, so the scheduler would do nothing but call \
            chooseThread as well.",
        edits: &[
            Edit {
                file: "src/api/syscall.c",
                anchor: "exception_t\nhandleSyscall(syscall_t syscall)\n{",
                replacement: "/* Blocks the current thread in a wait for which nothing is there. False is for the general way. */\n\
                              static bool_t\n\
                              blockAtOnce(void)\n\
                              {\n    \
                              tcb_t *thread = NODE_STATE(ksCurThread);\n    \
                              cap_t cap = lookup_fp(TCB_PTR_CTE_PTR(thread, tcbCTable)->cap, getRegister(thread, capRegister));\n\n    \
                              if (cap_capType_equals(cap, cap_endpoint_cap)) {\n        \
                              endpoint_t *ep = EP_PTR(cap_endpoint_cap_get_capEPPtr(cap));\n        \
                              notification_t *ntfn = thread->tcbBoundNotification;\n        \
                              tcb_t *tail;\n\n        \
                              if (!cap_endpoint_cap_get_capCanReceive(cap) ||\n                \
                              !cap_capType_equals(TCB_PTR_CTE_PTR(thread, tcbCaller)->cap, cap_null_cap) ||\n                \
                              (ntfn && notification_ptr_get_state(ntfn) == NtfnState_Active) ||\n                \
                              endpoint_ptr_get_state(ep) == EPState_Send) {\n            \
                              return false;\n        \
                              }\n        \
                              thread_state_ptr_mset_blockingObject_tsType(&thread->tcbState, (word_t)ep,\n                \
                              ThreadState_BlockedOnReceive);\n        \
                              tail = endpoint_ptr_get_epQueue_tail_fp(ep);\n        \
                              if (tail) {\n            \
                              tail->tcbEPNext = thread;\n        \
                              } else {\n            \
                              endpoint_ptr_set_epQueue_head_np(ep, TCB_REF(thread));\n        \
                              }\n        \
                              thread->tcbEPPrev = tail;\n        \
                              thread->tcbEPNext = NULL;\n        \
                              endpoint_ptr_mset_epQueue_tail_state(ep, TCB_REF(thread), EPState_Recv);\n        \
                              return true;\n    \
                              }\n    \
                              if (cap_capType_equals(cap, cap_notification_cap)) {\n        \
                              notification_t *ntfn = NTFN_PTR(cap_notification_cap_get_capNtfnPtr(cap));\n        \
                              tcb_t *bound = (tcb_t *)notification_ptr_get_ntfnBoundTCB(ntfn);\n        \
                              tcb_queue_t queue;\n\n        \
                              if (!cap_notification_cap_get_capNtfnCanReceive(cap) || (bound && bound != thread) ||\n                \
                              notification_ptr_get_state(ntfn) == NtfnState_Active) {\n            \
                              return false;\n        \
                              }\n        \
                              thread_state_ptr_mset_blockingObject_tsType(&thread->tcbState, (word_t)ntfn,\n                \
                              ThreadState_BlockedOnNotification);\n        \
                              queue.head = (tcb_t *)notification_ptr_get_ntfnQueue_head(ntfn);\n        \
                              queue.end = (tcb_t *)notification_ptr_get_ntfnQueue_tail(ntfn);\n        \
                              queue = tcbEPAppend(thread, queue);\n        \
                              notification_ptr_set_state(ntfn, NtfnState_Waiting);\n        \
                              notification_ptr_set_ntfnQueue_head(ntfn, (word_t)queue.head);\n        \
                              notification_ptr_set_ntfnQueue_tail(ntfn, (word_t)queue.end);\n        \
                              return true;\n    \
                              }\n    \
                              return false;\n\
                              }\n\n\
                              exception_t\nhandleSyscall(syscall_t syscall)\n{",
            },
            Edit {
                file: "src/api/syscall.c",
                anchor: "    case SysRecv:\n        handleRecv(true);",
                replacement: "    case SysRecv:\n        \
                              if (blockAtOnce()) {\n            \
                              chooseThread();\n            \
                              activateThread();\n            \
                              return EXCEPTION_NONE;\n        \
                              }\n        \
                              handleRecv(true);",
            },
            Edit { file: "src/api/syscall.c", anchor: "#include <arch/machine.h>", replacement: SYSCALL_INCLUDES },
        ],
    },
];
