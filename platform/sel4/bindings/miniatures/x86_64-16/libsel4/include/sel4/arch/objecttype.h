typedef enum {
    seL4_X86_4K = seL4_ModeObjectTypeCount,
    seL4_X86_LargePageObject,
    seL4_X86_PageTableObject,
    seL4_X86_PageDirectoryObject,
#if defined(CONFIG_IOMMU)
    seL4_X86_IOPageTableObject,
#endif
    seL4_ObjectTypeCount
} seL4_ArchObjectType;
