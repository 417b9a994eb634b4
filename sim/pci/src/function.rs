//! A function: its configuration space, its interrupts, and its inside.
//!
//! Neighbours: `layout` has the registers' places; `effects` applies writes to them; `routing` computes [`Route`] from all
//! bridges above.

use crate::config::{BARS, BarConfig, SriovConfig};
use crate::layout::{BAR0, COMMAND, MSI, MSIX, POWER_CONTROL, SRIOV_BAR0, SRIOV_CONTROL, SRIOV_COUNT, SRIOV_PAGE_SIZE};
use crate::machine::{Interrupts, Level};
use crate::msix::{Gate, Msix};
use crate::port::Port;

use crate::ids::{BusId, FunctionId};
use crate::space::Space;
use pci_spec::header::Command;
use pci_spec::{BarKind, Bdf};

/// The inside of a function.
#[derive(Debug)]
pub(crate) enum Kind<D> {
    /// A device with a model of its own.
    Device(D),
    /// A bridge, or a port.
    Port(Port),
    /// Registers that read zero: the chipset's own functions.
    Inert,
}

#[derive(Debug)]
pub(crate) struct Function<D> {
    pub(crate) core: Core,
    pub(crate) kind: Kind<D>,
}

impl<D> Function<D> {
    pub(crate) fn device(&self) -> Option<&D> {
        match &self.kind {
            Kind::Device(device) => Some(device),
            Kind::Port(_) | Kind::Inert => None,
        }
    }
}

/// The registers that a function loses between D3hot and D0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OnWaking {
    /// Nothing.
    Keeps,
    /// The function has registers as after a reset.
    Loses,
}

/// The reach of a function's requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reach {
    /// Nowhere: removed, switched off, or not enabled.
    Gone,
    /// The function is there, but it or a bridge above it is not bus master.
    NotMaster,
    /// To the root.
    Root,
}

/// Properties of a function that follow from the bridges above.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Route {
    /// The function's BDF now; on a bus without a number, with bus 0.
    pub(crate) bdf: Bdf,
    /// The requester id of its requests at the root.
    pub(crate) requester_id: u16,
    pub(crate) reach: Reach,
}

/// Everything that all functions have.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) id: FunctionId,
    pub(crate) bus: BusId,
    /// Device and function number on its bus.
    pub(crate) devfn: u8,
    pub(crate) space: Space,
    pub(crate) bars: [Option<BarConfig>; BARS],
    pub(crate) msix: Option<Msix>,
    pub(crate) has_msi: bool,
    /// Duration of a function level reset, if there is one.
    pub(crate) function_level_reset_ns: Option<u64>,
    /// Nothing answers before this time.
    pub(crate) ready_at_ns: u64,
    /// Of a function that was suspended before the machine ran.
    pub(crate) on_waking: Option<OnWaking>,
    /// The level of the pin as the device set it.
    pub(crate) wanted: Level,
    /// The level of the pin as the machine sees it.
    pub(crate) shown: Level,
    /// The interrupt line at which its pin ends.
    pub(crate) interrupt_line: Option<u8>,
    pub(crate) route: Route,
    /// Of a virtual function: its physical function, and its number from 0.
    pub(crate) virtual_of: Option<(FunctionId, u16)>,
    pub(crate) sriov: Option<Sriov>,
}

/// The virtual functions of a physical one.
#[derive(Debug)]
pub(crate) struct Sriov {
    pub(crate) config: SriovConfig,
    pub(crate) functions: Vec<FunctionId>,
}

impl Core {
    pub(crate) fn new(id: FunctionId, bus: BusId, devfn: u8, space: Space) -> Self {
        let bdf = Bdf::from_raw(u16::from(devfn));
        Self {
            id,
            bus,
            devfn,
            space,
            bars: [None; BARS],
            msix: None,
            has_msi: false,
            function_level_reset_ns: None,
            ready_at_ns: 0,
            on_waking: None,
            wanted: Level::Deasserted,
            shown: Level::Deasserted,
            interrupt_line: None,
            route: Route { bdf, requester_id: bdf.to_raw(), reach: Reach::NotMaster },
            virtual_of: None,
            sriov: None,
        }
    }

    pub(crate) fn device(&self) -> u8 {
        self.devfn >> 3
    }

    pub(crate) fn command(&self) -> Command {
        Command::from_bits(self.space.read(COMMAND) as u16)
    }

    /// Whether the function is in D0; in D3hot only configuration space answers (PCI Power Management 5.4.1).
    pub(crate) fn is_on(&self) -> bool {
        self.space.read(POWER_CONTROL) & 0b11 == 0
    }

    /// Whether the function's BARs answer. Those of a virtual function depend on its physical function.
    pub(crate) fn decodes_memory(&self) -> bool {
        self.command().memory_space() && self.is_on()
    }

    pub(crate) fn is_master(&self) -> bool {
        self.command().bus_master() && self.is_on()
    }

    pub(crate) fn is_there(&self) -> bool {
        self.route.reach != Reach::Gone
    }

    /// Returns the address of BAR `index`.
    pub(crate) fn bar_address(&self, index: usize) -> u64 {
        bar_address(&self.space, BAR0, index, self.bars.get(index).copied().flatten())
    }

    /// Returns the address of BAR `index` of virtual function `number`: these BARs lie one behind the other (PCIe 9.3.3.14).
    pub(crate) fn virtual_bar_address(&self, index: usize, bar: BarConfig, number: u16) -> u64 {
        let stride = bar.bytes.max(self.virtual_page_bytes());
        let first = bar_address(&self.space, SRIOV_BAR0, index, Some(bar));
        first.wrapping_add(u64::from(number).wrapping_mul(stride))
    }

    /// Number of enabled virtual functions; 0 when software enabled more than there are.
    pub(crate) fn enabled_virtual_functions(&self) -> u16 {
        let Some(sriov) = &self.sriov else { return 0 };
        let count = self.space.read(SRIOV_COUNT) as u16;
        let enabled = self.space.read(SRIOV_CONTROL) & 1 != 0;
        if enabled && count <= sriov.config.total { count } else { 0 }
    }

    /// Bytes of the pages that are the least distance of virtual functions' BARs (PCIe 9.3.3.13).
    pub(crate) fn virtual_page_bytes(&self) -> u64 {
        u64::from(self.space.read(SRIOV_PAGE_SIZE)) << 12
    }

    /// Whether MSI-X is on, and masked.
    pub(crate) fn msix_gate(&self) -> Gate {
        if self.msix.is_none() {
            return Gate::Off;
        }
        match self.space.read(MSIX) >> 30 {
            0b10 => Gate::Open,
            0b11 => Gate::Masked,
            _ => Gate::Off,
        }
    }

    pub(crate) fn msi_is_on(&self) -> bool {
        self.has_msi && self.space.read(MSI) & 1 << 16 != 0
    }

    pub(crate) fn interrupts(&self) -> Interrupts {
        if self.msix_gate() != Gate::Off {
            Interrupts::Msix
        } else if self.msi_is_on() {
            Interrupts::Msi
        } else {
            Interrupts::Pin
        }
    }

    /// The level of its pin that the machine is to see.
    pub(crate) fn pin_level(&self) -> Level {
        let by_pin = self.interrupts() == Interrupts::Pin && !self.command().interrupt_disable();
        if by_pin && self.is_there() && self.is_on() { self.wanted } else { Level::Deasserted }
    }
}

fn bar_address(space: &Space, first: u16, index: usize, bar: Option<BarConfig>) -> u64 {
    let Some(bar) = bar else { return 0 };
    let register = first.wrapping_add((index as u16).wrapping_mul(4));
    let low = u64::from(space.read(register));
    match bar.kind {
        BarKind::Io => low & !0b11,
        BarKind::Memory32(_) => low & !0xf,
        BarKind::Memory64(_) => low & !0xf | u64::from(space.read(register.wrapping_add(4))) << 32,
    }
}
