//! The walk over all numbered buses, down through bridges, root ports and switches.
//!
//! Each function is silenced before it is read: firmware may have left it running, or drivers whose PCI server died.
//! A bridge is followed only if the walk ends: its buses lie above its own, inside those of the bridge above, and were not
//! walked yet. Any other bridge is recorded, and nothing behind it is read. Neighbours: `bars` sizes the functions found
//! here and decides which can be given away; `assign` numbers buses and places BARs before, where firmware has not.

use crate::addresses::PciWindows;
use crate::assign::LeftOut;
use crate::bars;
use crate::config_space::ConfigSpace;
use crate::function::{Bridge, Function, Unusable};
use crate::sizing::Note;
use crate::{msi, msix, virtual_functions};
use alloc::vec::Vec;
use pci_spec::bridge::{self, BusNumbers, MemoryWindow, PrefetchableRegisters};
use pci_spec::capability::{self, CapabilityError, id};
use pci_spec::header::{DEVICES, HeaderType, Layout, offset};
use pci_spec::msi::MsiCapability;
use pci_spec::msix::MsixCapability;
use pci_spec::{Bdf, BridgeKind, ClassCode, Pin, express, intx, requester_id};
use platform::log::{info, warn};
use platform::{Memory, Mmio};
use virtio_drivers::transport::pci::bus::Command;

/// Bridges above a function at most.
pub const MAX_DEPTH: usize = 8;
/// Functions recorded at most.
pub const MAX_FUNCTIONS: usize = 256;

const BASE_CLASS_BRIDGE: u8 = 0x06;

/// All functions that answer, in the order of the walk: a bridge before the functions behind it. None of them masters the
/// bus or interrupts any more, except bridges. `note` holds the BARs that are being sized. Functions that were `left_out`
/// when addresses were assigned have none.
pub fn enumerate<M: Mmio>(
    config: &mut ConfigSpace<M>,
    note: &Note<impl Memory>,
    windows: &PciWindows,
    left_out: &[(Bdf, LeftOut)],
) -> Vec<Function> {
    let buses = config.buses();
    let mut walk = Walk { config, note, left_out, functions: Vec::new(), walked: [false; 256] };
    walk.bus(0, &[]);
    let mut functions = walk.functions;
    bars::place(&mut functions, 0, windows, buses);
    functions
}

/// Adds the functions behind `port`, one of `functions`, which `assign_behind` has given addresses. Otherwise as [`enumerate`].
pub fn enumerate_behind<M: Mmio>(
    config: &mut ConfigSpace<M>,
    note: &Note<impl Memory>,
    windows: &PciWindows,
    left_out: &[(Bdf, LeftOut)],
    port: Bdf,
    functions: &mut Vec<Function>,
) {
    let buses = config.buses();
    let step = |bdf: Bdf| Some(Step { bdf, bridge: functions.iter().find(|function| function.bdf == bdf)?.bridge? });
    let Some(above) = functions.iter().find(|function| function.bdf == port) else { return };
    let path: Option<Vec<Step>> = core::iter::once(port).chain(above.path.iter().copied()).map(step).collect();
    let Some(path) = path else { return };
    let Some(Step { bridge: Bridge { numbers, .. }, .. }) = path.first().copied() else { return };
    let known = functions.len();
    let mut walked = [true; 256];
    for bus in numbers.secondary()..=numbers.subordinate() {
        walked.get_mut(usize::from(bus)).into_iter().for_each(|walked| *walked = false);
    }
    let mut walk = Walk { config, note, left_out, functions: core::mem::take(functions), walked };
    walk.bus(numbers.secondary(), &path);
    *functions = walk.functions;
    bars::place(functions, known, windows, buses);
}

/// A bridge on the way down.
#[derive(Clone, Copy)]
struct Step {
    bdf: Bdf,
    bridge: Bridge,
}

struct Walk<'a, M: Mmio, N: Memory> {
    config: &'a mut ConfigSpace<M>,
    note: &'a Note<N>,
    left_out: &'a [(Bdf, LeftOut)],
    functions: Vec<Function>,
    walked: [bool; 256],
}

impl<M: Mmio, N: Memory> Walk<'_, M, N> {
    /// Walks `bus`, which lies behind `path`, the nearest bridge first.
    fn bus(&mut self, bus: u8, path: &[Step]) {
        if let Some(walked) = self.walked.get_mut(usize::from(bus)) {
            *walked = true;
        }
        let devices = path.first().map_or(0..DEVICES, |above| self.config.devices_below(above.bdf));
        for bdf in self.config.functions_on(bus, devices) {
            self.function(bdf, path);
        }
    }

    /// Silences and records the function at `bdf` and walks the bus behind it.
    fn function(&mut self, bdf: Bdf, path: &[Step]) {
        silence(self.config, bdf);
        if self.functions.len() >= MAX_FUNCTIONS {
            warn!("{:x}:{:x}.{} is one function too many", bdf.bus(), bdf.device(), bdf.function());
            return;
        }
        let is_left_out = self.left_out.iter().any(|(left_out, _)| *left_out == bdf);
        let place = if is_left_out { None } else { Some(self.note) };
        let function = describe(self.config, place, bdf, path);
        let bridge = function.bridge;
        self.functions.push(function);
        if let Some(bridge) = bridge {
            self.behind(Step { bdf, bridge }, path);
        }
    }

    fn behind(&mut self, step: Step, path: &[Step]) {
        let numbers = step.bridge.numbers;
        if numbers.secondary() == 0 && numbers.subordinate() == 0 {
            return; // Nobody has numbered it: nothing is behind it.
        }
        if let Err(reason) = self.believable(step, path) {
            let bdf = step.bdf;
            warn!("bridge {:x}:{:x}.{} {}", bdf.bus(), bdf.device(), bdf.function(), reason);
            return;
        }
        let mut below = Vec::with_capacity(path.len().saturating_add(1));
        below.push(step);
        below.extend_from_slice(path);
        self.bus(numbers.secondary(), &below);
    }

    fn believable(&self, step: Step, path: &[Step]) -> Result<(), &'static str> {
        let numbers = step.bridge.numbers;
        if !numbers.is_consistent(step.bdf.bus()) {
            return Err("has impossible bus numbers");
        }
        if path.first().is_some_and(|above| !inside(numbers, above.bridge.numbers)) {
            return Err("claims buses that the bridge above it does not have");
        }
        if self.walked.get(usize::from(numbers.secondary())) != Some(&false) {
            return Err("claims a bus that another bridge has");
        }
        if u16::from(numbers.secondary()) >= self.config.buses() {
            return Err("has a bus beyond the configuration space there is");
        }
        if path.len() >= MAX_DEPTH {
            return Err("lies too deep");
        }
        Ok(())
    }
}

fn inside(numbers: BusNumbers, above: BusNumbers) -> bool {
    above.forwards(numbers.secondary()) && above.forwards(numbers.subordinate())
}

/// Whether a function is a bridge of the machine itself: to the host, or to ISA. It decodes for the machine, and is left
/// alone.
pub(crate) fn is_machines<M: Mmio>(config: &ConfigSpace<M>, bdf: Bdf) -> bool {
    let class_code = ClassCode::from_dword(config.read(bdf, offset::CLASS_REVISION));
    let header = HeaderType::from_dword(config.read(bdf, offset::HEADER_TYPE));
    class_code.base == BASE_CLASS_BRIDGE && header.layout() != Layout::Bridge
}

/// Turns off bus mastering and interrupts of every kind of a function, and disables its virtual functions. Bridges keep
/// them: without bus mastering they would not forward requests from below, and they send none of their own. Host and ISA
/// bridges keep them, too.
pub(crate) fn silence<M: Mmio>(config: &mut ConfigSpace<M>, bdf: Bdf) {
    let is_bridge = ClassCode::from_dword(config.read(bdf, offset::CLASS_REVISION)).base == BASE_CLASS_BRIDGE;
    if is_bridge || HeaderType::from_dword(config.read(bdf, offset::HEADER_TYPE)).layout() == Layout::Bridge {
        return;
    }
    let before = config.change_command(bdf, Command::INTERRUPT_DISABLE, Command::BUS_MASTER);
    if before.contains(Command::BUS_MASTER) {
        info!("{:x}:{:x}.{} was bus master", bdf.bus(), bdf.device(), bdf.function());
    }
    msi::disable(config, bdf);
    // No driver was given interrupts by an impossible capability.
    if let Ok(Some(capability)) = find_msix(config, bdf) {
        msix::disable(config, bdf, &capability);
    }
    virtual_functions::disable(config, bdf);
}

/// The record of the function at `bdf`. `note` holds its BARs while they are sized; without a note it was assigned none.
fn describe<M: Mmio>(
    config: &mut ConfigSpace<M>,
    note: Option<&Note<impl Memory>>,
    bdf: Bdf,
    path: &[Step],
) -> Function {
    let [vendor, device] = halves(config.read(bdf, offset::ID));
    let class_code = ClassCode::from_dword(config.read(bdf, offset::CLASS_REVISION));
    let header = HeaderType::from_dword(config.read(bdf, offset::HEADER_TYPE));
    let [_, pin_register, ..] = config.read(bdf, offset::INTERRUPT).to_le_bytes();
    let kinds: Vec<BridgeKind> = path.iter().map(|step| step.bridge.kind).collect();
    let devices = path.iter().map(|step| step.bdf.device());
    let mut function = Function {
        bdf,
        path: path.iter().map(|step| step.bdf).collect(),
        vendor,
        device,
        class_code,
        bars: heapless::Vec::new(),
        msix: None,
        msi: find_msi(config, bdf),
        root_pin: Pin::from_register(pin_register).map(|pin| intx::route_to_root(pin, bdf.device(), devices)),
        pin_register,
        requester_id: requester_id(&kinds, bdf),
        bridge: None,
        virtual_functions: None,
        virtual_of: None,
        unusable: None,
    };
    if header.layout() == Layout::Bridge {
        function.bridge = Some(describe_bridge(config, bdf));
    }
    if header.layout() != Layout::Endpoint {
        function.refuse(Unusable::NoEndpoint);
    }
    match note {
        Some(note) => add_bars(config, note, &mut function, header),
        None => function.refuse(Unusable::Unassigned),
    }
    match find_msix(config, bdf) {
        Ok(msix) => function.msix = msix,
        Err(reason) => function.refuse(reason),
    }
    if let Some(reason) = msix::misplaced(&function) {
        function.refuse(reason);
    }
    function
}

fn add_bars<M: Mmio>(
    config: &mut ConfigSpace<M>,
    note: &Note<impl Memory>,
    function: &mut Function,
    header: HeaderType,
) {
    // Sizing turns decoding off for a moment. Host and ISA bridges decode for the machine itself: they are left alone.
    if function.class_code.base == BASE_CLASS_BRIDGE && header.layout() != Layout::Bridge {
        function.refuse(Unusable::NoEndpoint);
        return;
    }
    match bars::size(config, note, function.bdf, header.bars()) {
        Ok(sized) => {
            function.bars = sized.bars;
            if sized.impossible {
                function.refuse(Unusable::Bar);
            }
        }
        Err(_) => function.refuse(Unusable::Bar),
    }
    if header.layout() == Layout::Endpoint {
        match virtual_functions::size(config, note, function.bdf) {
            Ok(found) => function.virtual_functions = found,
            Err(reason) => {
                let bdf = function.bdf;
                warn!("{:x}:{:x}.{} {}", bdf.bus(), bdf.device(), bdf.function(), reason.text());
            }
        }
    }
}

pub(crate) fn find_msix<M: Mmio>(config: &ConfigSpace<M>, bdf: Bdf) -> Result<Option<MsixCapability>, Unusable> {
    let read = |register: u8| config.read(bdf, register);
    // The whole list is walked, so that a loop behind the first MSI-X capability is seen too.
    let all: Result<Vec<_>, CapabilityError> = capability::walk(&read).collect();
    let found = all.map_err(|_| Unusable::Capabilities)?.into_iter().find(|capability| capability.id == id::MSIX);
    found.map(|capability| MsixCapability::read(&read, capability)).transpose().map_err(|_| Unusable::Msix)
}

/// The function's MSI capability. An impossible one counts as none and does not block the function's other interrupts.
pub(crate) fn find_msi<M: Mmio>(config: &ConfigSpace<M>, bdf: Bdf) -> Option<MsiCapability> {
    let read = |register: u8| config.read(bdf, register);
    // A function with an impossible list is refused as a whole.
    let found = capability::find(&read, id::MSI).ok().flatten()?;
    let capability = MsiCapability::read(&read, found);
    if capability.is_err() {
        warn!("{:x}:{:x}.{} has an impossible MSI capability", bdf.bus(), bdf.device(), bdf.function());
    }
    capability.ok()
}

fn describe_bridge<M: Mmio>(config: &ConfigSpace<M>, bdf: Bdf) -> Bridge {
    let read = |register: u8| config.read(bdf, register);
    let numbers = BusNumbers::from_bits(read(bridge::offset::BUS_NUMBERS));
    let port = match capability::find(&read, id::EXPRESS) {
        Ok(found) => found.map(|capability| express::Capabilities::from_bits(capability.control).port()),
        // An impossible list gives no kind: the one that keeps functions least apart is assumed.
        Err(_) => None,
    };
    let prefetchable = PrefetchableRegisters {
        low: read(bridge::offset::PREFETCHABLE),
        base_upper: read(bridge::offset::PREFETCHABLE_BASE_UPPER),
        limit_upper: read(bridge::offset::PREFETCHABLE_LIMIT_UPPER),
    };
    Bridge {
        numbers,
        kind: BridgeKind::new(bdf, numbers, port),
        memory: MemoryWindow::from_memory(read(bridge::offset::MEMORY)),
        prefetchable: MemoryWindow::from_prefetchable(prefetchable),
    }
}

fn halves(dword: u32) -> [u16; 2] {
    let [a, b, c, d] = dword.to_le_bytes();
    [u16::from_le_bytes([a, b]), u16::from_le_bytes([c, d])]
}
