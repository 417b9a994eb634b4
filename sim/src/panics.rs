//! Panic messages of components, kept for the run's account instead of printed. Panics outside of simulated components are
//! printed as usual.

use std::any::Any;
use std::cell::RefCell;
use std::panic;
use std::sync::Once;

thread_local! {
    /// The last panic's text while a run keeps them.
    static LAST: RefCell<Option<String>> = const { RefCell::new(None) };
    static KEEPING: RefCell<bool> = const { RefCell::new(false) };
}

/// Starts or stops the keeping of this thread's panics.
pub(crate) fn keep(keeping: bool) {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let printing = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if KEEPING.with_borrow(|keeping| *keeping) {
                let place = info.location().map(|place| format!(" at {}:{}", place.file(), place.line()));
                LAST.set(Some(format!("{}{}", text(info.payload()), place.unwrap_or_default())));
            } else {
                printing(info);
            }
        }));
    });
    KEEPING.set(keeping);
}

/// Takes the message of the last panic.
pub(crate) fn take() -> Option<String> {
    LAST.take()
}

/// Returns the payload of a panic, if it is text.
pub(crate) fn text(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().copied().map(str::to_owned);
    text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_else(|| "it does not say why".into())
}
