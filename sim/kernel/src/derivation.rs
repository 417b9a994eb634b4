//! The derivation order: which capability was derived from which.
//!
//! As in seL4 it is one list for each family, in which a derived capability follows its parent directly. Depth is not stored
//! but found by comparing neighbours. Results therefore depend on neighbours, here as in seL4: whether a capability is an
//! object's last is decided by its two neighbours alone.

use crate::capability::{Capability, Dying};
use crate::kernel::Kernel;
use crate::object::{ENDPOINT_BITS, NOTIFICATION_BITS, PAGE_BITS, SLOT_BITS, TCB_BITS};
use crate::rules::{Correction, Ports};
use crate::slots::SlotId;
use platform::{Error, Result};

impl Kernel {
    /// Puts `cap`, derived from the capability in `source`, into the empty slot `dest`.
    pub(crate) fn insert_derived(&mut self, cap: Capability, source: SlotId, dest: SlotId) {
        let parent = self.slots[source];
        let begins_family = self.begins_family(&parent.cap, &cap);
        if let (
            Capability::Untyped { paddr, size_bits, used, .. },
            Capability::Untyped { paddr: same, size_bits: size, .. },
        ) = (&mut self.slots[source].cap, &cap)
            && (*paddr, *size_bits) == (*same, *size)
        {
            // Two capabilities with the same memory free would make objects of it twice.
            *used = 1u64 << *size_bits;
        }
        self.link_after(source, dest, cap, begins_family);
    }

    /// Puts `cap`, a new object of the untyped in `parent`, into the empty slot `dest`.
    pub(crate) fn insert_made(&mut self, parent: SlotId, dest: SlotId, cap: Capability) {
        self.link_after(parent, dest, cap, true);
    }

    fn link_after(&mut self, source: SlotId, dest: SlotId, cap: Capability, begins_family: bool) {
        let next = self.slots[source].next;
        let slot = &mut self.slots[dest];
        debug_assert!(slot.cap.is_null(), "a capability goes into an empty slot");
        slot.cap = cap;
        slot.prev = Some(source);
        slot.next = next;
        slot.is_revocable = begins_family;
        slot.is_first = begins_family;
        self.slots[source].next = Some(dest);
        if let Some(next) = next {
            self.slots[next].prev = Some(dest);
        }
    }

    /// Puts `cap` into a slot, without parent and children: at boot, and for a thread's reply master.
    pub(crate) fn insert_root(&mut self, dest: SlotId, cap: Capability) {
        let slot = &mut self.slots[dest];
        slot.cap = cap;
        slot.prev = None;
        slot.next = None;
        slot.is_revocable = true;
        slot.is_first = true;
    }

    /// Moves the capability in `source` to the empty slot `dest`, where it takes the same place in the order.
    pub(crate) fn move_slot(&mut self, source: SlotId, dest: SlotId) {
        let moved = core::mem::take(&mut self.slots[source]);
        self.slots[dest] = moved;
        self.relink(moved.prev, moved.next, dest);
    }

    /// Exchanges the capabilities in two slots, with their places in the order.
    pub(crate) fn swap_slots(&mut self, one: SlotId, other: SlotId) {
        if one == other {
            return;
        }
        let rename = |link: Option<SlotId>| match link {
            Some(slot) if slot == one => Some(other),
            Some(slot) if slot == other => Some(one),
            link => link,
        };
        let (mut first, mut second) = (self.slots[one], self.slots[other]);
        (first.prev, first.next) = (rename(first.prev), rename(first.next));
        (second.prev, second.next) = (rename(second.prev), rename(second.next));
        self.slots[other] = first;
        self.slots[one] = second;
        self.relink(first.prev, first.next, other);
        self.relink(second.prev, second.next, one);
    }

    /// Links the neighbours to a capability's new slot.
    fn relink(&mut self, prev: Option<SlotId>, next: Option<SlotId>, now: SlotId) {
        if let Some(prev) = prev {
            self.slots[prev].next = Some(now);
        }
        if let Some(next) = next {
            self.slots[next].prev = Some(now);
        }
    }

    /// Takes a capability out of the order and leaves its slot empty.
    pub(crate) fn unlink(&mut self, slot: SlotId) {
        let gone = core::mem::take(&mut self.slots[slot]);
        if let Some(prev) = gone.prev {
            self.slots[prev].next = gone.next;
        }
        if let Some(next) = gone.next {
            self.slots[next].prev = gone.prev;
            self.slots[next].is_first |= gone.is_first;
        }
    }

    /// Whether the capability in `child`, which follows the one in `parent`, derives from it.
    pub(crate) fn is_parent(&self, parent: SlotId, child: SlotId) -> bool {
        let (above, below) = (&self.slots[parent], &self.slots[child]);
        if !above.is_revocable {
            return false;
        }
        // The master, which alone has domain 0, stands above all IOSpaces.
        if let (Capability::IoSpace { domain: 0, .. }, Capability::IoSpace { .. }) = (&above.cap, &below.cap)
            && self.rules.io_space_revoke == Correction::Made
        {
            return true;
        }
        if !self.is_same_region(&above.cap, &below.cap) {
            return false;
        }
        match (&above.cap, &below.cap) {
            (Capability::IoSpace { domain, .. }, Capability::IoSpace { domain: below_domain, .. }) => {
                self.rules.io_space_revoke == Correction::Missing || domain == below_domain && !below.is_first
            }
            (Capability::Endpoint { badge, .. }, Capability::Endpoint { badge: below_badge, .. })
            | (Capability::Notification { badge, .. }, Capability::Notification { badge: below_badge, .. }) => {
                *badge == 0 || badge == below_badge && !below.is_first
            }
            _ => true,
        }
    }

    /// # Errors
    /// [`Error::RevokeFirst`] when something derives from the capability in `slot`.
    pub(crate) fn ensure_no_children(&self, slot: SlotId) -> Result<()> {
        match self.slots[slot].next {
            Some(next) if self.is_parent(slot, next) => Err(Error::RevokeFirst),
            _ => Ok(()),
        }
    }

    /// # Errors
    /// [`Error::DeleteFirst`] when the slot is taken.
    pub(crate) fn ensure_empty(&self, slot: SlotId) -> Result<()> {
        if self.slots[slot].cap.is_null() { Ok(()) } else { Err(Error::DeleteFirst) }
    }

    /// Whether the capability in `slot` is the last to its object: neither neighbour names it.
    pub(crate) fn is_final(&self, slot: SlotId) -> bool {
        let own = &self.slots[slot];
        let before = own.prev.is_some_and(|prev| self.is_same_object(&self.slots[prev].cap, &own.cap));
        let behind = own.next.is_some_and(|next| self.is_same_object(&own.cap, &self.slots[next].cap));
        !before && !behind
    }

    /// The capability to put into another slot for a copy of `cap`, which lies in `slot`; [`Capability::Null`] for kinds
    /// that cannot be copied.
    ///
    /// # Errors
    /// [`Error::RevokeFirst`] for an untyped with children, [`Error::IllegalOperation`] for a structure not
    /// installed.
    pub(crate) fn derive(&mut self, slot: SlotId, cap: Capability) -> Result<Capability> {
        match cap {
            Capability::Zombie { .. }
            | Capability::IrqControl
            | Capability::IoPortControl
            | Capability::Reply { .. } => Ok(Capability::Null),
            Capability::Untyped { .. } => self.ensure_no_children(slot).map(|()| cap),
            Capability::Frame { paddr, size, rights, is_device, .. } => {
                let mapping = crate::capability::Mapping::None;
                Ok(Capability::Frame { paddr, size, rights, is_device, mapping })
            }
            Capability::Table { level: platform::TableLevel::One, .. } if self.arch == crate::Arch::X86_64 => {
                self.halt(crate::kernel::Halt::DerivedPdpt);
                Ok(Capability::Null)
            }
            Capability::Table { place: None, .. }
            | Capability::VSpace { asid: 0, .. }
            | Capability::IoTable { place: None, .. } => Err(Error::IllegalOperation),
            cap => Ok(cap),
        }
    }

    /// Whether the object of `below` lies in that of `above`.
    pub(crate) fn is_same_region(&self, above: &Capability, below: &Capability) -> bool {
        use Capability as C;
        match (above, below) {
            (C::Untyped { paddr, size_bits, .. }, _) => self.region(below).is_some_and(|(base, bits)| {
                let (top, inner_top) = (paddr + ((1 << size_bits) - 1), base + ((1 << bits) - 1));
                *paddr <= base && inner_top <= top
            }),
            (C::Endpoint { endpoint: a, .. }, C::Endpoint { endpoint: b, .. }) => a == b,
            (C::Notification { notification: a, .. }, C::Notification { notification: b, .. }) => a == b,
            (C::CNode { cnode: a, .. }, C::CNode { cnode: b, .. }) => a == b,
            (C::Thread(a), C::Thread(b)) => a == b,
            (C::Reply { thread: a, .. }, C::Reply { thread: b, .. }) => a == b,
            (C::Domain, C::Domain) | (C::AsidControl, C::AsidControl) => true,
            (C::IrqControl, C::IrqControl | C::IrqHandler(_)) => true,
            (C::IrqHandler(a), C::IrqHandler(b)) => a == b,
            (C::Frame { paddr: a, size, .. }, C::Frame { paddr: b, size: inner, .. }) => {
                a <= b && b + (1 << inner.bits()) <= a + (1 << size.bits())
            }
            (C::Table { level: k, table: a, .. }, C::Table { level: l, table: b, .. }) => k == l && a == b,
            (C::VSpace { table: a, .. }, C::VSpace { table: b, .. }) => a == b,
            (C::AsidPool { pool: a, .. }, C::AsidPool { pool: b, .. }) => a == b,
            (C::IoPortControl, C::IoPortControl | C::IoPorts { .. }) => true,
            (C::IoPorts { first: a, last: b }, C::IoPorts { first: c, last: d }) => a <= c && b >= d,
            (C::IoSpace { requester_id: a, .. }, C::IoSpace { requester_id: b, .. }) => a == b,
            (C::IoTable { table: a, .. }, C::IoTable { table: b, .. }) => a == b,
            _ => false,
        }
    }

    /// Whether two capabilities, the second behind the first, name one object.
    pub(crate) fn is_same_object(&self, one: &Capability, other: &Capability) -> bool {
        use Capability as C;
        match (one, other) {
            (C::Untyped { .. }, _) | (C::IrqControl, C::IrqHandler(_)) | (C::IoPortControl, C::IoPorts { .. }) => false,
            (C::IoPorts { .. }, C::IoPorts { .. }) if self.rules.ports == Ports::Minted => true,
            (C::Frame { paddr: a, size: s, .. }, C::Frame { paddr: b, size: t, .. }) => (a, s) == (b, t),
            _ => self.is_same_region(one, other),
        }
    }

    /// The memory that the object of `cap` takes: first byte and log2 of the bytes. `None` for an object without memory.
    pub(crate) fn region(&self, cap: &Capability) -> Option<(u64, u8)> {
        Some(match *cap {
            Capability::Untyped { paddr, size_bits, .. } => (paddr, size_bits),
            Capability::Endpoint { endpoint, .. } => (self.endpoints[endpoint].paddr, ENDPOINT_BITS),
            Capability::Notification { notification, .. } => {
                (self.notifications[notification].paddr, NOTIFICATION_BITS)
            }
            Capability::CNode { cnode, .. } | Capability::Zombie { of: Dying::CNode(cnode), .. } => {
                let object = &self.cnodes[cnode];
                (object.paddr, object.radix + SLOT_BITS)
            }
            Capability::Thread(thread) | Capability::Zombie { of: Dying::Thread(thread), .. } => {
                (self.threads[thread].paddr, TCB_BITS)
            }
            Capability::Frame { paddr, size, .. } => (paddr, size.bits()),
            Capability::Table { table, .. } | Capability::VSpace { table, .. } => (self.tables[table].paddr, PAGE_BITS),
            Capability::AsidPool { pool, .. } => (self.asid_pools[pool].paddr, PAGE_BITS),
            Capability::IoTable { table, .. } => (self.io_tables[table].paddr, PAGE_BITS),
            Capability::Null
            | Capability::Reply { .. }
            | Capability::Domain
            | Capability::IrqControl
            | Capability::IrqHandler(_)
            | Capability::AsidControl
            | Capability::IoPortControl
            | Capability::IoPorts { .. }
            | Capability::IoSpace { .. } => return None,
        })
    }

    /// Whether others can derive from `cap`, which was derived from `parent`.
    fn begins_family(&self, parent: &Capability, cap: &Capability) -> bool {
        match (cap, parent) {
            (Capability::Endpoint { badge, .. }, Capability::Endpoint { badge: above, .. })
            | (Capability::Notification { badge, .. }, Capability::Notification { badge: above, .. }) => badge != above,
            (Capability::IrqHandler(_), parent) => matches!(parent, Capability::IrqControl),
            (Capability::IoPorts { .. }, parent) => matches!(parent, Capability::IoPortControl),
            (Capability::Untyped { .. }, _) => true,
            // Minting changes the domain, always away from the master's 0.
            (Capability::IoSpace { domain, .. }, Capability::IoSpace { domain: above, .. }) => {
                domain != above && self.rules.io_space_revoke == Correction::Made
            }
            _ => false,
        }
    }
}
