/* Options of the library. */
#define CONFIG_LIB_SEL4_USE_THREAD_LOCALS 1
