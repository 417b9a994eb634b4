//! Further threads of the root task's program, and IPC at any capability: for programs that test the kernel.
//!
//! A component has one thread and waits in one place, and the rest of this crate relies on it. A test of the kernel
//! needs threads whose code it knows, and calls that no component would make. A worker is not the only thread, so it must
//! not allocate, log, or leave an answer waiting. So its messages are flat ([`FlatMessage`]).

use crate::arch;
use crate::component::Sel4Platform;
use crate::flat_message::FlatMessage;
use crate::invocation::Sel4;
use crate::ipc_buffer::IpcBuffer;
use crate::root::RootPlatform;
use crate::syscall::{self, Received};
use alloc::boxed::Box;
use platform::{AbsoluteCPtr, Badge, CNode, CPtr, Cap, Platform, UserContext, Vaddr};

/// A thread's program and its platform.
#[derive(Clone, Copy)]
pub struct Worker(&'static Job);

struct Job {
    work: fn(Sel4Platform, u64),
    platform: Sel4Platform,
}

impl RootPlatform {
    /// A thread that shares the root task's VSpace and does `work`. It gets a platform with the root task's regions and
    /// an IPC buffer of its own at `ipc_buffer`, which must be a frame mapped in the mapping area; `None` elsewhere.
    #[must_use]
    pub fn worker(&self, ipc_buffer: Vaddr, work: fn(Sel4Platform, u64)) -> Option<Worker> {
        let page = self.mapping_area().part(ipc_buffer.bits().checked_sub(self.mapping_area().vaddr.bits())?, 4096)?;
        // SAFETY: nothing of the program lies in the mapping area. That a frame is mapped there is the caller's affair: a
        // fault without one, and nothing worse.
        let buffer = unsafe { IpcBuffer::new(page.vaddr) }?;
        // SAFETY: the root task's own regions, for which the same holds.
        let platform = unsafe { Sel4Platform::new(Sel4::new(buffer), self.regions(), self.ticks_per_second()) };
        Some(Worker(Box::leak(Box::new(Job { work, platform }))))
    }
}

impl Worker {
    /// The registers with which the thread does its work on `argument`, on the stack that ends at `stack_top`. A restart loses
    /// its earlier work; it must not return.
    #[must_use]
    pub fn context(&self, stack_top: Vaddr, argument: u64) -> UserContext {
        UserContext {
            instruction_pointer: enter as *const () as u64,
            // As if it had been called.
            stack_pointer: stack_top.bits().saturating_sub(arch::CALL_BYTES),
            arguments: [core::ptr::from_ref(self.0).expose_provenance() as u64, argument, 0],
        }
    }
}

/// The first instruction of a worker.
extern "C" fn enter(job: usize, argument: u64) -> ! {
    // SAFETY: `context` put there where a job is, and jobs stay for ever. The worker alone uses the platform in it.
    let job: &'static Job = unsafe { &*core::ptr::with_exposed_provenance(job) };
    (job.work)(job.platform, argument);
    arch::syscall::crash()
}

impl Sel4 {
    /// Sends `message` to `dest` and waits until it was received.
    pub fn send_flat(&self, dest: CPtr, message: &FlatMessage) {
        let (info, words) = self.put_flat_message(message);
        syscall::send(dest.bits(), info, words);
    }

    /// Sends `message` to `dest` if a receiver waits there.
    pub fn nb_send_flat(&self, dest: CPtr, message: &FlatMessage) {
        let (info, words) = self.put_flat_message(message);
        syscall::nb_send(dest.bits(), info, words);
    }

    /// Sends `message` to `dest` and waits for the answer.
    #[must_use]
    pub fn call_flat(&self, dest: CPtr, message: &FlatMessage) -> FlatMessage {
        let (info, words) = self.put_flat_message(message);
        self.take_flat_message(&syscall::call(dest.bits(), info, words))
    }

    /// Answers the last message.
    pub fn reply_flat(&self, message: &FlatMessage) {
        let (info, words) = self.put_flat_message(message);
        syscall::reply(info, words);
    }

    /// Answers the last message with `message` and waits at `from`, in one system call; returns the event as
    /// [`Sel4::receive`] does.
    #[must_use]
    pub fn reply_receive(&self, message: &FlatMessage, from: CPtr) -> (Badge, FlatMessage) {
        let (info, words) = self.put_flat_message(message);
        self.received(syscall::reply_recv(from.bits(), info, words))
    }

    /// Waits at the endpoint or notification `from`; returns badge and message. With [`Badge::SIGNAL`] it was a signal, and the
    /// message means nothing.
    #[must_use]
    pub fn receive(&self, from: CPtr) -> (Badge, FlatMessage) {
        self.received(syscall::recv(from.bits()))
    }

    /// Takes the event that is at `from` already; the badge is 0 when there is none.
    #[must_use]
    pub fn nb_receive(&self, from: CPtr) -> (Badge, FlatMessage) {
        self.received(syscall::nb_recv(from.bits()))
    }

    fn received(&self, received: Received) -> (Badge, FlatMessage) {
        match Badge(received.badge) {
            badge if badge.0 == 0 || badge.has(Badge::SIGNAL) => (badge, FlatMessage::new(0, [])),
            badge => (badge, self.take_flat_message(&received)),
        }
    }

    /// Names the cptr that a received capability arrives at; none with `None`.
    pub fn set_receive_cptr(&self, cptr: Option<AbsoluteCPtr>) {
        let nowhere = AbsoluteCPtr { root: Cap::<CNode>::from_bits(0), index: 0, depth: 0 };
        self.ipc_buffer().set_receive_cptr(cptr.unwrap_or(nowhere));
    }

    /// Lets threads of the same priority run.
    pub fn yield_now(&self) {
        syscall::yield_now();
    }
}
