typedef seL4_CPtr seL4_X86_IOSpace;

typedef enum {
    seL4_X86_WriteBack,
    seL4_X86_WriteThrough,
    seL4_X86_CacheDisabled,
    seL4_X86_Uncacheable,
    seL4_X86_Default_VMAttributes = seL4_X86_WriteBack,
    SEL4_FORCE_LONG_ENUM(seL4_X86_VMAttributes),
} seL4_X86_VMAttributes;
