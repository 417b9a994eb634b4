//! TCBs: the invocations on them, and the ways in which a thread stops and continues.
//!
//! Neighbours: `configure` gives a thread its spaces, `schedule` decides which thread runs, `endpoint` and `notification`
//! make threads wait. Left out: floating point, scheduling domains (there is one), and the registers that no component is
//! started with.

use crate::Arch;
use crate::arena::ThreadId;
use crate::capability::Capability;
use crate::delivery::Delivery;
use crate::invocation::{Found, Invocation, Outcome, Stop};
use crate::kernel::Kernel;
use crate::label;
use crate::schedule::OnEqual;
use crate::scheduler::TIME_SLICE_TICKS;
use crate::slots::SlotId;
use crate::thread::{THREAD_SLOT_BITS, Thread, ThreadState};
use platform::{CPtr, Cap, Error, Message, Notification, Result, Resume, Tcb, UserContext};

/// A thread's slots, from its first.
const CSPACE: u32 = 0;
const VSPACE: u32 = 1;
const REPLY: u32 = 2;
const CALLER: u32 = 3;
const BUFFER: u32 = 4;

/// Words of a write of all registers that are written: two of description, 20 of registers.
const REGISTERS: usize = 20;

impl Kernel {
    /// See [`platform::Kernel::tcb_write_registers`].
    ///
    /// # Errors
    /// The kernel's errors, as the seam returns them.
    pub fn tcb_write_registers(
        &mut self,
        thread: ThreadId,
        tcb: Cap<Tcb>,
        resume: Resume,
        context: &UserContext,
    ) -> Result<()> {
        let words = register_words(resume, context);
        let invocation =
            Invocation { service: tcb.cptr(), label: label::TCB_WRITE_REGISTERS, words: &words, caps: &[] };
        self.invoke(thread, &invocation, |kernel, found| {
            let target = target(found)?;
            found.all_words()?;
            if target == thread {
                return Err(Error::IllegalOperation.into());
            }
            let instruction_pointer = kernel.jumpable_or_zero(context.instruction_pointer);
            let written = &mut kernel.threads[target];
            written.context = UserContext { instruction_pointer, ..*context };
            written.starts = written.starts.wrapping_add(1);
            // A thread with new registers does not continue its previous operation.
            kernel.threads[target].is_in_operation = false;
            kernel.threads[target].delivery = None;
            if resume == Resume::Now {
                kernel.restart(target);
            }
            Ok(())
        })
    }

    /// See [`platform::Kernel::tcb_read_registers`].
    ///
    /// # Errors
    /// The kernel's errors, as the seam returns them.
    pub fn tcb_read_registers(&mut self, thread: ThreadId, tcb: Cap<Tcb>) -> Result<UserContext> {
        let words = [0, REGISTERS as u64];
        let invocation = Invocation { service: tcb.cptr(), label: label::TCB_READ_REGISTERS, words: &words, caps: &[] };
        self.invoke(thread, &invocation, |kernel, found| {
            let target = target(found)?;
            if target == thread {
                return Err(Error::IllegalOperation.into());
            }
            Ok(kernel.threads[target].context)
        })
    }

    /// See [`platform::Kernel::tcb_resume`].
    ///
    /// # Errors
    /// The kernel's errors, as the seam returns them.
    pub fn tcb_resume(&mut self, thread: ThreadId, tcb: Cap<Tcb>) -> Result<()> {
        let invocation = Invocation { service: tcb.cptr(), label: label::TCB_RESUME, words: &[], caps: &[] };
        self.invoke(thread, &invocation, |kernel, found| {
            kernel.restart(target(found)?);
            Ok(())
        })
    }

    /// See [`platform::Kernel::tcb_suspend`]. A thread that suspends itself gets no result when it is resumed: the kernel
    /// makes it repeat the operation.
    ///
    /// # Errors
    /// The kernel's errors, as the seam returns them.
    pub fn tcb_suspend(&mut self, thread: ThreadId, tcb: Cap<Tcb>) -> Result<()> {
        let invocation = Invocation { service: tcb.cptr(), label: label::TCB_SUSPEND, words: &[], caps: &[] };
        self.invoke(thread, &invocation, |kernel, found| {
            kernel.suspend(target(found)?);
            Ok(())
        })
    }

    /// See [`platform::Kernel::tcb_bind_notification`].
    ///
    /// # Errors
    /// The kernel's errors, as the seam returns them.
    pub fn tcb_bind_notification(
        &mut self,
        thread: ThreadId,
        tcb: Cap<Tcb>,
        notification: Cap<Notification>,
    ) -> Result<()> {
        let (service, caps) = (tcb.cptr(), [notification.cptr()]);
        let invocation = Invocation { service, label: label::TCB_BIND_NOTIFICATION, words: &[], caps: &caps };
        self.invoke(thread, &invocation, |kernel, found| {
            let target = target(found)?;
            let source = found.cap(0)?;
            let refused = Err(Error::IllegalOperation.into());
            if kernel.threads[target].bound.is_some() {
                return refused;
            }
            let Capability::Notification { notification, rights, .. } = kernel.slots[source].cap else {
                return refused;
            };
            let object = &mut kernel.notifications[notification];
            if !rights.read || object.queue.head.is_some() || object.bound.is_some() {
                return refused;
            }
            object.bound = Some(target);
            kernel.threads[target].bound = Some(notification);
            Ok(())
        })
    }

    /// Makes an inactive thread at `paddr`.
    pub(crate) fn make_thread(&mut self, paddr: u64) -> ThreadId {
        let first = self.slots.add(THREAD_SLOT_BITS);
        self.threads.add_last(Thread {
            paddr,
            first,
            state: ThreadState::Inactive,
            priority: 0,
            max_controlled: 0,
            slice_ticks: TIME_SLICE_TICKS,
            is_ready: false,
            ready_prev: None,
            ready_next: None,
            wait_prev: None,
            wait_next: None,
            fault_handler: CPtr::new(0),
            fault: None,
            bound: None,
            ipc_buffer: 0,
            receive_cptr: None,
            outgoing: Message::new(0),
            delivery: None,
            is_in_operation: false,
            context: UserContext::default(),
            starts: 0,
        })
    }

    /// Stops a thread and ends any wait of it.
    pub(crate) fn suspend(&mut self, thread: ThreadId) {
        self.cancel_ipc(thread);
        self.set_state(thread, ThreadState::Inactive);
        self.ready_remove(thread);
    }

    /// Makes a waiting thread run: it repeats its operation.
    pub(crate) fn restart(&mut self, thread: ThreadId) {
        if self.threads[thread].state.is_runnable() {
            return;
        }
        self.cancel_ipc(thread);
        self.set_up_reply_master(thread);
        self.set_restarting(thread);
        // The queue first: the code below finds the thread there and leaves it, even when it runs next.
        self.ready_push(thread);
        self.wake(thread, OnEqual::Stay);
    }

    /// Makes a thread repeat its last operation when it runs. If that was finished before the thread was stopped, the thread
    /// continues after it, as with the kernel's correction `suspend-after-call`.
    pub(crate) fn set_restarting(&mut self, thread: ThreadId) {
        let restarting = &mut self.threads[thread];
        if restarting.is_in_operation && restarting.delivery.is_none() {
            restarting.delivery = Some(Delivery::Restart);
        }
        self.set_state(thread, ThreadState::Restart);
    }

    pub(crate) fn set_up_reply_master(&mut self, thread: ThreadId) {
        let slot = self.reply_slot(thread);
        if self.slots[slot].cap.is_null() {
            self.insert_root(slot, Capability::Reply { thread, can_grant: true, is_master: true });
        }
    }

    /// The address, if the kernel can make the processor jump to it, else 0: the x86_64 kernel does not return to
    /// non-canonical addresses.
    pub(crate) const fn jumpable_or_zero(&self, address: u64) -> u64 {
        match (self.arch, address) {
            (Arch::X86_64, 0x0000_8000_0000_0000..=0xffff_7fff_ffff_ffff) => 0,
            (Arch::X86_64 | Arch::Aarch64, address) => address,
        }
    }

    pub(crate) fn cspace_slot(&self, thread: ThreadId) -> SlotId {
        self.threads[thread].first.offset(CSPACE)
    }

    pub(crate) fn vspace_slot(&self, thread: ThreadId) -> SlotId {
        self.threads[thread].first.offset(VSPACE)
    }

    pub(crate) fn reply_slot(&self, thread: ThreadId) -> SlotId {
        self.threads[thread].first.offset(REPLY)
    }

    pub(crate) fn caller_slot(&self, thread: ThreadId) -> SlotId {
        self.threads[thread].first.offset(CALLER)
    }

    pub(crate) fn buffer_slot(&self, thread: ThreadId) -> SlotId {
        self.threads[thread].first.offset(BUFFER)
    }
}

/// The thread that an invocation is about.
pub(crate) fn target(found: &Found) -> Outcome<ThreadId> {
    match found.cap {
        Capability::Thread(thread) => Ok(thread),
        _ => Err(Stop::OtherKind),
    }
}

/// The message of a write of registers; of those that no component is started with, zeros.
fn register_words(resume: Resume, context: &UserContext) -> [u64; 2 + REGISTERS] {
    let mut words = [0; 2 + REGISTERS];
    words[0] = u64::from(resume == Resume::Now);
    words[1] = REGISTERS as u64;
    words[2] = context.instruction_pointer;
    words[3] = context.stack_pointer;
    words
}
