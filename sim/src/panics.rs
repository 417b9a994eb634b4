//! What a component's panic said: kept for the run's account instead of printed. Panics outside of simulated components are
//! printed as ever.

use std::any::Any;
use std::cell::RefCell;
use std::panic;
use std::sync::Once;

thread_local! {
    /// The last panic's text while a run keeps them.
    static LAST: RefCell<Option<String>> = const { RefCell::new(None) };
    static KEEPING: RefCell<bool> = const { RefCell::new(false) };
}

/// From now on, or from now on no more, this thread's panics are kept.
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

/// What the last one said.
pub(crate) fn take() -> Option<String> {
    LAST.take()
}

/// What a panic carries, if it is text.
pub(crate) fn text(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().copied().map(str::to_owned);
    text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_else(|| "it does not say why".into())
}
