//! Maps pages of devices for a component, and takes them back from all.
//!
//! Neighbours: `claim` decides which page is mapped where and records what to take back; `resources` makes the frames. Left
//! out: the pages that no driver gets (`msix`).

use crate::resources::{Resources, refused};
use alloc::vec::Vec;
use pci_api::Refusal;
use platform::log::error;
use platform::{CPtr, CacheAttributes, Cap, Error, Frame, Kernel, Paddr, Platform, Rights, VSpace, Vaddr};

/// A page that was given away: the frame that stays here, and the copy it is mapped by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Page {
    /// The frame that stays.
    pub frame: Cap<Frame>,
    copy: CPtr,
}

/// The frame of the device page at `paddr`, which is made once and stays.
pub(crate) fn frame_of<P: Platform>(resources: &mut Resources<P>, paddr: Paddr) -> Result<Cap<Frame>, Refusal> {
    let kernel = resources.kernel();
    resources.devices.frame(&kernel, paddr).map_err(|reason| match reason {
        Error::FailedLookup => Refusal::Exhausted,
        other => refused("making a device frame")(other),
    })
}

/// Maps the device page at `paddr` and records it in `pages`, as soon as there is something to take back.
pub(crate) fn map<P: Platform>(
    resources: &mut Resources<P>,
    pages: &mut Vec<Page>,
    paddr: Paddr,
    vspace: Cap<VSpace>,
    vaddr: Vaddr,
) -> Result<(), Refusal> {
    let kernel = resources.kernel();
    let frame = frame_of(resources, paddr)?;
    let copy = resources.cptrs.take()?;
    let (dest, source) = (resources.absolute(copy), resources.absolute(frame.cptr()));
    if let Err(reason) = kernel.cnode_copy(dest, source, Rights::READ_WRITE) {
        resources.cptrs.put(copy);
        return Err(refused("copying a device frame")(reason));
    }
    pages.push(Page { frame, copy });
    kernel
        .frame_map(copy.cast(), vspace, vaddr, Rights::READ_WRITE, CacheAttributes::Uncached)
        .map_err(refused("mapping a device frame"))
}

/// Ends every mapping of a page and every capability to it but the server's own.
pub(crate) fn take_back<P: Platform>(resources: &mut Resources<P>, page: Page) {
    let path = resources.absolute(page.frame.cptr());
    match resources.kernel().cnode_revoke(path) {
        Ok(()) => resources.cptrs.put(page.copy),
        Err(reason) => error!("the kernel refused revoking a device frame: {}", reason),
    }
}
