//! A component's own stack, so that the simulator can leave it in the middle of a system call, as the kernel does.
//!
//! A component runs until something in it calls [`suspend`]: at an invocation, a memory or register access, or a wait
//! after which another thread must run. [`Coroutine::resume`] continues from there. Dropping a suspended coroutine
//! unwinds its stack: this is how a component dies. Code that is being unwound calls no models any more:
//! [`is_dying`] reports it.
//!
//! This is the simulator's only unsafe code: one pointer to the running coroutine's own switch, followed only from that
//! coroutine's stack.

use corosensei::stack::DefaultStack;
use corosensei::{CoroutineResult, Yielder};
use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

/// Bytes of a component's stack: components have 128 KiB on the target, and debug builds need more.
const STACK_BYTES: usize = 1 << 20;

thread_local! {
    /// The switch of the coroutine that runs; null when none does.
    static RUNNING: Cell<*const Yielder<(), ()>> = const { Cell::new(ptr::null()) };
}

/// How a turn of a coroutine ended.
pub(crate) enum Turn {
    /// The coroutine was suspended.
    Suspended,
    /// The coroutine ran to its end.
    Ended,
    /// The coroutine panicked.
    Panicked(Box<dyn Any + Send>),
}

/// A component's execution.
pub(crate) struct Coroutine {
    inner: corosensei::Coroutine<(), (), (), DefaultStack>,
}

impl Coroutine {
    /// Creates a coroutine that will run `body`.
    ///
    /// # Errors
    /// Fails when the build machine has no memory for the stack.
    pub(crate) fn new(body: impl FnOnce() + 'static) -> std::io::Result<Self> {
        let stack = DefaultStack::new(STACK_BYTES)?;
        let inner = corosensei::Coroutine::with_stack(stack, move |yielder: &Yielder<(), ()>, ()| {
            RUNNING.set(ptr::from_ref(yielder));
            body();
        });
        Ok(Self { inner })
    }

    /// Runs the coroutine until it is suspended, ends, or panics.
    pub(crate) fn resume(&mut self) -> Turn {
        let outside = RUNNING.get();
        let turn = catch_unwind(AssertUnwindSafe(|| self.inner.resume(())));
        RUNNING.set(outside);
        match turn {
            Ok(CoroutineResult::Yield(())) => Turn::Suspended,
            Ok(CoroutineResult::Return(())) => Turn::Ended,
            Err(panic) => Turn::Panicked(panic),
        }
    }
}

/// Suspends the running coroutine. Outside of all coroutines, and in one that is being unwound, it does nothing.
#[inline(never)]
pub(crate) fn suspend() {
    let running = RUNNING.get();
    if running.is_null() || is_dying() {
        return;
    }
    // SAFETY: the pointer was set on this very stack: by the coroutine's first act, or by this function when the coroutine
    // was resumed (`resume` puts back what was there before, so it is never another one's). The switch it points to lives
    // as long as the stack does.
    #[expect(unsafe_code, reason = "a reference to the switch cannot be kept where the seam's methods find it")]
    unsafe {
        (*running).suspend(());
    }
    RUNNING.set(running);
}

/// Whether the running code is being unwound: its component died.
pub(crate) fn is_dying() -> bool {
    std::thread::panicking()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::rc::Rc;

    #[test]
    fn two_take_turns_where_they_are_left() {
        let said = Rc::new(RefCell::new(Vec::new()));
        let speaker = |name: &'static str| {
            let said = Rc::clone(&said);
            Coroutine::new(move || {
                for turn in 0..2 {
                    said.borrow_mut().push((name, turn));
                    suspend();
                }
            })
            .unwrap()
        };
        let (mut one, mut two) = (speaker("one"), speaker("two"));
        while !matches!((one.resume(), two.resume()), (Turn::Ended, Turn::Ended)) {}
        assert_eq!(*said.borrow(), [("one", 0), ("two", 0), ("one", 1), ("two", 1)]);
    }

    #[test]
    fn a_dropped_one_gives_up_what_it_held_and_goes_on_with_nothing() {
        struct Held(Rc<Cell<u32>>);
        impl Drop for Held {
            fn drop(&mut self) {
                // A destructor that would wait does not wait.
                suspend();
                self.0.set(self.0.get() + 1);
            }
        }
        let dropped = Rc::new(Cell::new(0));
        let held = Rc::clone(&dropped);
        let mut coroutine = Coroutine::new(move || {
            let held = Held(held);
            suspend();
            held.0.set(100);
        })
        .unwrap();
        assert!(matches!(coroutine.resume(), Turn::Suspended));
        drop(coroutine);
        assert_eq!(dropped.get(), 1);
    }

    #[test]
    fn a_panic_ends_the_one_and_not_the_other() {
        let mut one = Coroutine::new(|| std::panic::resume_unwind(Box::new("one"))).unwrap();
        let mut two = Coroutine::new(suspend).unwrap();
        assert!(matches!(two.resume(), Turn::Suspended));
        let Turn::Panicked(panic) = one.resume() else { panic!("it goes on") };
        assert_eq!(panic.downcast_ref(), Some(&"one"));
        assert!(matches!(two.resume(), Turn::Ended));
    }
}
