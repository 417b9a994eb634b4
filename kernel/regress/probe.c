/* Asks the C compiler for the values that the kernel's interface files define. Compiled to assembly by build.rs, which
 * reads the marked lines; never linked. */
#include <autoconf.h>
/* Two names that the kernel's own headers expect to be there. */
typedef unsigned long word_t;
#define UNUSED __attribute__((unused))
#include <arch/api/syscall.h>
#include <arch/api/invocation.h>
#include <sel4/types.h>
#include <sel4/arch/constants.h>
#include <sel4/bootinfo_types.h>

#define VALUE(name, value) __asm__ volatile("\n@value " #name " %c0" ::"i"((long)(value)))

void probe(void)
{
    VALUE(SYS_CALL, SysCall);
    VALUE(SYS_SEND, SysSend);
    VALUE(SYS_RECV, SysRecv);
    VALUE(SYS_REPLY_RECV, SysReplyRecv);
    VALUE(SYS_YIELD, SysYield);

    VALUE(UNTYPED_RETYPE, UntypedRetype);
    VALUE(TCB_CONFIGURE, TCBConfigure);
    VALUE(TCB_WRITE_REGISTERS, TCBWriteRegisters);
    VALUE(TCB_SUSPEND, TCBSuspend);
    VALUE(TCB_RESUME, TCBResume);
    VALUE(CNODE_COPY, CNodeCopy);
    VALUE(CNODE_MINT, CNodeMint);
    VALUE(CNODE_DELETE, CNodeDelete);

    VALUE(UNTYPED_OBJECT, seL4_UntypedObject);
    VALUE(TCB_OBJECT, seL4_TCBObject);
    VALUE(ENDPOINT_OBJECT, seL4_EndpointObject);
    VALUE(NOTIFICATION_OBJECT, seL4_NotificationObject);

    VALUE(CAP_CNODE, seL4_CapInitThreadCNode);
    VALUE(CAP_VSPACE, seL4_CapInitThreadVSpace);
    VALUE(CAP_ASID_CONTROL, seL4_CapASIDControl);
    VALUE(CAP_IPC_BUFFER, seL4_CapInitThreadIPCBuffer);

    VALUE(BOOT_INFO_IPC_BUFFER, SEL4_OFFSETOF(seL4_BootInfo, ipcBuffer));
    VALUE(BOOT_INFO_EMPTY_START, SEL4_OFFSETOF(seL4_BootInfo, empty));
    VALUE(BOOT_INFO_UNTYPED_START, SEL4_OFFSETOF(seL4_BootInfo, untyped));
    VALUE(BOOT_INFO_UNTYPED_END, SEL4_OFFSETOF(seL4_BootInfo, untyped) + SEL4_OFFSETOF(seL4_SlotRegion, end));
    VALUE(BOOT_INFO_UNTYPED_LIST, SEL4_OFFSETOF(seL4_BootInfo, untypedList));
    VALUE(UNTYPED_SIZE, sizeof(seL4_UntypedDesc));
    VALUE(UNTYPED_SIZE_BITS, SEL4_OFFSETOF(seL4_UntypedDesc, sizeBits));
    VALUE(UNTYPED_IS_DEVICE, SEL4_OFFSETOF(seL4_UntypedDesc, isDevice));

    VALUE(IPC_BUFFER_WORDS, SEL4_OFFSETOF(seL4_IPCBuffer, msg));
    VALUE(IPC_BUFFER_CAPS, SEL4_OFFSETOF(seL4_IPCBuffer, caps_or_badges));

    VALUE(CONTEXT_WORDS, sizeof(seL4_UserContext) / sizeof(seL4_Word));

    VALUE(BADGE_BITS, seL4_BadgeBits);
    VALUE(ERROR_ILLEGAL_OPERATION, seL4_IllegalOperation);

#ifdef CONFIG_ARCH_X86_64
    VALUE(TABLE_ONE_MAP, X86PDPTMap);
    VALUE(TABLE_TWO_MAP, X86PageDirectoryMap);
    VALUE(TABLE_THREE_MAP, X86PageTableMap);
    VALUE(PAGE_MAP, X86PageMap);
    VALUE(ASID_CONTROL_MAKE_POOL, X86ASIDControlMakePool);
    VALUE(ASID_POOL_ASSIGN, X86ASIDPoolAssign);
    VALUE(PAGE_MAP_IO, X86PageMapIO);
    VALUE(IO_PAGE_TABLE_MAP, X86IOPageTableMap);
    VALUE(IO_PAGE_TABLE_UNMAP, X86IOPageTableUnmap);
    VALUE(IO_PORT_IN8, X86IOPortIn8);
    VALUE(IO_PORT_IN32, X86IOPortIn32);
    VALUE(IO_PORT_OUT8, X86IOPortOut8);
    VALUE(IO_PORT_OUT16, X86IOPortOut16);
    VALUE(IO_PORT_OUT32, X86IOPortOut32);
    VALUE(IRQ_GET_MSI, X86IRQIssueIRQHandlerMSI);
    VALUE(CNODE_REVOKE, CNodeRevoke);

    VALUE(SMALL_PAGE_OBJECT, seL4_X86_4K);
    VALUE(TABLE_ONE_OBJECT, seL4_X86_PDPTObject);
    VALUE(TABLE_TWO_OBJECT, seL4_X86_PageDirectoryObject);
    VALUE(TABLE_THREE_OBJECT, seL4_X86_PageTableObject);
    VALUE(VSPACE_OBJECT, seL4_X64_PML4Object);
    VALUE(IO_PAGE_TABLE_OBJECT, seL4_X86_IOPageTableObject);

    VALUE(CAP_IRQ_CONTROL, seL4_CapIRQControl);
    VALUE(CAP_IO_PORT, seL4_CapIOPort);
    VALUE(CAP_IO_SPACE, seL4_CapIOSpace);

    VALUE(CONTEXT_PC, SEL4_OFFSETOF(seL4_UserContext, rip) / sizeof(seL4_Word));
    VALUE(CONTEXT_SP, SEL4_OFFSETOF(seL4_UserContext, rsp) / sizeof(seL4_Word));
    VALUE(CONTEXT_FIRST, SEL4_OFFSETOF(seL4_UserContext, rdi) / sizeof(seL4_Word));
    VALUE(CONTEXT_SECOND, SEL4_OFFSETOF(seL4_UserContext, rsi) / sizeof(seL4_Word));

    VALUE(CONTEXT_TLS_BASE, SEL4_OFFSETOF(seL4_UserContext, tls_base) / sizeof(seL4_Word));

    VALUE(IRQ_VECTOR_OFFSET, IRQ_OFFSET);
    VALUE(WRITE_BACK, seL4_X86_WriteBack);
    VALUE(UNCACHEABLE, seL4_X86_Uncacheable);
    VALUE(ERROR_REVOKE_FIRST, seL4_RevokeFirst);
    VALUE(ERROR_INVALID_CAPABILITY, seL4_InvalidCapability);
#else
    VALUE(TABLE_ONE_MAP, ARMPageUpperDirectoryMap);
    VALUE(TABLE_TWO_MAP, ARMPageDirectoryMap);
    VALUE(TABLE_THREE_MAP, ARMPageTableMap);
    VALUE(PAGE_MAP, ARMPageMap);
    VALUE(PAGE_REMAP, ARMPageRemap);
    VALUE(PAGE_CLEAN, ARMPageClean_Data);
    VALUE(ASID_CONTROL_MAKE_POOL, ARMASIDControlMakePool);
    VALUE(ASID_POOL_ASSIGN, ARMASIDPoolAssign);

    VALUE(SMALL_PAGE_OBJECT, seL4_ARM_SmallPageObject);
    VALUE(TABLE_ONE_OBJECT, seL4_ARM_PageUpperDirectoryObject);
    VALUE(TABLE_TWO_OBJECT, seL4_ARM_PageDirectoryObject);
    VALUE(TABLE_THREE_OBJECT, seL4_ARM_PageTableObject);
    VALUE(VSPACE_OBJECT, seL4_ARM_PageGlobalDirectoryObject);

    VALUE(CAP_ASID_POOL, seL4_CapInitThreadASIDPool);

    VALUE(CONTEXT_PC, SEL4_OFFSETOF(seL4_UserContext, pc) / sizeof(seL4_Word));
    VALUE(CONTEXT_SP, SEL4_OFFSETOF(seL4_UserContext, sp) / sizeof(seL4_Word));
    VALUE(CONTEXT_FIRST, SEL4_OFFSETOF(seL4_UserContext, x0) / sizeof(seL4_Word));
    VALUE(CONTEXT_SECOND, SEL4_OFFSETOF(seL4_UserContext, x1) / sizeof(seL4_Word));

    VALUE(WRITE_BACK, seL4_ARM_Default_VMAttributes);
    VALUE(UNCACHEABLE, seL4_ARM_ExecuteNever);
    VALUE(ERROR_FAILED_LOOKUP, seL4_FailedLookup);
#endif
}
