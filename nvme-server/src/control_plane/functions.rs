//! Virtual functions, which clients drive themselves: their queues, interrupts and namespaces (NVM Express base specification
//! 1.4, sections 5.19, 5.22 and 8.5). No data of theirs passes this server, and no call.
//!
//! The primary controller gives up its flexible resources once, which takes a reset of its function ([`enable`]). For each
//! client that is alive its secondary controller gets resources and a namespace and is set online; when the client has died, it is
//! set offline and loses them ([`follow_clients`]). A reset of the primary controller sets all offline, so those in use are set
//! online again ([`restore`]).
//!
//! The policy component grants a client its function, and without that word the function stays offline ([`set`]). A function that
//! is revoked is set offline, withdrawn from its client by the PCI server, and loses its namespace. Neighbours: the PCI server
//! gives the client the function itself. Left out: creating namespaces.

use crate::control_plane::virtual_function::{State, VirtualFunction};
use crate::jobs::Job;
use crate::link::Link;
use alloc::vec::Vec;
use blk_api::config::FunctionConfig;
use blk_api::policy::{FunctionRight, Refusal};
use nvme_driver::controller::{Controller, Health};
use nvme_driver::fault::DeviceFault;
use nvme_driver::inquiry;
use nvme_driver::pci;
use nvme_spec::admin::{
    self, Attachment, Cns, ControllerResource, assign_to_secondary, modified_resources, namespace_attachment,
};
use nvme_spec::identify::{ControllerList, NamespaceList, PrimaryCapabilities, SecondaryList};
use nvme_spec::{DataPointer, Nsid, Status, StatusCode};
use platform::log::{error, info};
use platform::{Memory, Platform};
use report::clip;

/// Seconds that virtual functions may take to appear, with the reset of the physical one.
const ENABLE_LIMIT_SECONDS: u64 = 5;
/// Both kinds of resources, of which a function has equally many.
const RESOURCES: [ControllerResource; 2] = [ControllerResource::Queues, ControllerResource::Interrupts];

/// As if the controller refused a function, which leaves all else as it is.
const NO_FUNCTION: DeviceFault = DeviceFault::Refused(Status::new(StatusCode::InvalidControllerId));

/// Grants a client its function or revokes it, or begins to.
///
/// # Errors
/// [`Refusal::Busy`] until it is in force, [`Refusal::NoFunction`].
pub(crate) fn set<P: Platform>(link: &Link<P>, right: &FunctionRight) -> Result<(), Refusal> {
    let mut functions = link.functions.borrow_mut();
    let place = usize::try_from(right.function).ok().and_then(|index| functions.get_mut(index));
    let function = place.ok_or(Refusal::NoFunction(right.function))?;
    function.granted = Some(right.granted != 0);
    if function.is_due() {
        link.jobs.pass(Job::Functions);
        return Err(Refusal::Busy);
    }
    Ok(())
}

/// Has the control plane follow clients that were started or died.
pub(crate) fn on_tick<P: Platform>(link: &Link<P>) {
    if link.functions.borrow().iter().any(VirtualFunction::is_due) {
        link.jobs.pass(Job::Functions);
    }
}

/// Frees the primary controller's flexible resources, and has the PCI server enable the virtual functions. Returns whether the
/// controller was reset for this. Functions that do not appear, or whose namespaces are not known, are reported, and sessions go on
/// without them.
///
/// # Errors
/// A fault of the primary controller.
pub(crate) async fn enable<P: Platform>(link: &Link<P>) -> Result<bool, DeviceFault> {
    let number = u16::try_from(link.config.functions.len()).unwrap_or(u16::MAX);
    if number == 0 || link.controller.has_functions.get() {
        return Ok(false);
    }
    let capabilities: PrimaryCapabilities = identified(&link.controller, Cns::PrimaryCapabilities, Nsid::NONE).await?;
    let primary = capabilities.cntlid.get();
    if let Err(status) =
        inquiry::unless_refused(&mut &*link.controller, async |controller| detach_all(controller).await).await?
    {
        let status = status.to_raw();
        link.report_failure(&alloc::format!("functions may have other tenants' namespaces: status {status:#x}"));
        link.controller.has_functions.set(true);
        return Ok(false);
    }
    for (resource, counts) in RESOURCES.into_iter().zip([capabilities.queues, capabilities.interrupts]) {
        if counts.primary.get() > 0 {
            link.controller.execute(|cid| admin::allocate_to_primary(cid, primary, resource, 0)).await?;
        }
    }
    link.controller.disable().await?;
    let limit = link.platform.ticks_per_second().saturating_mul(ENABLE_LIMIT_SECONDS);
    let deadline = link.platform.ticks().saturating_add(limit);
    let outcome = loop {
        let is_last = link.platform.ticks() >= deadline;
        let outcome = pci::enable_functions(&link.platform, link.controller.server, number).await;
        if is_last || outcome.as_ref().is_ok_and(|enabled| *enabled >= number) {
            break outcome;
        }
        // They may appear, and a refusal may pass, as after the PCI server's death.
        link.controller.next_tick().await;
    };
    match &outcome {
        Ok(enabled) if *enabled >= number => {}
        Ok(enabled) => link.report_failure(&alloc::format!("{enabled} of {number} virtual functions appear")),
        Err(error) => {
            link.report_failure(&alloc::format!("the PCI server enables no virtual functions: {error}"));
        }
    }
    info!("{} of {} virtual functions", outcome.unwrap_or(0).min(number), number);
    link.controller.has_functions.set(true);
    Ok(true)
}

/// Sets functions offline whose clients have died or may not have them any more, and those online whose clients were started or
/// may have them now.
pub(crate) async fn follow_clients<P: Platform>(link: &Link<P>) {
    for index in 0..link.config.functions.len() {
        if let Err(fault) = follow_client(link, index).await {
            return link.fail(fault);
        }
    }
    link.notify_policy();
}

/// Sets the functions in use online again, after a reset of the primary controller. Their clients see that their controllers
/// were reset.
///
/// # Errors
/// A fault of the primary controller. A function that it refuses stays offline.
pub(crate) async fn restore<P: Platform>(link: &Link<P>) -> Result<(), DeviceFault> {
    for index in 0..link.config.functions.len() {
        // That of a client that died stays offline until the next client.
        let is_in_use = |function: &VirtualFunction<P::Memory>| {
            function.state == State::Online && !function.client.died() && function.granted == Some(true)
        };
        if link.functions.borrow().get(index).is_some_and(is_in_use) {
            set_online_for(link, index).await?;
        }
    }
    Ok(())
}

/// # Errors
/// A fault of the primary controller.
async fn follow_client<P: Platform>(link: &Link<P>, index: usize) -> Result<(), DeviceFault> {
    let state = |link: &Link<P>| {
        link.functions.borrow().get(index).filter(|function| function.is_due()).map(|function| function.state)
    };
    // It failed while another function was changed: it is reset first, and the next tick repeats this.
    if link.controller.health.get() == Health::Down {
        return Ok(());
    }
    let was_online = matches!(state(link), Some(State::Online | State::Refused));
    // A controller that has failed for good reaches no memory: the PCI server takes the function from it.
    let obeys = link.controller.health.get() == Health::Up;
    if was_online && obeys {
        end_commands(link, index).await?;
    }
    apply_right(link, index).await;
    // A client that was started again has died before.
    if was_online {
        if obeys {
            detach(link, index).await?;
        }
        set_state(link, index, State::Offline);
    }
    let is_granted =
        |function: &VirtualFunction<P::Memory>| (function.granted, function.applied) == (Some(true), Some(true));
    let may_have = link.functions.borrow().get(index).is_some_and(is_granted);
    if state(link) == Some(State::Offline) && may_have {
        if let Some(function) = link.functions.borrow_mut().get_mut(index) {
            function.client.refresh();
        }
        set_online_for(link, index).await?;
    }
    Ok(())
}

/// Has the PCI server withdraw the function from its client, or restore it. A refusal is logged, and the next tick repeats this.
async fn apply_right<P: Platform>(link: &Link<P>, index: usize) {
    let right =
        |function: &VirtualFunction<P::Memory>| (function.granted != function.applied).then_some(function.granted);
    let asked = link.functions.borrow().get(index).and_then(right).flatten();
    let (Some(granted), Ok(number)) = (asked, u32::try_from(index)) else { return };
    let server = link.controller.server;
    let done = if granted {
        pci::restore(&link.platform, server, number).await
    } else {
        pci::withdraw(&link.platform, server, number).await
    };
    match done {
        Ok(()) => {
            if let Some(function) = link.functions.borrow_mut().get_mut(index) {
                function.applied = Some(granted);
            }
        }
        Err(error) => error!("virtual function {}: {}", index, clip::<96>(&alloc::format!("{error}")).as_str()),
    }
}

fn set_state<P: Platform>(link: &Link<P>, index: usize, state: State) {
    if let Some(function) = link.functions.borrow_mut().get_mut(index) {
        function.state = state;
    }
}

/// Sets a function online for the client that is watched, or notes that this is refused.
async fn set_online_for<P: Platform>(link: &Link<P>, index: usize) -> Result<(), DeviceFault> {
    let tenant = link.config.functions.get(index).map_or("", |function| function.tenant.as_str());
    let is_up = !link.controller.health.get().is_over();
    let state = match if is_up { set_online(link, index).await } else { Err(DeviceFault::Absent) } {
        Ok(()) => {
            info!("virtual function {} is online for {}", index, tenant);
            State::Online
        }
        Err(DeviceFault::Refused(status)) => {
            let reason = alloc::format!("the function of {tenant} is refused with status {:#x}", status.to_raw());
            link.report_failure(&reason);
            State::Refused
        }
        Err(_) if !is_up => State::Refused,
        Err(fault) => return Err(fault),
    };
    set_state(link, index, state);
    Ok(())
}

async fn set_online<P: Platform>(link: &Link<P>, index: usize) -> Result<(), DeviceFault> {
    // An earlier server may have left it online.
    set_offline(link, index).await?;
    let FunctionConfig { nsid, queue_pairs, .. } = *config(link, index)?;
    let controller = secondary(&link.controller, index).await?;
    // The admin queue pair and its interrupt come first.
    let count = queue_pairs.saturating_add(1);
    for resource in RESOURCES {
        let done = link.controller.execute(|cid| assign_to_secondary(cid, controller, resource, count)).await?;
        if modified_resources(done.dw0) != count {
            return Err(DeviceFault::Refused(Status::new(StatusCode::InvalidResourceCount)));
        }
    }
    attachment(&link.controller, Attachment::Attach, Nsid(nsid), &[controller]).await?;
    link.controller.execute(|cid| admin::set_online(cid, controller)).await.map(drop)
}

/// After this the function's controller is reset and reaches no memory, and has no namespace.
async fn set_offline<P: Platform>(link: &Link<P>, index: usize) -> Result<(), DeviceFault> {
    end_commands(link, index).await?;
    detach(link, index).await
}

/// Sets the function's controller offline, which ends its commands.
async fn end_commands<P: Platform>(link: &Link<P>, index: usize) -> Result<(), DeviceFault> {
    let controller = secondary(&link.controller, index).await?;
    link.controller.execute(|cid| admin::set_offline(cid, controller)).await.map(drop)
}

async fn detach<P: Platform>(link: &Link<P>, index: usize) -> Result<(), DeviceFault> {
    let nsid = Nsid(config(link, index)?.nsid);
    let controller = secondary(&link.controller, index).await?;
    match attachment(&link.controller, Attachment::Detach, nsid, &[controller]).await {
        Err(DeviceFault::Refused(status)) if status.code() == StatusCode::NamespaceNotAttached => Ok(()),
        done => done,
    }
}

/// Takes all namespaces from the secondary controllers, which are offline: attachments outlive resets and losses of power, so an
/// earlier host may have left one tenant's namespace at another's function. Other controllers of the subsystem keep theirs.
async fn detach_all<P: Platform>(controller: &Controller<P>) -> Result<(), DeviceFault> {
    let list: SecondaryList = identified(controller, Cns::SecondaryControllers, Nsid::NONE).await?;
    let secondaries: Vec<u16> = list.listed().ok_or(NO_FUNCTION)?.iter().map(|entry| entry.scid.get()).collect();
    let list: NamespaceList = identified(controller, Cns::AllocatedNamespaces, Nsid::NONE).await?;
    let allocated: Vec<Nsid> = list.iter().collect();
    // There may be more.
    if allocated.len() == list.nsids.len() {
        return Err(NO_FUNCTION);
    }
    for nsid in allocated {
        let attached: ControllerList = identified(controller, Cns::AttachedControllers, nsid).await?;
        let attached = attached.listed().ok_or(NO_FUNCTION)?.iter().map(|id| id.get());
        let theirs: Vec<u16> = attached.filter(|id| secondaries.contains(id)).collect();
        if !theirs.is_empty() {
            info!("namespace {} is taken from {} controllers", nsid.0, theirs.len());
            attachment(controller, Attachment::Detach, nsid, &theirs).await?;
        }
    }
    Ok(())
}

fn config<P: Platform>(link: &Link<P>, index: usize) -> Result<&FunctionConfig, DeviceFault> {
    link.config.functions.get(index).ok_or(DeviceFault::OwnMemory)
}

async fn attachment<P: Platform>(
    controller: &Controller<P>,
    operation: Attachment,
    nsid: Nsid,
    controllers: &[u16],
) -> Result<(), DeviceFault> {
    let page = &controller.identify_page;
    page.memory.write(page.offset, &ControllerList::of(controllers.iter().copied()))?;
    let data = DataPointer::page(page.iova.bits());
    controller.execute(|cid| namespace_attachment(cid, operation, nsid, data)).await.map(drop)
}

/// The identifier of the secondary controller of virtual function `index`, from 0.
async fn secondary<P: Platform>(controller: &Controller<P>, index: usize) -> Result<u16, DeviceFault> {
    let list: SecondaryList = identified(controller, Cns::SecondaryControllers, Nsid::NONE).await?;
    // VFN counts from 1.
    let is_its = |vfn: u16| usize::from(vfn).checked_sub(1) == Some(index);
    let found = list.listed().ok_or(NO_FUNCTION)?.iter().find(|entry| is_its(entry.vfn.get()));
    found.map(|entry| entry.scid.get()).ok_or(NO_FUNCTION)
}

/// Identifies what `cns` selects of `nsid`, from controller 0 on.
async fn identified<P: Platform, T: zerocopy::FromBytes>(
    controller: &Controller<P>,
    cns: Cns,
    nsid: Nsid,
) -> Result<T, DeviceFault> {
    let page = &controller.identify_page;
    let data = DataPointer::page(page.iova.bits());
    controller.execute(|cid| admin::identify_controllers(cid, cns, nsid, 0, data)).await?;
    Ok(page.memory.read(page.offset)?)
}
