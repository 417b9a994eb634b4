//! Finds the controller's namespaces, and decides which of them can be served (NVM Express base specification 1.4, section 5.15.2).
//!
//! A namespace that is not served is named in the log with the reason. Neighbours: `bring_up` asks for them at each bring-up.

use super::ControlPlane;
use crate::control_plane::identity::Namespace;
use alloc::vec::Vec;
use blk_api::config::Quirk;
use nvme_driver::Controller;
use nvme_driver::fault::DeviceFault;
use nvme_driver::inquiry::{self, Asks, MAX_NAMESPACES};
use nvme_spec::identify::{self, CommandSetId, NotPlain, PlainBlocks};
use nvme_spec::{Nsid, Status};
use platform::log::{info, warn};
use platform::{PAGE_BITS, Platform};
use report::clip;

impl<P: Platform> ControlPlane<'_, P> {
    /// The namespaces that can be served.
    ///
    /// # Errors
    /// Whatever is wrong with the controller.
    pub(super) async fn find_namespaces(
        &mut self,
        about: &identify::Controller,
    ) -> Result<Vec<Namespace>, DeviceFault> {
        let controller = &*self.link.controller;
        let (mut namespaces, cap) = (Vec::new(), controller.registers.cap());
        let quirks = &self.link.config.quirks;
        for nsid in active(controller, about).await? {
            if self.link.administration.as_ref().is_some_and(|administration| administration.is_ending(nsid)) {
                continue;
            }
            let Some(command_set) =
                ask(controller, nsid, async |asks| inquiry::command_set(asks, cap, nsid).await).await?
            else {
                continue;
            };
            if command_set != Some(CommandSetId::Nvm) {
                let reason =
                    command_set.map_or("does not say its I/O command set".into(), |set| alloc::format!("{set}"));
                refuse(nsid, &reason);
                continue;
            }
            let Some(described) = ask(controller, nsid, async |asks| describe(asks, nsid, quirks).await).await? else {
                continue;
            };
            match described.plain(PAGE_BITS as u8) {
                Ok(PlainBlocks { blocks, shift }) => {
                    let media = identify::media(about, nsid, &described);
                    let namespace = Namespace { nsid, blocks, block_shift: shift, media };
                    namespaces.extend(self.first_seen.admits(&namespace).then_some(namespace));
                }
                // One of those that are tried without a list.
                Err(NotPlain::Inactive) => {}
                Err(reason) => refuse(nsid, &alloc::format!("{reason}")),
            }
        }
        Ok(namespaces)
    }
}

/// Asks the controller about a namespace. `None` if it refuses, which leaves the others as they are.
async fn ask<'a, P: Platform, T>(
    controller: &'a Controller<P>,
    nsid: Nsid,
    question: impl AsyncFn(&mut &'a Controller<P>) -> Result<T, DeviceFault>,
) -> Result<Option<T>, DeviceFault> {
    let answer = inquiry::unless_refused(&mut &*controller, question).await?;
    let refused = |status: Status| refuse(nsid, &alloc::format!("is not identified: status {:#x}", status.to_raw()));
    Ok(answer.map_err(refused).ok())
}

async fn describe(asks: &mut impl Asks, nsid: Nsid, quirks: &[Quirk]) -> Result<identify::Namespace, DeviceFault> {
    let mut described = inquiry::namespace(asks, nsid).await?;
    if quirks.contains(&Quirk::NguidChangesAtReset) {
        described.nguid = [0; 16];
    }
    Ok(described)
}

fn refuse(nsid: Nsid, reason: &str) {
    warn!("namespace {} {}, and is not served", nsid.0, clip::<64>(reason).as_str());
}

/// Identifiers of the namespaces that may be active.
async fn active<P: Platform>(
    controller: &Controller<P>,
    about: &identify::Controller,
) -> Result<Vec<Nsid>, DeviceFault> {
    let version = controller.registers.version()?;
    let (identifiers, are_listed) = inquiry::namespaces(&mut &*controller, version, about).await?;
    if !are_listed {
        info!("the controller has no list of its namespaces: {} are tried", identifiers.len());
        if about.nn.get() > MAX_NAMESPACES {
            warn!("namespaces above {} are not served", MAX_NAMESPACES);
        }
    }
    Ok(identifiers)
}
