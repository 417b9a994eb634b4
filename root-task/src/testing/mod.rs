//! A kernel that keeps books: what lies in which slot, what is mapped where, what threads were told. It refuses what
//! seL4 refuses, as far as the root task could ask for it.

mod invocations;
mod world;

pub(crate) use world::{FakeMemory, FakePlatform, FakeServices};
pub(crate) use world::{FakeMmio, Q35_HZ};

use super::{BootInfo, UntypedInfo};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::rc::Rc;
use alloc::vec;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use platform::{
    AbsoluteCPtr, Badge, Cap, CapData, Error, ObjectType, PAGE_SIZE, Paddr, Region, RegionKind, Result, Rights,
    TableLevel, UserContext, Vaddr,
};

/// What a slot can hold here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum What {
    Object(ObjectType),
    IrqControl,
    IrqHandler,
    IoSpace,
    IoPorts,
    AsidPool,
}

/// A capability in a slot.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Held {
    pub(crate) what: What,
    /// Number of the object, the same in all copies.
    pub(crate) object: usize,
    pub(crate) rights: Rights,
    pub(crate) data: Option<CapData>,
    /// Where this capability's frame is mapped by it: VSpace and address.
    mapped: Option<(usize, u64)>,
}

#[derive(Clone, Copy, Debug)]
struct Memorable {
    bytes: u64,
    used: u64,
    is_device: bool,
}

/// What a thread was told.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub(crate) struct Told {
    pub(crate) priority: u8,
    pub(crate) fault_slot: u64,
    pub(crate) guard_bits: u8,
    pub(crate) cspace: usize,
    pub(crate) vspace: usize,
    pub(crate) bound: Option<usize>,
    pub(crate) context: UserContext,
}

/// A mapped frame: its object and whether it may be written.
pub(crate) type Mapped = (usize, bool);

#[derive(Default, Debug)]
pub(crate) struct State {
    /// By object number of the CNode and slot. The root task's own CNode is object 0.
    pub(crate) slots: BTreeMap<(usize, u64), Held>,
    untypeds: BTreeMap<usize, Memorable>,
    objects: usize,
    pub(crate) retypes: Vec<(ObjectType, u64)>,
    assigned: BTreeSet<usize>,
    tables: BTreeSet<(usize, u32, u64)>,
    pub(crate) frames: BTreeMap<(usize, u64), Mapped>,
    pub(crate) contents: BTreeMap<usize, Vec<u8>>,
    pub(crate) threads: BTreeMap<usize, Told>,
    pub(crate) resumed: Vec<usize>,
    pub(crate) suspended: Vec<usize>,
    pub(crate) signalled: Vec<u64>,
    pub(crate) acked: u32,
    /// Whether the timer's pin is masked.
    pub(crate) pin_masked: Rc<Cell<bool>>,
    /// A slot into which copies do not come, though the kernel says so: CNode's object number and slot.
    pub(crate) lossy: Option<(usize, u64)>,
}

const OWN_CNODE: u64 = 2;
const OWN_VSPACE: u64 = 3;
const OWN_TCB: u64 = 1;
const ASID_POOL: u64 = 4;
pub(crate) const IRQ_CONTROL: u64 = 5;
const IO_SPACE: u64 = 6;
const IO_PORTS: u64 = 7;
const FIRST_UNTYPED: u64 = 16;
const FIRST_FREE: u64 = 64;
const END: u64 = 1 << 16;
const WINDOW: u64 = 0x4000_0000;
const DEVICES: u64 = 0x7000_0000;
pub(crate) const HPET: u64 = 0xfed0_0000;

/// Sizes in the manner of seL4's.
pub(crate) fn object_bits(object_type: ObjectType, size_bits: u8) -> u8 {
    match object_type {
        ObjectType::Untyped => size_bits,
        ObjectType::CNode => size_bits + 5,
        ObjectType::Endpoint => 4,
        ObjectType::Notification => 5,
        ObjectType::Tcb => 11,
        ObjectType::LargePage => 21,
        _ => 12,
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct FakeKernel(pub(crate) Rc<RefCell<State>>);

/// A machine with untypeds of these sizes, in bits, and a device untyped around the HPET; and its boot info.
pub(crate) fn machine(sizes: &[u8]) -> (FakeKernel, BootInfo) {
    let kernel = FakeKernel::default();
    let boot_caps = [
        (OWN_CNODE, What::Object(ObjectType::CNode)),
        (OWN_VSPACE, What::Object(ObjectType::VSpace)),
        (OWN_TCB, What::Object(ObjectType::Tcb)),
        (ASID_POOL, What::AsidPool),
        (IRQ_CONTROL, What::IrqControl),
        (IO_SPACE, What::IoSpace),
        (IO_PORTS, What::IoPorts),
    ];
    for (slot, what) in boot_caps {
        kernel.0.borrow_mut().put((0, slot), what);
    }
    let vspace = kernel.object(OWN_VSPACE);
    // What the image is mapped by: a second-level table.
    kernel.0.borrow_mut().tables.insert((vspace, 39, 0));
    kernel.0.borrow_mut().assigned.insert(vspace);
    let mut untypeds = Vec::new();
    let devices = [(HPET & !0xf_ffff, 20, true)];
    let ordinary = sizes.iter().scan(0x100_0000, |next: &mut u64, bits| {
        let paddr = next.next_multiple_of(1 << bits);
        *next = paddr + (1 << bits);
        Some((paddr, *bits, false))
    });
    for ((paddr, size_bits, is_device), slot) in ordinary.chain(devices).zip(FIRST_UNTYPED..) {
        let mut state = kernel.0.borrow_mut();
        let object = state.put((0, slot), What::Object(ObjectType::Untyped));
        state.untypeds.insert(object, Memorable { bytes: 1 << size_bits, used: 0, is_device });
        untypeds.push(UntypedInfo { cptr: Cap::from_bits(slot), paddr: Paddr::new(paddr), size_bits, is_device });
    }
    let region = |name: &str, vaddr, kind| Region {
        name: platform::Name::try_from(name).unwrap(),
        vaddr: Vaddr::new(vaddr),
        len: 0x1000_0000,
        kind,
    };
    let boot = BootInfo {
        untypeds,
        free_slots: FIRST_FREE..END,
        cnode: Cap::from_bits(OWN_CNODE),
        vspace: Cap::from_bits(OWN_VSPACE),
        tcb: Cap::from_bits(OWN_TCB),
        asid_pool: Cap::from_bits(ASID_POOL),
        irq_control: Cap::from_bits(IRQ_CONTROL),
        io_space_master: Cap::from_bits(IO_SPACE),
        io_ports: Cap::from_bits(IO_PORTS),
        iommu_levels: 3,
        window: region("window", WINDOW, RegionKind::ReadWrite),
        device_window: region("device-window", DEVICES, RegionKind::Arena),
        object_bits,
        retype_limit: 256,
    };
    (kernel, boot)
}

impl State {
    fn put(&mut self, at: (usize, u64), what: What) -> usize {
        // The root task's own CNode is made first.
        let object = self.objects;
        self.objects += 1;
        self.slots.insert(at, Held { what, object, rights: Rights::ALL, data: None, mapped: None });
        object
    }

    fn own(&self, slot: u64) -> Result<&Held> {
        self.slots.get(&(0, slot)).ok_or(Error::InvalidCapability(0))
    }

    fn own_object(&self, slot: u64, kind: ObjectType) -> Result<usize> {
        let held = self.own(slot)?;
        (held.what == What::Object(kind)).then_some(held.object).ok_or(Error::InvalidCapability(0))
    }

    fn place(&self, slot: AbsoluteCPtr) -> Result<(usize, u64)> {
        Ok((self.own_object(slot.root.bits(), ObjectType::CNode)?, slot.index))
    }

    fn derive(&mut self, dest: AbsoluteCPtr, src: AbsoluteCPtr, rights: Rights, data: Option<CapData>) -> Result<()> {
        let (to, from) = (self.place(dest)?, self.place(src)?);
        if self.slots.contains_key(&to) {
            return Err(Error::DeleteFirst);
        }
        let held = self.slots.get(&from).ok_or(Error::FailedLookup)?.clone();
        match held.what {
            What::Object(ObjectType::TranslationTable(TableLevel::One)) => panic!("the kernel stops here"),
            What::IrqControl | What::Object(ObjectType::IoPageTable) => return Err(Error::IllegalOperation),
            What::Object(ObjectType::VSpace) if !self.assigned.contains(&held.object) => {
                return Err(Error::IllegalOperation);
            }
            _ => {}
        }
        if self.lossy != Some(to) {
            self.slots.insert(to, Held { rights, data, mapped: None, ..held });
        }
        Ok(())
    }

    fn map_table(&mut self, slot: u64, level: TableLevel, vspace: u64, vaddr: Vaddr) -> Result<()> {
        self.own_object(slot, ObjectType::TranslationTable(level))?;
        let bits = u32::from(level.span_bits());
        let vspace = self.mappable(vspace, vaddr.bits(), bits + 9)?;
        let new = self.tables.insert((vspace, bits, vaddr.bits() >> bits));
        if new { Ok(()) } else { Err(Error::DeleteFirst) }
    }

    /// The VSpace in `slot`, if `vaddr` has a table of 2^`bits` bytes in it.
    fn mappable(&self, slot: u64, vaddr: u64, bits: u32) -> Result<usize> {
        let vspace = self.own_object(slot, ObjectType::VSpace)?;
        let there = bits > 39 || self.tables.contains(&(vspace, bits, vaddr >> bits));
        if self.assigned.contains(&vspace) && there { Ok(vspace) } else { Err(Error::FailedLookup) }
    }
}

impl FakeKernel {
    /// The object that the root task's slot `slot` names.
    pub(crate) fn object(&self, slot: u64) -> usize {
        self.0.borrow().own(slot).unwrap().object
    }

    /// What a component's CNode, by object number, holds.
    pub(crate) fn cspace(&self, cnode: usize) -> BTreeMap<u64, Held> {
        let state = self.0.borrow();
        let of_cnode = state.slots.range((cnode, 0)..(cnode + 1, 0));
        of_cnode.map(|((_, slot), held)| (*slot, held.clone())).collect()
    }

    /// The bytes of the frame `object`.
    pub(crate) fn contents(&self, object: usize) -> Vec<u8> {
        self.0.borrow().contents.get(&object).cloned().unwrap_or_else(|| vec![0; PAGE_SIZE])
    }
}

/// The badge a capability was minted with.
pub(crate) fn badge_of(held: &Held) -> Option<u64> {
    match held.data {
        Some(CapData::Badge(Badge(badge))) => Some(badge),
        _ => None,
    }
}
