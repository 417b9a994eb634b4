//! The root task in the simulator: its library, with boot information from the kernel's model.

use crate::component::{Identity, SimPlatform};
use crate::inbox::{execute, rest};
use crate::memory::SimMmio;
use crate::world::World;
use crate::{hpet, serial, timer};
use capdl::Arch;
use platform::log::error;
use platform::x86_64::PortIo;
use platform::{Cap, Message, Notification, OutOfBounds, Paddr, Platform, Region};
use report::FaultKind;
use root_task::{BootInfo, BuildError, Fault, Services, UntypedInfo};
use sim_kernel::{Access, FaultReport, RETYPE_LIMIT, RootTask, ThreadId, object_bits};
use std::rc::Rc;

/// The root task's boot information and thread.
pub(crate) struct Root {
    task: RootTask,
}

impl Root {
    pub(crate) const fn new(task: RootTask) -> Self {
        Self { task }
    }

    pub(crate) const fn thread(&self) -> ThreadId {
        self.task.thread
    }

    pub(crate) fn platform(&self, world: &Rc<World>) -> SimPlatform {
        let RootTask { payload, mapping_area, device_area, .. } = &self.task;
        let regions = vec![payload.clone(), mapping_area.clone(), device_area.clone()];
        let name = "root-task".into();
        SimPlatform::new(world, Identity { thread: self.task.thread, name, regions, wait: None, crash_at: None })
    }

    /// Boots and supervises without end, as `root-task/src/main.rs` does.
    pub(crate) fn live(self, platform: SimPlatform) {
        let io_ports = self.task.io_ports;
        let payload = self.task.payload.clone();
        let info = boot_info(self.task);
        let supervisor =
            platform.memory(&payload).map_err(|_| root_task::BuildError::OutOfBounds { what: "the payload" });
        let supervisor = supervisor
            .and_then(|payload| root_task::boot(platform.clone(), Runtime(platform.clone()), &info, &payload));
        match supervisor {
            Ok(supervisor) => {
                platform.listen(supervisor.endpoint());
                execute(platform.inbox(), Box::pin(supervisor.run()), || platform.turn());
            }
            Err(reason) => {
                let reason = reason.to_string();
                error!("no system: {reason}");
                let words = root_task::panic_frame(&reason);
                match platform.arch() {
                    Arch::X86_64 => {
                        for byte in words {
                            // The root task has all ports.
                            let _ = platform.kernel().ioport_out8(io_ports, serial::TRANSMITTER, byte);
                        }
                    }
                    Arch::Aarch64 => platform.write_panic(&words),
                }
            }
        }
        rest(platform.inbox());
    }
}

fn boot_info(task: RootTask) -> BootInfo {
    let untyped = |untyped: &sim_kernel::BootUntyped| UntypedInfo {
        cptr: untyped.cptr,
        paddr: untyped.paddr,
        size_bits: untyped.size_bits,
        is_device: untyped.is_device,
    };
    BootInfo {
        untypeds: task.untypeds.iter().map(untyped).collect(),
        free_cptrs: task.free_cptrs,
        cnode: task.cnode,
        vspace: task.vspace,
        tcb: task.tcb,
        asid_pool: task.asid_pool,
        irq_control: task.irq_control,
        io_space_master: task.io_space_master,
        io_ports: task.io_ports,
        iommu_levels: task.iommu_levels,
        mapping_area: task.mapping_area,
        device_area: task.device_area,
        object_bits,
        retype_limit: RETYPE_LIMIT,
    }
}

/// The simulator's services for the root task alone.
#[derive(Clone)]
struct Runtime(SimPlatform);

impl Services<SimPlatform> for Runtime {
    type Timer = timer::OfMachine;

    fn timer(&self, registers: impl FnOnce(Paddr) -> Result<SimMmio, BuildError>) -> Result<Self::Timer, BuildError> {
        match self.0.arch() {
            Arch::X86_64 => root_task::hpet::at(Paddr::new(hpet::BASE), registers).map(timer::OfMachine::Hpet),
            Arch::Aarch64 => Ok(timer::OfMachine::generic(&self.0)),
        }
    }

    fn fault(&self, message: &Message) -> Option<Fault> {
        let FaultReport { fault, instruction } = FaultReport::decode(message)?;
        let (kind, address) = match fault {
            sim_kernel::Fault::Vm { vaddr, access: Access::Read } => (FaultKind::Read, vaddr),
            sim_kernel::Fault::Vm { vaddr, access: Access::Write } => (FaultKind::Write, vaddr),
            sim_kernel::Fault::Vm { vaddr, access: Access::Execute } => (FaultKind::Execute, vaddr),
            sim_kernel::Fault::Capability { cptr, .. } => (FaultKind::Capability, cptr.bits()),
            sim_kernel::Fault::UnknownSyscall(number) => (FaultKind::UnknownSyscall, number),
            sim_kernel::Fault::Exception(number) => (FaultKind::Exception(u64::from(number)), 0),
        };
        Some(Fault { kind, address, instruction })
    }

    fn start_log(&self, region: &Region, console: Cap<Notification>) -> Result<(), OutOfBounds> {
        self.0.start_log(region, Some(console))
    }
}
