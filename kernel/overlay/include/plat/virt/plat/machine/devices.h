/* Where devices of QEMU's machine `virt` are, and where the kernel maps its own. */

#ifndef __PLAT_MACHINE_DEVICES_H
#define __PLAT_MACHINE_DEVICES_H

/* In the kernel's device window, the last GiB of addresses. */
#define UART_PPTR                   0xffffffffffff0000
#define GIC_DISTRIBUTOR_PPTR        0xffffffffffff3000
#define GIC_CONTROLLER_PPTR         0xffffffffffff4000

#define GIC_PL390_CONTROLLER_PPTR   GIC_CONTROLLER_PPTR
#define GIC_PL390_DISTRIBUTOR_PPTR  GIC_DISTRIBUTOR_PPTR

#define GIC_DISTRIBUTOR_PADDR       0x08000000
#define GIC_CONTROLLER0_PADDR       0x08010000
/* The page a function writes to for a message-signalled interrupt. */
#define GICV2M_PADDR                0x08020000
#define UART_PADDR                  0x09000000
#define FW_CFG_PADDR                0x09020000
#define SMMU_PADDR                  0x09050000
#define SMMU_END                    0x09070000
/* Memory and port windows of PCI, and its configuration space (highmem=off). */
#define PCI_PADDR                   0x10000000
#define PCI_END                     0x40000000

/* Interrupts of the GICv2m: shared ones whose writes are edges. QEMU puts the SMMU's, which are edges too, among them. */
#define GICV2M_FIRST_IRQ            80
#define GICV2M_IRQS                 64

#endif /* __PLAT_MACHINE_DEVICES_H */
