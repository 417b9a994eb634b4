//! The controller's interrupts: their acknowledgement, and a vector that does not stop.
//!
//! A pin stays masked until it is acknowledged, and on some machines so does a message. An interrupt costs the kernel and
//! this server time, whether a completion comes with it or not. So interrupts are counted by vector. A vector with many
//! more interrupts than completions in one tick is stopped until the next tick: its handler has no notification any more,
//! or its pin is not acknowledged. Its sessions learn of completions at ticks meanwhile. A vector that had to be stopped
//! many times in a row is a fault of the controller, which is reset.
//!
//! Left out: the MSI-X table, which is the PCI server's. A stopped vector's messages still reach the kernel.

use crate::fault::DeviceFault;
use crate::pci::{Interrupts, Line, Vector};
use alloc::vec::Vec;
use blk_api::config::badge;
use core::cell::{Cell, RefCell};
use core::ops::Range;
use platform::log::{error, warn};
use platform::{Badge, Cap, IrqHandler, Kernel, Notification, Platform};

/// Interrupts of a vector without a completion, between two ticks.
const IDLE_INTERRUPTS: u32 = 4096;
/// The same for a shared pin, where each interrupt also makes the PCI server run twice.
const IDLE_SHARED_INTERRUPTS: u32 = 256;
/// Ticks in a row in which a vector is stopped before the controller is reset: one second.
const STORMY_TICKS: u32 = 20;

/// The claimed vectors and the count of each.
pub struct Vectors {
    vectors: Vec<Vector>,
    by: Interrupts,
    /// Interrupts without a completion that a vector may raise between two ticks.
    idle: u32,
    /// By bit of a badge: vectors share bits when there are more.
    watches: RefCell<Vec<Watch>>,
    /// Whether an interrupt stays masked until it is acknowledged.
    masks: bool,
    /// Bits whose interrupts are not acknowledged yet.
    unacknowledged: Cell<u32>,
}

/// Activity since the last tick of the vectors that share a bit.
#[derive(Clone, Copy, Debug)]
struct Watch {
    raised: u32,
    /// Interrupts up to which nothing is recounted.
    allowed: u32,
    /// Commands completed before.
    completed_before: u64,
    stopped: bool,
    stormy_ticks: u32,
}

impl Watch {
    const fn new(idle: u32) -> Self {
        Self { raised: 0, allowed: idle, completed_before: 0, stopped: false, stormy_ticks: 0 }
    }

    fn count_from(&mut self, completed: u64, idle: u32) {
        let Self { raised, allowed, completed_before, stopped: _, stormy_ticks: _ } = self;
        (*raised, *allowed, *completed_before) = (0, idle, completed);
    }
}

impl Vectors {
    /// Watches these. `masks_messages` as [`Kernel::irq_masks_messages`] has it.
    pub fn new(vectors: Vec<Vector>, by: Interrupts, masks_messages: bool) -> Self {
        let is_shared = vectors.iter().any(|vector| matches!(vector.line, Line::Shared(_)));
        let idle = if is_shared { IDLE_SHARED_INTERRUPTS } else { IDLE_INTERRUPTS };
        let watches = (0..badge::VECTOR_BITS).map(|_| Watch::new(idle)).collect();
        let masks = masks_messages || by == Interrupts::Intx;
        Self { vectors, by, idle, watches: RefCell::new(watches), masks, unacknowledged: Cell::new(0) }
    }

    /// The vector of an I/O queue pair: vector 0 is the admin queue's, and the others are taken in turn; all share vector 0 when
    /// it is the only one.
    #[inline]
    pub fn of_queue(&self, number: u16) -> u16 {
        let io_vectors = (self.vectors.len() as u16).saturating_sub(1);
        number.checked_rem(io_vectors).map_or(0, |turn| turn.saturating_add(1))
    }

    /// The badge bits by which these queue pairs may be signalled.
    pub fn bits_of(&self, numbers: Range<u16>) -> u64 {
        let bits = numbers.map(|number| badge::vector(self.of_queue(number).into()));
        bits.fold(0, |all, bits| all | bits) & !Badge::SIGNAL
    }

    /// The interrupt mode.
    #[inline]
    pub fn by(&self) -> Interrupts {
        self.by
    }

    /// Whether a signal with this badge may be about the admin queue, which has vector 0.
    #[inline]
    pub fn may_concern_admin(&self, badge: Badge) -> bool {
        self.by == Interrupts::Intx || badge::raised(badge.0) & 1 != 0
    }

    /// Counts the interrupts in a signal.
    #[inline]
    pub fn count<P: Platform>(&self, platform: &P, badge: Badge, completed: impl Fn(u32) -> u64) {
        let mut raised = badge::raised(badge.0);
        if raised == 0 {
            return;
        }
        if self.masks {
            // Until it is acknowledged, whatever else is signalled meanwhile.
            self.unacknowledged.set(self.unacknowledged.get() | raised);
        }
        let mut watches = self.watches.borrow_mut();
        while raised != 0 {
            let bit = raised.trailing_zeros();
            raised &= raised.wrapping_sub(1);
            let Some(watch) = watches.get_mut(bit as usize) else { return };
            watch.raised = watch.raised.saturating_add(1);
            if watch.raised > watch.allowed && !watch.stopped {
                self.recount(platform, bit, watch, completed(bit));
            }
        }
    }

    /// Allows as many interrupts as completions, and some more; stops the vector beyond that.
    #[cold]
    fn recount<P: Platform>(&self, platform: &P, bit: u32, watch: &mut Watch, completed: u64) {
        let since = u32::try_from(completed.wrapping_sub(watch.completed_before)).unwrap_or(u32::MAX);
        watch.allowed = since.saturating_add(self.idle);
        if watch.raised <= watch.allowed {
            return;
        }
        watch.stopped = true;
        if watch.stormy_ticks == 0 {
            warn!("vector {} is stopped: {} interrupts, {} completions in a tick", bit, watch.raised, since);
        }
        if self.by != Interrupts::Intx {
            for (handler, _) in self.with_bit(bit) {
                if let Err(error) = platform.kernel().irq_handler_clear(handler) {
                    error!("the interrupt cannot be stopped: {}", error);
                }
            }
        }
    }

    /// Starts stopped vectors again at a tick. Returns a fault for a vector that was stopped for too many ticks in a row.
    pub fn on_tick<P: Platform>(&self, platform: &P, completed: impl Fn(u32) -> u64) -> Option<DeviceFault> {
        let mut fault = None;
        for (bit, watch) in (0u32..).zip(self.watches.borrow_mut().iter_mut()) {
            watch.count_from(completed(bit), self.idle);
            if !core::mem::take(&mut watch.stopped) {
                watch.stormy_ticks = 0;
                continue;
            }
            self.let_through(platform, bit);
            watch.stormy_ticks = watch.stormy_ticks.saturating_add(1);
            if watch.stormy_ticks >= STORMY_TICKS {
                watch.stormy_ticks = 0;
                fault = Some(DeviceFault::InterruptStorm(bit as u16));
            }
        }
        fault
    }

    /// Restarts the count after a session has left, because its completions left with it and would hide a storm.
    pub fn restart_count(&self, completed: impl Fn(u32) -> u64) {
        for (bit, watch) in (0u32..).zip(self.watches.borrow_mut().iter_mut()) {
            watch.count_from(completed(bit), self.idle);
        }
    }

    fn let_through<P: Platform>(&self, platform: &P, bit: u32) {
        if self.by != Interrupts::Intx {
            for (handler, notification) in self.with_bit(bit) {
                if let Err(error) = platform.kernel().irq_handler_set_notification(handler, notification) {
                    error!("the interrupt stays stopped: {}", error);
                }
            }
        }
        // An interrupt that came while the vector was stopped is masked, too.
        if self.masks {
            self.acknowledge_bit(platform, bit);
        }
    }

    /// The vectors with this bit.
    fn vectors_with(&self, bit: u32) -> impl Iterator<Item = &Vector> {
        self.vectors.iter().skip(bit as usize).step_by(badge::VECTOR_BITS as usize)
    }

    /// The handlers of the vectors with this bit, and what they signal.
    fn with_bit(&self, bit: u32) -> impl Iterator<Item = (Cap<IrqHandler>, Cap<Notification>)> {
        self.vectors_with(bit).filter_map(|Vector { line, notification }| match line {
            Line::Own(handler) => Some((*handler, *notification)),
            Line::Shared(_) => None,
        })
    }

    /// Acknowledges interrupts that are masked until then. All completions were taken before, so that the device has released
    /// its pin, and no later interrupt is missed.
    #[inline]
    pub fn acknowledge<P: Platform>(&self, platform: &P) {
        if self.unacknowledged.get() != 0 {
            self.acknowledge_all(platform);
        }
    }

    fn acknowledge_all<P: Platform>(&self, platform: &P) {
        let mut waiting = self.unacknowledged.get();
        while waiting != 0 {
            let bit = waiting.trailing_zeros();
            waiting &= waiting.wrapping_sub(1);
            // A stopped one has to wait for the tick.
            if !self.watches.borrow().get(bit as usize).is_some_and(|watch| watch.stopped) {
                self.acknowledge_bit(platform, bit);
            }
        }
    }

    fn acknowledge_bit<P: Platform>(&self, platform: &P, bit: u32) {
        self.unacknowledged.set(self.unacknowledged.get() & !1u32.wrapping_shl(bit));
        for vector in self.vectors_with(bit) {
            match vector.line {
                Line::Own(handler) => {
                    if let Err(error) = platform.kernel().irq_handler_ack(handler) {
                        warn!("the interrupt cannot be acknowledged: {}", error);
                    }
                }
                Line::Shared(resume) => platform.kernel().signal(resume),
            }
        }
    }
}
