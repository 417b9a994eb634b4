//! Finds the controller's namespaces, and decides which of them can be served (NVM Express base specification 1.4, section 5.15.2).
//!
//! A namespace that is not served is named in the log with the reason. Neighbours: `bring_up` asks for them at each bring-up.

use crate::control_path::bring_up::execute;
use crate::control_path::identity::Namespace;
use crate::controller::fault::DeviceFault;
use crate::shared::Shared;
use alloc::vec::Vec;
use blk_api::config::Quirk;
use nvme_spec::identify::{self, CommandSetId, IdList, NamespaceList, NotPlain, PlainBlocks};
use nvme_spec::registers::Vs;
use nvme_spec::{DataPointer, Nsid, StatusCode, admin as command};
use platform::log::{info, warn};
use platform::{Memory, PAGE_BITS, Platform};
use report::clip;

/// The most namespaces that are identified.
const MAX_NAMESPACES: u32 = 256;
/// Attempts to learn something of a namespace that the controller refuses to say.
const ATTEMPTS: u8 = 3;
/// The first revision with a list of active namespaces.
const WITH_LIST: Vs = Vs::new().with_mjr(1).with_mnr(1);

/// The namespaces that can be served.
pub(crate) async fn find<P: Platform>(
    shared: &Shared<P>,
    about: &identify::Controller,
) -> Result<Vec<Namespace>, DeviceFault> {
    let mut namespaces = Vec::new();
    for nsid in active(shared, about).await? {
        let Some(command_set) = ask(shared, nsid, async || command_set(shared, nsid).await).await? else { continue };
        if command_set != Some(CommandSetId::Nvm) {
            let reason = command_set.map_or("does not say its I/O command set".into(), |set| alloc::format!("{set}"));
            refuse(nsid, &reason);
            continue;
        }
        let Some(described) = ask(shared, nsid, async || describe(shared, nsid).await).await? else { continue };
        match described.plain(PAGE_BITS as u8) {
            Ok(PlainBlocks { blocks, shift }) => {
                let media = identify::media(about, nsid, &described);
                let namespace = Namespace { nsid, blocks, block_shift: shift, media };
                namespaces.extend(shared.first_seen.borrow_mut().admits(&namespace).then_some(namespace));
            }
            // One of those that are tried without a list.
            Err(NotPlain::Inactive) => {}
            Err(reason) => refuse(nsid, &alloc::format!("{reason}")),
        }
    }
    Ok(namespaces)
}

/// Asks the controller about a namespace, again where it may answer later. `None` if it refuses, which leaves the others as they
/// are.
async fn ask<P: Platform, T>(
    shared: &Shared<P>,
    nsid: Nsid,
    question: impl AsyncFn() -> Result<T, DeviceFault>,
) -> Result<Option<T>, DeviceFault> {
    for attempt in 1..=ATTEMPTS {
        match question().await {
            // One that it asks for again was tried again already.
            Err(DeviceFault::Refused(status))
                if status.do_not_retry() || status.asks_for_retry() || attempt == ATTEMPTS =>
            {
                refuse(nsid, &alloc::format!("is not identified: status {:#x}", status.to_raw()));
                break;
            }
            Err(DeviceFault::Refused(_)) => {
                shared.device.tick.reset();
                shared.device.tick.wait().await;
            }
            answer => return answer.map(Some),
        }
    }
    Ok(None)
}

async fn describe<P: Platform>(shared: &Shared<P>, nsid: Nsid) -> Result<identify::Namespace, DeviceFault> {
    let page = &shared.device.identify_page;
    let data = DataPointer::page(page.iova.bits());
    execute(shared, |cid| command::identify_namespace(cid, nsid, data)).await?;
    let mut described: identify::Namespace = page.memory.read(page.offset)?;
    if shared.config.quirks.contains(&Quirk::NguidChangesAtReset) {
        described.nguid = [0; 16];
    }
    Ok(described)
}

fn refuse(nsid: Nsid, reason: &str) {
    warn!("namespace {} {}, and is not served", nsid.0, clip::<64>(reason).as_str());
}

/// Identifiers of the active namespaces, as far as the controller says which are active. One before revision 1.1 has no list of
/// them, and some of revision 1.1 have none either: there all identifiers up to NN are tried, and an inactive one has no blocks.
async fn active<P: Platform>(shared: &Shared<P>, about: &identify::Controller) -> Result<Vec<Nsid>, DeviceFault> {
    if shared.device.controller.version()? >= WITH_LIST {
        let page = &shared.device.identify_page;
        let data = DataPointer::page(page.iova.bits());
        match execute(shared, |cid| command::identify_active_namespaces(cid, Nsid::NONE, data)).await {
            Ok(_) => {
                let list: NamespaceList = page.memory.read(page.offset)?;
                return Ok(list.iter().take(MAX_NAMESPACES as usize).collect());
            }
            Err(DeviceFault::Refused(status)) if status.code() == StatusCode::InvalidField => {}
            Err(fault) => return Err(fault),
        }
    }
    let all = about.nn.get();
    info!("the controller has no list of its namespaces: {} are tried", all.min(MAX_NAMESPACES));
    if all > MAX_NAMESPACES {
        warn!("namespaces above {} are not served", MAX_NAMESPACES);
    }
    Ok((1..=all.min(MAX_NAMESPACES)).map(Nsid).collect())
}

/// The I/O command set of a namespace, if the controller says it. One that has no other command sets need not.
async fn command_set<P: Platform>(shared: &Shared<P>, nsid: Nsid) -> Result<Option<CommandSetId>, DeviceFault> {
    if !shared.device.controller.cap().css_other() {
        return Ok(Some(CommandSetId::Nvm));
    }
    let page = &shared.device.identify_page;
    let data = DataPointer::page(page.iova.bits());
    execute(shared, |cid| command::identify_descriptors(cid, nsid, data)).await?;
    let list: IdList = page.memory.read(page.offset)?;
    Ok(list.command_set())
}
