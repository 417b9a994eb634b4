//! The machine around the processor: the PCI tree with its controllers, the IOMMU, the other devices, and their paths to
//! memory and interrupts.

mod acting;
mod defect;

use crate::board::{Board, Places};
use crate::disk::Disk;
use crate::inside::Inside;
use crate::iommu::{self, Iommu};
use crate::plug::Plug;
use crate::topology;
use capdl::{Arch, Scenario};
use platform::{PAGE_BITS, Paddr};
use sim_fault::Fault;
use sim_kernel::Kernel;
use sim_nvme::Controller;
use sim_pci::{FunctionId, Tree};
use std::collections::BTreeMap;

pub use defect::Defect;

/// Everything that is not processor, kernel or memory.
pub(crate) struct Machine {
    tree: Tree<Inside>,
    /// As [`topology::Built`] has them.
    controllers: Vec<FunctionId>,
    edu: Option<FunctionId>,
    pub(crate) arch: Arch,
    places: Places,
    pub(crate) board: Board,
    iommu: Iommu,
    tree_due_ns: u64,
    /// Controllers that come and go.
    pub(crate) plug: Plug,
    /// By controller that is out of its slot: the pages of its registers when it was there.
    last_pages: BTreeMap<u32, std::ops::Range<u64>>,
    /// By controller: bytes of its BAR before the MSI-X table.
    register_bytes: Vec<u64>,
    /// By controller: the pages of its registers where the observer last saw them.
    placed: Vec<std::ops::Range<u64>>,
    defect: Option<Defect>,
}

impl Machine {
    pub(crate) fn new(arch: Arch, scenario: &Scenario, disks: &[Vec<Disk>], faults: &[Fault], seed: u64) -> Self {
        let topology::Built { tree, controllers, edu, register_bytes, plug } =
            topology::build(arch, scenario, disks, faults, seed);
        let (places, board, iommu) = (Places::of(arch), Board::new(arch), Board::iommu(arch, seed));
        let placed = vec![0..0; controllers.len()];
        let last_pages = BTreeMap::new();
        Self {
            tree,
            controllers,
            edu,
            arch,
            places,
            board,
            iommu,
            tree_due_ns: u64::MAX,
            plug,
            last_pages,
            register_bytes,
            placed,
            defect: None,
        }
    }

    /// Returns the time of the next event of a device.
    pub(crate) fn next_event_ns(&self) -> Option<u64> {
        let plug_ns = self.plug.next_event_ns(&self.tree).unwrap_or(u64::MAX);
        let next = self.board.next_event_ns().unwrap_or(u64::MAX).min(self.tree_due_ns).min(plug_ns);
        (next != u64::MAX).then_some(next)
    }

    /// Reads a register. An address without a register reads as ones.
    pub(crate) fn read(&mut self, at: Paddr, bytes: u8, now_ns: u64, kernel: &mut Kernel) -> u64 {
        let address = at.bits();
        let nothing = u64::MAX >> (64 - 8 * u32::from(bytes));
        let read = if self.places.pci_window().contains(&address) {
            self.tree.memory_read(address, bytes, now_ns)
        } else if self.places.ecam().contains(&address) {
            self.tree.config_read(address - self.places.ecam().start, bytes, now_ns)
        } else if iommu::REGISTERS.contains(&address) {
            Ok(self.iommu.read(kernel, address - iommu::REGISTERS.start, bytes) & nothing)
        } else {
            Ok(self.board.read(address, bytes, now_ns).unwrap_or(nothing))
        };
        read.unwrap_or(nothing)
    }

    /// The PCI window.
    pub(crate) const fn pci_window(&self) -> std::ops::Range<u64> {
        self.places.pci_window()
    }

    /// The pages of memory and of other things that a function reaches by DMA.
    pub(crate) fn reached(&self, kernel: &Kernel, requester_id: u16) -> Vec<Paddr> {
        self.iommu.reached(kernel, requester_id)
    }

    /// The IOMMU server's breaches of the standard.
    pub(crate) fn iommu_violations(&self) -> &[sim_smmu::Violation] {
        self.iommu.violations()
    }

    /// The controllers of the scenario in its order, then those of their virtual functions.
    pub(crate) fn controllers(&self) -> impl Iterator<Item = &Controller> {
        // Another one may be in its slot.
        let one =
            |(index, id): (usize, &FunctionId)| self.plug.out(index).or_else(|| self.tree.device(*id))?.controller();
        self.controllers.iter().enumerate().filter_map(one)
    }

    /// All controllers, with those that are put into slots in the place of others, each with the number of the place.
    pub(crate) fn all_controllers(&self) -> impl Iterator<Item = (u32, &Controller)> {
        let all = |(index, id): (usize, &FunctionId)| {
            let devices = self.tree.device(*id).into_iter().chain(self.plug.all_out(index));
            devices.filter_map(Inside::controller).map(move |one| (index as u32, one))
        };
        self.controllers.iter().enumerate().flat_map(all)
    }

    /// Returns the violations of the PCI tree's rules by software.
    pub(crate) fn violations(&self) -> &[sim_pci::Record] {
        self.tree.violations()
    }

    /// Returns the number of the controller that is the function `bdf`: bus << 8 | device << 3 | function.
    pub(crate) fn controller_at(&self, bdf: u16) -> Option<u32> {
        let is_it = |id: &FunctionId| self.tree.bdf(*id).is_some_and(|own| own.to_raw() == bdf);
        let found = self.controllers.iter().position(is_it);
        found.map(|index| index as u32)
    }

    /// Returns the requester id of a controller's transfers.
    pub(crate) fn requester_id(&self, controller: u32) -> Option<u16> {
        self.tree.requester_id(*self.controllers.get(controller as usize)?)
    }

    /// Whether a controller is enabled as a bus master.
    pub(crate) fn is_bus_master(&self, controller: u32) -> bool {
        self.controllers.get(controller as usize).is_some_and(|id| self.tree.is_bus_master(*id))
    }

    /// Returns the pages of a controller's registers and doorbells, as its BAR has them now.
    pub(crate) fn register_pages(&self, controller: u32) -> std::ops::Range<u64> {
        if let Some(pages) = self.last_pages.get(&controller) {
            // Its driver may still have them mapped, and nothing is there.
            return pages.clone();
        }
        let (function, bytes) =
            (self.controllers.get(controller as usize), self.register_bytes.get(controller as usize));
        let Some((function, bytes)) = function.copied().zip(bytes.copied()) else { return 0..0 };
        self.first_bar(function, bytes)
    }

    /// Returns the pages of the edu device's registers, as its BAR has them now.
    pub(crate) fn edu_pages(&self) -> std::ops::Range<u64> {
        self.edu.map_or(0..0, |edu| self.first_bar(edu, sim_pci::EDU_BAR_BYTES))
    }

    /// Returns the pages of the first `bytes` bytes of a function's BAR 0.
    fn first_bar(&self, function: FunctionId, bytes: u64) -> std::ops::Range<u64> {
        let Some(address) = self.tree.bar_address(function, 0) else { return 0..0 };
        let first = address >> PAGE_BITS;
        first..first + (bytes >> PAGE_BITS)
    }
}
