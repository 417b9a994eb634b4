//! Fix `segment-bases`: a thread runs with its bases of FS and GS after another one, with the same bases, has lost its own.

use core::arch::asm;

use crate::machine::{Frame, HIGHEST, Machine, PAGE, VSPACE, configure_with_buffer, registers_at, resume};
use crate::sys::{self, PROBED, REGISTER_WORDS, Slot, message_info, values};
use crate::verdict::{Check, Failure, defect_if, need};

const PATTERN: u64 = 0x5eed_0006_5eed_0006;
/// The selector of user level's data segment, whose base is 0.
const SELECTOR: u16 = 0x33;

/// The scheduler goes from one thread to the other: the first one waits.
pub(crate) fn schedule(machine: &mut Machine) -> Check {
    let (frame, endpoint) = (frame(machine)?, machine.object(values::ENDPOINT_OBJECT)?);
    let nobodys = machine.object(values::ENDPOINT_OBJECT)?;
    start(machine, &frame, loses_and_waits, [nobodys, 0], endpoint, HIGHEST)?;
    start(machine, &frame, reads, [0, endpoint], endpoint, HIGHEST - 1)?;
    judge(endpoint)
}

/// The fastpath does: the first one calls the second.
pub(crate) fn fastpath(machine: &mut Machine) -> Check {
    let (frame, endpoint) = (frame(machine)?, machine.object(values::ENDPOINT_OBJECT)?);
    let called = machine.object(values::ENDPOINT_OBJECT)?;
    start(machine, &frame, reads, [called, endpoint], endpoint, HIGHEST)?;
    start(machine, &frame, loses_and_calls, [called, 0], endpoint, HIGHEST - 1)?;
    judge(endpoint)
}

fn frame(machine: &mut Machine) -> Check<Frame> {
    let frame = machine.frame()?;
    frame.write(PATTERN);
    Ok(frame)
}

/// Starts a thread whose bases are both the frame's address.
fn start(
    machine: &mut Machine,
    bases: &Frame,
    program: extern "C" fn(Slot, Slot) -> !,
    arguments: [u64; 2],
    endpoint: Slot,
    priority: u64,
) -> Check {
    let tcb = machine.object(values::TCB_OBJECT)?;
    let stack_top = machine.frame()?.address() + PAGE;
    let base = bases.address() as u64;
    configure_with_buffer(tcb, VSPACE, endpoint, priority, base)
        .map_err(|error| Failure::Broken("configuring a thread", error))?;
    let [pc, sp, first, second] = registers_at(program as usize, stack_top, arguments);
    resume(tcb, &[pc, sp, first, second, (values::CONTEXT_TLS_BASE, base)])
}

fn judge(endpoint: Slot) -> Check {
    let received = sys::receive(endpoint);
    defect_if(received.label != PROBED, "a thread runs with a segment base that another one left")?;
    need(received.word == PATTERN, "the bases are not the frame's address")
}

/// The program of the second thread: waits for a message at `called`, if there is one, and sends what lies at both bases.
extern "C" fn reads(called: Slot, endpoint: Slot) -> ! {
    if called != 0 {
        sys::receive(called);
    }
    let (fs, gs): (u64, u64);
    // SAFETY: reads a page that is mapped, or faults.
    unsafe { asm!("mov {}, fs:[0]", "mov {}, gs:[0]", out(reg) fs, out(reg) gs, options(nostack, readonly)) };
    let word = if fs == gs { fs } else { 0 };
    super::system_call(values::SYS_SEND, endpoint, message_info(PROBED, 0, 1), [word, 0, 0, 0]);
    loop {
        super::system_call(values::SYS_YIELD, 0, 0, [0; REGISTER_WORDS]);
    }
}

extern "C" fn loses_and_waits(waited: Slot, _: Slot) -> ! {
    lose();
    loop {
        sys::receive(waited);
    }
}

extern "C" fn loses_and_calls(called: Slot, _: Slot) -> ! {
    lose();
    loop {
        super::system_call(values::SYS_CALL, called, message_info(PROBED, 0, 0), [0; REGISTER_WORDS]);
    }
}

/// Sets both bases to 0, as every program can.
fn lose() {
    // SAFETY: no code of this program uses the two segments but `reads`, in a thread of its own.
    unsafe { asm!("mov fs, {0:x}", "mov gs, {0:x}", in(reg) SELECTOR, options(nomem, nostack, preserves_flags)) };
}
