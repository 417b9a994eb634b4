//! A virtual function until its controller can be reset: the claim, and the wait until the NVMe server has set its controller
//! online (NVM Express base specification 1.4, section 8.5).
//!
//! Waits take a tick at a time. Neighbours: a client that drives a function begins with this. Left out: the controller itself.

use crate::dma::{IoSpaceMap, Window};
use crate::fault::DeviceFault;
use crate::pci::{Device, Interrupts, PciClient, PciError};
use crate::registers::Registers;
use blk_api::names;
use pci_api::Refusal;
use platform::{CPtr, Cap, Environment, Frame, Kernel, PAGE_BITS, Platform};

/// The most vectors of a function with one I/O queue pair: the admin queue's and the pair's.
const VECTORS: u16 = 2;
/// Cptrs that a claim fills: the address space, and two for each vector.
const CLAIM_CPTRS: usize = 1 + 2 * VECTORS as usize;

/// Claims the function, once it is enabled, until `deadline` at most. A claim of an earlier session of this component ends first.
///
/// # Errors
/// [`PciError`]; [`Refusal::Withdrawn`] at once.
pub async fn claim<'a, P: Platform>(
    platform: &'a P,
    environment: &'a Environment,
    deadline: u64,
) -> Result<(PciClient<'a, P>, Device<P>), PciError> {
    loop {
        // The time is read first, so that a client that did not run meanwhile tries once more.
        let is_last = platform.ticks() >= deadline;
        forget(platform, environment)?;
        let mut pci = PciClient::new(platform, environment, environment.free_cptrs.clone())?;
        match pci.claim(Interrupts::Msix, VECTORS).await {
            Err(PciError::Refused(Refusal::Busy)) => pci.release().await?,
            Err(PciError::Refused(Refusal::NoSuchFunction | Refusal::NotReady)) if !is_last => {
                drop(platform.next_event().await)
            }
            claimed => return Ok((pci, claimed?)),
        }
    }
}

/// Waits until the NVMe server has set the controller online, until `deadline` at most: a secondary controller that is offline
/// reports a fatal status.
///
/// # Errors
/// [`DeviceFault::Fatal`] if it stays offline, [`DeviceFault::Absent`], [`DeviceFault::NotReady`] when the claim was withdrawn
/// meanwhile.
pub async fn online<P: Platform>(
    platform: &P,
    pci: &PciClient<'_, P>,
    controller: &Registers<P::Mmio>,
    deadline: u64,
) -> Result<(), DeviceFault> {
    loop {
        let is_last = platform.ticks() >= deadline;
        match controller.check() {
            Err(DeviceFault::Fatal) if pci.is_withdrawn().await => return Err(DeviceFault::NotReady),
            Err(DeviceFault::Fatal) if !is_last => drop(platform.next_event().await),
            // It was not enabled yet.
            Ok(_) | Err(DeviceFault::NotReady) => return Ok(()),
            Err(fault) => return Err(fault),
        }
    }
}

/// Maps the client's own window for the function.
///
/// # Errors
/// [`PciError`].
pub fn map_window<K: Kernel>(environment: &Environment, space: &mut IoSpaceMap<K>) -> Result<Window, PciError> {
    let missing = PciError::Missing(names::WINDOW);
    let first = environment.cap(names::WINDOW).ok_or(missing)?;
    let pages = environment.cap_count(names::WINDOW);
    let iova = space.reserve_window(first, u64::from(pages) << PAGE_BITS).ok_or(missing)?;
    let window = Window { first, pages, iova };
    space.map_pages(&window, 0..pages)?;
    Ok(window)
}

/// Deletes the capabilities of an earlier claim, and takes the memory out of its address space, which is gone.
fn forget<P: Platform>(platform: &P, environment: &Environment) -> Result<(), PciError> {
    let kernel = platform.kernel();
    for cptr in environment.free_cptrs.clone().take(CLAIM_CPTRS) {
        let cptr = environment.absolute(CPtr::new(cptr)).ok_or(PciError::Missing("its CNode"))?;
        kernel.cnode_delete(cptr)?;
    }
    for name in [names::DMA, names::WINDOW] {
        for page in 0..environment.cap_count(name) {
            let frame: Cap<Frame> = environment.cap_at(name, page).ok_or(PciError::Missing("its own memory"))?;
            kernel.frame_unmap(frame)?;
        }
    }
    Ok(())
}
