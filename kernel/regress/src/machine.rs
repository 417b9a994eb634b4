//! The root task's means: slots, objects, mapped frames, the device's address space.
//!
//! Left out: giving anything back. A run of a test is short.

use crate::sys::{self, BootInfo, Slot, values};
use crate::verdict::{Check, Trouble};

/// Read and write, as the kernel encodes rights.
const READ_WRITE: u64 = 0b011;
/// Every right.
const ALL_RIGHTS: u64 = 0b111;
/// Bits of a slot number: the root task's CNode resolves whole words.
const DEPTH: u64 = 64;
/// Where frames are mapped: in a part of the address space of which the root task's image uses nothing.
const WINDOW: usize = 0x80_0000_0000;
/// Bytes of a small page.
pub(crate) const PAGE: usize = 4096;
/// What the tests need at most, in bits of size.
const MEMORY_BITS: u8 = 20;

/// The root task's CNode.
const CNODE: Slot = values::CAP_CNODE as Slot;
/// The root task's VSpace.
const VSPACE: Slot = values::CAP_VSPACE as Slot;

/// A frame of memory, mapped for this program, and a capability through which it is not mapped.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame {
    /// The capability through which this program sees it.
    pub(crate) mapped: Slot,
    /// Another one, not mapped anywhere; copies are made from it.
    pub(crate) spare: Slot,
    address: usize,
}

impl Frame {
    /// The address of its mapping.
    pub(crate) fn address(&self) -> usize {
        self.address
    }

    /// Its first word.
    pub(crate) fn read(&self) -> u64 {
        // SAFETY: the frame is mapped at this address and nothing of this program lies there.
        unsafe { sys::volatile_read(self.address) }
    }

    /// Sets its first word.
    pub(crate) fn write(&self, word: u64) {
        // SAFETY: as for `read`.
        unsafe { sys::volatile_write(self.address, word) }
    }
}

/// What the root task has.
pub(crate) struct Machine {
    boot_info: BootInfo,
    next_slot: Slot,
    next_address: usize,
    memory: Option<Slot>,
    window_is_open: bool,
}

impl Machine {
    /// All that the kernel gave.
    pub(crate) fn new(boot_info: BootInfo) -> Self {
        Self {
            next_slot: boot_info.word(values::BOOT_INFO_EMPTY_START),
            boot_info,
            next_address: WINDOW,
            memory: None,
            window_is_open: false,
        }
    }

    /// A slot with nothing in it.
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
                    .ok_or(Trouble::Broken("no untyped is large enough", 0))?;
                self.memory = Some(untyped);
                untyped
            }
        };
        self.retype(untyped, object_type)
    }

    fn retype(&mut self, untyped: Slot, object_type: i64) -> Check<Slot> {
        let slot = self.empty_slot();
        let words = [object_type as u64, 0, 0, 0, slot, 1];
        sys::invoke(untyped, values::UNTYPED_RETYPE, &words, &[CNODE])
            .map_err(|error| Trouble::Broken("retype", error))?;
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
            .map_err(|error| Trouble::Broken("copy", error))?;
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
            .map_err(|error| Trouble::Broken("delete", error))?;
        Ok(())
    }

    /// Deletes every capability derived from one.
    pub(crate) fn revoke(&mut self, slot: Slot) -> Check {
        sys::invoke(CNODE, values::CNODE_REVOKE, &[slot, DEPTH], &[])
            .map_err(|error| Trouble::Broken("revoke", error))?;
        Ok(())
    }

    /// A new frame of memory, zero.
    pub(crate) fn frame(&mut self) -> Check<Frame> {
        let spare = self.object(values::SMALL_PAGE_OBJECT)?;
        let mapped = self.copy(spare)?;
        let address = self.map(mapped, 0)?;
        Ok(Frame { mapped, spare, address })
    }

    /// Maps a frame at a fresh address.
    fn map(&mut self, frame: Slot, attributes: u64) -> Check<usize> {
        let address = self.next_address;
        self.next_address += PAGE;
        self.open_window()?;
        sys::invoke(frame, values::PAGE_MAP, &[address as u64, READ_WRITE, attributes], &[VSPACE])
            .map_err(|error| Trouble::Broken("mapping a frame", error))?;
        Ok(address)
    }

    /// The paging structures over the window, one of each level.
    fn open_window(&mut self) -> Check {
        if self.window_is_open {
            return Ok(());
        }
        for (object, map) in [
            (values::PDPT_OBJECT, values::PDPT_MAP),
            (values::PAGE_DIRECTORY_OBJECT, values::PAGE_DIRECTORY_MAP),
            (values::PAGE_TABLE_OBJECT, values::PAGE_TABLE_MAP),
        ] {
            let table = self.object(object)?;
            sys::invoke(table, map, &[WINDOW as u64, 0], &[VSPACE])
                .map_err(|error| Trouble::Broken("mapping a page table", error))?;
        }
        self.window_is_open = true;
        Ok(())
    }

    /// The physical address where a device's registers can be put: the start of a device untyped of at least
    /// `size_bits` within `range`, and the untyped.
    pub(crate) fn device_untyped(&self, range: core::ops::Range<u64>, size_bits: u8) -> Check<(Slot, u64)> {
        self.untypeds()
            .find(|(_, untyped)| untyped.is_device && untyped.size_bits >= size_bits && range.contains(&untyped.paddr))
            .map(|(slot, untyped)| (slot, untyped.paddr))
            .ok_or(Trouble::Broken("no device untyped for the device's registers", 0))
    }

    /// Maps the first page of a device untyped.
    pub(crate) fn map_device(&mut self, untyped: Slot) -> Check<usize> {
        let frame = self.retype(untyped, values::SMALL_PAGE_OBJECT)?;
        self.map(frame, values::UNCACHEABLE as u64)
    }

    /// The address space of a PCI function, empty.
    pub(crate) fn io_space(&mut self, requester_id: u16, domain: u16) -> Check<Slot> {
        self.mint(values::CAP_IO_SPACE as Slot, u64::from(domain) << 16 | u64::from(requester_id))
            .map_err(|error| Trouble::Broken("minting an IOSpace", error))
    }

    /// Installs the next missing IO page table over `iova`.
    pub(crate) fn map_io_table(&mut self, io_space: Slot, iova: u64) -> Check<Slot> {
        let table = self.object(values::IO_PAGE_TABLE_OBJECT)?;
        self.map_this_io_table(table, io_space, iova)?;
        Ok(table)
    }

    /// Installs this IO page table as the next missing one over `iova`.
    pub(crate) fn map_this_io_table(&mut self, table: Slot, io_space: Slot, iova: u64) -> Check {
        sys::invoke(table, values::IO_PAGE_TABLE_MAP, &[iova], &[io_space])
            .map_err(|error| Trouble::Broken("mapping an IO page table", error))?;
        Ok(())
    }

    /// Takes an IO page table out, or gives the kernel's error.
    pub(crate) fn unmap_io_table(&mut self, table: Slot) -> Result<(), u64> {
        sys::invoke(table, values::IO_PAGE_TABLE_UNMAP, &[], &[]).map(|_| ())
    }

    /// Maps a frame for the device through a fresh copy of its capability, and gives that copy.
    pub(crate) fn map_io(&mut self, frame: &Frame, io_space: Slot, iova: u64) -> Check<Slot> {
        self.try_map_io(frame, io_space, iova)?
            .map_err(|error| Trouble::Broken("mapping a frame for the device", error))
    }

    /// Whether the slot `io_space` still holds an IOSpace. Maps a frame at `iova`, which has its tables, to find out.
    pub(crate) fn is_io_space(&mut self, io_space: Slot, iova: u64) -> Check<bool> {
        let frame = self.frame()?;
        match self.try_map_io(&frame, io_space, iova)? {
            Ok(_) => Ok(true),
            Err(error) if error == values::ERROR_INVALID_CAPABILITY as u64 => Ok(false),
            Err(error) => Err(Trouble::Broken("mapping through an IOSpace that may be gone", error)),
        }
    }

    fn try_map_io(&mut self, frame: &Frame, io_space: Slot, iova: u64) -> Check<Result<Slot, u64>> {
        let copy = self.copy(frame.spare)?;
        Ok(sys::invoke(copy, values::PAGE_MAP_IO, &[READ_WRITE, iova], &[io_space]).map(|_| copy))
    }

    /// A handler for the message-signalled interrupt `irq` of a function; nobody is told about it.
    pub(crate) fn msi_handler(&mut self, requester_id: u16, irq: u64) -> Check {
        let slot = self.empty_slot();
        let (bus, device, function) = (requester_id >> 8, requester_id >> 3 & 0x1f, requester_id & 7);
        let words = [slot, DEPTH, bus.into(), device.into(), function.into(), 0, irq];
        sys::invoke(values::CAP_IRQ_CONTROL as Slot, values::IRQ_GET_MSI, &words, &[CNODE])
            .map_err(|error| Trouble::Broken("making an interrupt handler", error))?;
        Ok(())
    }

    /// Starts a thread that reads the word at `address` and gives what came of it: the word, or `None` for a fault.
    pub(crate) fn probe(&mut self, address: usize) -> Check<Option<u64>> {
        let endpoint = self.object(values::ENDPOINT_OBJECT)?;
        self.start(sys::prober, address, endpoint, HIGHEST)?;
        let received = sys::receive(endpoint);
        Ok((received.label == sys::PROBED).then_some(received.word))
    }

    /// Starts a thread of that priority, whose faults go to `endpoint`, and gives its capability.
    pub(crate) fn start(
        &mut self,
        program: extern "C" fn(usize, Slot) -> !,
        argument: usize,
        endpoint: Slot,
        priority: u64,
    ) -> Check<Slot> {
        let stack = self.frame()?;
        let tcb = self.object(values::TCB_OBJECT)?;
        // The priority in the low byte.
        let configuration = [endpoint, priority, 0, 0, 0];
        sys::invoke(tcb, values::TCB_CONFIGURE, &configuration, &[CNODE, VSPACE, values::CAP_IPC_BUFFER as Slot])
            .map_err(|error| Trouble::Broken("configuring a thread", error))?;
        write_registers(tcb, program, stack.address() + PAGE, argument, endpoint)?;
        Ok(tcb)
    }
}

/// The highest priority below this program's: the thread runs when this one waits.
pub(crate) const HIGHEST: u64 = 254;

/// Sets the thread's registers for its program and lets it run.
fn write_registers(
    tcb: Slot,
    program: extern "C" fn(usize, Slot) -> !,
    stack_top: usize,
    argument: usize,
    endpoint: Slot,
) -> Check {
    const CONTEXT: usize = values::CONTEXT_WORDS as usize;
    // Resume; no flags; number of registers; registers.
    let mut words = [0; 2 + CONTEXT];
    let (head, registers) = words.split_at_mut(2);
    head.copy_from_slice(&[1, CONTEXT as u64]);
    for (register, value) in [
        (values::CONTEXT_RIP, program as usize as u64),
        // A function finds the stack as a call leaves it: aligned but for the return address.
        (values::CONTEXT_RSP, stack_top as u64 - 8),
        (values::CONTEXT_RDI, argument as u64),
        (values::CONTEXT_RSI, endpoint),
    ] {
        if let Some(place) = registers.get_mut(register as usize) {
            *place = value;
        }
    }
    sys::invoke(tcb, values::TCB_WRITE_REGISTERS, &words, &[])
        .map_err(|error| Trouble::Broken("starting a thread", error))?;
    Ok(())
}

struct Untyped {
    paddr: u64,
    size_bits: u8,
    is_device: bool,
}
