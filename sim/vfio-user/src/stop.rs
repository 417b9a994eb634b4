//! Ends a server from another thread.

use rustix::event::{EventfdFlags, eventfd};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A request to end, shared between the server and other threads. Once raised it stays raised.
#[derive(Clone, Debug)]
pub struct Stop {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    raised: AtomicBool,
    /// Readable from the first [`Stop::raise`] on, so that a server that sleeps in `poll` wakes up.
    event: OwnedFd,
}

impl Stop {
    pub(crate) fn new() -> io::Result<Self> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { inner: Arc::new(Inner { raised: AtomicBool::new(false), event }) })
    }

    /// Ends the server soon: it leaves its client, resets the device and returns.
    pub fn raise(&self) {
        self.inner.raised.store(true, Ordering::Release);
        // The counter starts at zero and does not block; when it is full, it was raised before.
        let _ = rustix::io::write(&self.inner.event, &1_u64.to_ne_bytes());
    }

    /// Whether the server was asked to end.
    pub fn is_raised(&self) -> bool {
        self.inner.raised.load(Ordering::Acquire)
    }
}

impl AsFd for Stop {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inner.event.as_fd()
    }
}
