//! Entry of the root task: from the kernel's jump to the chosen test, and the verdict.

use core::panic::PanicInfo;

use crate::machine::Machine;
use crate::verdict::{Check, Failure};
use crate::{
    arch, endpoint_badge, fastpath_asid, fastpath_reply, frame_copy, fw_cfg, short_signal, short_wait,
    suspend_after_call, sys,
};

/// The `fw_cfg` file in which `kernel::regress` puts the test's name.
const TEST_FILE: &str = "opt/capnvme/regress";

/// Called on a stack of our own, with the address of the boot information.
pub(crate) extern "C" fn main(boot_info: usize) -> ! {
    // SAFETY: the entry code passes on the kernel's address, once.
    let boot_info = unsafe { sys::BootInfo::new(boot_info) };
    let mut machine = Machine::new(boot_info);
    let opened = arch::open(&mut machine);
    // A first sign of life: from here on a machine that stops has been stopped by the test.
    sys::print("started\n");
    let mut name = [0; 32];
    let verdict = opened.and_then(|()| fw_cfg::read_file(TEST_FILE, &mut name)).and_then(|length| {
        let name = name.get(..length).unwrap_or_default();
        run(name, &mut machine)
    });
    report(verdict)
}

fn run(name: &[u8], machine: &mut Machine) -> Check {
    match name {
        b"frame-copy-vspace" => frame_copy::run(machine),
        b"endpoint-badge" => endpoint_badge::run(machine),
        b"suspend-after-call" => suspend_after_call::run(machine),
        b"fastpath-asid" => fastpath_asid::run(machine),
        b"fastpath-reply" => fastpath_reply::run(machine),
        b"short-signal" => short_signal::run(machine),
        b"short-wait" => short_wait::run(machine),
        name => arch::run(name, machine),
    }
}

fn report(verdict: Check) -> ! {
    match verdict {
        Ok(()) => sys::print("verdict: pass\n"),
        Err(Failure::Defect(what)) => {
            sys::print("verdict: fail: ");
            sys::print(what);
            sys::print("\n");
        }
        Err(Failure::Broken(what, error)) => {
            sys::print("verdict: broken: ");
            sys::print(what);
            sys::print(", error ");
            sys::print_number(error);
            sys::print("\n");
        }
    }
    arch::exit()
}

#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    sys::print("verdict: broken: panic in line ");
    sys::print_number(info.location().map_or(0, |place| place.line().into()));
    sys::print(" of ");
    sys::print(info.location().map_or("?", |place| place.file()));
    sys::print("\n");
    arch::exit()
}
