//! The controller's registers by a capability of the probe's own, from the PCI server's requests that drivers do not use.
//!
//! The server maps BAR pages for its drivers, and no driver needs more. A driver with a VSpace may still ask for the pages'
//! capabilities and map them anywhere; they must end with the claim like everything else.

use crate::attacks::Prober;
use nvme_driver::Stuck;
use nvme_spec::registers::Register;
use platform::log::info;
use platform::{Cap, Frame, Mmio, PAGE_SIZE, Platform, Vaddr};
use workload::attacks;

/// The page of the registers: the first of BAR 0, which is the first that a claim maps.
const FIRST_PAGE: u64 = 0;
/// The most functions on all buses: the list must end before.
const MOST_FUNCTIONS: u64 = 1 << 16;

/// A page of registers that the probe mapped itself, and a copy of its capability that is mapped nowhere.
pub(crate) struct OwnView {
    frame: Cap<Frame>,
    copy: Cap<Frame>,
    vaddr: Vaddr,
}

/// Checks that the list of functions ends, and that the claimed controller is on it once.
pub(crate) async fn listed<P: Platform>(prober: &mut Prober<'_, P>) -> Result<(), Stuck> {
    let bdf = prober.disk()?.bdf;
    let mut found: u32 = 0;
    for index in 0..MOST_FUNCTIONS {
        let Some(function) = prober.pci.function(index).await? else {
            info!("{} functions on the bus", index);
            return if found == 1 { Ok(()) } else { Err(Stuck::Control("the controller is not on the list once")) };
        };
        found = found.saturating_add(u32::from(function.bdf == bdf));
    }
    Err(Stuck::Control("the list of functions does not end"))
}

/// Fetches the page's capability, maps it at an address of the probe's own and reads the version there.
pub(crate) async fn view<P: Platform>(prober: &mut Prober<'_, P>) -> Result<OwnView, Stuck> {
    let vaddr = prober.workshop.place()?;
    view_at(prober, vaddr).await
}

async fn view_at<P: Platform>(prober: &mut Prober<'_, P>, vaddr: Vaddr) -> Result<OwnView, Stuck> {
    let frame = prober.pci.bar_frame(FIRST_PAGE).await?;
    let copy = prober.workshop.copy(frame)?;
    prober.workshop.map_registers(frame, vaddr)?;
    let seen = prober.platform.mmio(vaddr, PAGE_SIZE)?;
    let (version, known) = (seen.read32(Register::Vs.offset())?, version(prober)?);
    if version != known {
        return Err(Stuck::Control("the probe's own view of the registers shows another version"));
    }
    info!("version {:#x} by a capability of the probe's own", version);
    Ok(OwnView { frame, copy, vaddr })
}

/// The version, where the PCI server mapped the registers.
fn version<P: Platform>(prober: &mut Prober<'_, P>) -> Result<u32, Stuck> {
    Ok(prober.disk()?.registers.read32(Register::Vs.offset())?)
}

/// Checks, after the claim of the view was released and another made, that the old capabilities can map nothing. Those of
/// the new claim must map in the same place.
pub(crate) async fn view_is_gone<P: Platform>(prober: &mut Prober<'_, P>, view: OwnView) -> Result<(), Stuck> {
    let OwnView { frame, copy, vaddr } = view;
    for (attack, kept) in
        [("mapping registers of a released claim", frame), ("mapping them with a copy of the capability", copy)]
    {
        let mapped = prober.workshop.map_registers(kept, vaddr);
        prober.report(&attacks::CLAIM, attack, mapped.is_err(), "the kernel: RELEASE revoked the capability");
        if mapped.is_ok() {
            return Ok(());
        }
    }
    view_at(prober, vaddr).await.map(drop)
}
