//! Building a tree before the machine runs: bridges, and the functions of devices. Insertion while it runs goes through
//! `hot_plug`, which notifies software.

use crate::arena::{Bus, Buses, Functions};
use crate::config::{BarConfig, BusType, ConfigError, FunctionConfig, FunctionLevelReset, MsiConfig, SriovConfig};
use crate::function::{Core, Function, Kind, Sriov};
use crate::host::HostBridge;
use crate::ids::{BusId, FunctionId};
use crate::intx;
use crate::layout::{self, Role};
use crate::machine::Device;
use crate::msix::Msix;
use crate::port::{Port, PortConfig, Presence};
use crate::tree::{Tree, TreeConfig};
use crate::upstream::Outer;
use crate::view::Claim;
use core::fmt;
use pci_spec::bar::Prefetch;
use pci_spec::{BarKind, ClassCode, Pin};

/// A function to attach.
#[derive(Debug)]
pub struct Endpoint<D> {
    /// Configuration of the parts that the tree models.
    pub config: FunctionConfig,
    /// The device inside.
    pub device: D,
    /// The devices inside the virtual functions: as many as the configuration says.
    pub virtual_functions: Vec<D>,
}

impl<D> Endpoint<D> {
    /// Creates a function without virtual ones.
    pub const fn new(config: FunctionConfig, device: D) -> Self {
        Self { config, device, virtual_functions: Vec::new() }
    }
}

/// The reason why something cannot be attached.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AttachError {
    /// There is no such bus, or no such device or function number.
    NoSuchPlace,
    /// Another function has this place, or one that a virtual function needs.
    Taken,
    /// The function's configuration is invalid.
    Config(ConfigError),
}

impl fmt::Display for AttachError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSuchPlace => f.write_str("no such place in the PCI tree"),
            Self::Taken => f.write_str("the place in the PCI tree is taken"),
            Self::Config(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for AttachError {}

impl From<ConfigError> for AttachError {
    fn from(error: ConfigError) -> Self {
        Self::Config(error)
    }
}

impl<D: Device> Tree<D> {
    /// Creates a tree with a host bridge like q35's (8086:29c0) as 00:00.0, and nothing else.
    #[must_use]
    pub fn new(config: TreeConfig) -> Self {
        Self::with_host(HostBridge::Q35, config)
    }

    /// Creates a tree with a host bridge as 00:00.0, and nothing else.
    #[must_use]
    pub fn with_host(host: HostBridge, config: TreeConfig) -> Self {
        let mut tree = Self {
            functions: Functions::new(),
            buses: Buses::new(),
            config_buses: config.buses.min(256),
            windows: config.windows,
            claims: [Claim::default(); 256],
            decoded: Vec::new(),
            last_hit: 0,
            overlaps: Vec::new(),
            outer: Outer { host, ..Outer::default() },
        };
        tree.put_inert(0, host.function());
        tree.rebuild();
        tree
    }

    /// Adds the functions of q35's chipset that are always present: 00:1f.0 to the old bus (8086:2918), 00:1f.2 AHCI
    /// (8086:2922), 00:1f.3 SMBus (8086:2930). Nothing is inside: registers read zero.
    ///
    /// # Errors
    ///
    /// [`AttachError::Taken`].
    pub fn attach_q35(&mut self) -> Result<(), AttachError> {
        for (function, config) in (0..).zip(q35_functions()) {
            let Some(config) = config else { continue };
            let devfn = self.free_place(BusId::ROOT, 31, function)?;
            self.put_inert(devfn, config);
        }
        self.rebuild();
        Ok(())
    }

    /// Adds a bridge or port at `device`.`function` of a bus. Returns the bus below it.
    ///
    /// # Errors
    ///
    /// [`AttachError::NoSuchPlace`] or [`AttachError::Taken`].
    pub fn attach_port(
        &mut self,
        bus: BusId,
        device: u8,
        function: u8,
        config: PortConfig,
    ) -> Result<BusId, AttachError> {
        let devfn = self.free_place(bus, device, function)?;
        let (id, below) = (self.functions.next_id(), self.buses.next_id());
        let mut core = Core::new(id, bus, devfn, config.space());
        core.bars = config.bars();
        core.msix = config.msix().map(Msix::new);
        core.interrupt_line = config.pin().and_then(|pin| self.line_of(pin, bus, devfn));
        let slot = config.slot.map(|_| Presence::Empty);
        self.buses.push(Bus::new(Some((bus, id))));
        self.place(Function {
            core,
            kind: Kind::Port(Port { kind: config.kind, below, slot, numbers: config.numbers }),
        });
        self.occupy(bus);
        Ok(below)
    }

    /// Puts a function at `device`.`function` of a bus, as if it had been there at power on.
    ///
    /// Function 0 should be among a device's functions; without it software does not look for the others.
    ///
    /// # Errors
    ///
    /// [`AttachError`]; nothing is changed then.
    pub fn attach(
        &mut self,
        bus: BusId,
        device: u8,
        function: u8,
        endpoint: Endpoint<D>,
    ) -> Result<FunctionId, AttachError> {
        let id = self.put_endpoint(bus, device, function, endpoint)?;
        self.occupy(bus);
        Ok(id)
    }

    /// Returns the function that is the bridge above a bus; the root bus has none.
    #[must_use]
    pub fn port_function(&self, bus: BusId) -> Option<FunctionId> {
        self.buses.get(bus)?.bridge
    }

    /// Shows in the slot above a bus, if there is one, that the bus is occupied.
    fn occupy(&mut self, bus: BusId) {
        if let Some(slot) = self.port_mut(bus).and_then(|(_, port)| port.slot.as_mut()) {
            *slot = Presence::Occupied;
        }
        self.settle_slot(bus);
        self.rebuild();
    }

    /// Puts a function and its virtual ones in their places.
    pub(crate) fn put_endpoint(
        &mut self,
        bus: BusId,
        device: u8,
        function: u8,
        endpoint: Endpoint<D>,
    ) -> Result<FunctionId, AttachError> {
        let devfn = self.free_place(bus, device, function)?;
        let Endpoint { config, device: inside, virtual_functions } = endpoint;
        config.check()?;
        let places = self.virtual_places(bus, devfn, config.sriov.as_ref(), virtual_functions.len())?;
        let id = self.functions.next_id();
        let mut core = self.core_of(id, bus, devfn, &config, Role::Physical);
        let ids = (1..=places.len() as u32).map(|after| FunctionId(id.0 + after)).collect();
        core.sriov = config.sriov.clone().map(|config| Sriov { config, functions: ids });
        self.place(Function { core, kind: Kind::Device(inside) });
        if let Some(sriov) = &config.sriov {
            let virtual_config = virtual_config(&config, sriov);
            for (number, (devfn, inside)) in (0u16..).zip(places.into_iter().zip(virtual_functions)) {
                let next = self.functions.next_id();
                let mut core = self.core_of(next, bus, devfn, &virtual_config, Role::Virtual);
                core.virtual_of = Some((id, number));
                self.place(Function { core, kind: Kind::Device(inside) });
            }
        }
        Ok(id)
    }

    /// Adds a function of the chipset on the root bus whose registers read zero. Its callers make sure that the place
    /// is free.
    fn put_inert(&mut self, devfn: u8, config: FunctionConfig) {
        let id = self.functions.next_id();
        let core = self.core_of(id, BusId::ROOT, devfn, &config, Role::Physical);
        self.place(Function { core, kind: Kind::Inert });
    }

    fn core_of(&self, id: FunctionId, bus: BusId, devfn: u8, config: &FunctionConfig, role: Role) -> Core {
        let mut core = Core::new(id, bus, devfn, layout::endpoint(config, role));
        if role == Role::Physical {
            core.bars = config.bars;
            core.interrupt_line = config.pin.and_then(|pin| self.line_of(pin, bus, devfn));
        }
        core.msix = config.msix.map(Msix::new);
        core.has_msi = config.msi.is_some();
        core.function_level_reset_ns = match config.function_level_reset {
            FunctionLevelReset::Absent => None,
            FunctionLevelReset::Takes { ns } => Some(ns),
        };
        core
    }

    /// Puts a function into its place, and lets function 0 report that there are others.
    fn place(&mut self, function: Function<D>) {
        let Core { id, bus, devfn, .. } = function.core;
        self.functions.push(function);
        let Some(bus) = self.buses.get_mut(bus) else { return };
        bus.put(devfn, Some(id));
        let first = devfn & !7;
        let several = (1..8)
            .filter_map(|number| bus.at(first | number))
            .any(|id| self.functions.get(id).is_some_and(|function| function.core.virtual_of.is_none()));
        if let Some(function) = bus.at(first).and_then(|id| self.functions.get_mut(id)) {
            const MULTIFUNCTION: u32 = 1 << 23;
            function.core.space.fix(layout::HEADER, if several { MULTIFUNCTION } else { 0 }, MULTIFUNCTION);
        }
    }

    fn free_place(&self, bus: BusId, device: u8, function: u8) -> Result<u8, AttachError> {
        let bus = self.buses.get(bus).ok_or(AttachError::NoSuchPlace)?;
        if device > 31 || function > 7 {
            return Err(AttachError::NoSuchPlace);
        }
        let devfn = device << 3 | function;
        if bus.at(devfn).is_some() { Err(AttachError::Taken) } else { Ok(devfn) }
    }

    fn virtual_places(
        &self,
        bus: BusId,
        devfn: u8,
        sriov: Option<&SriovConfig>,
        devices: usize,
    ) -> Result<Vec<u8>, AttachError> {
        let total = sriov.map_or(0, |sriov| sriov.total);
        if usize::from(total) != devices {
            return Err(ConfigError::VirtualDevices.into());
        }
        let (Some(sriov), Some(bus)) = (sriov, self.buses.get(bus)) else { return Ok(Vec::new()) };
        let first = u32::from(devfn) + u32::from(sriov.first_offset);
        let mut places = Vec::with_capacity(devices);
        for number in 0..u32::from(total) {
            let routing_id = first + number * u32::from(sriov.stride);
            let place = u8::try_from(routing_id).map_err(|_| AttachError::NoSuchPlace)?;
            if bus.at(place).is_some() {
                return Err(AttachError::Taken);
            }
            places.push(place);
        }
        Ok(places)
    }

    /// Returns the interrupt line at which a pin of a function at this place ends.
    fn line_of(&self, pin: Pin, bus: BusId, devfn: u8) -> Option<u8> {
        let mut devices = vec![devfn >> 3];
        let mut here = bus;
        while let Some((above, bridge)) = self.bridge_of(here) {
            devices.push(bridge.core.device());
            here = above;
        }
        intx::route(self.outer.host, pin, devices)
    }
}

/// Returns functions 0 to 3 of device 31, as QEMU has them.
fn q35_functions() -> [Option<FunctionConfig>; 4] {
    let new = |device, base, sub, interface| FunctionConfig {
        bus_type: BusType::Conventional,
        ..FunctionConfig::new(0x8086, device, ClassCode { base, sub, interface })
    };
    let io = |bytes| Some(BarConfig { kind: BarKind::Io, bytes });
    let to_old_bus = new(0x2918, 6, 1, 0);
    let mut ahci = new(0x2922, 1, 6, 1);
    ahci.bars[4] = io(32);
    ahci.bars[5] = Some(BarConfig { kind: BarKind::Memory32(Prefetch::NonPrefetchable), bytes: 4096 });
    ahci.pin = Some(Pin::A);
    ahci.msi = Some(MsiConfig { vectors_log2: 0 });
    let mut smbus = new(0x2930, 0x0c, 5, 0);
    smbus.bars[4] = io(64);
    smbus.pin = Some(Pin::A);
    [Some(to_old_bus), None, Some(ahci), Some(smbus)]
}

/// Returns the configuration of a virtual function: its physical one's identity, and BARs that are not in its own
/// header.
fn virtual_config(physical: &FunctionConfig, sriov: &SriovConfig) -> FunctionConfig {
    FunctionConfig {
        device: sriov.device,
        pin: None,
        bars: [None; crate::config::BARS],
        msix: sriov.msix,
        msi: None,
        sriov: None,
        ..physical.clone()
    }
}
