//! The machine that random sequences run on: three threads that share one CNode, so that everything meets everything.
//!
//! A step's numbers mostly choose a capability of the kind that the step is about, and sometimes any slot at all.

use super::step::FUNCTION;
use crate::machine::{CNODE_BITS, Machine};
use platform::*;
use sim_kernel::{Capability, Mapping, Rules, ThreadId};
use std::collections::BTreeSet;

/// Slots the sequences work on.
pub(super) const SLOTS: u64 = 48;
/// From this number on a choice takes any slot.
const ANY: u8 = 248;
/// From this number on the components act, below it the root task.
const COMPONENTS: u8 = 150;
/// Address of the components' IPC buffer, and the guard of the shared CNode.
pub(super) const BUFFER: Vaddr = Vaddr::new(0x10_0000);
pub(super) const GUARD: u8 = 64 - CNODE_BITS;

/// Objects in the first slots: the second receives faults.
const START: [(ObjectType, u8); 12] = [
    (ObjectType::Untyped, 21),
    (ObjectType::Endpoint, 0),
    (ObjectType::Notification, 0),
    (ObjectType::Untyped, 13),
    (ObjectType::Untyped, 14),
    (ObjectType::SmallPage, 0),
    (ObjectType::SmallPage, 0),
    (ObjectType::IoPageTable, 0),
    (ObjectType::IoPageTable, 0),
    (ObjectType::IoPageTable, 0),
    (ObjectType::TranslationTable(TableLevel::Three), 0),
    (ObjectType::Tcb, 0),
];

pub(super) struct World {
    pub(super) machine: Machine,
    /// The first of the slots that the sequences work on.
    pub(super) first: u64,
    /// Badges that endpoint capabilities were given, and 0 for none.
    pub(super) badges: BTreeSet<u64>,
}

impl World {
    /// Two components that share the root task's CNode, and some capabilities in the first slots.
    pub(super) fn new(rules: Rules) -> Self {
        let mut machine = Machine::with(|config| config.rules = rules);
        let components = [machine.component(2, CPtr::new(0)), machine.component(3, CPtr::new(0))];
        let first = machine.slot();
        for _ in 1..SLOTS {
            machine.slot();
        }
        let mut world = Self { machine, first, badges: BTreeSet::from([0]) };
        let (me, cnode) = (world.machine.me, world.machine.root.cnode);
        for component in components {
            let frame = world.machine.make::<Frame>(ObjectType::SmallPage, 0);
            let (faults, kernel) = (CPtr::new(world.first + 1), &mut world.machine.kernel);
            kernel.tcb_configure(me, component.tcb, faults, 2, cnode, GUARD, component.vspace, BUFFER, frame).unwrap();
        }
        world.fill(&components.map(|component| [component.tcb.cptr(), component.vspace.cptr()]).concat());
        world
    }

    pub(super) fn fill(&mut self, caps: &[CPtr]) {
        let (me, cnode, untyped) = (self.machine.me, self.machine.root.cnode, self.machine.untyped);
        let mut slot = self.first;
        for (kind, bits) in START {
            self.machine.kernel.untyped_retype(me, untyped, kind, bits, cnode, slot..slot + 1).unwrap();
            slot += 1;
        }
        let root = &self.machine.root;
        let given = [root.asid_pool.cptr(), root.io_space_master.cptr(), root.cnode.cptr(), root.io_ports.cptr()];
        for (cptr, slot) in given.iter().chain(caps).zip(slot..) {
            let (to, from) = (self.machine.at(CPtr::new(slot)), self.machine.at(*cptr));
            // The control of I/O ports has no copies.
            match self.machine.kernel.cnode_copy(me, to, from, Rights::ALL) {
                Err(Error::IllegalOperation) => self.machine.kernel.cnode_move(me, to, from).unwrap(),
                copied => copied.unwrap(),
            }
        }
        let next = slot + 4 + caps.len() as u64;
        for (domain, to) in (1..).zip([next, next + 1]) {
            let data = CapData::IoSpace { domain, requester_id: FUNCTION };
            let (to, from) =
                (self.machine.at(CPtr::new(to)), self.machine.at(self.machine.root.io_space_master.cptr()));
            self.machine.kernel.cnode_mint(me, to, from, Rights::ALL, data).unwrap();
        }
        self.machine.check();
    }

    /// The thread that acts: the root task, or a component that can run.
    pub(super) fn actor(&self, choice: u8) -> ThreadId {
        let kernel = &self.machine.kernel;
        let able = |thread: &ThreadId| *thread != self.machine.me && kernel.is_runnable(*thread);
        let components: Vec<_> = kernel.threads().filter(able).collect();
        match components.len() {
            count if count > 0 && choice >= COMPONENTS => components[usize::from(choice) % count],
            _ => self.machine.me,
        }
    }

    /// The slot that `choice` selects among those whose capability `fits`.
    pub(super) fn pick(&self, choice: u8, fits: impl Fn(&Capability) -> bool) -> CPtr {
        let slots = (self.first..self.first + SLOTS).map(CPtr::new);
        let fitting: Vec<_> = slots.filter(|cptr| self.held(*cptr).is_some_and(|cap| fits(&cap))).collect();
        match fitting.get(usize::from(choice) % fitting.len().max(1)) {
            Some(cptr) if choice < ANY => *cptr,
            _ => CPtr::new(self.first + u64::from(choice) % SLOTS),
        }
    }

    pub(super) fn empty(&self, choice: u8) -> CPtr {
        self.pick(choice, Capability::is_null)
    }

    pub(super) fn taken(&self, choice: u8) -> CPtr {
        self.pick(choice, |cap| !cap.is_null())
    }

    pub(super) fn thread(&self, choice: u8) -> CPtr {
        self.pick(choice, |cap| matches!(cap, Capability::Thread(_)))
    }

    pub(super) fn endpoint(&self, choice: u8) -> CPtr {
        self.pick(choice, |cap| matches!(cap, Capability::Endpoint { .. }))
    }

    pub(super) fn notification(&self, choice: u8) -> CPtr {
        self.pick(choice, |cap| matches!(cap, Capability::Notification { .. }))
    }

    pub(super) fn vspace(&self, choice: u8) -> CPtr {
        self.pick(choice, |cap| matches!(cap, Capability::VSpace { asid: 1.., .. }))
    }

    pub(super) fn frame(&self, choice: u8, is_mapped: bool) -> CPtr {
        self.pick(choice, |cap| match cap {
            Capability::Frame { mapping, .. } => (*mapping != Mapping::None) == is_mapped,
            _ => false,
        })
    }

    pub(super) fn io_space(&self, choice: u8) -> CPtr {
        self.pick(choice, |cap| matches!(cap, Capability::IoSpace { domain: 1.., .. }))
    }

    pub(super) fn handler(&self, choice: u8) -> CPtr {
        self.pick(choice, |cap| matches!(cap, Capability::IrqHandler(_)))
    }

    pub(super) fn table(&self, choice: u8, level: u8) -> CPtr {
        let wanted = TableLevel::ALL[usize::from(level)];
        self.pick(choice, |cap| matches!(cap, Capability::Table { level, place: None, .. } if *level == wanted))
    }

    /// The capability at `cptr` in the root task's CSpace.
    pub(super) fn held(&self, cptr: CPtr) -> Option<Capability> {
        self.machine.kernel.cap_at(self.machine.me, cptr)
    }

    /// Whether the root task would wait for a reply that may never come, if it invoked this capability.
    pub(super) fn is_trap(&self, actor: ThreadId, cptr: CPtr) -> bool {
        actor == self.machine.me && matches!(self.held(cptr), Some(Capability::Endpoint { .. }))
    }
}
