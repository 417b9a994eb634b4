/* Interrupts of QEMU's machine `virt` with a GICv2: numbers are the GIC's (INTID). */

#ifndef __PLAT_MACHINE_H
#define __PLAT_MACHINE_H

enum IRQConstants {
    /* The virtual timer of the processor, a private interrupt. */
    INTERRUPT_VIRTUAL_TIMER = 27,
    /* The last one that user level can ask for: a capability has eight bits for it. */
    maxIRQ                  = 255
} platform_interrupt_t;

/* log2 of the bytes of a CNode with a slot (32 bytes) for each interrupt. */
#define IRQ_CNODE_BITS      13

#define KERNEL_TIMER_IRQ    INTERRUPT_VIRTUAL_TIMER

#include <arch/machine/gic_pl390.h>

#endif /* __PLAT_MACHINE_H */
