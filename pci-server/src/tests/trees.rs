//! The modelled PCI tree as configuration space, and random trees.

use crate::addresses::PciWindows;
use crate::assign::{LeftOut, assign};
use crate::config_space::ConfigSpace;
use crate::enumerate::enumerate;
use crate::function::Function;
use crate::sizing::Note;
use crate::tests::machine::{Bus as _, Fuse};
use crate::tests::tree_bus::{Everything, TreeBus, Worker, answer};
use crate::virtual_functions;
use core::cell::Cell;
use core::ops::Range;
use pci_spec::bar::Prefetch;
use pci_spec::{BarKind, Bdf};
use platform::fake::Ram;
use platform::{Mmio, OutOfBounds, PAGE_SIZE, Paddr};
use proptest::prelude::*;
use sim_pci::{
    BarConfig, BusId, BusType, DeviceNumbers, Endpoint, Firmware, FunctionConfig, FunctionId, FunctionLevelReset, Link,
    MsixConfig, PortConfig, SriovConfig, Tree, TreeConfig,
};
use std::boxed::Box;
use std::rc::Rc;
use std::vec::Vec;

/// q35's PCI window.
pub(super) const WINDOW: Range<u64> = 0xc000_0000..0xfec0_0000;
const BUSES: u16 = 16;
const COMMAND: u16 = 0x04;
const MEMORY_SPACE: u32 = 1 << 1;

/// A function or bridge on a bus.
#[derive(Clone, Debug)]
pub(super) enum Node {
    /// A function with these BARs, kind and log2 of the size, and virtual functions: how many, and one BAR of theirs.
    Endpoint { bars: Vec<(BarKind, u32)>, virtual_functions: Option<(u16, BarKind, u32)> },
    /// A conventional bridge.
    Bridge(Vec<Node>),
    /// A root port with a slot, if it is on the root bus, otherwise a bridge as above with one device.
    Port(Option<Box<Node>>),
    /// A root port that forwards accesses of all device numbers to this function.
    Ghosts(Box<Node>),
}

impl Node {
    pub(super) fn endpoint(bars: &[(BarKind, u32)]) -> Self {
        Self::Endpoint { bars: bars.to_vec(), virtual_functions: None }
    }

    /// A function with a BAR of 16 KiB.
    pub(super) fn nvme() -> Self {
        Self::endpoint(&[(BarKind::Memory64(Prefetch::NonPrefetchable), 14)])
    }

    pub(super) fn with_virtual_functions(mut self, total: u16, kind: BarKind, log2: u32) -> Self {
        if let Self::Endpoint { virtual_functions, .. } = &mut self {
            *virtual_functions = Some((total, kind, log2));
        }
        self
    }
}

fn memory_kind() -> impl Strategy<Value = BarKind> {
    let prefetch = || prop::sample::select(std::vec![Prefetch::NonPrefetchable, Prefetch::Prefetchable]);
    prop_oneof![prefetch().prop_map(BarKind::Memory32), prefetch().prop_map(BarKind::Memory64)]
}

/// A BAR of up to 2 to the power `largest` bytes, or of ports.
fn bar(largest: u32) -> impl Strategy<Value = (BarKind, u32)> {
    let memory = (memory_kind(), 4..largest).prop_map(|(kind, log2)| match kind {
        BarKind::Memory32(_) => (kind, log2.min(31)),
        kind => (kind, log2),
    });
    prop_oneof![6 => memory, 1 => Just((BarKind::Io, 5))]
}

/// Nodes of a root bus: up to 14 bridges and functions, with BARs of up to 2 to the power `largest` bytes.
pub(super) fn nodes(largest: u32) -> impl Strategy<Value = Vec<Node>> {
    let few = || prop::option::weighted(0.3, (1u16..8, memory_kind(), 8..largest.min(20)));
    let endpoint = (prop::collection::vec(bar(largest), 0..4), few())
        .prop_map(|(bars, virtual_functions)| Node::Endpoint { bars, virtual_functions });
    let node = endpoint.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Node::Bridge),
            prop::option::of(inner).prop_map(|node| Node::Port(node.map(Box::new))),
        ]
    });
    prop::collection::vec(node, 0..4)
}

/// The tree under test.
pub(super) struct Tested {
    pub(super) bus: TreeBus,
    windows: PciWindows,
    note: Ram,
    fuse: Fuse,
    /// Time of the server's accesses to configuration space.
    now_ns: Rc<Cell<u64>>,
}

impl Tested {
    /// Creates a tree that was not configured.
    pub(super) fn new(nodes: &[Node], windows: Vec<Range<u64>>) -> Self {
        let mut tree = Tree::new(TreeConfig { buses: BUSES, windows: windows.clone() });
        let mut name = 1;
        attach(&mut tree, BusId::ROOT, 1, nodes, &mut name);
        Self {
            bus: TreeBus::new(tree),
            windows: PciWindows::new(&windows.into_iter().flat_map(untypeds).collect::<Vec<_>>()),
            note: Ram::new(PAGE_SIZE),
            fuse: Fuse::default(),
            now_ns: Rc::default(),
        }
    }

    pub(super) fn set_time(&mut self, now_ns: u64) {
        self.now_ns.set(now_ns);
    }

    pub(super) fn run_firmware(&mut self) -> bool {
        self.bus.tree().run_firmware(Firmware::PlacesAndBoots, &mut Everything).is_ok()
    }

    /// Runs a server's start on a tree that is not configured.
    pub(super) fn assign(&mut self) -> (Vec<Function>, Vec<(Bdf, LeftOut)>) {
        let (mut config, note) = self.start();
        let left_out = assign(&mut config, &note, &self.windows, &[]);
        (enumerate(&mut config, &note, &self.windows, &left_out), left_out)
    }

    /// Runs a server's start as [`Tested::assign`], stopped after `writes` writes. Returns whether it finished before.
    pub(super) fn assign_until(&mut self, writes: u32) -> bool {
        self.fuse.clone().limit(Some(writes), || self.assign()).is_some()
    }

    /// Runs a server's start on a tree that firmware configured.
    pub(super) fn enumerate(&mut self) -> Vec<Function> {
        let (mut config, note) = self.start();
        enumerate(&mut config, &note, &self.windows, &[])
    }

    /// Gives virtual functions places in the records that [`Tested::enumerate`] returned.
    pub(super) fn place(&self, functions: &mut [Function]) {
        virtual_functions::place(functions, &self.windows, BUSES);
    }

    /// Runs a server's start as [`Tested::enumerate`], stopped after `writes` writes. Returns whether it finished before.
    pub(super) fn enumerate_until(&mut self, writes: u32) -> bool {
        self.fuse.clone().limit(Some(writes), || self.enumerate()).is_some()
    }

    /// Configuration space and the kept page, as a server has them that begins.
    pub(super) fn start(&self) -> (ConfigSpace<Registers>, Note<Ram>) {
        let (bus, fuse, now_ns) = (self.bus.clone(), self.fuse.clone(), self.now_ns.clone());
        let note = Note::new(self.note.watched(move |_, _| fuse.burn()));
        let mut config = ConfigSpace::new(Registers { bus, fuse: self.fuse.clone(), now_ns }, BUSES);
        note.put_back(&mut config).unwrap();
        (config, note)
    }

    /// Lets all usable functions decode, and asserts that each alone answers at its registers.
    pub(super) fn reach(&mut self, functions: &[Function]) {
        let usable = || functions.iter().filter(|function| function.unusable.is_none());
        for function in usable() {
            let command = self.bus.read(function.bdf, COMMAND);
            self.write(function.bdf, COMMAND, command | MEMORY_SPACE);
        }
        for function in usable() {
            let id = self.id(function.bdf);
            for bar in function.memory_bars() {
                self.answers(id, bar.index(), bar.address(), bar.size());
            }
        }
    }

    /// Enables all virtual functions that were assigned registers, and reaches these. Returns their number.
    pub(super) fn reach_virtual_functions(&mut self) -> usize {
        const CAPABILITY: u16 = 0x120;
        let physical: Vec<FunctionId> = self.bus.tree().functions().collect();
        let mut reached = 0;
        for id in physical {
            let virtual_functions = self.bus.tree().virtual_functions(id).to_vec();
            let bdf = self.bus.tree().bdf(id).unwrap();
            if virtual_functions.is_empty() || self.id_at(bdf) != Some(id) {
                continue;
            }
            let low = self.bus.read(bdf, CAPABILITY + 0x24);
            let wide = low & 0b100 != 0;
            let high = if wide { self.bus.read(bdf, CAPABILITY + 0x28) } else { 0 };
            let first = u64::from(high) << 32 | u64::from(low & !0xf);
            if first == 0 {
                continue;
            }
            self.write(bdf, CAPABILITY + 0x10, virtual_functions.len() as u32);
            self.write(bdf, CAPABILITY + 0x08, 0b1001);
            let bytes = self.bus.tree().device(id).unwrap().virtual_bytes;
            for (number, virtual_function) in (0..).zip(virtual_functions) {
                self.answers(virtual_function, 0, first + number * bytes.max(4096), bytes);
                reached += 1;
            }
        }
        reached
    }

    /// Asserts that each of these virtual functions alone answers at its registers.
    pub(super) fn reach_found(&mut self, found: &[Function]) {
        for function in found {
            let tree = self.bus.tree();
            let all = tree.functions().flat_map(|id| tree.virtual_functions(id).to_vec());
            let id = all.into_iter().find(|id| tree.bdf(*id) == Some(function.bdf)).expect("a virtual function");
            drop(tree);
            for bar in function.memory_bars() {
                self.answers(id, bar.index(), bar.address(), bar.size());
            }
        }
    }

    /// Asserts that this BAR alone answers at all addresses from `address` on.
    fn answers(&mut self, id: FunctionId, bar: u8, address: u64, bytes: u64) {
        let mut tree = self.bus.tree();
        let range = address..address + bytes;
        let regions: Vec<_> =
            tree.regions().filter(|region| region.range.start < range.end && range.start < region.range.end).collect();
        let [region] = regions.as_slice() else { panic!("{range:x?} is answered by {regions:x?}") };
        assert_eq!((region.range.clone(), region.function, region.bar), (range, id, bar));
        let name = tree.device(id).unwrap().name;
        for offset in [0, bytes / 2, bytes - 8] {
            assert_eq!(tree.memory_read(address + offset, 8, u64::MAX).unwrap(), answer(name, bar, offset));
        }
    }

    fn id(&self, bdf: Bdf) -> FunctionId {
        self.id_at(bdf).expect("a function there")
    }

    /// The function that answers at `bdf`: one on a bus without a number has a name, too.
    fn id_at(&self, bdf: Bdf) -> Option<FunctionId> {
        let name = self.bus.read(bdf, 0);
        let tree = self.bus.tree();
        let mut functions = tree.functions().filter(|id| tree.bdf(*id) == Some(bdf));
        functions.find(|id| name != u32::MAX && tree.device(*id).is_none_or(|device| device.name as u32 == name >> 16))
    }

    pub(super) fn write(&self, bdf: Bdf, register: u16, value: u32) {
        self.bus.write(bdf, register, value, 0);
    }
}

/// A range as aligned powers of two, ascending.
fn untypeds(range: Range<u64>) -> Vec<(Paddr, u8)> {
    let mut untypeds = Vec::new();
    let mut next = range.start;
    while next < range.end {
        let bits = next.trailing_zeros().min((range.end - next).ilog2());
        untypeds.push((Paddr::new(next), bits as u8));
        next += 1 << bits;
    }
    untypeds
}

/// Puts `nodes` on a bus, from device `first` on. Device ids are their names.
fn attach(tree: &mut Tree<Worker>, bus: BusId, first: u8, nodes: &[Node], name: &mut u16) {
    for (device, node) in (first..).zip(nodes) {
        match node {
            Node::Bridge(below) => {
                let lower = tree.attach_port(bus, device, 0, PortConfig::conventional()).unwrap();
                attach(tree, lower, 0, below, name);
            }
            Node::Port(below) => {
                let on_root = bus == BusId::ROOT;
                let port = if on_root { PortConfig::root_port(*name) } else { PortConfig::express_to_pci() };
                let lower = tree.attach_port(bus, device, 0, port).unwrap();
                attach(tree, lower, 0, below.as_deref().map(core::slice::from_ref).unwrap_or_default(), name);
            }
            Node::Ghosts(below) => {
                let port = PortConfig { numbers: DeviceNumbers::All, ..PortConfig::root_port(*name) };
                let lower = tree.attach_port(bus, device, 0, port).unwrap();
                attach(tree, lower, 0, core::slice::from_ref(&**below), name);
            }
            Node::Endpoint { bars, virtual_functions } => {
                let mut config = FunctionConfig::new(0x1b36, *name, pci_spec::ClassCode::NVME);
                config.bus_type = BusType::Express(Link::GEN3_X4);
                for (place, (kind, log2)) in config.bars.iter_mut().step_by(2).zip(bars) {
                    *place = Some(BarConfig { kind: *kind, bytes: 1 << log2 });
                }
                let mut own = Worker { name: u64::from(*name), ..Worker::default() };
                let mut inside = Vec::new();
                if let Some((total, kind, log2)) = *virtual_functions {
                    own.virtual_bytes = 1 << log2;
                    let mut bars = [None; 6];
                    bars[0] = Some(BarConfig { kind, bytes: 1 << log2 });
                    let (first_offset, stride) = (1, 1);
                    // Beside the registers that `answers` reads.
                    let msix = MsixConfig { vectors: 4, table: (0, 0x1000), pending: (0, 0x3000) };
                    let msix = Some(msix).filter(|_| log2 >= 14);
                    config.sriov = Some(SriovConfig { total, first_offset, stride, device: 1, bars, msix });
                    // They appear as slowly as they may.
                    config.function_level_reset = FunctionLevelReset::Takes { ns: 100_000_000 };
                    inside.extend(
                        (1..=u64::from(total))
                            .map(|number| Worker { name: own.name | number << 12, ..Worker::default() }),
                    );
                }
                tree.attach(bus, device, 0, Endpoint { config, device: own, virtual_functions: inside }).unwrap();
            }
        }
        *name += 1;
    }
}

/// The tree's configuration space.
#[derive(Clone, Debug)]
pub(super) struct Registers {
    bus: TreeBus,
    fuse: Fuse,
    now_ns: Rc<Cell<u64>>,
}

impl Registers {
    fn place(offset: usize) -> (Bdf, u16) {
        (Bdf::from_raw((offset >> 12) as u16), (offset & 0xfff) as u16)
    }
}

impl Mmio for Registers {
    fn len(&self) -> usize {
        usize::from(BUSES) << 20
    }

    fn read32(&self, offset: usize) -> Result<u32, OutOfBounds> {
        let (bdf, register) = Self::place(offset);
        Ok(self.bus.clone().config_read(bdf, register, self.now_ns.get()))
    }

    fn write32(&self, offset: usize, value: u32) -> Result<(), OutOfBounds> {
        self.fuse.burn();
        let (bdf, register) = Self::place(offset);
        self.bus.keep(bdf, register, value, self.now_ns.get());
        Ok(())
    }
}
