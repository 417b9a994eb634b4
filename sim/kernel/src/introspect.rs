//! Views for checkers: the capabilities that threads hold, and the memory mapped for threads and devices.

use crate::arena::{IoTableId, TableId, ThreadId};
use crate::capability::{Capability, VmRights};
use crate::kernel::Kernel;
use crate::object::{Entry, IoEntry};
use crate::slots::SlotId;
use crate::thread::ThreadState;
use platform::{CNode, Cap, UserContext};

/// A capability and the path that leads to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Held {
    /// The path, all 64 bits of it.
    pub cptr: u64,
    /// The capability at its end.
    pub cap: Capability,
}

/// A frame in a VSpace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MappedPage {
    /// First byte.
    pub vaddr: u64,
    /// Physical address.
    pub paddr: u64,
    /// log2 of its bytes.
    pub size_bits: u8,
    /// Access that user level has.
    pub rights: VmRights,
}

/// A page in an IOSpace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IoPage {
    /// First byte, as the device addresses it.
    pub iova: u64,
    /// Physical address.
    pub paddr: u64,
    /// Whether the device may read it.
    pub read: bool,
    /// Whether the device may write it.
    pub write: bool,
}

/// log2 of the bytes that an entry on the last level translates.
const PAGE_SHIFT: u32 = crate::object::PAGE_BITS as u32;

impl Kernel {
    /// All threads that exist, in the order in which they were made.
    pub fn threads(&self) -> impl Iterator<Item = ThreadId> {
        self.threads.iter().map(|(thread, _)| thread)
    }

    /// The thread that the capability in slot `tcb` of `thread`'s CSpace names.
    #[must_use]
    pub fn thread_of(&self, thread: ThreadId, tcb: Cap<platform::Tcb>) -> Option<ThreadId> {
        match self.cap_at(thread, tcb.cptr())? {
            Capability::Thread(named) => Some(named),
            _ => None,
        }
    }

    /// The capability at `cptr` in the CSpace of `thread`; [`Capability::Null`] in an empty slot, `None` without a slot.
    #[must_use]
    pub fn cap_at(&self, thread: ThreadId, cptr: platform::CPtr) -> Option<Capability> {
        self.threads.get(thread)?;
        Some(self.slots[self.lookup(thread, cptr).ok()?].cap)
    }

    /// The capabilities that derive from the one at `cptr` in the CSpace of `thread`, children of children included: those
    /// that revoking it would delete.
    #[must_use]
    pub fn descendants(&self, thread: ThreadId, cptr: platform::CPtr) -> Vec<Capability> {
        let slot = self.threads.get(thread).and_then(|_| self.lookup(thread, cptr).ok());
        slot.map_or_else(Vec::new, |slot| self.derived_from(slot).map(|child| self.slots[child].cap).collect())
    }

    /// The state of a thread; `None` after its end.
    #[must_use]
    pub fn thread_state(&self, thread: ThreadId) -> Option<ThreadState> {
        self.threads.get(thread).map(|thread| thread.state)
    }

    /// A thread's priority; 0 after its end.
    #[must_use]
    pub fn priority(&self, thread: ThreadId) -> u8 {
        self.threads.get(thread).map_or(0, |thread| thread.priority)
    }

    /// A thread's registers, as they were written to it.
    #[must_use]
    pub fn registers(&self, thread: ThreadId) -> UserContext {
        self.threads.get(thread).map_or_else(UserContext::default, |thread| thread.context)
    }

    /// Number of writes of a thread's registers. After each, the thread starts from them again.
    #[must_use]
    pub fn starts(&self, thread: ThreadId) -> u32 {
        self.threads.get(thread).map_or(0, |thread| thread.starts)
    }

    /// Sets a thread's instruction pointer, for the messages of its faults.
    pub fn set_instruction_pointer(&mut self, thread: ThreadId, instruction_pointer: u64) {
        if let Some(thread) = self.threads.get_mut(thread) {
            thread.context.instruction_pointer = instruction_pointer;
        }
    }

    /// All capabilities in the CSpace of `thread`, CNodes below CNodes included to a depth of 8.
    #[must_use]
    pub fn cspace(&self, thread: ThreadId) -> Vec<Held> {
        let mut held = Vec::new();
        if let Some(thread) = self.threads.get(thread) {
            self.collect_held(&self.slots[thread.first].cap, 0, 64, 8, &mut held);
        }
        held
    }

    /// All capabilities in the CNode that `cnode` of `thread`'s CSpace names, by slot number.
    #[must_use]
    pub fn cnode_contents(&self, thread: ThreadId, cnode: Cap<CNode>) -> Vec<(u64, Capability)> {
        match self.cap_at(thread, cnode.cptr()) {
            Some(Capability::CNode { cnode, .. }) => self.filled(cnode).map(|(slot, cap)| (slot.into(), cap)).collect(),
            _ => Vec::new(),
        }
    }

    fn filled(&self, cnode: crate::CNodeId) -> impl Iterator<Item = (u32, Capability)> {
        let object = &self.cnodes[cnode];
        let slots = (0..1u32 << object.radix).map(|number| (number, self.slots[object.first.offset(number)].cap));
        slots.filter(|(_, cap)| !cap.is_null())
    }

    fn collect_held(&self, root: &Capability, path: u64, bits: u8, depth: u8, held: &mut Vec<Held>) {
        let Capability::CNode { cnode, radix, guard, guard_bits } = *root else { return };
        let Some(left) = bits.checked_sub(radix + guard_bits) else { return };
        for (number, cap) in self.filled(cnode) {
            let own = guard.checked_shl(radix.into()).unwrap_or(0) | u64::from(number);
            let path = path | own.checked_shl(left.into()).unwrap_or(0);
            held.push(Held { cptr: path, cap });
            if left > 0 && depth > 0 {
                self.collect_held(&cap, path, left, depth - 1, held);
            }
        }
    }

    /// The address space identifier of a thread's VSpace, if that is one the processor would use.
    #[must_use]
    pub fn vspace_asid(&self, thread: ThreadId) -> Option<u16> {
        self.thread_vspace(thread)?;
        match self.slots[self.vspace_slot(thread)].cap {
            Capability::VSpace { asid, .. } => Some(asid),
            _ => None,
        }
    }

    /// All frames mapped in the VSpace of `thread`, in order of address.
    #[must_use]
    pub fn vspace(&self, thread: ThreadId) -> Vec<MappedPage> {
        let mut pages = Vec::new();
        if let Some(root) = self.thread_vspace(thread) {
            self.collect_pages(root, 0, 39, &mut pages);
        }
        pages
    }

    pub(crate) fn collect_pages(&self, table: TableId, base: u64, shift: u32, pages: &mut Vec<MappedPage>) {
        for (number, entry) in (0u64..).zip(self.tables[table].entries.iter()) {
            let vaddr = base | number << shift;
            match *entry {
                Entry::Empty => {}
                Entry::Table(next) => self.collect_pages(next, vaddr, shift - 9, pages),
                Entry::Page { paddr, rights, is_executable: _ } => {
                    pages.push(MappedPage { vaddr, paddr, size_bits: shift as u8, rights });
                }
            }
        }
    }

    /// All pages that a PCI requester id reaches, in order of address.
    #[must_use]
    pub fn io_space(&self, requester_id: u16) -> Vec<IoPage> {
        let mut pages = Vec::new();
        if let Some(root) = self.io_context(requester_id) {
            self.collect_io_pages(root, 0, 30, &mut pages);
        }
        pages
    }

    fn collect_io_pages(&self, table: IoTableId, base: u64, shift: u32, pages: &mut Vec<IoPage>) {
        for (number, entry) in (0u64..).zip(self.io_tables[table].entries.iter()) {
            let iova = base | number << shift;
            match *entry {
                // The IOMMU takes no page for a table (see `sim/FIDELITY.md`), and a table on the last level for a page.
                IoEntry::Page { .. } if shift > PAGE_SHIFT => {}
                IoEntry::Table(next) if shift == PAGE_SHIFT => {
                    let paddr = self.io_tables[next].paddr;
                    pages.push(IoPage { iova, paddr, read: true, write: true });
                }
                IoEntry::Empty => {}
                IoEntry::Table(next) => self.collect_io_pages(next, iova, shift - 9, pages),
                IoEntry::Page { paddr, read, write } => pages.push(IoPage { iova, paddr, read, write }),
            }
        }
    }

    pub(crate) fn derived_from(&self, slot: SlotId) -> impl Iterator<Item = SlotId> {
        let first = self.slots[slot].next;
        let run = core::iter::successors(first, |next| self.slots[*next].next);
        run.take_while(move |next| self.is_parent(slot, *next))
    }
}
