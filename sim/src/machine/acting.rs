//! Actions of the machine: accesses to its registers, events of its devices, and their way to memory and interrupts. Each is
//! reported to the observer.

use super::Machine;
use super::defect::{self, Defect};
use crate::inside::Inside;
use crate::iommu::{self, DeviceMemory, Iommu};
use crate::observer::Observer;
use crate::plug::{Around, Changed};
use crate::trace::{Entry, Kind, Trace};
use platform::{PAGE_BITS, PAGE_SIZE, Paddr};
use sim_kernel::{Access, Kernel, NotRam};
use sim_nvme::Controller;
use sim_page::SharedPage;
use sim_pci::{Blocked, Level};

/// The thread number of devices in the trace: they act without a thread.
const DEVICES: u32 = u32::MAX;

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

    /// Has a defect from now on.
    pub(crate) fn plant(&mut self, defect: Defect) {
        self.defect = Some(defect);
        if defect == Defect::Namespaces {
            for id in &self.controllers {
                let controller = self.tree.device_mut(*id).and_then(Inside::controller_mut);
                controller.into_iter().for_each(Controller::ignore_attachments);
            }
        }
    }

    /// Returns the address that a write to the PCI window reaches.
    fn target(&self, address: u64) -> u64 {
        if self.defect == Some(Defect::Doorbells) { self.misdirected(address).unwrap_or(address) } else { address }
    }

    /// Returns the address that a write to a virtual function's registers reaches; behind the last function is the first.
    fn misdirected(&self, address: u64) -> Option<u64> {
        let functions: Vec<_> = self.controllers.iter().flat_map(|id| self.tree.virtual_functions(*id)).collect();
        let numbers = (0..).zip(&self.controllers).filter(|(_, id)| functions.contains(id));
        let registers: Vec<_> = numbers.map(|(number, _)| self.register_pages(number)).collect();
        let own = registers.iter().position(|pages| pages.contains(&(address >> PAGE_BITS)))?;
        let (further, offset) = defect::misdirected(address - (registers.get(own)?.start << PAGE_BITS));
        let reached = registers.get((own + further) % registers.len())?;
        Some((reached.start << PAGE_BITS) + offset)
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
