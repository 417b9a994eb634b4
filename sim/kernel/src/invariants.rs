//! Invariants of a kernel between two calls, whatever calls were made before.
//!
//! The derivation order is consistent; capabilities name objects that exist and objects have capabilities; objects
//! lie inside the untypeds they come from and do not overlap; what is mapped is mapped by a capability; queues hold
//! exactly the threads that are in the state for them.

use crate::arena::{TableId, ThreadId};
use crate::capability::{Capability, Dying, Mapping};
use crate::kernel::Kernel;
use crate::object::{Entry, IoEntry, Signalled, TABLE_ENTRIES, Waiting};
use crate::rules::Correction;
use crate::slots::SlotId;
use crate::thread::{THREAD_SLOT_BITS, ThreadState};
use crate::vspace::shift;
use core::cmp::Reverse;
use platform::TableLevel;
use std::collections::BTreeSet;

type Checked = Result<(), String>;

/// The name of an object: its kind and number.
type Name = (ObjectKind, u64);

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum ObjectKind {
    Endpoint,
    Notification,
    CNode,
    Thread,
    PagingStructure,
    AsidPool,
    IoPageTable,
    Frame,
}

impl Kernel {
    /// Checks all of the kernel's state, in time proportional to the number of slots. For tests, and for checkers at rare
    /// moments.
    ///
    /// # Errors
    /// One sentence that names the broken invariant.
    pub fn check_invariants(&self) -> Result<(), String> {
        let filled = self.check_links()?;
        self.check_families(&filled)?;
        self.check_objects(&filled)?;
        self.check_memory(&filled)?;
        self.check_vspaces(&filled)?;
        // Without the correction tables keep entries whose frames and tables were deleted or unmapped.
        if self.rules.io_page_table == Correction::Made {
            self.check_io_spaces(&filled)?;
        }
        self.check_waiting()?;
        self.check_ready()
    }

    /// The runs of slots of CNodes, threads and interrupts in the order of their numbers: the first, and the first behind.
    fn owned_slots(&self) -> Vec<(SlotId, SlotId)> {
        let cnodes = self.cnodes.iter().map(|(_, object)| (object.first, 1u32 << object.radix));
        let threads = self.threads.iter().map(|(_, thread)| (thread.first, 1 << THREAD_SLOT_BITS));
        let interrupts = core::iter::once((self.irq_slot(0), u32::from(self.irq_count())));
        let runs = cnodes.chain(threads).chain(interrupts);
        sorted(runs.map(|(first, count)| (first, first.offset(count))).collect())
    }

    /// Returns the slots with a capability. Most are empty, and an empty slot names no object.
    fn check_links(&self) -> Result<Vec<SlotId>, String> {
        let owned = self.owned_slots();
        let is_second = owned.windows(2).any(|pair| pair[0].1 > pair[1].0);
        ensure(!is_second, || "a slot belongs to two objects".to_owned())?;
        let is_owned = |slot: SlotId| {
            let begun = owned.partition_point(|(first, _)| *first <= slot);
            owned[..begun].last().is_some_and(|(_, end)| slot < *end)
        };
        let mut filled = Vec::new();
        for (slot, content) in self.slots.iter() {
            if content.cap.is_null() {
                let is_linked = content.prev.is_some() || content.next.is_some();
                ensure(!is_linked, || format!("empty {slot:?} is in the derivation order"))?;
                continue;
            }
            ensure(is_owned(slot), || format!("{slot:?} is nobody's and not empty"))?;
            filled.push(slot);
            if let Some(next) = content.next {
                ensure(self.slots[next].prev == Some(slot), || format!("{next:?} does not know {slot:?} before it"))?;
            }
            if let Some(prev) = content.prev {
                ensure(self.slots[prev].next == Some(slot), || format!("{prev:?} does not know {slot:?} behind it"))?;
            }
        }
        Ok(filled)
    }

    /// The order has no rings, and the capabilities to one object stand together in it.
    fn check_families(&self, filled: &[SlotId]) -> Checked {
        let mut seen = 0usize;
        let mut families = Vec::new();
        let heads = filled.iter().filter(|slot| self.slots[**slot].prev.is_none());
        for head in heads {
            let mut last = None;
            for slot in core::iter::successors(Some(*head), |slot| self.slots[*slot].next) {
                seen += 1;
                let name = object_name(&self.slots[slot].cap);
                if name != last {
                    families.extend(name);
                }
                last = name;
            }
        }
        let families = sorted(families);
        let twice = families.windows(2).find(|pair| pair[0] == pair[1]);
        ensure(twice.is_none(), || format!("capabilities to {twice:?} do not stand together"))?;
        ensure(seen == filled.len(), || "the derivation order has a ring".to_owned())
    }

    fn check_objects(&self, filled: &[SlotId]) -> Checked {
        let mut named = Vec::new();
        for slot in filled {
            let cap = &self.slots[*slot].cap;
            ensure(self.names_something(cap), || format!("{cap:?} in {slot:?} names nothing"))?;
            self.check_reply(cap)?;
            named.extend(object_name(cap));
        }
        let named = sorted(named);
        for name in self.object_names() {
            ensure(named.binary_search(&name).is_ok(), || format!("no capability names {name:?}"))?;
        }
        Ok(())
    }

    /// Checks that the thread of a reply capability waits for its reply.
    fn check_reply(&self, cap: &Capability) -> Checked {
        let Capability::Reply { thread, is_master: false, .. } = cap else { return Ok(()) };
        let state = self.threads.get(*thread).map(|thread| thread.state);
        ensure(state == Some(ThreadState::BlockedOnReply), || format!("{thread:?} can be answered and is {state:?}"))
    }

    fn names_something(&self, cap: &Capability) -> bool {
        match *cap {
            Capability::Endpoint { endpoint, badge, .. } => {
                self.endpoints.get(endpoint).is_some() && (self.is_current() || badge >> 28 == 0)
            }
            Capability::Notification { notification, .. } => self.notifications.get(notification).is_some(),
            Capability::CNode { cnode, .. } | Capability::Zombie { of: Dying::CNode(cnode), .. } => {
                self.cnodes.get(cnode).is_some()
            }
            Capability::Thread(thread)
            | Capability::Zombie { of: Dying::Thread(thread), .. }
            | Capability::Reply { thread, .. } => self.threads.get(thread).is_some(),
            Capability::Table { table, .. } | Capability::VSpace { table, .. } => self.tables.get(table).is_some(),
            Capability::AsidPool { pool, .. } => self.asid_pools.get(pool).is_some(),
            Capability::IoTable { table, .. } => self.io_tables.get(table).is_some(),
            _ => true,
        }
    }

    fn object_names(&self) -> impl Iterator<Item = Name> {
        let number = |number: u32| u64::from(number);
        let endpoints = self.endpoints.iter().map(move |(id, _)| (ObjectKind::Endpoint, number(id.number())));
        let notifications =
            self.notifications.iter().map(move |(id, _)| (ObjectKind::Notification, number(id.number())));
        let cnodes = self.cnodes.iter().map(move |(id, _)| (ObjectKind::CNode, number(id.number())));
        let threads = self.threads.iter().map(move |(id, _)| (ObjectKind::Thread, number(id.number())));
        let tables = self.tables.iter().map(move |(id, _)| (ObjectKind::PagingStructure, number(id.number())));
        let pools = self.asid_pools.iter().map(move |(id, _)| (ObjectKind::AsidPool, number(id.number())));
        let live = self.io_tables.iter().filter(|(id, table)| self.io_deleted.get(&table.paddr) != Some(id));
        let io_tables = live.map(move |(id, _)| (ObjectKind::IoPageTable, number(id.number())));
        endpoints.chain(notifications).chain(cnodes).chain(threads).chain(tables).chain(pools).chain(io_tables)
    }

    fn check_memory(&self, filled: &[SlotId]) -> Checked {
        let mut objects = Vec::new();
        let mut untypeds = BTreeSet::new();
        for slot in filled {
            let cap = &self.slots[*slot].cap;
            match (cap, self.region(cap)) {
                (Capability::Untyped { paddr, used, size_bits, .. }, _) => {
                    untypeds.insert((*paddr, Reverse(*size_bits)));
                    for child in self.derived_from(*slot) {
                        let inside = self.region(&self.slots[child].cap);
                        let inside = inside.is_none_or(|(base, bits)| base + (1 << bits) <= paddr + used);
                        ensure(inside, || format!("{child:?} lies in the free part of {cap:?}"))?;
                    }
                }
                (_, Some(object)) => objects.push(object),
                (_, None) => {}
            }
        }
        let mut objects = sorted(objects);
        objects.dedup();
        let mut end = 0;
        for (base, bits) in objects {
            ensure(end <= base, || format!("the object at {base:#x} overlaps the one before"))?;
            end = base + (1 << bits);
        }
        check_nesting(&untypeds)
    }

    fn check_vspaces(&self, filled: &[SlotId]) -> Checked {
        let (mut pages, mut tables) = (Vec::new(), Vec::new());
        for slot in filled {
            match self.slots[*slot].cap {
                Capability::Frame { paddr, mapping: Mapping::VSpace { asid, vaddr }, .. } => {
                    pages.push((asid, spelled(vaddr), paddr));
                }
                Capability::Table { table, place: Some(place), .. } => {
                    tables.push((place.asid, spelled(place.vaddr), table));
                }
                _ => {}
            }
        }
        let (pages, tables) = (sorted(pages), sorted(tables));
        for asid in 1..=((crate::object::asid_pools(self.arch) * TABLE_ENTRIES) - 1) as u16 {
            let Some(root) = self.vspace_of(asid) else { continue };
            ensure(self.tables.get(root).is_some(), || format!("identifier {asid} names no VSpace"))?;
            self.check_table(asid, (root, 0, None), &pages, &tables)?;
        }
        Ok(())
    }

    fn check_table(
        &self,
        asid: u16,
        (table, base, level): (TableId, u64, Option<TableLevel>),
        pages: &[(u16, u64, u64)],
        tables: &[(u16, u64, TableId)],
    ) -> Checked {
        let below = TableLevel::ALL.into_iter().find(|below| below.above() == level);
        for (number, entry) in (0u64..).zip(self.tables[table].entries.iter()) {
            let vaddr = base | number << shift(level);
            match *entry {
                Entry::Empty => {}
                Entry::Page { paddr, .. } => {
                    let is_mapped = pages.binary_search(&(asid, vaddr, paddr)).is_ok();
                    ensure(is_mapped, || format!("{vaddr:#x} of {asid} is mapped by no capability"))?;
                }
                Entry::Table(next) => {
                    let is_installed = tables.binary_search(&(asid, vaddr, next)).is_ok();
                    ensure(is_installed, || format!("{next:?} at {vaddr:#x} of {asid} is installed by no capability"))?;
                    self.check_table(asid, (next, vaddr, below), pages, tables)?;
                }
            }
        }
        Ok(())
    }

    fn check_io_spaces(&self, filled: &[SlotId]) -> Checked {
        let mut pages = Vec::new();
        for slot in filled {
            match self.slots[*slot].cap {
                Capability::Frame { paddr, mapping: Mapping::IoSpace { requester_id, .. }, .. } => {
                    pages.push((requester_id, paddr));
                }
                Capability::IoTable { table, place: Some(place) } => {
                    pages.push((place.requester_id, self.io_tables[table].paddr));
                }
                _ => {}
            }
        }
        let pages = sorted(pages);
        for (requester_id, root) in &self.io_roots {
            let mut open = vec![*root];
            while let Some(table) = open.pop() {
                let object = self.io_tables.get(table);
                let object = object.ok_or_else(|| format!("{table:?} of {requester_id:#x} is no table"))?;
                ensure(pages.binary_search(&(*requester_id, object.paddr)).is_ok(), || {
                    format!("{table:?} is nobody's")
                })?;
                for entry in object.entries.iter() {
                    match *entry {
                        IoEntry::Empty => {}
                        IoEntry::Table(next) => open.push(next),
                        IoEntry::Page { paddr, .. } => {
                            let is_mapped = pages.binary_search(&(*requester_id, paddr)).is_ok();
                            ensure(is_mapped, || format!("{requester_id:#x} reaches {paddr:#x} by no capability"))?;
                        }
                    }
                }
            }
        }
        Ok(())
    }

    fn check_waiting(&self) -> Checked {
        let mut queued = BTreeSet::new();
        for (endpoint, object) in self.endpoints.iter() {
            ensure((object.waiting == Waiting::Nobody) == object.queue.head.is_none(), || {
                format!("{endpoint:?} is {:?}", object.waiting)
            })?;
            for thread in object.queue.iter(&self.threads) {
                let fits = match self.threads[thread].state {
                    ThreadState::BlockedOnSend { endpoint: at, .. } => {
                        at == endpoint && object.waiting == Waiting::Senders
                    }
                    ThreadState::BlockedOnReceive { endpoint: at, .. } => {
                        at == endpoint && object.waiting == Waiting::Receivers
                    }
                    _ => false,
                };
                ensure(fits && queued.insert(thread), || format!("{thread:?} waits wrongly at {endpoint:?}"))?;
            }
        }
        for (notification, object) in self.notifications.iter() {
            ensure((object.state == Signalled::Awaited) == object.queue.head.is_some(), || {
                format!("{notification:?} is {:?}", object.state)
            })?;
            for thread in object.queue.iter(&self.threads) {
                let fits = self.threads[thread].state == ThreadState::BlockedOnNotification(notification);
                ensure(fits && queued.insert(thread), || format!("{thread:?} waits wrongly at {notification:?}"))?;
            }
            let bound = object.bound.is_none_or(|thread| self.threads[thread].bound == Some(notification));
            ensure(bound, || format!("{notification:?} is bound one-sidedly"))?;
        }
        for (thread, object) in self.threads.iter() {
            let waits = matches!(
                object.state,
                ThreadState::BlockedOnSend { .. }
                    | ThreadState::BlockedOnReceive { .. }
                    | ThreadState::BlockedOnNotification(_)
            );
            ensure(waits == queued.contains(&thread), || format!("{thread:?} is {:?}", object.state))?;
            let bound = object.bound.is_none_or(|bound| self.notifications[bound].bound == Some(thread));
            ensure(bound, || format!("{thread:?} is bound one-sidedly"))?;
        }
        Ok(())
    }

    fn check_ready(&self) -> Checked {
        let mut ready = BTreeSet::new();
        for priority in 0..=u8::MAX {
            for thread in self.runnable_at(priority) {
                ensure(ready.insert(thread), || format!("{thread:?} is ready twice"))?;
                let (own, runs) = (self.priority(thread), self.is_runnable(thread));
                ensure(own == priority && runs, || format!("{thread:?} of {own} is ready at {priority}: {runs}"))?;
            }
        }
        for (thread, object) in self.threads.iter() {
            let is_ready = ready.contains(&thread);
            ensure(object.state.is_runnable() == is_ready, || format!("{thread:?}: {:?}, {is_ready}", object.state))?;
        }
        let current = self.current().map_or(0, |thread: ThreadId| self.priority(thread));
        ensure(self.highest_runnable().unwrap_or(0) == current, || format!("{current} runs before a higher priority"))
    }
}

/// Checks that untypeds lie apart or one inside the other. The outer ones come first.
fn check_nesting(untypeds: &BTreeSet<(u64, Reverse<u8>)>) -> Checked {
    let mut around: Vec<u64> = Vec::new();
    for (base, Reverse(bits)) in untypeds {
        let end = base + (1 << bits);
        around.retain(|outer| outer > base);
        let fits = around.iter().all(|outer| end <= *outer);
        ensure(fits, || format!("the untyped of 2^{bits} bytes at {base:#x} lies half in another"))?;
        around.push(end);
    }
    Ok(())
}

/// An address in the form that the walk through the tables gives: those in the upper half of the root have more than one form.
const fn spelled(vaddr: u64) -> u64 {
    vaddr & 0xffff_ffff_ffff
}

fn object_name(cap: &Capability) -> Option<Name> {
    Some(match *cap {
        Capability::Endpoint { endpoint, .. } => (ObjectKind::Endpoint, endpoint.number().into()),
        Capability::Notification { notification, .. } => (ObjectKind::Notification, notification.number().into()),
        Capability::CNode { cnode, .. } | Capability::Zombie { of: Dying::CNode(cnode), .. } => {
            (ObjectKind::CNode, cnode.number().into())
        }
        Capability::Thread(thread) | Capability::Zombie { of: Dying::Thread(thread), .. } => {
            (ObjectKind::Thread, thread.number().into())
        }
        Capability::Table { table, .. } | Capability::VSpace { table, .. } => {
            (ObjectKind::PagingStructure, table.number().into())
        }
        Capability::AsidPool { pool, .. } => (ObjectKind::AsidPool, pool.number().into()),
        Capability::IoTable { table, .. } => (ObjectKind::IoPageTable, table.number().into()),
        Capability::Frame { paddr, .. } => (ObjectKind::Frame, paddr),
        _ => return None,
    })
}

/// Sorts for lookups, with less memory and time than a tree takes.
fn sorted<T: Ord>(mut all: Vec<T>) -> Vec<T> {
    all.sort_unstable();
    all
}

fn ensure(holds: bool, otherwise: impl FnOnce() -> String) -> Checked {
    if holds { Ok(()) } else { Err(otherwise()) }
}
