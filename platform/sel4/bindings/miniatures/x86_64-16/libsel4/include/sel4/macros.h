/* A compiler's name is undefined here, and counts as 0. */
#if __STDC_VERSION__ >= 202311
#define LIBSEL4_BIT(n) 0
#else
#define LIBSEL4_BIT(n) (1ul << (n))
#endif

/* The last entry of an enumeration makes it a word. */
#define SEL4_FORCE_LONG_ENUM(name) \
    last_of_ ## name = 0x7fffffffffffffff
