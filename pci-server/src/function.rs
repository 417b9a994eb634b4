//! Records of functions: one for each that answered, in the order of the bus walk.

use crate::addresses::page_of;

use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;
use pci_api::IntxRouting;
use pci_spec::bridge::{BusNumbers, MemoryWindow};
use pci_spec::intx::RootPin;
use pci_spec::msi::MsiCapability;
use pci_spec::msix::MsixCapability;
use pci_spec::sriov::{self, Sriov};
use pci_spec::{Bar, Bdf, BridgeKind, ClassCode};
use platform::{PAGE_SIZE, Paddr};
use report::{PciFunction, Report};

/// A function.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Function {
    /// The function's BDF.
    pub bdf: Bdf,
    /// The bridges above it, from the nearest up to the one on the root bus.
    pub path: Vec<Bdf>,
    /// Vendor id.
    pub vendor: u16,
    /// Device id.
    pub device: u16,
    /// The function's class code.
    pub class_code: ClassCode,
    /// The function's BARs, those of I/O ports too.
    pub bars: heapless::Vec<Bar, 6>,
    /// MSI-X, when it has it.
    pub msix: Option<MsixCapability>,
    /// MSI, when it has one that can be used.
    pub msi: Option<MsiCapability>,
    /// The function's interrupt pin as it arrives at the root bus, when it has one.
    pub root_pin: Option<RootPin>,
    /// The value of its interrupt pin register.
    pub pin_register: u8,
    /// The id its requests carry when they reach the IOMMU.
    pub requester_id: Bdf,
    /// The function's properties as a bridge.
    pub bridge: Option<Bridge>,
    /// The function's virtual functions, when it describes possible ones.
    pub virtual_functions: Option<VirtualFunctions>,
    /// The function's place among the virtual functions of another, when it is one.
    pub virtual_of: Option<VirtualOf>,
    /// Reason why no driver can have it, if so.
    pub unusable: Option<Unusable>,
}

/// The virtual functions of a physical function.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VirtualFunctions {
    /// The number and the routing ids of the virtual functions, when all of them are enabled.
    pub sriov: Sriov,
    /// The first one's part of each BAR. Those of the others follow.
    pub bars: heapless::Vec<Bar, { sriov::BARS }>,
    /// Reason why they cannot be used, if so.
    pub unusable: Option<Unusable>,
}

impl VirtualFunctions {
    /// The addresses that `bar` of all of them needs.
    pub(crate) fn range(&self, bar: &Bar) -> Option<Range<u64>> {
        let bytes = sriov::bytes(bar, self.sriov.total)?;
        Some(bar.address()..bar.address().checked_add(bytes)?)
    }
}

/// The place of a virtual function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct VirtualOf {
    /// The physical function.
    pub physical: Bdf,
    /// Byte offset of the physical function's SR-IOV capability.
    pub capability: u16,
    /// The virtual function's number, from 0.
    pub number_z: u16,
}

/// Properties that only a bridge has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bridge {
    /// The bridge's buses.
    pub numbers: BusNumbers,
    /// The bridge's effect on requester ids.
    pub kind: BridgeKind,
    /// Addresses it forwards downwards, except prefetchable ones.
    pub memory: Option<MemoryWindow>,
    /// Prefetchable addresses it forwards downwards.
    pub prefetchable: Option<MemoryWindow>,
}

impl Bridge {
    /// Whether all of `bytes` from `address` reach the bus below.
    #[must_use]
    pub fn forwards(&self, address: u64, bytes: u64) -> bool {
        [self.memory, self.prefetchable].into_iter().flatten().any(|window| window.contains(address, bytes))
    }
}

/// Reason why a function cannot be given to any driver.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unusable {
    /// The function is a bridge, or of a header type that is not an endpoint's.
    NoEndpoint,
    /// The function's list of capabilities is impossible.
    Capabilities,
    /// The function's MSI-X capability is impossible, or points outside its BARs.
    Msix,
    /// Registers lie before the MSI-X table or the PBA in the same page, which is never given away.
    TableSharesPage,
    /// The function was left out when addresses were assigned.
    Unassigned,
    /// An impossible BAR.
    Bar,
    /// A memory BAR lies outside the PCI windows.
    OutsidePciWindows,
    /// A memory BAR begins inside a page: the page's start is not its own.
    InsidePage,
    /// A memory BAR shares a page with another.
    Overlap,
    /// A bridge above does not forward to a memory BAR.
    NotForwarded,
    /// Virtual functions lie on a bus that does not exist or belongs to a bridge.
    NoBus,
    /// A bridge above gives the requests of virtual functions one requester id.
    SharedRequesterId,
    /// A virtual function that cannot be reset alone, which the standard requires (PCIe 9.2.2.2).
    NoReset,
}

impl Unusable {
    /// The reason in words, for the log.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::NoEndpoint => "is no endpoint",
            Self::Capabilities => "has an impossible list of capabilities",
            Self::Msix => "has an impossible MSI-X capability",
            Self::TableSharesPage => "has registers in the page of its MSI-X table",
            Self::Unassigned => "was assigned no addresses",
            Self::Bar => "has an impossible BAR",
            Self::OutsidePciWindows => "has a BAR outside the PCI windows",
            Self::InsidePage => "has a BAR that begins inside a page",
            Self::Overlap => "has a BAR in a page of another",
            Self::NotForwarded => "has a BAR that a bridge above does not forward",
            Self::NoBus => "has no bus for its routing ids",
            Self::SharedRequesterId => "has a requester id that others have, too",
            Self::NoReset => "cannot be reset alone",
        }
    }
}

impl fmt::Display for Unusable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

impl Function {
    /// Marks it as not to be given away; the first reason stays.
    pub fn refuse(&mut self, reason: Unusable) {
        self.unusable.get_or_insert(reason);
    }

    /// The bridge right above it.
    #[must_use]
    pub fn parent(&self) -> Option<Bdf> {
        self.path.first().copied()
    }

    /// The function's memory BARs.
    pub fn memory_bars(&self) -> impl Iterator<Item = &Bar> {
        self.bars.iter().filter(|bar| bar.is_memory())
    }

    /// The pages that its driver is given, with their BAR: all of its memory BARs but those of the MSI-X table and the PBA.
    pub fn given_pages(&self) -> impl Iterator<Item = (u8, Paddr)> {
        self.memory_bars().flat_map(|bar| {
            let pages = 0..bar.size().div_ceil(PAGE_SIZE as u64);
            let given = pages.filter(|number| !withheld(self.msix.as_ref(), bar.index(), *number));
            given.filter_map(|number| Some((bar.index(), page_of(bar, number).ok()?)))
        })
    }

    /// MSI-X vectors it has.
    #[must_use]
    pub fn msix_vectors(&self) -> u16 {
        self.msix.map_or(0, |msix| msix.control.entries())
    }

    /// MSI vectors it has.
    #[must_use]
    pub fn msi_vectors(&self) -> u8 {
        self.msi.map_or(0, |msi| msi.vectors())
    }

    /// Class << 16 | subclass << 8 | programming interface.
    #[must_use]
    pub fn class_code_bits(&self) -> u32 {
        u32::from_be_bytes([0, self.class_code.base, self.class_code.sub, self.class_code.interface])
    }

    /// The interrupt line its interrupt pin ends at.
    #[must_use]
    pub fn interrupt_line(&self, routing: IntxRouting) -> Option<u8> {
        self.root_pin.map(|pin| crate::intx::interrupt_line(routing, pin))
    }

    /// The record as drivers see it.
    #[must_use]
    pub fn to_api(&self) -> pci_api::Function {
        pci_api::Function {
            bdf: self.bdf.to_raw(),
            parent: self.parent().map_or(u16::MAX, Bdf::to_raw),
            vendor: self.vendor,
            device: self.device,
            class_code: self.class_code_bits(),
            msix_vectors: self.msix_vectors(),
            msi_vectors: self.msi_vectors(),
            pin: self.pin_register,
        }
    }

    /// The record as the build machine sees it.
    #[must_use]
    pub fn to_report(&self) -> Report {
        Report::PciFunction(PciFunction {
            bdf: self.bdf.to_raw(),
            parent: self.parent().map(Bdf::to_raw),
            vendor: self.vendor,
            device: self.device,
            class_code: [self.class_code.base, self.class_code.sub, self.class_code.interface],
            bars: self.memory_bars().map(|bar| (bar.index(), bar.address(), bar.size())).collect(),
            msix_vectors: self.msix_vectors(),
            buses: self.bridge.map(|bridge| (bridge.numbers.secondary(), bridge.numbers.subordinate())),
        })
    }
}

/// Whether page `page` of BAR `bar` holds a part of the table or the PBA.
#[must_use]
pub fn withheld(msix: Option<&MsixCapability>, bar: u8, page: u64) -> bool {
    msix.is_some_and(|msix| {
        [msix.table, msix.pending].iter().any(|place| place.bar == bar && place.pages().contains(&page))
    })
}
