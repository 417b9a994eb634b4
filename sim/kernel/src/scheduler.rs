//! The state of the scheduler: a queue of ready threads for each priority, and the decision for the end of a kernel entry.

use crate::arena::ThreadId;
use crate::queue::Queue;

const PRIORITIES: usize = 256;

/// Ticks of the kernel's timer in a thread's time slice; a tick is 2 ms.
pub const TIME_SLICE_TICKS: u8 = 5;

/// The decision at the end of a kernel entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Action {
    /// The running thread continues.
    Resume,
    /// The first of the highest queue runs.
    ChooseNew,
    /// This thread runs, which is in no queue.
    SwitchTo(ThreadId),
}

/// The ready queues and the running thread.
#[derive(Clone, Debug)]
pub(crate) struct Scheduler {
    pub(crate) queues: Vec<Queue>,
    /// A bit for each queue that is not empty.
    pub(crate) ready: [u64; PRIORITIES / 64],
    pub(crate) current: Option<ThreadId>,
    pub(crate) action: Action,
    /// Whether a thread entered the kernel out of turn: afterwards the queues decide which thread runs.
    pub(crate) is_out_of_turn: bool,
    pub(crate) generation: u64,
}

impl Scheduler {
    pub(crate) fn new() -> Self {
        let queues = vec![Queue::default(); PRIORITIES];
        Self {
            queues,
            ready: [0; PRIORITIES / 64],
            current: None,
            action: Action::Resume,
            is_out_of_turn: false,
            generation: 0,
        }
    }

    pub(crate) fn highest_queue(&self) -> Option<u8> {
        let (index, word) = self.ready.iter().enumerate().rev().find(|(_, word)| **word != 0)?;
        Some((index * 64 + 63 - word.leading_zeros() as usize) as u8)
    }
}
