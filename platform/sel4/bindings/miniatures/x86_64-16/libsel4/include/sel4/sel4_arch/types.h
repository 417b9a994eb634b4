typedef seL4_CPtr seL4_X64_PML4;
