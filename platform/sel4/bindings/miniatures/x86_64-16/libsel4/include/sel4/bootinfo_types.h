/* Slots of the first capabilities. */
enum seL4_RootCNodeCapSlots {
    seL4_CapNull = 0,
    seL4_CapInitThreadTCB = 1,
    seL4_CapInitThreadCNode = 2,
    seL4_CapInitThreadVSpace = 3,
    seL4_CapIRQControl = 4,
    seL4_CapASIDControl = 5,
    seL4_CapInitThreadASIDPool = 6,
    seL4_CapIOPortControl = 7,
    seL4_CapIOSpace = 8,
    seL4_NumInitialCaps = 16
};

typedef seL4_Word seL4_SlotPos;

typedef struct seL4_SlotRegion {
    seL4_SlotPos start;
    seL4_SlotPos end;
} seL4_SlotRegion;

typedef struct seL4_UntypedDesc {
    seL4_Word paddr;
    seL4_Uint8 sizeBits;
    seL4_Uint8 isDevice;
    seL4_Uint8 padding[sizeof(seL4_Word) - 2 * sizeof(seL4_Uint8)];
} seL4_UntypedDesc;

typedef struct seL4_BootInfo {
    seL4_Word extraLen;
    seL4_NodeId nodeID;
    seL4_Word numNodes;
    seL4_Word numIOPTLevels;
    seL4_IPCBuffer *ipcBuffer;
    seL4_SlotRegion empty;
    seL4_SlotRegion sharedFrames;
    seL4_SlotRegion userImageFrames;
    seL4_SlotRegion userImagePaging;
    seL4_SlotRegion ioSpaceCaps;
    seL4_SlotRegion extraBIPages;
    seL4_Word initThreadCNodeSizeBits;
    seL4_Domain initThreadDomain;
#ifdef CONFIG_KERNEL_MCS
    seL4_SlotRegion schedcontrol;
#endif
    seL4_SlotRegion untyped;
    seL4_UntypedDesc untypedList[CONFIG_MAX_NUM_BOOTINFO_UNTYPED_CAPS];
} seL4_BootInfo;

/* Chunks behind the page. */
typedef enum {
    SEL4_BOOTINFO_HEADER_PADDING = 0,
    SEL4_BOOTINFO_HEADER_X86_TSC_FREQ = 5,
    SEL4_BOOTINFO_HEADER_FDT,
    SEL4_FORCE_LONG_ENUM(seL4_BootInfoID)
} seL4_BootInfoID;

typedef struct seL4_BootInfoHeader {
    seL4_Word id;
    seL4_Word len;
} seL4_BootInfoHeader;
