/* The debug kernel's line: an Arm PL011 (DDI 0183, section 3.3), as firmware or the machine's reset left it. */

#include <config.h>
#include <stdint.h>
#include <util.h>
#include <machine/io.h>
#include <plat/machine/devices.h>

#define UART_DATA       0x000
#define UART_FLAGS      0x018
#define TRANSMIT_FULL   BIT(5)

#define UART_REGISTER(offset) ((volatile uint32_t *)(UART_PPTR + (offset)))

#if defined(CONFIG_DEBUG_BUILD) || defined(CONFIG_PRINTING)
void
putDebugChar(unsigned char c)
{
    while (*UART_REGISTER(UART_FLAGS) & TRANSMIT_FULL);

    *UART_REGISTER(UART_DATA) = c;
}
#endif

#ifdef CONFIG_DEBUG_BUILD
unsigned char
getDebugChar(void)
{
    return 0;
}
#endif
