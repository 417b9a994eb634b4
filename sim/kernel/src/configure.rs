//! Configuration of a thread: fault endpoint, priority, CSpace, VSpace and IPC buffer, in one invocation.
//!
//! The thread keeps its own capabilities to the last three, in slots that no path leads to.

use crate::arena::ThreadId;
use crate::capability::{Capability, guard_word};
use crate::invocation::{Invocation, Outcome};
use crate::slots::SlotId;
use crate::thread::target;
use crate::vspace::X86_64_USER_TOP;
use crate::{Arch, Kernel, label};
use platform::{CNode, CPtr, Cap, Error, Frame, Result, Tcb, VSpace, Vaddr};

/// Bytes an IPC buffer is aligned to.
const BUFFER_ALIGNMENT: u64 = 512;

impl Kernel {
    /// See [`platform::Kernel::tcb_configure`].
    ///
    /// # Errors
    /// The kernel's errors, as the seam returns them.
    #[expect(clippy::too_many_arguments, reason = "one invocation of the kernel, its arguments are given")]
    pub fn tcb_configure(
        &mut self,
        thread: ThreadId,
        tcb: Cap<Tcb>,
        fault_endpoint: CPtr,
        priority: u8,
        cspace: Cap<CNode>,
        cspace_guard_bits: u8,
        vspace: Cap<VSpace>,
        ipc_buffer: Vaddr,
        ipc_buffer_frame: Cap<Frame>,
    ) -> Result<()> {
        let guard = guard_word(cspace_guard_bits, 0);
        let words = [fault_endpoint.bits(), priority.into(), guard, 0, ipc_buffer.bits()];
        let caps = [cspace.cptr(), vspace.cptr(), ipc_buffer_frame.cptr()];
        let invocation = Invocation { service: tcb.cptr(), label: label::TCB_CONFIGURE, words: &words, caps: &caps };
        self.invoke(thread, &invocation, |kernel, found| {
            let target = target(found)?;
            found.all_words()?;
            let sources = [found.cap(0)?, found.cap(1)?, found.cap(2)?];
            let max = kernel.threads[thread].max_controlled;
            if priority > max {
                return Err(Error::RangeError { min: 0, max: max.into() }.into());
            }
            let caps = kernel.check_configure(target, sources, guard, ipc_buffer.bits())?;
            let configured = &mut kernel.threads[target];
            configured.fault_handler = fault_endpoint;
            configured.max_controlled = 0;
            kernel.set_priority(target, priority);
            kernel.fill_own_slots(found.slot, target, sources, caps, ipc_buffer.bits());
            Ok(())
        })
    }

    /// The capabilities that go into a thread's slots for CSpace, VSpace and IPC buffer, in the kernel's order of
    /// checks.
    fn check_configure(
        &mut self,
        target: ThreadId,
        [cspace, vspace, frame]: [SlotId; 3],
        guard: u64,
        ipc_buffer: u64,
    ) -> Outcome<[Capability; 3]> {
        let mut buffer_cap = Capability::Null;
        if ipc_buffer != 0 {
            buffer_cap = self.derive(frame, self.slots[frame].cap)?;
            check_buffer(&buffer_cap, ipc_buffer, self.arch)?;
        }
        if self.is_long_deletion(self.cspace_slot(target)) || self.is_long_deletion(self.vspace_slot(target)) {
            return Err(Error::IllegalOperation.into());
        }
        let cspace_cap = self.derive(cspace, self.slots[cspace].cap.with_data(guard, self.rules))?;
        let Capability::CNode { .. } = cspace_cap else { return Err(Error::IllegalOperation.into()) };
        let vspace_cap = self.derive(vspace, self.slots[vspace].cap)?;
        match vspace_cap {
            Capability::VSpace { asid, .. } if asid != 0 => Ok([cspace_cap, vspace_cap, buffer_cap]),
            _ => Err(Error::IllegalOperation.into()),
        }
    }

    /// Whether the deletion of the capability in `slot` would have to empty an object.
    fn is_long_deletion(&self, slot: SlotId) -> bool {
        let cap = &self.slots[slot].cap;
        matches!(cap, Capability::Thread(_) | Capability::Zombie { .. } | Capability::CNode { .. })
            && self.is_final(slot)
    }

    fn fill_own_slots(
        &mut self,
        tcb: SlotId,
        target: ThreadId,
        sources: [SlotId; 3],
        caps: [Capability; 3],
        ipc_buffer: u64,
    ) {
        let own = [self.cspace_slot(target), self.vspace_slot(target), self.buffer_slot(target)];
        for ((slot, source), cap) in own.into_iter().zip(sources).zip(caps) {
            self.delete(slot);
            // The deletion may have removed the last capability that kept source or thread.
            let is_there = self.is_same_object(&cap, &self.slots[source].cap)
                && self.is_same_object(&Capability::Thread(target), &self.slots[tcb].cap);
            if is_there && !cap.is_null() {
                self.insert_derived(cap, source, slot);
            }
        }
        if let Some(target) = self.threads.get_mut(target) {
            target.ipc_buffer = ipc_buffer;
        }
        self.translation_generation += 1;
    }
}

fn check_buffer(frame: &Capability, vaddr: u64, arch: Arch) -> Result<()> {
    match frame {
        Capability::Frame { is_device: false, .. } if arch == Arch::X86_64 && vaddr >= X86_64_USER_TOP => {
            Err(Error::IllegalOperation)
        }
        Capability::Frame { is_device: false, .. } if vaddr.is_multiple_of(BUFFER_ALIGNMENT) => Ok(()),
        Capability::Frame { is_device: false, .. } => Err(Error::AlignmentError),
        _ => Err(Error::IllegalOperation),
    }
}
