enum seL4_MsgLimits {
    seL4_MsgLengthBits = 7,
    seL4_MsgExtraCapBits = 2,
    seL4_MsgMaxLength = 120
};

/* As many as the field counts. */
#define seL4_MsgMaxExtraCaps (LIBSEL4_BIT(seL4_MsgExtraCapBits) - 1)

typedef enum {
    seL4_TCBFlag_NoFlag = 0,
    seL4_TCBFlag_fpuDisabled = LIBSEL4_BIT(0),
    SEL4_FORCE_LONG_ENUM(seL4_TCBFlag),
} seL4_TCBFlag;
