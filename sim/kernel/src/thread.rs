//! Threads: the kernel's state of a thread. Neighbour: `tcb` has the invocations on it.

use crate::arena::{EndpointId, Id, NotificationId, ThreadId};
use crate::delivery::Delivery;
use crate::fault::PendingFault;
use crate::slots::SlotId;
use platform::{AbsoluteCPtr, CPtr, Message, UserContext};

/// log2 of the slots reserved for a thread.
pub(crate) const THREAD_SLOT_BITS: u8 = 3;
/// Slots the kernel empties when a thread ends; the last one is always empty.
pub(crate) const THREAD_SLOTS: u32 = 6;

/// The state of a thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ThreadState {
    /// The thread runs or is ready to.
    Running,
    /// The thread is ready to repeat its last operation.
    Restart,
    /// The thread does nothing until it is resumed.
    Inactive,
    /// The thread waits for a message.
    BlockedOnReceive {
        /// The endpoint.
        endpoint: EndpointId,
        /// Whether the thread's answer to a call may carry a capability.
        answer_can_grant: bool,
    },
    /// The thread waits for a receiver.
    BlockedOnSend {
        /// The endpoint.
        endpoint: EndpointId,
        /// The badge of the capability it sends through.
        badge: u64,
        /// Whether the capability has grant.
        can_grant: bool,
        /// Whether the capability has grant or grant-reply.
        can_be_answered: bool,
        /// Whether the thread waits for a reply afterwards.
        is_call: bool,
    },
    /// The thread waits for a reply.
    BlockedOnReply,
    /// The thread waits for a signal.
    BlockedOnNotification(NotificationId),
}

impl ThreadState {
    /// Whether the thread runs or is ready to.
    #[must_use]
    pub const fn is_runnable(self) -> bool {
        matches!(self, Self::Running | Self::Restart)
    }
}

/// The kernel's data about a thread.
#[derive(Clone, Debug)]
pub(crate) struct Thread {
    pub(crate) paddr: u64,
    /// The first of its own slots.
    pub(crate) first: SlotId,
    pub(crate) state: ThreadState,
    pub(crate) priority: u8,
    /// The highest priority it may give.
    pub(crate) max_controlled: u8,
    pub(crate) slice_ticks: u8,
    /// Whether the thread is in the ready queue of its priority.
    pub(crate) is_ready: bool,
    pub(crate) ready_prev: Option<ThreadId>,
    pub(crate) ready_next: Option<ThreadId>,
    /// Neighbours in the queue of an endpoint or notification.
    pub(crate) wait_prev: Option<ThreadId>,
    pub(crate) wait_next: Option<ThreadId>,
    pub(crate) fault_handler: CPtr,
    pub(crate) fault: Option<PendingFault>,
    pub(crate) bound: Option<NotificationId>,
    pub(crate) ipc_buffer: u64,
    pub(crate) receive_cptr: Option<AbsoluteCPtr>,
    /// The message it sends, from the operation on until it is taken.
    pub(crate) outgoing: Message,
    pub(crate) delivery: Option<Delivery>,
    /// Whether the thread has not run since it entered the kernel: a restart then repeats the operation.
    pub(crate) is_in_operation: bool,
    pub(crate) context: UserContext,
    /// Number of writes of its registers.
    pub(crate) starts: u32,
}

/// For code that indexes by a thread's number.
impl From<ThreadId> for usize {
    fn from(thread: ThreadId) -> Self {
        thread.place()
    }
}
