enum arch_invocation_label {
    X86PageDirectoryMap = nSeL4ArchInvocationLabels,
    X86PageDirectoryUnmap,
    X86PageTableMap,
    X86PageTableUnmap,
#ifdef CONFIG_IOMMU
    X86IOPageTableMap,
    X86IOPageTableUnmap,
#endif
    X86PageMap,
    X86PageUnmap,
#ifdef CONFIG_IOMMU
    X86PageMapIO,
#endif
    X86PageGetAddress,
    X86ASIDControlMakePool,
    X86ASIDPoolAssign,
    X86IOPortControlIssue,
    X86IOPortIn8,
    X86IOPortIn16,
    X86IOPortIn32,
    X86IOPortOut8,
    X86IOPortOut16,
    X86IOPortOut32,
    X86IRQIssueIRQHandlerIOAPIC,
    X86IRQIssueIRQHandlerMSI,
    nArchInvocationLabels
};
