//! Fix `syscall-flags`: system calls with flags set that the kernel must not run with.

use core::arch::asm;

use crate::machine::{HIGHEST, Machine};
use crate::sys::{self, PROBED, REGISTER_WORDS, Received, Slot, values};
use crate::verdict::{Check, need};

/// Nested task, of RFLAGS.
const NT: u64 = 1 << 14;
/// Direction of string instructions.
const DF: u64 = 1 << 10;
/// Checks of alignment, or access of the kernel to user level's memory.
const AC: u64 = 1 << 18;
/// That CPUID is there.
const ID: u64 = 1 << 21;

/// The kernel goes on with a thread that never ran, which it does by IRETQ. A kernel with the defect stops there.
pub(crate) fn nested_task(machine: &mut Machine) -> Check {
    let endpoint = machine.object(values::ENDPOINT_OBJECT)?;
    let frame = machine.frame()?;
    machine.start(sys::prober, frame.address(), endpoint, HIGHEST)?;
    sys::print("the flag\n");
    let received = call_with::<NT>(values::SYS_RECV, endpoint, 0, [0; REGISTER_WORDS]);
    need(received.label == PROBED, "the thread did not run")
}

/// A system call that does nothing. The build machine looks at the flags with which the kernel's compiled code begins it.
///
/// QEMU 7.2 clears DF at every SYSCALL, whatever the register says, so AC and ID show the defect.
pub(crate) fn others(machine: &mut Machine) -> Check {
    let endpoint = machine.object(values::ENDPOINT_OBJECT)?;
    let yields = values::SYS_YIELD;
    call_with::<{ DF | AC | ID }>(yields, endpoint, 0, [0; REGISTER_WORDS]);
    Ok(())
}

/// A system call with these flags set.
fn call_with<const FLAGS: u64>(number: i64, capability: Slot, info: u64, words: [u64; REGISTER_WORDS]) -> Received {
    let (info_out, word_out): (u64, u64);
    // SAFETY: as for `system_call`; the flags are clear again at the end.
    unsafe {
        asm!(
            "pushfq",
            "or qword ptr [rsp], {flags}",
            "popfq",
            "mov r14, rsp",
            "syscall",
            "mov rsp, r14",
            "push 2",
            "popfq",
            flags = const FLAGS,
            in("rdx") number,
            inlateout("rdi") capability => _,
            inlateout("rsi") info => info_out,
            inlateout("r10") words[0] => word_out,
            inlateout("r8") words[1] => _,
            inlateout("r9") words[2] => _,
            inlateout("r15") words[3] => _,
            lateout("rcx") _,
            lateout("r11") _,
            out("r14") _,
        );
    }
    Received { label: info_out >> 12, word: word_out }
}
