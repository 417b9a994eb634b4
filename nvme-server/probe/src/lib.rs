//! Tests on the running system that nothing passes where no capability allows it: no DMA of a controller, no access of
//! the processor.
//!
//! In a scenario with a probe this component replaces the NVMe server. It also has untyped memory and a VSpace of its own,
//! which no NVMe server has. It drives a controller without sessions ([`nvme_driver`]), and has the controller move blocks to
//! and from memory that is mapped for it, that is not, and that no longer is (`attacks`). It judges by the memory and the
//! block, because QEMU's controller reports success for a transfer that the IOMMU blocked. Before each attack the same
//! transfer must arrive while it is allowed; otherwise a blocked one proves nothing. It also makes two requests to the PCI
//! server that other drivers do not make (`registers`): for the list of functions, and for the capabilities to the pages of
//! registers.
//!
//! In the end (`last`) it accesses an object that was taken from it, and must be ended by a fault, which the supervisor
//! reports. Neighbours: the PCI server gives it the controller; `capdl` refuses a probe beside tenants. Left out: attacks of
//! clients, which `hostile` makes.

#![no_std]
#![forbid(unsafe_code)]
#![warn(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

extern crate alloc;

mod attacks;
mod disk;
mod last;
mod memory;
mod registers;

use alloc::string::ToString;
use attacks::Prober;
use nvme_driver::Stuck;
use platform::log::error;
use platform::{Environment, Platform};
use report::{Report, clip};
use workload::Probe;

/// Tries everything, reports, and ends with the access that must be a fault.
pub async fn run<P: Platform>(platform: P, environment: Environment) {
    let outcome = match environment.config::<Probe>() {
        Some(config) => probe(&platform, &environment, &config).await,
        None => Err(Stuck::Missing("its configuration")),
    };
    if let Err(stuck) = outcome {
        let reason = stuck.to_string();
        error!("stuck: {}", reason.as_str());
        let component = clip(&environment.name);
        platform.report(&Report::Failure { component, reason: clip(&reason) }.encode());
        done(&platform, &environment, false);
    }
}

async fn probe<P: Platform>(platform: &P, environment: &Environment, config: &Probe) -> Result<(), Stuck> {
    let mut prober = Prober::new(platform, environment).await?;
    prober.controls().await?;
    attacks::run(&mut prober).await?;
    prober.controls().await?;
    let doomed = last::prepare(&mut prober, config.last).await?;
    done(platform, environment, prober.all_refused());
    last::touch(&mut prober, &doomed)
}

fn done<P: Platform>(platform: &P, environment: &Environment, passed: bool) {
    platform.report(&Report::Done { tenant: clip(&environment.name), passed }.encode());
}
