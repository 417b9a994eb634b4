//! A session's window in the controller's address space: reserved once, mapped while the session is open.

use crate::shared::Shared;
use blk_api::config::SessionConfig;
use blk_api::names;
use nvme_driver::dma::Window;
use platform::{Environment, Platform};

/// Pages of a window that are mapped or unmapped before other work has a turn.
const PORTION: usize = 32;

/// The session's window: at the addresses of the last opening, or new ones.
pub(crate) fn window<P: Platform>(shared: &Shared<P>, index: usize, config: &SessionConfig) -> Option<Window> {
    let mut slots = shared.slots.borrow_mut();
    let slot = slots.get_mut(index)?;
    if slot.window.is_none() {
        let name = names::window(u32::try_from(index).ok()?);
        let environment: &Environment = &shared.environment;
        let first = environment.cap(&name)?;
        let pages = environment.cap_count(&name);
        (u64::from(pages) << platform::PAGE_BITS >= config.window_bytes).then_some(())?;
        let iova = shared.controller.space.borrow_mut().reserve_window(first, config.window_bytes)?;
        slot.window = Some(Window { first, pages, iova });
    }
    slot.window
}

/// Maps a window for the device, or nothing of it. Other tenants' requests are served in between: a window may be
/// large.
pub(crate) async fn map_window<P: Platform>(shared: &Shared<P>, window: &Window) -> platform::Result<()> {
    for first in (0..window.pages).step_by(PORTION) {
        let mapped = shared.controller.space.borrow_mut().map_pages(window, portion(window, first));
        if let Err(error) = mapped {
            unmap_window(shared, window).await;
            return Err(error);
        }
        shared.platform.yield_now().await;
    }
    Ok(())
}

/// Takes a window from the device, likewise. Nothing may be in flight.
pub(crate) async fn unmap_window<P: Platform>(shared: &Shared<P>, window: &Window) {
    for first in (0..window.pages).step_by(PORTION) {
        shared.controller.space.borrow().unmap_pages(window, portion(window, first));
        shared.platform.yield_now().await;
    }
}

fn portion(window: &Window, first: u32) -> core::ops::Range<u32> {
    first..window.pages.min(first.saturating_add(PORTION as u32))
}
