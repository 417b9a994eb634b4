typedef seL4_CPtr seL4_ARM_VSpace;
