#define seL4_PageBits 12
#define seL4_SlotBits 5
#define seL4_EndpointBits 4
#ifdef CONFIG_KERNEL_MCS
#define seL4_NotificationBits 6
#else
#define seL4_NotificationBits 5
#endif
#define seL4_TCBBits 11
#define seL4_PageTableBits 12
#define seL4_VSpaceBits 12
#define seL4_IOPageTableBits 12
#define seL4_LargePageBits 21

typedef enum {
    seL4_VMFault_IP,
    seL4_VMFault_Addr,
    seL4_VMFault_PrefetchFault,
    seL4_VMFault_FSR,
    seL4_VMFault_Length
} seL4_VMFault_Msg;

typedef enum {
    seL4_UnknownSyscall_X0,
    /* Other registers lie between. */
    seL4_UnknownSyscall_FaultIP = 8,
    seL4_UnknownSyscall_SP,
    seL4_UnknownSyscall_LR,
    seL4_UnknownSyscall_SPSR,
    seL4_UnknownSyscall_Syscall
} seL4_UnknownSyscall_Msg;

typedef enum {
    seL4_UserException_FaultIP,
    seL4_UserException_SP,
    seL4_UserException_SPSR,
    seL4_UserException_Number,
    seL4_UserException_Code
} seL4_UserException_Msg;
