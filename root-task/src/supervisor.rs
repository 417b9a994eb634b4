//! After the boot: faults are named and their components stopped, ticks are passed on.
//!
//! A component that faulted stays dead: its thread is suspended, its memory and its capabilities stay as they are for
//! whoever looks, and its peers go on. Nobody but the kernel can send to the endpoint here: components have the
//! capability in their CSpaces, but it is the kernel that sends through it only when they fault. One that uses it by
//! itself is ended too, and reported like a fault: it would otherwise keep the highest priority of the system busy.

use crate::Services;
use crate::threads::Thread;
use crate::timer::Timer;
use alloc::vec::Vec;
use platform::log::{error, warn};
use platform::{Badge, CPtr, Event, Kernel, Message, Platform};
use report::{FaultKind, Report, clip};

/// A component's fault, in no kernel's numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fault {
    /// What kind it is.
    pub kind: FaultKind,
    /// The address or capability slot it was about, 0 where there is none.
    pub address: u64,
    /// The instruction.
    pub instruction: u64,
}

/// The root task from now on.
#[derive(Debug)]
pub struct Supervisor<P, S> {
    platform: P,
    services: S,
    endpoint: CPtr,
    timer: Option<Timer>,
    threads: Vec<Thread>,
}

impl<P: Platform, S: Services> Supervisor<P, S> {
    pub(crate) const fn new(
        platform: P,
        services: S,
        endpoint: CPtr,
        timer: Option<Timer>,
        threads: Vec<Thread>,
    ) -> Self {
        Self { platform, services, endpoint, timer, threads }
    }

    /// The endpoint it waits at; the root task's thread has its notification bound.
    #[must_use]
    pub const fn endpoint(&self) -> CPtr {
        self.endpoint
    }

    /// Supervises; never returns.
    pub async fn run(mut self) {
        loop {
            match self.platform.next_event().await {
                Event::Signal(badge) if badge.has(Badge::TICK) => self.tick(),
                Event::Signal(badge) => warn!("signalled with the unknown badge {:#x}", badge.0),
                Event::Message(badge, message) => self.fault(badge, &message),
            }
        }
    }

    fn tick(&self) {
        let kernel = self.platform.kernel();
        for notification in self.threads.iter().filter(|thread| !thread.ended).filter_map(|thread| thread.tick) {
            kernel.signal(notification);
        }
        if let Some(timer) = &self.timer
            && kernel.irq_handler_ack(timer.handler).is_err()
        {
            error!("the timer's interrupt cannot be acknowledged: no more ticks");
        }
    }

    fn fault(&mut self, badge: Badge, message: &Message) {
        let Some(thread) = self.threads.iter_mut().find(|thread| u64::from(thread.id) == badge.0) else {
            return warn!("a message of the unknown badge {} is dropped", badge.0);
        };
        thread.ended = true;
        if self.platform.kernel().tcb_suspend(thread.tcb).is_err() {
            error!("{} cannot be suspended; it waits for an answer that never comes", thread.name.as_str());
        }
        let misuse = Fault { kind: FaultKind::OwnFaultEndpoint, address: 0, instruction: 0 };
        report_fault(&self.platform, thread, &self.services.fault(message).unwrap_or(misuse));
    }
}

fn report_fault<P: Platform>(platform: &P, thread: &Thread, fault: &Fault) {
    let Fault { kind, address, instruction } = *fault;
    let what = match kind {
        FaultKind::Read => "a read",
        FaultKind::Write => "a write",
        FaultKind::Execute => "an instruction fetch",
        FaultKind::Capability => "a capability",
        FaultKind::UnknownSyscall => "a system call",
        FaultKind::Exception(_) => "an exception",
        FaultKind::OwnFaultEndpoint => "a message of its own to its fault endpoint",
    };
    error!("{} is ended: {} at {:#x}, instruction {:#x}", thread.name.as_str(), what, address, instruction);
    let name = clip(&thread.name);
    let fault = report::Fault { component: thread.id, name, kind, address, instruction };
    platform.report(&Report::Fault(fault).encode());
}
