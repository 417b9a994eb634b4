//! Tools of the root task: slots, objects, mapped frames, threads.
//!
//! Left out: freeing anything. A run of a test is short.

use crate::arch;
use crate::sys::{self, BootInfo, Slot, values};
use crate::verdict::{Check, Failure};

/// Read and write, as the kernel encodes rights.
pub(crate) const READ_WRITE: u64 = 0b011;
/// Every right.
const ALL_RIGHTS: u64 = 0b111;
/// Bits of a slot number: the root task's CNode resolves whole words.
pub(crate) const DEPTH: u64 = 64;
/// Start of the addresses where frames are mapped: a part of the address space that the root task's image does not use.
const MAPPING_AREA: usize = 0x80_0000_0000;
/// Bytes of a small page.
pub(crate) const PAGE: usize = 4096;
/// log2 of the bytes of memory that the tests need at most.
const MEMORY_BITS: u8 = 20;

/// The root task's CNode.
pub(crate) const CNODE: Slot = values::CAP_CNODE as Slot;
/// The root task's VSpace.
pub(crate) const VSPACE: Slot = values::CAP_VSPACE as Slot;

/// A frame of memory, mapped for this program, and a capability through which it is not mapped.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame {
    /// The capability through which this program sees it.
    pub(crate) mapped: Slot,
    /// Another capability, not mapped anywhere; copies are made from it.
    pub(crate) spare: Slot,
    address: usize,
}

impl Frame {
    /// The address of its mapping.
    pub(crate) fn address(&self) -> usize {
        self.address
    }

    /// Sets its first word.
    pub(crate) fn write(&self, word: u64) {
        // SAFETY: the frame is mapped at this address and nothing of this program lies there.
        unsafe { sys::volatile_write(self.address, word) }
    }
}

/// The root task's resources.
pub(crate) struct Machine {
    boot_info: BootInfo,
    next_slot: Slot,
    next_address: usize,
    memory: Option<Slot>,
    mapping_area_is_open: bool,
}

impl Machine {
    /// The resources that the kernel gave at boot.
    pub(crate) fn new(boot_info: BootInfo) -> Self {
        Self {
            next_slot: boot_info.word(values::BOOT_INFO_EMPTY_START),
            boot_info,
            next_address: MAPPING_AREA,
            memory: None,
            mapping_area_is_open: false,
        }
    }

    /// An empty slot.
    pub(crate) fn empty_slot(&mut self) -> Slot {
        let slot = self.next_slot;
        self.next_slot += 1;
        slot
    }

    /// A new object out of ordinary memory.
    pub(crate) fn object(&mut self, object_type: i64) -> Check<Slot> {
        let untyped = match self.memory {
            Some(untyped) => untyped,
            None => {
                let (untyped, _) = self
                    .untypeds()
                    .find(|(_, untyped)| !untyped.is_device && untyped.size_bits >= MEMORY_BITS)
                    .ok_or(Failure::Broken("no untyped is large enough", 0))?;
                self.memory = Some(untyped);
                untyped
            }
        };
        self.retype(untyped, object_type, 0)
    }

    /// An untyped of its own, of 2^`size_bits` bytes.
    pub(crate) fn untyped(&mut self, size_bits: u8) -> Check<Slot> {
        // The first object chooses the untyped for memory.
        self.object(values::ENDPOINT_OBJECT)?;
        let memory = self.memory.ok_or(Failure::Broken("no untyped is chosen", 0))?;
        self.retype(memory, values::UNTYPED_OBJECT, size_bits)
    }

    /// A new object out of `untyped`; `size_bits` is for an untyped alone.
    pub(crate) fn retype(&mut self, untyped: Slot, object_type: i64, size_bits: u8) -> Check<Slot> {
        let slot = self.empty_slot();
        let words = [object_type as u64, size_bits.into(), 0, 0, slot, 1];
        sys::invoke(untyped, values::UNTYPED_RETYPE, &words, &[CNODE])
            .map_err(|error| Failure::Broken("retype", error))?;
        Ok(slot)
    }

    fn untypeds(&self) -> impl Iterator<Item = (Slot, Untyped)> + '_ {
        let first = self.boot_info.word(values::BOOT_INFO_UNTYPED_START);
        let end = self.boot_info.word(values::BOOT_INFO_UNTYPED_END);
        (first..end).map(move |slot| {
            let offset = values::BOOT_INFO_UNTYPED_LIST + (slot - first) as i64 * values::UNTYPED_SIZE;
            let untyped = Untyped {
                paddr: self.boot_info.word(offset),
                size_bits: self.boot_info.byte(offset + values::UNTYPED_SIZE_BITS),
                is_device: self.boot_info.byte(offset + values::UNTYPED_IS_DEVICE) != 0,
            };
            (slot, untyped)
        })
    }

    /// A copy of a capability.
    pub(crate) fn copy(&mut self, source: Slot) -> Check<Slot> {
        let slot = self.empty_slot();
        sys::invoke(CNODE, values::CNODE_COPY, &[slot, DEPTH, source, DEPTH, ALL_RIGHTS], &[CNODE])
            .map_err(|error| Failure::Broken("copy", error))?;
        Ok(slot)
    }

    /// A copy of a capability with a badge or the like, or the kernel's error.
    pub(crate) fn mint(&mut self, source: Slot, data: u64) -> Result<Slot, u64> {
        let slot = self.empty_slot();
        sys::invoke(CNODE, values::CNODE_MINT, &[slot, DEPTH, source, DEPTH, ALL_RIGHTS, data], &[CNODE])?;
        Ok(slot)
    }

    /// Deletes a capability.
    pub(crate) fn delete(&mut self, slot: Slot) -> Check {
        sys::invoke(CNODE, values::CNODE_DELETE, &[slot, DEPTH], &[])
            .map_err(|error| Failure::Broken("delete", error))?;
        Ok(())
    }

    /// A new frame of memory, zero.
    pub(crate) fn frame(&mut self) -> Check<Frame> {
        let spare = self.object(values::SMALL_PAGE_OBJECT)?;
        let mapped = self.copy(spare)?;
        let address = self.map(mapped, values::WRITE_BACK as u64)?;
        Ok(Frame { mapped, spare, address })
    }

    /// Maps a frame at a fresh address.
    pub(crate) fn map(&mut self, frame: Slot, attributes: u64) -> Check<usize> {
        let address = self.next_address;
        self.next_address += PAGE;
        self.open_mapping_area()?;
        sys::invoke(frame, values::PAGE_MAP, &[address as u64, READ_WRITE, attributes], &[VSPACE])
            .map_err(|error| Failure::Broken("mapping a frame", error))?;
        Ok(address)
    }

    /// The paging structures over the mapping area, one of each level.
    fn open_mapping_area(&mut self) -> Check {
        if self.mapping_area_is_open {
            return Ok(());
        }
        self.map_tables(VSPACE, MAPPING_AREA)?;
        self.mapping_area_is_open = true;
        Ok(())
    }

    /// Maps paging structures for `address` where `vspace` has none: one of each level. Returns the lowest.
    pub(crate) fn map_tables(&mut self, vspace: Slot, address: usize) -> Check<Slot> {
        let mut lowest = 0;
        for (object, map) in [
            (values::TABLE_ONE_OBJECT, values::TABLE_ONE_MAP),
            (values::TABLE_TWO_OBJECT, values::TABLE_TWO_MAP),
            (values::TABLE_THREE_OBJECT, values::TABLE_THREE_MAP),
        ] {
            lowest = self.object(object)?;
            sys::invoke(lowest, map, &[address as u64, 0], &[vspace])
                .map_err(|error| Failure::Broken("mapping a page table", error))?;
        }
        Ok(lowest)
    }

    /// The physical address where a device's registers can be put: the start of a device untyped of at least
    /// `size_bits` within `range`, and the untyped.
    pub(crate) fn device_untyped(&self, range: core::ops::Range<u64>, size_bits: u8) -> Check<(Slot, u64)> {
        self.untypeds()
            .find(|(_, untyped)| untyped.is_device && untyped.size_bits >= size_bits && range.contains(&untyped.paddr))
            .map(|(slot, untyped)| (slot, untyped.paddr))
            .ok_or(Failure::Broken("no device untyped for the device's registers", 0))
    }

    /// Maps the first page of a device untyped.
    pub(crate) fn map_device(&mut self, untyped: Slot) -> Check<usize> {
        let frame = self.retype(untyped, values::SMALL_PAGE_OBJECT, 0)?;
        self.map(frame, values::UNCACHEABLE as u64)
    }

    /// Starts a thread that reads the word at `address`. Returns the word, or `None` for a fault.
    pub(crate) fn probe(&mut self, address: usize) -> Check<Option<u64>> {
        let endpoint = self.object(values::ENDPOINT_OBJECT)?;
        self.start(sys::prober, address, endpoint, HIGHEST)?;
        let received = sys::receive(endpoint);
        Ok((received.label == sys::PROBED).then_some(received.word))
    }

    /// Starts a thread of that priority, whose faults go to `endpoint`, and returns its capability.
    pub(crate) fn start(
        &mut self,
        program: extern "C" fn(usize, Slot) -> !,
        argument: usize,
        endpoint: Slot,
        priority: u64,
    ) -> Check<Slot> {
        let tcb = self.object(values::TCB_OBJECT)?;
        self.start_made(tcb, program, argument, endpoint, priority)?;
        Ok(tcb)
    }

    /// Starts the program in a thread that is made already.
    pub(crate) fn start_made(
        &mut self,
        tcb: Slot,
        program: extern "C" fn(usize, Slot) -> !,
        argument: usize,
        endpoint: Slot,
        priority: u64,
    ) -> Check {
        let stack_top = self.frame()?.address() + PAGE;
        configure(tcb, VSPACE, endpoint, priority)?;
        resume_at(tcb, program as usize, stack_top, [argument as u64, endpoint])
    }
}

/// Gives a thread this program's CSpace, a VSpace, a fault endpoint and a priority.
pub(crate) fn configure(tcb: Slot, vspace: Slot, fault_endpoint: Slot, priority: u64) -> Check {
    configure_with_buffer(tcb, vspace, fault_endpoint, priority, 0)
        .map_err(|error| Failure::Broken("configuring a thread", error))
}

/// Configures a thread with the address of an IPC buffer, or returns the kernel's error. The frame is this program's own buffer.
pub(crate) fn configure_with_buffer(
    tcb: Slot,
    vspace: Slot,
    fault_endpoint: Slot,
    priority: u64,
    buffer: u64,
) -> Result<(), u64> {
    // The priority in the low byte.
    let configuration = [fault_endpoint, priority, 0, 0, buffer];
    sys::invoke(tcb, values::TCB_CONFIGURE, &configuration, &[CNODE, vspace, values::CAP_IPC_BUFFER as Slot])?;
    Ok(())
}

/// The highest priority below this program's: the thread runs when this one waits.
pub(crate) const HIGHEST: u64 = 254;

/// Sets a thread's registers, its first two arguments among them, and lets it run.
pub(crate) fn resume_at(tcb: Slot, program: usize, stack_top: usize, arguments: [u64; 2]) -> Check {
    resume(tcb, &registers_at(program, stack_top, arguments))
}

/// The registers with which a thread starts, each with its place in the thread's context.
pub(crate) fn registers_at(program: usize, stack_top: usize, [first, second]: [u64; 2]) -> [(i64, u64); 4] {
    [
        (values::CONTEXT_PC, program as u64),
        (values::CONTEXT_SP, stack_top as u64 - arch::CALL_BYTES),
        (values::CONTEXT_FIRST, first),
        (values::CONTEXT_SECOND, second),
    ]
}

/// Sets a thread's registers, all others to 0, and lets it run.
pub(crate) fn resume(tcb: Slot, set: &[(i64, u64)]) -> Check {
    const CONTEXT: usize = values::CONTEXT_WORDS as usize;
    // Resume; no flags; number of registers; registers.
    let mut words = [0; 2 + CONTEXT];
    let (head, registers) = words.split_at_mut(2);
    head.copy_from_slice(&[1, CONTEXT as u64]);
    for (register, value) in set {
        if let Some(place) = registers.get_mut(*register as usize) {
            *place = *value;
        }
    }
    sys::invoke(tcb, values::TCB_WRITE_REGISTERS, &words, &[])
        .map_err(|error| Failure::Broken("starting a thread", error))?;
    Ok(())
}

struct Untyped {
    paddr: u64,
    size_bits: u8,
    is_device: bool,
}
