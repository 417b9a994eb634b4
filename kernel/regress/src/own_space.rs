//! Threads in an address space of their own, with one page: their program.
//!
//! Programs are written by each architecture's module. Left out: making the page visible to instruction fetches, which
//! QEMU does by itself.

use crate::machine::{Machine, configure, resume_at};
use crate::sys::{self, Slot, values};
use crate::verdict::{Check, Failure};

/// Address of the page.
const PROGRAM: usize = 0x1000_0000;
/// Read, as the kernel encodes rights.
const READ: u64 = 0b010;

/// An address space with a program in it.
pub(crate) struct OwnSpace(Slot);

impl OwnSpace {
    /// Makes one that gets its identifier from `pool`.
    pub(crate) fn new(machine: &mut Machine, pool: Slot, program: &[u8]) -> Check<Self> {
        let vspace = machine.object(values::VSPACE_OBJECT)?;
        sys::invoke(pool, values::ASID_POOL_ASSIGN, &[], &[vspace])
            .map_err(|error| Failure::Broken("assigning an address space to a pool", error))?;
        machine.map_tables(vspace, PROGRAM)?;
        let page = machine.frame()?;
        for (address, byte) in (page.address()..).zip(program) {
            // SAFETY: the page is mapped writable and holds nothing of this program's; programs are far shorter than it.
            unsafe { sys::volatile_write(address, *byte) };
        }
        sys::invoke(page.spare, values::PAGE_MAP, &[PROGRAM as u64, READ, values::WRITE_BACK as u64], &[vspace])
            .map_err(|error| Failure::Broken("mapping a program", error))?;
        Ok(Self(vspace))
    }

    /// Starts a thread in it, with these arguments; its faults go to `endpoint`.
    pub(crate) fn start(
        &self,
        machine: &mut Machine,
        arguments: [u64; 2],
        endpoint: Slot,
        priority: u64,
    ) -> Check<Slot> {
        let tcb = machine.object(values::TCB_OBJECT)?;
        configure(tcb, self.0, endpoint, priority)?;
        // The programs use no stack.
        resume_at(tcb, PROGRAM, PROGRAM, arguments)?;
        Ok(tcb)
    }
}
