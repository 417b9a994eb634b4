typedef enum {
    seL4_ARM_HugePageObject = seL4_NonArchObjectTypeCount,
    seL4_ARM_VSpaceObject,
    seL4_ModeObjectTypeCount
} seL4_ModeObjectType;
