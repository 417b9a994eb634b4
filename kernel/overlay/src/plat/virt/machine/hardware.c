/* The timer, the caches, and what the interrupt controller needs beyond the kernel's own set-up. */

#include <config.h>
#include <types.h>
#include <arch/machine.h>
#include <mode/machine/timer.h>
#include <arch/linker.h>

void
resetTimer(void)
{
    resetGenericTimer();
}

BOOT_CODE void
initTimer(void)
{
    initGenericTimer();
}

/* The kernel makes every shared interrupt level triggered, and has no call to change that. Those of the GICv2m are pulses: as levels
 * they would be lost. The high bit of each pair in a configuration register says edge; a register holds 16 interrupts. */
BOOT_CODE static void
initMessageInterrupts(void)
{
    for (word_t irq = GICV2M_FIRST_IRQ; irq < GICV2M_FIRST_IRQ + GICV2M_IRQS; irq++) {
        gic_dist->config[irq / 16] |= BIT(2 * (irq % 16) + 1);
    }
}

/* The first call of the kernel's to the platform after it has set up the interrupt controller. There is no cache of the second level to
 * set up. */
BOOT_CODE void
initL2Cache(void)
{
    initMessageInterrupts();
}

void plat_cleanL2Range(paddr_t start, paddr_t end) {}
void plat_invalidateL2Range(paddr_t start, paddr_t end) {}
void plat_cleanInvalidateL2Range(paddr_t start, paddr_t end) {}
void plat_cleanInvalidateCache(void) {}
