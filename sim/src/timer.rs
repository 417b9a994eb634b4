//! The supervisor's timer, with the root task's drivers. The HPET's registers are memory. The processor's timer is accessed by
//! instructions, which the simulated root task's address space may execute, as the real one's may.

use crate::component::SimPlatform;
use crate::coroutine;
use crate::generic_timer::{HZ, LINE, Timer};
use crate::memory::SimMmio;
use crate::world::World;
use platform::{IrqSource, OutOfBounds};
use root_task::generic_timer::{GenericTimer, Registers};
use root_task::hpet::Hpet;
use root_task::timer::OneShot;
use sim_kernel::ThreadId;
use std::rc::Rc;

/// The timer of the machine.
pub(crate) enum OfMachine {
    /// A PC's HPET.
    Hpet(Hpet<SimMmio>),
    /// The processor's timer, on AArch64.
    Generic(GenericTimer<Own>),
}

impl OfMachine {
    /// Returns the processor's timer, for the root task.
    pub(crate) fn generic(platform: &SimPlatform) -> Self {
        let (world, thread) = platform.place();
        Self::Generic(GenericTimer::new(Own { world, thread }, LINE))
    }
}

/// The processor's registers.
pub(crate) struct Own {
    world: Rc<World>,
    thread: ThreadId,
}

impl Own {
    fn set(&self, deadline: Option<u64>) {
        if coroutine::is_dying() {
            return;
        }
        let mut state = self.world.enter(self.world.costs().access_ns);
        let now_ns = state.now_ns;
        let crate::world::State { machine, kernel, .. } = &mut *state;
        machine.board.set_deadline(deadline, now_ns, kernel);
        state.poll_devices();
        self.world.leave(state, self.thread);
    }
}

impl Registers for Own {
    fn counter(&self) -> u64 {
        Timer::counter(self.world.view().now_ns)
    }

    fn ticks_per_second(&self) -> u64 {
        HZ
    }

    fn set_deadline(&self, deadline: u64) {
        self.set(Some(deadline));
    }

    fn disarm(&self) {
        self.set(None);
    }
}

impl OneShot for OfMachine {
    fn source(&self) -> IrqSource {
        match self {
            Self::Hpet(hpet) => hpet.source(),
            Self::Generic(timer) => timer.source(),
        }
    }

    fn start(&self) -> Result<(), OutOfBounds> {
        match self {
            Self::Hpet(hpet) => hpet.start(),
            Self::Generic(timer) => timer.start(),
        }
    }

    fn now(&self) -> Result<u32, OutOfBounds> {
        match self {
            Self::Hpet(hpet) => hpet.now(),
            Self::Generic(timer) => timer.now(),
        }
    }

    fn arm(&self, deadline: u32) -> Result<bool, OutOfBounds> {
        match self {
            Self::Hpet(hpet) => hpet.arm(deadline),
            Self::Generic(timer) => timer.arm(deadline),
        }
    }

    fn disarm(&self) -> Result<(), OutOfBounds> {
        match self {
            Self::Hpet(hpet) => hpet.disarm(),
            Self::Generic(timer) => timer.disarm(),
        }
    }

    fn ticks_in(&self, microseconds: u32) -> u32 {
        match self {
            Self::Hpet(hpet) => hpet.ticks_in(microseconds),
            Self::Generic(timer) => timer.ticks_in(microseconds),
        }
    }
}
