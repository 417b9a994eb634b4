/* Memory of QEMU's machine `virt` as the kernel divides it. */

#ifndef __PLAT_MACHINE_HARDWARE_H
#define __PLAT_MACHINE_HARDWARE_H

#include <config.h>
#include <basic_types.h>
#include <arch/linker.h>
#include <plat/machine.h>
#include <plat/machine/devices.h>

/* The generic timer's frequency in QEMU. */
#define TIMER_CLOCK_HZ      62500000llu

/* Also in the linker script. */
#define physBase            0x40000000
#define kernelBase          0xffffff8000000000

#define USER_TOP            0x0000ffffffffffff

static const kernel_frame_t BOOT_RODATA kernel_devices[] = {
    { GIC_CONTROLLER0_PADDR, GIC_CONTROLLER_PPTR, true },
    { GIC_DISTRIBUTOR_PADDR, GIC_DISTRIBUTOR_PPTR, true },
#ifdef CONFIG_PRINTING
    { UART_PADDR, UART_PPTR, true },
#endif
};

/* The loader makes sure that the machine has as much. The sum overflows an int. */
static const p_region_t BOOT_RODATA avail_p_regs[] = {
    { .start = physBase, .end = (paddr_t) physBase + CONFIG_VIRT_MEMORY_BYTES }
};

/* What user level may drive. The interrupt controller is the kernel's alone; a processor has no use for what is left out. */
static const p_region_t BOOT_RODATA dev_p_regs[] = {
    { GICV2M_PADDR, GICV2M_PADDR + BIT(seL4_PageBits) },
    { UART_PADDR, UART_PADDR + BIT(seL4_PageBits) },
    { FW_CFG_PADDR, FW_CFG_PADDR + BIT(seL4_PageBits) },
    { SMMU_PADDR, SMMU_END },
    { PCI_PADDR, PCI_END },
};

static inline void
handleReservedIRQ(irq_t irq)
{
}

#endif /* __PLAT_MACHINE_HARDWARE_H */
