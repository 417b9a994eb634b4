//! Configuration of a thread: fault endpoint, CSpace, VSpace, IPC buffer, and priority, which later kernels set in a call of its own.
//!
//! The thread keeps its own capabilities to the last three, in slots that no path leads to.

use crate::arena::ThreadId;
use crate::boot::TCB_SLOT;
use crate::capability::Capability;
use crate::invocation::{Invocation, Outcome};
use crate::kernel::Kernel;
use crate::rules::Interface;
use crate::slots::SlotId;
use crate::tcb::target;
use crate::vspace::X86_64_USER_TOP;
use crate::{Arch, label};
use platform::{CNode, CPtr, Cap, Error, Frame, Result, Tcb, VSpace, Vaddr};

/// Alignment of an IPC buffer in bytes, on 5.0.0.
const OLD_BUFFER_ALIGNMENT: u64 = 512;
/// Alignment of an IPC buffer in bytes, on later kernels.
const BUFFER_ALIGNMENT: u64 = 1024;

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
        let guard = self.rules.interface.guard_word(cspace_guard_bits, 0);
        let [fault, priority_word, buffer] = [fault_endpoint.bits(), priority.into(), ipc_buffer.bits()];
        let words: &[u64] = match self.rules.interface {
            Interface::Old => &[fault, priority_word, guard, 0, buffer],
            Interface::Current => &[fault, guard, 0, buffer],
        };
        let caps = [cspace.cptr(), vspace.cptr(), ipc_buffer_frame.cptr()];
        let invocation = Invocation { service: tcb.cptr(), label: label::TCB_CONFIGURE, words, caps: &caps };
        self.invoke(thread, &invocation, |kernel, found| {
            let target = target(found)?;
            found.all_words()?;
            let sources = [found.cap(0)?, found.cap(1)?, found.cap(2)?];
            if !kernel.is_current() {
                kernel.check_priority(thread, priority)?;
            }
            let caps = kernel.check_configure(target, sources, guard, ipc_buffer.bits())?;
            kernel.threads[target].fault_handler = fault_endpoint;
            if !kernel.is_current() {
                kernel.threads[target].max_controlled = 0;
                kernel.set_priority(target, priority);
            }
            kernel.fill_own_slots(found.slot, target, sources, caps, ipc_buffer.bits());
            Ok(())
        })?;
        if self.is_current() {
            return self.set_sched_params(thread, tcb, priority);
        }
        Ok(())
    }

    /// Sets a thread's priority by the authority of the TCB in slot 1 of the caller's CSpace.
    fn set_sched_params(&mut self, thread: ThreadId, tcb: Cap<Tcb>, priority: u8) -> Result<()> {
        let (words, caps) = ([0, priority.into()], [CPtr::new(TCB_SLOT)]);
        let invocation =
            Invocation { service: tcb.cptr(), label: label::TCB_SET_SCHED_PARAMS, words: &words, caps: &caps };
        self.invoke(thread, &invocation, |kernel, found| {
            let target = target(found)?;
            let Capability::Thread(authority) = kernel.slots[found.cap(0)?].cap else {
                return Err(Error::InvalidCapability(1).into());
            };
            kernel.check_priority(authority, priority)?;
            kernel.threads[target].max_controlled = 0;
            kernel.set_priority(target, priority);
            Ok(())
        })
    }

    fn check_priority(&self, authority: ThreadId, priority: u8) -> Result<()> {
        let max = self.threads[authority].max_controlled;
        if priority > max { Err(Error::RangeError { min: 0, max: max.into() }) } else { Ok(()) }
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
            self.check_buffer(&buffer_cap, ipc_buffer)?;
        }
        if self.is_long_deletion(self.cspace_slot(target)) || self.is_long_deletion(self.vspace_slot(target)) {
            return Err(Error::IllegalOperation.into());
        }
        // The word of no guard is 0 on later kernels, and leaves the capability's own.
        let own = self.slots[cspace].cap;
        let guarded = if guard == 0 { own } else { own.with_data(guard, self.rules) };
        let cspace_cap = self.derive(cspace, guarded)?;
        let Capability::CNode { .. } = cspace_cap else { return Err(Error::IllegalOperation.into()) };
        let vspace_cap = self.derive(vspace, self.slots[vspace].cap)?;
        match vspace_cap {
            Capability::VSpace { asid, .. } if asid != 0 => Ok([cspace_cap, vspace_cap, buffer_cap]),
            _ => Err(Error::IllegalOperation.into()),
        }
    }

    fn check_buffer(&self, frame: &Capability, vaddr: u64) -> Result<()> {
        let alignment = if self.is_current() { BUFFER_ALIGNMENT } else { OLD_BUFFER_ALIGNMENT };
        match frame {
            Capability::Frame { is_device: false, .. }
                if self.arch == Arch::X86_64 && !self.is_current() && vaddr >= X86_64_USER_TOP =>
            {
                Err(Error::IllegalOperation)
            }
            Capability::Frame { is_device: false, .. } if vaddr.is_multiple_of(alignment) => Ok(()),
            Capability::Frame { is_device: false, .. } => Err(Error::AlignmentError),
            _ => Err(Error::IllegalOperation),
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
