//! Notifications: badges accumulate until a thread takes them.

use crate::arena::{NotificationId, ThreadId};
use crate::delivery::{Delivery, Receive};
use crate::kernel::Kernel;
use crate::object::Signalled;
use crate::queue::Queue;
use crate::schedule::OnEqual;
use crate::thread::ThreadState;
use platform::Badge;

impl Kernel {
    /// Adds `badge` to the notification, or gives it to a waiting thread: in its queue, or on an endpoint when bound.
    pub(crate) fn signal_notification(&mut self, notification: NotificationId, badge: u64) {
        let object = &mut self.notifications[notification];
        match object.state {
            Signalled::Yes(ref mut badges) => *badges |= badge,
            Signalled::No => {
                let receives =
                    |bound: ThreadId| matches!(self.threads[bound].state, ThreadState::BlockedOnReceive { .. });
                let receiver = object.bound.filter(|bound| receives(*bound));
                match receiver {
                    Some(receiver) => {
                        self.cancel_ipc(receiver);
                        self.deliver_signal(receiver, badge);
                    }
                    None => object.state = Signalled::Yes(badge),
                }
            }
            Signalled::Awaited => {
                let queue = object.queue;
                let Some(receiver) = queue.head else { return };
                self.leave_notification_queue(notification, receiver);
                self.deliver_signal(receiver, badge);
            }
        }
    }

    fn deliver_signal(&mut self, receiver: ThreadId, badge: u64) {
        self.threads[receiver].delivery = Some(Delivery::Signal(Badge(badge)));
        self.set_state(receiver, ThreadState::Running);
        self.wake(receiver, OnEqual::Stay);
    }

    fn leave_notification_queue(&mut self, notification: NotificationId, thread: ThreadId) {
        let object = &mut self.notifications[notification];
        object.queue.remove(&mut self.threads, thread);
        if object.queue.head.is_none() {
            object.state = Signalled::No;
        }
    }

    /// Takes the badges of the notification, or waits for the next.
    pub(crate) fn receive_signal(&mut self, thread: ThreadId, notification: NotificationId, receive: Receive) {
        if let Some(badges) = self.take_badges(notification) {
            self.threads[thread].delivery = Some(Delivery::Signal(Badge(badges)));
        } else if receive == Receive::Waiting {
            self.set_state(thread, ThreadState::BlockedOnNotification(notification));
            let object = &mut self.notifications[notification];
            object.state = Signalled::Awaited;
            object.queue.append(&mut self.threads, thread);
        }
    }

    /// Takes the badges that were signalled; none are left afterwards.
    pub(crate) fn take_badges(&mut self, notification: NotificationId) -> Option<u64> {
        let object = &mut self.notifications[notification];
        let Signalled::Yes(badges) = object.state else { return None };
        object.state = Signalled::No;
        Some(badges)
    }

    /// Ends a thread's wait.
    pub(crate) fn cancel_signal(&mut self, thread: ThreadId, notification: NotificationId) {
        self.leave_notification_queue(notification, thread);
        self.set_state(thread, ThreadState::Inactive);
    }

    /// Ends all waits: the threads retry, and find that the notification is gone.
    pub(crate) fn cancel_all_signals(&mut self, notification: NotificationId) {
        let object = &mut self.notifications[notification];
        if object.state != Signalled::Awaited {
            return;
        }
        object.state = Signalled::No;
        let queue = core::mem::take(&mut object.queue);
        self.restart_queue(queue);
    }

    /// Makes all threads of a queue whose object ended repeat their operation.
    pub(crate) fn restart_queue(&mut self, queue: Queue) {
        let mut next = queue.head;
        while let Some(thread) = next {
            let links = &mut self.threads[thread];
            links.wait_prev = None;
            next = links.wait_next.take();
            self.set_restarting(thread);
            self.ready_push(thread);
        }
        self.reschedule();
    }

    /// Unbinds the bound thread, if there is one.
    pub(crate) fn unbind_notification(&mut self, notification: NotificationId) {
        if let Some(thread) = self.notifications[notification].bound.take() {
            self.threads[thread].bound = None;
        }
    }
}
