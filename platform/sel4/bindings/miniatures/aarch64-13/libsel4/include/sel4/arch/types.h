typedef enum {
    seL4_ARM_PageCacheable = LIBSEL4_BIT(0),
    seL4_ARM_ParityEnabled = LIBSEL4_BIT(1),
    seL4_ARM_Default_VMAttributes = LIBSEL4_BIT(0) | LIBSEL4_BIT(1),
    seL4_ARM_ExecuteNever,
    SEL4_FORCE_LONG_ENUM(seL4_ARM_VMAttributes),
} seL4_ARM_VMAttributes;
