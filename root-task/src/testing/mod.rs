//! Machines of the kernel's model, which the root task boots and supervises in tests.

mod world;

pub(crate) use world::Q35_HZ;
pub(crate) use world::{Component, Happens, TICK, TestHpet, TestPlatform, TestServices};

use super::{BootInfo, UntypedInfo};
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::RefCell;
use platform::{Paddr, Region};
use sim_kernel::{Arch, Invoker, Iommu, Kernel, MachineConfig, MappedMemory, RETYPE_LIMIT, Rules, object_bits};

/// Start of the RAM for untypeds. The memory below it belongs to the kernel and the root task.
const UNTYPEDS: u64 = 0x100_0000;
/// Registers of the HPET, and a piece of device memory around them.
pub(crate) const HPET: u64 = 0xfed0_0000;
const DEVICE_BYTES: u64 = 1 << 20;

/// A machine, and the root task on it.
pub(crate) struct Machine {
    pub(crate) root: Invoker,
    pub(crate) boot: BootInfo,
    pub(crate) payload: MappedMemory,
}

/// A machine with untypeds of these sizes, in bits, and a device untyped around the HPET. The root task has `payload`.
pub(crate) fn machine(sizes: &[u8], payload: &[u8]) -> Machine {
    let untypeds = sizes.iter().scan(UNTYPEDS, |next, bits| {
        let start = next.next_multiple_of(1 << bits);
        // A gap keeps it from merging with the next.
        *next = start + (1 << bits) + 1;
        Some(start..start + (1 << bits))
    });
    let config = MachineConfig {
        arch: Arch::X86_64,
        rules: Rules::CORRECTED,
        ram: core::iter::once(0x10_0000..UNTYPEDS / 2).chain(untypeds).collect(),
        device: core::iter::once(HPET..HPET + DEVICE_BYTES).collect(),
        iommu: Iommu::Present,
        payload: payload.to_vec(),
        cnode_bits: 13,
        kernel_bytes: 0,
    };
    let (kernel, root) = Kernel::boot(config);
    let untyped = |untyped: &sim_kernel::BootUntyped| {
        let sim_kernel::BootUntyped { cptr, paddr, size_bits, is_device } = *untyped;
        UntypedInfo { cptr, paddr, size_bits, is_device }
    };
    let untypeds = root.untypeds.iter().filter(|untyped| untyped.paddr >= Paddr::new(UNTYPEDS));
    let boot = BootInfo {
        untypeds: untypeds.map(untyped).collect(),
        free_cptrs: root.free_cptrs,
        cnode: root.cnode,
        vspace: root.vspace,
        tcb: root.tcb,
        asid_pool: root.asid_pool,
        irq_control: root.irq_control,
        io_space_master: root.io_space_master,
        io_ports: root.io_ports,
        iommu_levels: root.iommu_levels,
        mapping_area: root.mapping_area,
        device_area: root.device_area,
        object_bits,
        retype_limit: RETYPE_LIMIT,
    };
    let invoker = Invoker::new(Rc::new(RefCell::new(kernel)), root.thread);
    let payload = Region { len: payload.len() as u64, ..root.payload };
    Machine { payload: MappedMemory::new(invoker.clone(), payload), root: invoker, boot }
}

/// The bytes of the page that `vaddr` lies in for the invoker's thread.
pub(crate) fn page(invoker: &Invoker, vaddr: u64) -> Vec<u8> {
    let kernel = invoker.kernel().borrow();
    let at = kernel.translate(invoker.thread(), platform::Vaddr::new(vaddr), sim_kernel::Access::Read);
    kernel.memory().page(at.expect("a mapped page")).expect("a page of RAM").to_vec()
}
