//! Untypeds: memory becomes objects, from the start upwards. When no object is left, the next retype clears it and begins at
//! the start.

use crate::arena::ThreadId;
use crate::capability::{Capability, FrameSize, Mapping, VmRights};
use crate::invocation::{Found, Invocation, Outcome, Stop};
use crate::kernel::Kernel;
use crate::object::{
    AsidPoolObject, CNodeObject, EndpointObject, NotificationObject, RETYPE_LIMIT, Signalled, TableObject, Waiting,
    object_bits,
};
use crate::queue::Queue;
use crate::rules::Interface;
use crate::slots::SlotId;
use crate::{Arch, label};
use core::ops::Range;
use platform::{CNode, Cap, Error, ObjectType, Result, Rights, TableLevel, Untyped};

/// log2 of the bytes of the largest and the smallest untyped.
pub(crate) const MAX_UNTYPED_BITS: u8 = 47;
pub(crate) const MIN_UNTYPED_BITS: u8 = 4;
/// The limit that 5.0.0 reports for sizes beyond [`MAX_UNTYPED_BITS`]; it is not the real limit.
const OLD_SAID_MAX_BITS: u64 = 61;

/// A retype that passed all checks.
struct Retype {
    object_type: ObjectType,
    size_bits: u8,
    is_device: bool,
    /// Whether the whole untyped is free, and so cleared first.
    resets: bool,
    /// First byte of the untyped and of the first object.
    base: u64,
    first: u64,
    /// The slots for the capabilities, consecutive.
    dest: SlotId,
    count: u32,
}

impl Kernel {
    /// See [`platform::Kernel::untyped_retype`].
    ///
    /// # Errors
    /// The kernel's errors, as the seam returns them.
    pub fn untyped_retype(
        &mut self,
        thread: ThreadId,
        untyped: Cap<Untyped>,
        object_type: ObjectType,
        size_bits: u8,
        cnode: Cap<CNode>,
        slots: Range<u64>,
    ) -> Result<()> {
        let count = slots.end.saturating_sub(slots.start);
        let words = [object_number(object_type), size_bits.into(), 0, 0, slots.start, count];
        let (service, caps) = (untyped.cptr(), [cnode.cptr()]);
        let invocation = Invocation { service, label: label::UNTYPED_RETYPE, words: &words, caps: &caps };
        self.invoke(thread, &invocation, |kernel, found| {
            let retype = kernel.check_retype(found, object_type, size_bits, slots.start, count)?;
            kernel.retype(found.slot, &retype);
            Ok(())
        })
    }

    fn check_retype(
        &self,
        found: &Found,
        object_type: ObjectType,
        size_bits: u8,
        offset: u64,
        count: u64,
    ) -> Outcome<Retype> {
        let Capability::Untyped { paddr, size_bits: own_bits, is_device, used } = found.cap else {
            return Err(Stop::OtherKind);
        };
        found.all_words()?;
        let node = found.cap(0)?;
        if object_type == ObjectType::IoPageTable && self.arch == Arch::Aarch64 {
            return Err(Error::InvalidArgument(0).into());
        }
        // 5.0.0 looks at the size that was asked for, later kernels at the object's.
        let is_too_large = match self.rules.interface {
            Interface::Old => size_bits > MAX_UNTYPED_BITS,
            Interface::Current => size_bits >= 64 || object_bits(object_type, size_bits) > MAX_UNTYPED_BITS,
        };
        if is_too_large {
            let max = if self.is_current() { MAX_UNTYPED_BITS.into() } else { OLD_SAID_MAX_BITS };
            return Err(Error::RangeError { min: 0, max }.into());
        }
        check_size(object_type, size_bits)?;
        let dest = self.check_destination(node, offset, count)?;
        let (resets, used) = if self.ensure_no_children(found.slot).is_ok() { (true, 0) } else { (false, used) };
        let bits = object_bits(object_type, size_bits);
        let left = (1u64 << own_bits) - used;
        if bits >= 64 || left >> bits < count {
            return Err(Error::NotEnoughMemory(left).into());
        }
        if is_device && !matches!(object_type, ObjectType::SmallPage | ObjectType::LargePage | ObjectType::Untyped) {
            return Err(Error::InvalidArgument(1).into());
        }
        let first = (paddr + used).next_multiple_of(1 << bits);
        Ok(Retype { object_type, size_bits, is_device, resets, base: paddr, first, dest, count: count as u32 })
    }

    /// The first of `count` empty slots from `offset` of the CNode in `node`.
    fn check_destination(&self, node: SlotId, offset: u64, count: u64) -> Result<SlotId> {
        let Capability::CNode { cnode, radix, .. } = self.slots[node].cap else { return Err(Error::FailedLookup) };
        let size = 1u64 << radix;
        if offset > size - 1 {
            return Err(Error::RangeError { min: 0, max: size - 1 });
        }
        if !(1..=RETYPE_LIMIT).contains(&count) {
            return Err(Error::RangeError { min: 1, max: RETYPE_LIMIT });
        }
        if count > size - offset {
            return Err(Error::RangeError { min: 1, max: size - offset });
        }
        let first = self.cnodes[cnode].first.offset(offset as u32);
        for slot in 0..count as u32 {
            self.ensure_empty(first.offset(slot))?;
        }
        Ok(first)
    }

    fn retype(&mut self, slot: SlotId, retype: &Retype) {
        let bits = object_bits(retype.object_type, retype.size_bits);
        let end = retype.first + (u64::from(retype.count) << bits);
        if let Capability::Untyped { used, .. } = &mut self.slots[slot].cap {
            let was_used = core::mem::replace(used, end - retype.base);
            if retype.resets && !retype.is_device {
                self.clear(retype.base..retype.base + was_used);
            }
        }
        for index in 0..retype.count {
            let paddr = retype.first + (u64::from(index) << bits);
            let cap = self.make(retype.object_type, retype.size_bits, retype.is_device, paddr);
            self.insert_made(slot, retype.dest.offset(index), cap);
        }
    }

    /// Clears memory that becomes other objects.
    fn clear(&mut self, memory: Range<u64>) {
        self.clear_io_tables(memory.clone());
        self.memory.clear(memory);
    }

    /// Makes an object at `paddr` and returns its first capability.
    pub(crate) fn make(&mut self, object_type: ObjectType, size_bits: u8, is_device: bool, paddr: u64) -> Capability {
        match object_type {
            ObjectType::Untyped => Capability::Untyped { paddr, size_bits, is_device, used: 0 },
            ObjectType::Endpoint => {
                let object = EndpointObject { paddr, waiting: Waiting::Nobody, queue: Queue::default() };
                let endpoint = self.endpoints.add(object);
                Capability::Endpoint { endpoint, badge: 0, rights: Rights::ALL }
            }
            ObjectType::Notification => {
                let (state, queue) = (Signalled::No, Queue::default());
                let object = NotificationObject { paddr, state, queue, bound: None };
                let notification = self.notifications.add(object);
                Capability::Notification { notification, badge: 0, rights: Rights::READ_WRITE }
            }
            ObjectType::CNode => self.make_cnode(paddr, size_bits),
            ObjectType::Tcb => Capability::Thread(self.make_thread(paddr)),
            ObjectType::VSpace => Capability::VSpace { table: self.tables.add(TableObject::new(paddr)), asid: 0 },
            ObjectType::TranslationTable(level) => {
                Capability::Table { level, table: self.tables.add(TableObject::new(paddr)), place: None }
            }
            ObjectType::SmallPage => frame(FrameSize::Small, is_device, paddr),
            ObjectType::LargePage => frame(FrameSize::Large, is_device, paddr),
            ObjectType::IoPageTable => Capability::IoTable { table: self.make_io_table(paddr), place: None },
        }
    }

    /// Makes a CNode with 2^`radix` slots and no guard.
    pub(crate) fn make_cnode(&mut self, paddr: u64, radix: u8) -> Capability {
        let first = self.slots.add(radix);
        let cnode = self.cnodes.add(CNodeObject { paddr, radix, first });
        Capability::CNode { cnode, radix, guard: 0, guard_bits: 0 }
    }

    /// Makes a pool of address space identifiers of the whole 4 KiB untyped in `parent`.
    pub(crate) fn make_asid_pool(&mut self, parent: SlotId, dest: SlotId, base: u16) {
        let Capability::Untyped { paddr, size_bits, used, .. } = &mut self.slots[parent].cap else { return };
        *used = 1 << *size_bits;
        let paddr = *paddr;
        self.clear(paddr..paddr + (1 << crate::object::PAGE_BITS));
        let pool = self.asid_pools.add(AsidPoolObject::new(paddr));
        self.insert_derived(Capability::AsidPool { pool, base }, parent, dest);
        self.install_asid_pool(pool, base);
    }
}

fn frame(size: FrameSize, is_device: bool, paddr: u64) -> Capability {
    Capability::Frame { paddr, size, rights: VmRights::ReadWrite, is_device, mapping: Mapping::None }
}

fn check_size(object_type: ObjectType, size_bits: u8) -> Result<()> {
    match object_type {
        ObjectType::CNode if size_bits == 0 => Err(Error::InvalidArgument(1)),
        ObjectType::Untyped if size_bits < MIN_UNTYPED_BITS => Err(Error::InvalidArgument(1)),
        _ => Ok(()),
    }
}

/// The number of an object type in the kernel's interface.
const fn object_number(object_type: ObjectType) -> u64 {
    match object_type {
        ObjectType::Untyped => 0,
        ObjectType::Tcb => 1,
        ObjectType::Endpoint => 2,
        ObjectType::Notification => 3,
        ObjectType::CNode => 4,
        ObjectType::TranslationTable(TableLevel::One) => 5,
        ObjectType::VSpace => 6,
        ObjectType::SmallPage => 7,
        ObjectType::LargePage => 8,
        ObjectType::TranslationTable(TableLevel::Three) => 9,
        ObjectType::TranslationTable(TableLevel::Two) => 10,
        ObjectType::IoPageTable => 11,
    }
}
