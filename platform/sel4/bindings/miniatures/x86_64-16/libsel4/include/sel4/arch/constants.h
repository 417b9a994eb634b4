#define IRQ_OFFSET (0x20 + 16)
#define VECTOR_MIN 0
#define VECTOR_MAX 109
