//! A sequence as it is written or generated, with its name and topic.

use crate::op::{Context, HELPERS, Letter, Op, Path, Slot, THREADS};
use crate::stage::{HELPER_CNODE, HELPER_CNODE_BITS, HELPER_TCB, MEMORY};
use crate::wire;
use core::fmt;
use platform::{Badge, CapData, ObjectType, Resume, Rights};
pub use sim_kernel::Rules;
use sim_kernel::{Arch, Grants};

/// The topic of a sequence.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Topic {
    /// Retype, and the memory that revoking frees.
    Untyped,
    /// Copy, mint, move, delete, revoke, and the lookup of slots.
    CNode,
    /// Paging structures, frames, ASIDs, and the memory that can be reached afterwards.
    VSpace,
    /// IOSpaces and IO page tables.
    IoSpace,
    /// Interrupt handlers.
    Interrupts,
    /// I/O ports.
    Ports,
    /// TCBs.
    Threads,
    /// Notifications.
    Notifications,
    /// Messages.
    Endpoints,
    /// Capabilities in messages.
    Transfer,
    /// Faults and their handling.
    Faults,
    /// Invocations of all kinds, mixed.
    Invocations,
    /// IPC of all kinds, mixed.
    Ipc,
}

impl fmt::Display for Topic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// A sequence.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Script {
    /// The behaviour that it shows, or the seed it was made from.
    pub name: String,
    /// The sequence's topic.
    pub topic: Topic,
    /// The kernel that it is for.
    pub arch: Arch,
    /// That kernel's rules.
    pub rules: Rules,
    /// Priorities of the helpers, each above the lowest thread's 1 and below the root thread's 255.
    pub priorities: [u8; HELPERS],
    /// The calls of each thread; the root thread's first.
    pub threads: [Vec<Op>; THREADS],
}

/// The rules of seL4 5.0.0 as this project corrects it.
pub const OWN_RULES: Rules = Rules { grants: Grants::Lax, ..Rules::CORRECTED };

/// Every kind of kernel that sequences are made on.
#[cfg(test)]
pub(crate) const KERNELS: [(Arch, Rules); 4] = [
    (Arch::X86_64, OWN_RULES),
    (Arch::Aarch64, OWN_RULES),
    (Arch::X86_64, Rules::STOCK),
    (Arch::Aarch64, Rules::STOCK),
];

/// Helpers' priorities where nothing depends on them: the first is the highest.
pub const PRIORITIES: [u8; HELPERS] = [120, 110, 100];

impl Script {
    /// An empty sequence, for seL4 5.0.0 on x86_64; [`Script::on`] makes it one for another architecture.
    #[must_use]
    pub fn new(topic: Topic, name: impl Into<String>) -> Self {
        let (arch, rules) = (Arch::X86_64, OWN_RULES);
        Self { name: name.into(), topic, arch, rules, priorities: PRIORITIES, threads: Default::default() }
    }

    /// The sequence for a kernel with these rules.
    #[must_use]
    pub const fn under(mut self, rules: Rules) -> Self {
        self.rules = rules;
        self
    }

    /// Adds a call of the root thread.
    pub fn then(&mut self, op: Op) -> &mut Self {
        self.add(0, op)
    }

    /// Adds calls of the root thread.
    pub fn all(&mut self, ops: impl IntoIterator<Item = Op>) -> &mut Self {
        ops.into_iter().fold(self, |script, op| script.then(op))
    }

    /// Adds a call of helper `helper`, counted from 1.
    pub fn helper(&mut self, helper: u8, op: Op) -> &mut Self {
        self.add(usize::from(helper), op)
    }

    /// Starts a helper at the next call that will be added for it, as soon as the root thread waits.
    pub fn start(&mut self, helper: u8) -> &mut Self {
        let call = self.threads.get(usize::from(helper)).map_or(0, Vec::len) as u16;
        self.then(start(helper, call))
    }

    fn add(&mut self, thread: usize, op: Op) -> &mut Self {
        if let Some(calls) = self.threads.get_mut(thread) {
            calls.push(op);
        }
        self
    }

    /// Number of its calls.
    #[must_use]
    pub fn calls(&self) -> usize {
        self.threads.iter().flatten().filter(|op| **op != Op::Nothing).count()
    }
}

/// The payload of the interpreter for `scripts`.
#[must_use]
pub fn payload(scripts: &[Script]) -> Vec<u8> {
    wire::encode(scripts.iter().map(|script| (script.priorities, &script.threads)))
}

/// The slot `slot` of helper `helper` (from 1), as the root thread names it.
#[must_use]
pub fn of_helper(helper: u8, slot: u16) -> Path {
    Path::In(cnode_of(helper), u64::from(slot), HELPER_CNODE_BITS)
}

/// The TCB of helper `helper` (from 1).
#[must_use]
pub fn tcb_of(helper: u8) -> Slot {
    usize::from(helper).checked_sub(1).and_then(|index| HELPER_TCB.get(index)).copied().unwrap_or(Slot::EMPTY)
}

/// The CNode of helper `helper` (from 1).
#[must_use]
pub fn cnode_of(helper: u8) -> Slot {
    usize::from(helper).checked_sub(1).and_then(|index| HELPER_CNODE.get(index)).copied().unwrap_or(Slot::EMPTY)
}

/// Starts helper `helper` at its call `call`.
#[must_use]
pub fn start(helper: u8, call: u16) -> Op {
    Op::WriteRegisters { tcb: tcb_of(helper), start: Resume::Now, context: Context::Helper(helper, call) }
}

/// Makes objects in the root thread's slots from `first` on, out of the second untyped.
#[must_use]
pub fn make(object: ObjectType, first: u16, count: u16) -> Op {
    Op::Retype { untyped: MEMORY[1], object, size_bits: 0, cnode: Slot::CNODE, first, count }
}

/// Makes an untyped or a CNode of this size, out of the second untyped.
#[must_use]
pub fn make_sized(object: ObjectType, size_bits: u8, first: u16, count: u16) -> Op {
    Op::Retype { untyped: MEMORY[1], object, size_bits, cnode: Slot::CNODE, first, count }
}

/// Copies with all rights, between slots of the root thread.
#[must_use]
pub fn copy(dest: u16, src: u16) -> Op {
    Op::Copy { dest: Path::Own(Slot(dest)), src: Path::Own(Slot(src)), rights: Rights::ALL }
}

/// Mints with all rights and a badge, to any place.
#[must_use]
pub fn mint(dest: Path, src: u16, badge: u64) -> Op {
    Op::Mint { dest, src: Path::Own(Slot(src)), rights: Rights::ALL, data: CapData::Badge(Badge(badge)) }
}

/// A slot of the root thread.
#[must_use]
pub const fn own(slot: u16) -> Path {
    Path::Own(Slot(slot))
}

/// Deletes a slot of the root thread.
#[must_use]
pub const fn delete(slot: u16) -> Op {
    Op::Delete { slot: own(slot) }
}

/// Revokes a slot of the root thread.
#[must_use]
pub const fn revoke(slot: u16) -> Op {
    Op::Revoke { slot: own(slot) }
}

/// A short message.
#[must_use]
pub const fn letter(label: u16, first: u64) -> Letter {
    Letter::new(Letter::FIRST_LABEL + label, first)
}
