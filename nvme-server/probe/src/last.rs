//! The last access, which must fault: to registers of a controller that was released, or to memory that was revoked.
//!
//! It comes after everything was reported, because it ends the probe. The supervisor reports the probe and the address.

use crate::attacks::{Prober, REVOKED};
use crate::memory::{Content, Page};
use nvme_driver::Stuck;
use nvme_spec::registers::Register;
use platform::log::info;
use platform::{Mmio, Platform};
use workload::{LastProbe, attacks};

const CONTENT: Content = Content(0x1a57_0000_0000_0000);

/// The object that is taken from the probe.
pub(crate) enum Doomed<R> {
    /// The controller's registers.
    Registers(R),
    /// A page.
    Page(Page<R>),
}

/// Has the object taken: releases the controller, or revokes the page.
pub(crate) async fn prepare<P: Platform>(
    prober: &mut Prober<'_, P>,
    last: LastProbe,
) -> Result<Doomed<P::Mmio>, Stuck> {
    match last {
        LastProbe::Registers => {
            let registers = prober.disk()?.registers.clone();
            prober.release().await?;
            Ok(Doomed::Registers(registers))
        }
        LastProbe::RevokedPage => {
            let page = prober.page(REVOKED)?;
            page.fill(CONTENT)?;
            if !page.is_untouched(CONTENT)? {
                return Err(Stuck::Control("a mapped page does not keep what the processor writes"));
            }
            prober.workshop.revoke(prober.workshop.untyped(REVOKED)?)?;
            Ok(Doomed::Page(page))
        }
    }
}

/// Accesses the object, and reports a failure if the access does not fault.
pub(crate) fn touch<P: Platform>(prober: &mut Prober<'_, P>, doomed: &Doomed<P::Mmio>) -> Result<(), Stuck> {
    match doomed {
        Doomed::Registers(registers) => {
            info!("reading a register of the released controller: this must be the end");
            registers.read32(Register::Csts.offset())?;
            prober.report(&attacks::TAKEN, "reading a register of a released controller", false, "");
        }
        Doomed::Page(page) => {
            info!("reading revoked memory at {:x}: this must be the end", page.vaddr.bits());
            page.touch()?;
            prober.report(&attacks::TAKEN, "reading revoked memory", false, "");
        }
    }
    Ok(())
}
