//! Boot: the root task's capabilities in their slots, the machine's memory as untypeds, and the payload, mapped.
//!
//! The layout is that of the real kernel for this project's root task, with one difference: the objects that the kernel
//! makes itself lie in one piece at the start of RAM.

use crate::arena::{TableId, ThreadId};
use crate::capability::{Capability, FrameSize, Mapping, TablePlace, VmRights};
use crate::kernel::Kernel;
use crate::memory::PhysicalMemory;
use crate::object::{Entry, PAGE_BITS, SLOT_BITS, TCB_BITS, TableObject};
use crate::rules::{Ports, Rules};
use crate::slots::SlotId;
use crate::thread::ThreadState;
use crate::untyped::{MAX_UNTYPED_BITS, MIN_UNTYPED_BITS};
use crate::{Arch, AsidPoolId};
use core::ops::Range;
use platform::{
    AsidControl, AsidPool, CNode, CPtr, Cap, Frame, IoPort, IoSpace, IrqControl, Name, PAGE_SIZE, Paddr, Region,
    RegionKind, TableLevel, Tcb, Untyped, VSpace, Vaddr,
};

/// The root task's initial capabilities, in slots that never change (seL4 manual, section 9.1).
pub(crate) const TCB_SLOT: u64 = 1;
const CNODE_SLOT: u64 = 2;
const VSPACE_SLOT: u64 = 3;
const IRQ_CONTROL_SLOT: u64 = 4;
const ASID_CONTROL_SLOT: u64 = 5;
const ASID_POOL_SLOT: u64 = 6;
const IO_PORTS_SLOT: u64 = 7;
const IO_SPACE_SLOT: u64 = 8;
const BOOT_INFO_SLOT: u64 = 9;
const IPC_BUFFER_SLOT: u64 = 10;
const DOMAIN_SLOT: u64 = 11;
const FIRST_FREE_SLOT: u64 = 12;

/// The root task's own identifier and priority.
const ROOT_ASID: u16 = 1;
const ROOT_PRIORITY: u8 = 255;
/// log2 of the slots of its CNode, as the kernel is configured.
const CNODE_BITS: u8 = 19;
/// Addresses of its image: the payload, then the IPC buffer, then the boot info.
const PAYLOAD: u64 = 0x80_0000;
const MAPPING_AREA: (u64, u64) = (0x4000_0000, 0x3000_0000);
const DEVICE_AREA: (u64, u64) = (0x7000_0000, 0x1000_0000);
const PAGE: u64 = PAGE_SIZE as u64;
/// The kernel's upper end of device memory.
const DEVICE_TOP: u64 = 1 << 47;

/// Whether the machine has an IOMMU that the kernel drives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Iommu {
    /// The machine has an IOMMU, with page tables of three levels.
    Present,
    /// There is none: every device reaches all memory.
    Absent,
}

/// A machine to boot.
#[derive(Clone, Debug)]
pub struct MachineConfig {
    /// The architecture. Both kernels are built from one source. The x86_64 kernel has I/O ports, an I/O APIC and, with an
    /// IOMMU, IOSpaces. The AArch64 kernel has a GIC; an IOMMU there is driven by user level.
    pub arch: Arch,
    /// The kernel's rules.
    pub rules: Rules,
    /// Ranges of RAM.
    pub ram: Vec<Range<u64>>,
    /// Ranges that are handed out as device memory.
    pub device: Vec<Range<u64>>,
    /// Whether there is an IOMMU.
    pub iommu: Iommu,
    /// Data for the root task besides its program: a system's specification and data.
    pub payload: Vec<u8>,
    /// log2 of the slots of the root task's CNode.
    pub cnode_bits: u8,
    /// Bytes at the start of RAM that the kernel itself takes, besides the objects for the root task.
    pub kernel_bytes: u64,
}

impl MachineConfig {
    /// A q35 PC with `ram_bytes` of RAM, at most 2 GiB, and an IOMMU. All addresses outside RAM are device memory, except
    /// the pages of the interrupt controllers and the IOMMU.
    #[must_use]
    pub fn q35(ram_bytes: u64, payload: Vec<u8>) -> Self {
        const LOW_MEMORY_END: u64 = 0x10_0000;
        /// The I/O APIC, the IOMMU and the local APIC.
        const KERNELS: [u64; 3] = [0xfec0_0000, 0xfed9_0000, 0xfee0_0000];
        let ram = LOW_MEMORY_END..(ram_bytes & !(PAGE - 1)).clamp(2 * LOW_MEMORY_END, 0x8000_0000);
        let starts = [0, ram.end].into_iter().chain(KERNELS.map(|page| page + PAGE));
        let ends = [ram.start].into_iter().chain(KERNELS).chain([DEVICE_TOP]);
        let device = starts.zip(ends).map(|(start, end)| start..end).collect();
        Self::with((Arch::X86_64, Iommu::Present), ram, device, payload)
    }

    /// QEMU's virt with `ram_bytes` of RAM, at most 1 GiB. Device memory consists of the pages that the kernel's platform
    /// hands out: those of the GICv2m, the serial port and the firmware's configuration, the SMMU, and PCI.
    #[must_use]
    pub fn virt(ram_bytes: u64, payload: Vec<u8>) -> Self {
        const RAM: u64 = 0x4000_0000;
        const PAGES: [u64; 3] = [0x0802_0000, 0x0900_0000, 0x0902_0000];
        const SMMU: Range<u64> = 0x0905_0000..0x0907_0000;
        const PCI: Range<u64> = 0x1000_0000..0x4000_0000;
        let ram = RAM..RAM + (ram_bytes & !(PAGE - 1)).clamp(1 << 20, 1 << 30);
        let device = PAGES.map(|page| page..page + PAGE).into_iter().chain([SMMU, PCI]).collect();
        Self::with((Arch::Aarch64, Iommu::Absent), ram, device, payload)
    }

    fn with((arch, iommu): (Arch, Iommu), ram: Range<u64>, device: Vec<Range<u64>>, payload: Vec<u8>) -> Self {
        let (rules, ram) = (Rules::CORRECTED, vec![ram]);
        Self { arch, rules, ram, device, iommu, payload, cnode_bits: CNODE_BITS, kernel_bytes: 2 << 20 }
    }
}

/// An untyped that the kernel hands over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BootUntyped {
    /// The untyped's capability.
    pub cptr: Cap<Untyped>,
    /// First byte.
    pub paddr: Paddr,
    /// log2 of its bytes.
    pub size_bits: u8,
    /// Whether the untyped is device memory.
    pub is_device: bool,
}

/// The root task and its environment.
#[derive(Clone, Debug)]
pub struct RootTask {
    /// The root task's thread, which runs.
    pub thread: ThreadId,
    /// Untypeds of all unused memory.
    pub untypeds: Vec<BootUntyped>,
    /// Empty slots of its CNode.
    pub free_cptrs: Range<u64>,
    /// The root task's CNode, the whole of its CSpace, addressed with depth 64.
    pub cnode: Cap<CNode>,
    /// log2 of that CNode's slots.
    pub cnode_bits: u8,
    /// The root task's VSpace.
    pub vspace: Cap<VSpace>,
    /// The capability to the root task's thread.
    pub tcb: Cap<Tcb>,
    /// The ASID pool of its VSpace, with room for others.
    pub asid_pool: Cap<AsidPool>,
    /// The capability that makes ASID pools.
    pub asid_control: Cap<AsidControl>,
    /// The capability that makes interrupt handlers.
    pub irq_control: Cap<IrqControl>,
    /// The master of all IOSpaces; an empty slot without an IOMMU.
    pub io_space_master: Cap<IoSpace>,
    /// All I/O ports, or the capability that issues them ([`Ports`]); an empty slot where there are none.
    pub io_ports: Cap<IoPort>,
    /// The address of its IPC buffer.
    pub ipc_buffer: Vaddr,
    /// The buffer's frame.
    pub ipc_buffer_frame: Cap<Frame>,
    /// The root task's payload, up to the end of the last page, mapped.
    pub payload: Region,
    /// Addresses for frames, without paging structures below the second level.
    pub mapping_area: Region,
    /// Addresses for device registers, likewise, in the same GiB.
    pub device_area: Region,
    /// Levels of IO page tables, 0 without an IOMMU.
    pub iommu_levels: u8,
}

impl Kernel {
    /// Boots a machine; afterwards the root task is the running thread.
    ///
    /// # Panics
    /// When the machine's first piece of RAM has no room for the kernel and the payload, or its CNode none for the
    /// capabilities.
    #[must_use]
    pub fn boot(config: MachineConfig) -> (Self, RootTask) {
        let has_iommu = config.iommu == Iommu::Present;
        let kernel = Self::bare(config.arch, config.rules, PhysicalMemory::new(&config.ram), has_iommu);
        let mut boot = Boot::new(kernel, &config);
        boot.make_singletons(has_iommu);
        let payload_len = (config.payload.len() as u64).next_multiple_of(PAGE);
        let ipc_buffer = PAYLOAD + payload_len;
        boot.make_vspace(ipc_buffer + 2 * PAGE);
        boot.map_initial(&config.payload, ipc_buffer);
        let thread = boot.make_thread(ipc_buffer);
        let untypeds = boot.make_untypeds(&config);
        let free_cptrs = boot.next_slot..1 << config.cnode_bits;
        let region = |text: &str, (vaddr, len), kind| Region { name: name(text), vaddr: Vaddr::new(vaddr), len, kind };
        let root = RootTask {
            thread,
            untypeds,
            free_cptrs,
            cnode: Cap::from_bits(CNODE_SLOT),
            cnode_bits: config.cnode_bits,
            vspace: Cap::from_bits(VSPACE_SLOT),
            tcb: Cap::from_bits(TCB_SLOT),
            asid_pool: Cap::from_bits(ASID_POOL_SLOT),
            asid_control: Cap::from_bits(ASID_CONTROL_SLOT),
            irq_control: Cap::from_bits(IRQ_CONTROL_SLOT),
            io_space_master: Cap::from_bits(IO_SPACE_SLOT),
            io_ports: Cap::from_bits(IO_PORTS_SLOT),
            ipc_buffer: Vaddr::new(ipc_buffer),
            ipc_buffer_frame: CPtr::new(IPC_BUFFER_SLOT).cast(),
            payload: region("payload", (PAYLOAD, payload_len), RegionKind::ReadOnly),
            mapping_area: region("mapping-area", MAPPING_AREA, RegionKind::ReadWrite),
            device_area: region("device-area", DEVICE_AREA, RegionKind::Arena),
            iommu_levels: if has_iommu { crate::iospace::IO_LEVELS } else { 0 },
        };
        (boot.kernel, root)
    }
}

fn name(text: &str) -> Name {
    // The names here are short.
    Name::try_from(text).unwrap_or_default()
}

/// A kernel that is being laid out.
struct Boot {
    kernel: Kernel,
    /// The first byte of RAM that is not taken yet, and the end of that piece of RAM.
    free: u64,
    end: u64,
    /// The first slot of the root task's CNode.
    first_slot: SlotId,
    cnode_cap: Capability,
    next_slot: u64,
    slots: u64,
    root_table: Option<TableId>,
}

impl Boot {
    fn new(mut kernel: Kernel, config: &MachineConfig) -> Self {
        let ram = config.ram.first().cloned().unwrap_or_default();
        let free = ram.start.next_multiple_of(PAGE) + config.kernel_bytes.next_multiple_of(PAGE);
        let cnode_bits = config.cnode_bits + SLOT_BITS;
        let paddr = free.next_multiple_of(1 << cnode_bits);
        let Capability::CNode { cnode, radix, .. } = kernel.make_cnode(paddr, config.cnode_bits) else {
            unreachable!("a CNode was made")
        };
        let first_slot = kernel.cnodes[cnode].first;
        let cnode_cap = Capability::CNode { cnode, radix, guard: 0, guard_bits: 64 - radix };
        let free = paddr + (1 << cnode_bits);
        assert!(free <= ram.end, "the first piece of RAM has room for the kernel");
        let slots = 1 << config.cnode_bits;
        let next_slot = FIRST_FREE_SLOT;
        Self { kernel, free, end: ram.end, first_slot, cnode_cap, next_slot, slots, root_table: None }
    }

    /// Takes memory for an object of the kernel's own making.
    fn take(&mut self, size_bits: u8) -> u64 {
        let paddr = self.free.next_multiple_of(1 << size_bits);
        self.free = paddr + (1 << size_bits);
        assert!(self.free <= self.end, "the first piece of RAM has room for the root task");
        paddr
    }

    fn slot(&self, number: u64) -> SlotId {
        self.first_slot.offset(number as u32)
    }

    fn put(&mut self, number: u64, cap: Capability) -> SlotId {
        let slot = self.slot(number);
        self.kernel.insert_root(slot, cap);
        slot
    }

    fn provide(&mut self, cap: Capability) -> u64 {
        let number = self.next_slot;
        assert!(number < self.slots, "the root task's CNode has room for its capabilities");
        self.put(number, cap);
        self.next_slot += 1;
        number
    }

    fn make_singletons(&mut self, has_iommu: bool) {
        self.put(CNODE_SLOT, self.cnode_cap);
        if self.kernel.arch == Arch::X86_64 {
            let ports = match self.kernel.rules.ports {
                Ports::Minted => Capability::IoPorts { first: 0, last: u16::MAX },
                Ports::Issued => Capability::IoPortControl,
            };
            self.put(IO_PORTS_SLOT, ports);
        }
        self.put(DOMAIN_SLOT, Capability::Domain);
        self.put(IRQ_CONTROL_SLOT, Capability::IrqControl);
        self.put(ASID_CONTROL_SLOT, Capability::AsidControl);
        if has_iommu {
            self.put(IO_SPACE_SLOT, Capability::IoSpace { domain: 0, requester_id: 0 });
        }
    }

    /// Makes the VSpace and its structures for the image, which ends at `end`.
    fn make_vspace(&mut self, end: u64) {
        let pool_paddr = self.take(PAGE_BITS);
        let pool: AsidPoolId = self.kernel.asid_pools.add(crate::object::AsidPoolObject::new(pool_paddr));
        self.put(ASID_POOL_SLOT, Capability::AsidPool { pool, base: 0 });
        self.kernel.install_asid_pool(pool, 0);
        let paddr = self.take(PAGE_BITS);
        let root = self.kernel.tables.add(TableObject::new(paddr));
        self.kernel.asid_pools[pool].vspaces[usize::from(ROOT_ASID)] = Some(root);
        self.put(VSPACE_SLOT, Capability::VSpace { table: root, asid: ROOT_ASID });
        self.root_table = Some(root);
        for level in TableLevel::ALL {
            let span = 1u64 << level.span_bits();
            for vaddr in (PAYLOAD & !(span - 1)..end).step_by(span as usize) {
                self.install(root, level, vaddr);
            }
        }
    }

    fn install(&mut self, root: TableId, level: TableLevel, vaddr: u64) {
        let paddr = self.take(PAGE_BITS);
        let table = self.kernel.tables.add(TableObject::new(paddr));
        if let Some(parent) = self.kernel.table_at(root, vaddr, level.above()) {
            *self.kernel.entry(parent, vaddr, level.above()) = Entry::Table(table);
        }
        self.provide(Capability::Table { level, table, place: Some(TablePlace { asid: ROOT_ASID, vaddr }) });
    }

    /// Makes a frame for the root task, mapped at `vaddr`, and returns its capability.
    fn map(&mut self, vaddr: u64) -> Capability {
        let paddr = self.take(PAGE_BITS);
        let page = self.root_table.and_then(|root| self.kernel.table_at(root, vaddr, Some(TableLevel::Three)));
        if let Some(table) = page {
            let entry = Entry::Page { paddr, rights: VmRights::ReadWrite, is_executable: true };
            *self.kernel.entry(table, vaddr, Some(TableLevel::Three)) = entry;
        }
        let mapping = Mapping::VSpace { asid: ROOT_ASID, vaddr };
        Capability::Frame { paddr, size: FrameSize::Small, rights: VmRights::ReadWrite, is_device: false, mapping }
    }

    fn map_initial(&mut self, payload: &[u8], ipc_buffer: u64) {
        let boot_info = self.map(ipc_buffer + PAGE);
        self.put(BOOT_INFO_SLOT, boot_info);
        let buffer = self.map(ipc_buffer);
        self.put(IPC_BUFFER_SLOT, buffer);
        for (bytes, vaddr) in payload.chunks(PAGE_SIZE).zip((PAYLOAD..).step_by(PAGE_SIZE)) {
            let frame = self.map(vaddr);
            if let Capability::Frame { paddr, .. } = frame {
                let written = self.kernel.memory.write(Paddr::new(paddr), bytes);
                written.expect("frames are made of RAM");
            }
            self.provide(frame);
        }
    }

    fn make_thread(&mut self, ipc_buffer: u64) -> ThreadId {
        let paddr = self.take(TCB_BITS);
        let thread = self.kernel.make_thread(paddr);
        for (number, own) in [
            (CNODE_SLOT, self.kernel.cspace_slot(thread)),
            (VSPACE_SLOT, self.kernel.vspace_slot(thread)),
            (IPC_BUFFER_SLOT, self.kernel.buffer_slot(thread)),
        ] {
            let source = self.slot(number);
            let cap = self.kernel.slots[source].cap;
            let derived = self.kernel.derive(source, cap).expect("what the kernel made itself can be copied");
            self.kernel.insert_derived(derived, source, own);
        }
        self.kernel.set_up_reply_master(thread);
        let root = &mut self.kernel.threads[thread];
        root.ipc_buffer = ipc_buffer;
        root.priority = ROOT_PRIORITY;
        root.max_controlled = ROOT_PRIORITY;
        root.state = ThreadState::Running;
        self.put(TCB_SLOT, Capability::Thread(thread));
        self.kernel.start(thread);
        thread
    }

    fn make_untypeds(&mut self, config: &MachineConfig) -> Vec<BootUntyped> {
        let mut untypeds = Vec::new();
        let first = self.free..self.end;
        for range in core::iter::once(&first).chain(config.ram.iter().skip(1)) {
            self.untypeds_of(range, false, &mut untypeds);
        }
        for range in &config.device {
            self.untypeds_of(range, true, &mut untypeds);
        }
        untypeds
    }

    /// Hands out `range` in pieces as large as size and alignment allow.
    fn untypeds_of(&mut self, range: &Range<u64>, is_device: bool, untypeds: &mut Vec<BootUntyped>) {
        let mut start = range.start;
        while start < range.end {
            let size_bits = (range.end - start).ilog2().min(start.trailing_zeros()) as u8;
            let size_bits = size_bits.min(MAX_UNTYPED_BITS);
            if size_bits >= MIN_UNTYPED_BITS {
                // Marked as wholly used, because it may not be clear: the first retype clears it.
                let used = 1 << size_bits;
                let slot = self.provide(Capability::Untyped { paddr: start, size_bits, is_device, used });
                let paddr = Paddr::new(start);
                untypeds.push(BootUntyped { cptr: Cap::from_bits(slot), paddr, size_bits, is_device });
            }
            start += 1 << size_bits;
        }
    }
}
