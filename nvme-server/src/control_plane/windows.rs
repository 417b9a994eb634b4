//! A session's window in the controller's address space: reserved once, mapped while the session is open.

use crate::link::Link;
use blk_api::config::SessionConfig;
use blk_api::names;
use nvme_driver::dma::Window;
use platform::Platform;

/// Pages of a window that are mapped or unmapped before other work has a turn.
const PORTION: usize = 32;

/// The window of session `index`: at the addresses that were `kept` from the last opening, or new ones, which are kept.
pub(super) fn window<P: Platform>(
    link: &Link<P>,
    kept: &mut Option<Window>,
    index: usize,
    config: &SessionConfig,
) -> Option<Window> {
    if kept.is_none() {
        let name = names::window(u32::try_from(index).ok()?);
        let first = link.environment.cap(&name)?;
        let pages = link.environment.cap_count(&name);
        (u64::from(pages) << platform::PAGE_BITS >= config.window_bytes).then_some(())?;
        let iova = link.controller.space.borrow_mut().reserve_window(first, config.window_bytes)?;
        *kept = Some(Window { first, pages, iova });
    }
    *kept
}

/// Maps a window for the device, or nothing of it. Other tenants' requests are served in between: a window may be
/// large.
pub(super) async fn map_window<P: Platform>(link: &Link<P>, window: &Window) -> platform::Result<()> {
    for first in (0..window.pages).step_by(PORTION) {
        let mapped = link.controller.space.borrow_mut().map_pages(window, portion(window, first));
        if let Err(error) = mapped {
            unmap_window(link, window).await;
            return Err(error);
        }
        link.platform.yield_now().await;
    }
    Ok(())
}

/// Takes a window from the device, likewise. Nothing may be in flight.
pub(super) async fn unmap_window<P: Platform>(link: &Link<P>, window: &Window) {
    for first in (0..window.pages).step_by(PORTION) {
        link.controller.space.borrow().unmap_pages(window, portion(window, first));
        link.platform.yield_now().await;
    }
}

fn portion(window: &Window, first: u32) -> core::ops::Range<u32> {
    first..window.pages.min(first.saturating_add(PORTION as u32))
}
