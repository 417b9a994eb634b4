//! The root task's program for seL4.

#![no_std]
#![no_main]

extern crate alloc;

#[cfg_attr(target_arch = "x86_64", path = "x86_64.rs")]
#[cfg_attr(target_arch = "aarch64", path = "aarch64.rs")]
mod machine;

use alloc::string::ToString;
use platform::log::error;
use platform::{Cap, Kernel, Message, Notification, OutOfBounds, Paddr, Platform, Region};
use platform_sel4::{BootUntyped, RETYPE_LIMIT, RootPlatform, Sel4Mmio, Sel4Platform, initial, object_bits};
use root_task::{BootInfo, BuildError, Fault, Services, Supervisor, UntypedInfo};

platform_sel4::root_task!(main);

fn main(boot: &platform_sel4::BootInfo, root: RootPlatform) -> ! {
    match build(boot, &root) {
        Ok(supervisor) => {
            let endpoint = supervisor.endpoint();
            root.run(endpoint, supervisor.run())
        }
        Err(error) => give_up(&root, &error),
    }
}

fn build(boot: &platform_sel4::BootInfo, root: &RootPlatform) -> Result<Supervisor<Sel4Platform, Runtime>, BuildError> {
    let payload = root.payload().map_err(|_| BuildError::OutOfBounds { what: "the payload" })?;
    root_task::boot(root.platform(), Runtime(root.clone()), &boot_info(boot, root), &payload)
}

fn boot_info(boot: &platform_sel4::BootInfo, root: &RootPlatform) -> BootInfo {
    let untyped = |untyped: &BootUntyped| {
        let BootUntyped { cap, paddr, size_bits, is_device } = *untyped;
        UntypedInfo { cptr: cap, paddr, size_bits, is_device }
    };
    BootInfo {
        untypeds: boot.untypeds.iter().map(untyped).collect(),
        free_cptrs: boot.empty_cptrs.clone(),
        cnode: initial::CNODE,
        vspace: initial::VSPACE,
        tcb: initial::TCB,
        asid_pool: initial::ASID_POOL,
        irq_control: initial::IRQ_CONTROL,
        io_space_master: initial::IO_SPACE,
        io_ports: initial::IO_PORTS,
        iommu_levels: u8::try_from(boot.io_page_table_levels).unwrap_or(u8::MAX),
        mapping_area: root.mapping_area().clone(),
        device_area: root.device_area().clone(),
        object_bits,
        retype_limit: RETYPE_LIMIT,
    }
}

/// Reports in every possible way why there is no system, and sleeps.
fn give_up(root: &RootPlatform, error: &BuildError) -> ! {
    let reason = error.to_string();
    root.print(format_args!("root-task: {reason}\n"));
    error!("no system: {}", reason.as_str());
    root.write_panic(&root_task::panic_frame(&reason));
    loop {
        // No other thread runs, so nothing ends this.
        let _ = root.kernel().tcb_suspend(initial::TCB);
    }
}

/// The runtime's services for the root task alone.
#[derive(Clone)]
struct Runtime(RootPlatform);

impl Services<Sel4Platform> for Runtime {
    type Timer = machine::Timer;

    fn timer(&self, registers: impl FnOnce(Paddr) -> Result<Sel4Mmio, BuildError>) -> Result<Self::Timer, BuildError> {
        machine::timer(registers)
    }

    fn fault(&self, message: &Message) -> Option<Fault> {
        let platform_sel4::Fault { kind, address, instruction } = platform_sel4::Fault::decode(message)?;
        Some(Fault { kind, address, instruction })
    }

    fn start_log(&self, region: &Region, console: Cap<Notification>) -> Result<(), OutOfBounds> {
        self.0.start_log(region, Some(console))
    }
}
