//! The machine around the processor: the PCI tree with its controllers, the IOMMU, the other devices, and their paths to
//! memory and interrupts.

mod defect;

use crate::board::{Board, Places};
use crate::inside::Inside;
use crate::iommu::{self, DeviceMemory, Iommu};
use crate::observer::Observer;
use crate::plug::{Around, Changed, Plug};
use crate::topology;
use crate::trace::{Entry, Kind, Trace};
use capdl::{Arch, Scenario};
use platform::{PAGE_BITS, PAGE_SIZE, Paddr};
use sim_fault::Fault;
use sim_kernel::{Access, Kernel, NotRam};
use sim_nvme::Controller;
use sim_page::SharedPage;
use sim_pci::{Blocked, FunctionId, Level, Tree};
use std::collections::BTreeMap;
use std::sync::Arc;

pub use defect::Defect;

/// The thread number of devices in the trace: they act without a thread.
const DEVICES: u32 = u32::MAX;

/// The content of a namespace before the run.
#[derive(Clone)]
pub struct Disk {
    /// Content of the namespace.
    pub base: Arc<dyn sim_nvme::Base>,
}

impl Disk {
    /// A disk that holds zeroes.
    #[must_use]
    pub fn zeroes() -> Self {
        Self { base: Arc::new(sim_nvme::Zeroes) }
    }

    /// A disk whose words are all different, see [`sim_page::pattern`].
    #[must_use]
    pub fn pattern() -> Self {
        Self { base: Arc::new(sim_page::pattern::read) }
    }
}

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

/// The upstream side of the tree: the IOMMU, memory, and the interrupt controllers.
struct Above<'a> {
    iommu: &'a mut Iommu,
    defect: Option<Defect>,
    kernel: &'a mut Kernel,
    trace: &'a mut Trace,
    observer: &'a mut Observer,
    now_ns: u64,
    /// Interrupts that were raised.
    interrupts: u64,
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

    /// Lets devices act up to `now_ns`. Returns the number of interrupts that they raised.
    pub(crate) fn advance(
        &mut self,
        now_ns: u64,
        kernel: &mut Kernel,
        trace: &mut Trace,
        observer: &mut Observer,
    ) -> u64 {
        let mut interrupts = 0;
        while let Some(line) = self.board.expire(now_ns, kernel) {
            interrupts += 1;
            trace.note(Entry { at_ns: now_ns, thread: DEVICES, kind: Kind::Pin, value: u64::from(line) });
        }
        if self.tree_due_ns <= now_ns {
            let mut above =
                Above { iommu: &mut self.iommu, defect: self.defect, kernel, trace, observer, now_ns, interrupts: 0 };
            self.tree.advance(now_ns, &mut above);
            interrupts += above.interrupts;
            self.poll(kernel, observer);
        }
        if self.plug.next_event_ns(&self.tree).is_some_and(|at_ns| at_ns <= now_ns) {
            interrupts += self.plug(now_ns, kernel, trace, observer);
        }
        interrupts
    }

    /// Puts a controller in or takes one out, as the scenario has it. Returns the number of interrupts that this raised.
    fn plug(&mut self, now_ns: u64, kernel: &mut Kernel, trace: &mut Trace, observer: &mut Observer) -> u64 {
        let before: Vec<_> = (0..).zip(&self.controllers).map(|(n, id)| (n, self.tree.requester_id(*id))).collect();
        let pages: Vec<_> = before.iter().map(|(number, _)| self.register_pages(*number)).collect();
        let mut above =
            Above { iommu: &mut self.iommu, defect: self.defect, kernel, trace, observer, now_ns, interrupts: 0 };
        let changed = self.plug.act(&mut Around { tree: &mut self.tree, now_ns, machine: &mut above });
        let interrupts = above.interrupts;
        match changed {
            Some(Changed::Out(index)) => {
                let number = index as u32;
                self.last_pages.extend(pages.get(index).map(|pages| (number, pages.clone())));
                let requester_id = before.get(index).and_then(|(_, id)| *id).unwrap_or_default();
                let memory = DeviceMemory { iommu: &self.iommu, kernel, requester_id };
                let out = self.plug.last_out_mut(index).and_then(Inside::controller_mut);
                for event in out.into_iter().flat_map(Controller::take_events) {
                    observer.happened(number, &event, memory, now_ns);
                }
            }
            Some(Changed::In(index, function)) => {
                self.last_pages.remove(&(index as u32));
                if let Some(place) = self.controllers.get_mut(index) {
                    *place = function;
                }
            }
            None => {}
        }
        self.poll(kernel, observer);
        interrupts
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

    /// Writes a register. A write to an address without a register has no effect.
    #[expect(clippy::too_many_arguments, reason = "what a device's answer may reach")]
    pub(crate) fn write(
        &mut self,
        at: Paddr,
        bytes: u8,
        value: u64,
        now_ns: u64,
        kernel: &mut Kernel,
        trace: &mut Trace,
        observer: &mut Observer,
    ) {
        let address = at.bits();
        if iommu::REGISTERS.contains(&address) {
            return self.iommu.write(kernel, address - iommu::REGISTERS.start, bytes, value);
        }
        let target = self.target(address);
        let above =
            &mut Above { iommu: &mut self.iommu, defect: self.defect, kernel, trace, observer, now_ns, interrupts: 0 };
        // A bus would not carry an access that the tree refuses: it has no effect, as a write to an address without a register.
        if self.places.pci_window().contains(&address) {
            let _ = self.tree.memory_write(target, bytes, value, now_ns, above);
        } else if self.places.ecam().contains(&address) {
            let _ = self.tree.config_write(address - self.places.ecam().start, bytes, value, now_ns, above);
            self.report_places(observer);
        } else {
            return self.board.write(address, bytes, value, now_ns);
        }
        self.poll(kernel, observer);
    }

    /// Reports controllers whose registers lie elsewhere now. A reset of a physical function takes the places of its virtual
    /// functions away, until the PCI server restores them. Outside of the PCI window a BAR is being sized.
    fn report_places(&mut self, observer: &mut Observer) {
        let window = self.places.pci_window();
        let window = window.start >> PAGE_BITS..window.end >> PAGE_BITS;
        for number in 0..self.controllers.len() as u32 {
            let pages = self.register_pages(number);
            let Some(known) = self.placed.get_mut(number as usize) else { return };
            if *known != pages && window.contains(&pages.start) {
                *known = pages.clone();
                observer.placed(number, pages);
            }
        }
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

    /// Passes the controllers' reports to the observer, and notes the tree's next event. Called after the tree has acted.
    fn poll(&mut self, kernel: &Kernel, observer: &mut Observer) {
        // An access to one controller may be an event for another one.
        self.tree_due_ns = self.tree.next_event_ns().unwrap_or(u64::MAX);
        for (number, id) in (0..).zip(&self.controllers) {
            let has_events = self.tree.device(*id).and_then(Inside::controller).is_some_and(Controller::has_events);
            if has_events
                && let Some(requester_id) = self.tree.requester_id(*id)
                && let Some(controller) = self.tree.device_mut(*id).and_then(Inside::controller_mut)
            {
                let now_ns = controller.clock_ns();
                let memory = DeviceMemory { iommu: &self.iommu, kernel, requester_id };
                for event in controller.take_events() {
                    observer.happened(number, &event, memory, now_ns);
                }
            }
        }
    }
}

impl Above<'_> {
    fn translate(&mut self, requester_id: u16, iova: u64, access: Access) -> Result<Paddr, Blocked> {
        match self.iommu.translate(self.kernel, requester_id, iova, access) {
            Err(_) if self.defect == Some(Defect::Iommu) => Ok(Paddr::new(iova)),
            Err(fault) => {
                self.observer.blocked(fault, self.now_ns);
                Err(Blocked::Refused)
            }
            Ok(paddr) => Ok(paddr),
        }
    }

    /// Calls `act` for each piece of `len` bytes at `address` that lies in one page: with the physical address, and the
    /// piece's beginning and end in the `len` bytes.
    fn each(
        &mut self,
        requester_id: u16,
        address: u64,
        len: usize,
        access: Access,
        mut act: impl FnMut(&mut Kernel, Paddr, usize, usize) -> Result<(), NotRam>,
    ) -> Result<(), Blocked> {
        let mut at = 0;
        while at < len {
            let iova = address.wrapping_add(at as u64);
            let piece = (PAGE_SIZE - iova as usize % PAGE_SIZE).min(len - at);
            let paddr = self.translate(requester_id, iova, access)?;
            self.observer.transferred(requester_id, paddr.bits() >> PAGE_BITS, access, self.now_ns);
            act(self.kernel, paddr, at, at + piece).map_err(|_| Blocked::Refused)?;
            at += piece;
        }
        let value = address;
        self.trace.note(Entry { at_ns: self.now_ns, thread: DEVICES, kind: Kind::Transferred, value });
        Ok(())
    }
}

impl sim_pci::Machine for Above<'_> {
    fn dma_read(&mut self, requester_id: u16, address: u64, bytes: &mut [u8]) -> Result<(), Blocked> {
        self.each(requester_id, address, bytes.len(), Access::Read, |kernel, at, from, to| {
            kernel.memory().read(at, &mut bytes[from..to])
        })
    }

    fn dma_write(&mut self, requester_id: u16, address: u64, bytes: &[u8]) -> Result<(), Blocked> {
        self.each(requester_id, address, bytes.len(), Access::Write, |kernel, at, from, to| {
            kernel.memory_mut().write(at, &bytes[from..to])
        })
    }

    fn dma_read_pages(
        &mut self,
        requester_id: u16,
        address: u64,
        count: usize,
        pages: &mut Vec<SharedPage>,
    ) -> Result<(), Blocked> {
        self.each(requester_id, address, count * PAGE_SIZE, Access::Read, |kernel, at, _, _| {
            pages.push(kernel.memory().shared(at).ok_or(NotRam)?.clone());
            Ok(())
        })
    }

    fn dma_write_pages(&mut self, requester_id: u16, address: u64, pages: &[SharedPage]) -> Result<(), Blocked> {
        self.each(requester_id, address, pages.len() * PAGE_SIZE, Access::Write, |kernel, at, from, _| {
            kernel.memory_mut().share(at, &pages[from / PAGE_SIZE])
        })
    }

    fn message(&mut self, requester_id: u16, address: u64, data: u32) {
        let address = match self.iommu {
            // This IOMMU takes messages before it translates addresses.
            Iommu::Kernels => address,
            Iommu::Smmu(_) => match self.translate(requester_id, address, Access::Write) {
                Ok(paddr) => paddr.bits(),
                Err(_) => return,
            },
        };
        let value = u64::from(data);
        self.trace.note(Entry { at_ns: self.now_ns, thread: DEVICES, kind: Kind::Message, value });
        self.interrupts += 1;
        self.kernel.message_interrupt(address, data);
    }

    fn pin(&mut self, line: u8, level: Level) {
        let value = u64::from(line);
        self.trace.note(Entry { at_ns: self.now_ns, thread: DEVICES, kind: Kind::Pin, value });
        let level = match level {
            Level::Asserted => {
                self.interrupts += 1;
                sim_kernel::Level::Asserted
            }
            Level::Deasserted => sim_kernel::Level::Deasserted,
        };
        self.kernel.line_interrupt(line, level);
    }
}
