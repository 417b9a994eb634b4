//! Statics of a program that has one thread.

use core::cell::UnsafeCell;

/// A value in a static that only the component's single thread uses.
///
/// A component is one thread, no interrupt or signal handler runs in it, and the kernel switches to other components
/// without touching its memory. So there is no second context, and only reentrance is left to rule out.
pub(crate) struct Local<T>(UnsafeCell<T>);

// SAFETY: see the type: there is no second thread to share it with.
unsafe impl<T> Sync for Local<T> {}

impl<T> Local<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(UnsafeCell::new(value))
    }

    /// The value, for the length of `f`.
    ///
    /// # Safety
    /// `f` leads to no second `with` on the same value.
    #[inline(always)]
    pub(crate) unsafe fn with<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        // SAFETY: one thread, and by the caller's word no reentrance, so this is the only reference.
        f(unsafe { &mut *self.0.get() })
    }
}

/// Nothing preempts a component from inside, so a critical section takes no action.
struct SingleThread;

critical_section::set_impl!(SingleThread);

// SAFETY: a critical section must exclude every other context of the program, and there is none; see `Local`.
unsafe impl critical_section::Impl for SingleThread {
    unsafe fn acquire() -> critical_section::RawRestoreState {}

    unsafe fn release(_: critical_section::RawRestoreState) {}
}
