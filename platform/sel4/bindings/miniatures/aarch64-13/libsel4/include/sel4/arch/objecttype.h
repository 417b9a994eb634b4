typedef enum {
    seL4_ARM_SmallPageObject = seL4_ModeObjectTypeCount,
    seL4_ARM_LargePageObject,
    seL4_ARM_PageTableObject,
    seL4_ObjectTypeCount
} seL4_ArchObjectType;

/* A number that no object has. */
#define seL4_ARM_IOPageTableObject 0xffff
