enum {
    seL4_DataFault,
    seL4_InstructionFault
};
