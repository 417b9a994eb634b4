//! Deletion of capabilities and, with the last one, of their objects.
//!
//! A CNode or a thread has slots that must be emptied first: its last capability becomes a zombie, which shrinks until
//! nothing is left. Left out: the kernel's preemption points; a revocation is complete when it returns.

use crate::arena::ThreadId;
use crate::capability::{Capability, Dying, Mapping};
use crate::kernel::Kernel;
use crate::slots::SlotId;
use crate::thread::THREAD_SLOTS;

/// Whether a slot may keep a zombie that waits for another deletion to finish it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Finish {
    /// The slot is empty in the end.
    Now,
    /// A zombie in its own object's first slot is left there.
    OrLeaveOwn,
}

/// The result of [`Kernel::finalise_slot`].
enum Finalised {
    /// The capability can be removed; with the interrupt, if it was one's last handler.
    Removable(Option<u8>),
    /// The capability has to stay.
    Kept,
}

impl Kernel {
    /// Deletes the capability in `slot`, and its object with the last one.
    pub(crate) fn delete(&mut self, slot: SlotId) {
        self.delete_slot(slot, Finish::Now);
    }

    /// Deletes all capabilities that derive from the one in `slot`.
    pub(crate) fn revoke(&mut self, slot: SlotId) {
        while let Some(next) = self.slots[slot].next.filter(|next| self.is_parent(slot, *next)) {
            self.delete(next);
        }
    }

    /// Deletes a capability of a kind that needs no emptying: endpoint, notification, reply.
    pub(crate) fn delete_simple(&mut self, slot: SlotId) {
        if !self.slots[slot].cap.is_null() {
            let is_final = self.is_final(slot);
            self.finalise(slot, is_final);
            self.empty(slot, None);
        }
    }

    fn delete_slot(&mut self, slot: SlotId, finish: Finish) {
        match self.finalise_slot(slot, finish) {
            Finalised::Removable(irq) => self.empty(slot, irq),
            Finalised::Kept => {}
        }
    }

    fn finalise_slot(&mut self, slot: SlotId, finish: Finish) -> Finalised {
        while !self.slots[slot].cap.is_null() {
            let is_final = self.is_final(slot);
            let (remainder, irq) = self.finalise(slot, is_final);
            let Capability::Zombie { of, left } = remainder else { return Finalised::Removable(irq) };
            let first = self.first_slot(of);
            if left == 0 || left == 1 && slot == first {
                return Finalised::Removable(None);
            }
            self.slots[slot].cap = remainder;
            if finish == Finish::OrLeaveOwn && slot == first {
                return Finalised::Kept;
            }
            self.shrink_zombie(slot, of, left, finish);
        }
        Finalised::Removable(None)
    }

    /// Brings the zombie in `slot` nearer to its end. Either its last slot is emptied, or the zombie moves into its own
    /// object's first slot and the content of that slot comes here.
    fn shrink_zombie(&mut self, slot: SlotId, of: Dying, left: u32, finish: Finish) {
        let first = self.first_slot(of);
        match finish {
            Finish::Now => {
                self.delete_slot(first.offset(left - 1), Finish::OrLeaveOwn);
                if let Capability::Zombie { of: now, left: now_left } = &mut self.slots[slot].cap
                    && (*now, *now_left) == (of, left)
                {
                    *now_left = left - 1;
                }
            }
            Finish::OrLeaveOwn => self.swap_slots(first, slot),
        }
    }

    fn first_slot(&self, of: Dying) -> SlotId {
        match of {
            Dying::CNode(cnode) => self.cnodes[cnode].first,
            Dying::Thread(thread) => self.threads[thread].first,
        }
    }

    /// Does what the loss of the capability in `slot` requires. Returns the capability that must stay in the slot until the
    /// rest of the object is gone, and the interrupt that lost its handler.
    fn finalise(&mut self, slot: SlotId, is_final: bool) -> (Capability, Option<u8>) {
        let cap = self.slots[slot].cap;
        // The mapping belongs to this capability: it is removed with it, last copy or not.
        if let Capability::Frame { paddr, size, mapping, .. } = cap {
            self.end_mapping(paddr, size, mapping);
        }
        if !is_final {
            return match cap {
                Capability::Zombie { .. } => (cap, None),
                _ => (Capability::Null, None),
            };
        }
        match cap {
            Capability::Endpoint { endpoint, .. } => self.cancel_all_ipc(endpoint),
            Capability::Notification { notification, .. } => {
                self.unbind_notification(notification);
                self.cancel_all_signals(notification);
            }
            Capability::CNode { cnode, radix, .. } => {
                return (Capability::Zombie { of: Dying::CNode(cnode), left: 1 << radix }, None);
            }
            Capability::Thread(thread) => {
                self.end_thread(thread);
                return (Capability::Zombie { of: Dying::Thread(thread), left: THREAD_SLOTS }, None);
            }
            Capability::Zombie { .. } => return (cap, None),
            Capability::IrqHandler(irq) => {
                self.delete_simple(self.irq_slot(irq));
                return (Capability::Null, Some(irq));
            }
            Capability::Table { level, table, place: Some(place) } => self.uninstall_table(level, table, place),
            Capability::VSpace { table, asid } if asid != 0 => self.end_asid(asid, table),
            Capability::AsidPool { pool, base } => self.end_asid_pool(pool, base),
            Capability::IoPorts { first, last } => self.issued_ports.retain(|range| *range != (first, last)),
            Capability::IoSpace { requester_id, .. } => self.end_io_space(requester_id),
            Capability::IoTable { table, place: Some(place) } => self.uninstall_io_table(table, place),
            _ => {}
        }
        (Capability::Null, None)
    }

    fn end_mapping(&mut self, paddr: u64, size: crate::FrameSize, mapping: Mapping) {
        match mapping {
            Mapping::None => {}
            Mapping::VSpace { asid, vaddr } => self.unmap_page(size, asid, vaddr, paddr),
            Mapping::IoSpace { requester_id, iova } => self.unmap_io_page(requester_id, iova, paddr),
        }
    }

    fn end_thread(&mut self, thread: ThreadId) {
        if let Some(notification) = self.threads[thread].bound {
            self.unbind_notification(notification);
        }
        self.suspend(thread);
    }

    /// Empties a slot whose capability was finalised. The object's place is free when this was its last capability.
    fn empty(&mut self, slot: SlotId, irq: Option<u8>) {
        if self.slots[slot].cap.is_null() {
            return;
        }
        let is_final = self.is_final(slot);
        let cap = self.slots[slot].cap;
        self.unlink(slot);
        if let Some(irq) = irq {
            self.release_irq(irq);
        }
        if is_final {
            self.forget(cap);
        }
    }

    /// Frees the place of an object that no capability names any more.
    fn forget(&mut self, cap: Capability) {
        match cap {
            Capability::Endpoint { endpoint, .. } => self.endpoints.remove(endpoint),
            Capability::Notification { notification, .. } => self.notifications.remove(notification),
            Capability::Zombie { of: Dying::CNode(cnode), .. } => {
                let object = &self.cnodes[cnode];
                self.slots.remove(object.first, object.radix);
                self.cnodes.remove(cnode);
            }
            Capability::Zombie { of: Dying::Thread(thread), .. } => {
                self.slots.remove(self.threads[thread].first, crate::thread::THREAD_SLOT_BITS);
                self.threads.retire(thread);
            }
            Capability::Table { table, .. } | Capability::VSpace { table, .. } => self.tables.remove(table),
            Capability::AsidPool { pool, .. } => self.asid_pools.remove(pool),
            Capability::IoTable { table, .. } => {
                self.io_deleted.insert(self.io_tables[table].paddr, table);
            }
            _ => {}
        }
    }
}
