//! Administrative commands that belong to the physical function: virtualization, namespaces, formats, firmware; and queues and
//! vectors beyond its own.

use super::Stuck;
use super::attacker::{Attacker, Tally};
use super::drive::{ENTRIES, IO_QUEUE};
use super::namespaces::foreign;
use nvme_spec::admin::{
    self, Attachment, ControllerResource, CqInterrupt, CreateIoCq, FormatDw10, Opcode, QueueMemory,
};
use nvme_spec::identify::ControllerList;
use nvme_spec::{Cid, DataPointer, Nsid, QueueId, Sqe};
use platform::{Memory, Platform};
use workload::attacks;

/// The controllers that are tried: more than a subsystem of a scenario has.
const CONTROLLERS: u16 = 10;
/// The queues and vectors that are tried.
const QUEUES: u16 = 16;
/// Queue resources that it asks for.
const RESOURCES: u16 = 2;

/// Runs all attacks of this module.
pub(super) async fn run<P: Platform>(attacker: &mut Attacker<'_, P>) -> Result<(), Stuck> {
    attacker.verdicts.begin(&attacks::ADMIN);
    virtualization(attacker).await?;
    attach(attacker).await?;
    if attacker.detaches {
        detach(attacker).await?;
    }
    management(attacker).await?;
    unwanted(attacker).await?;
    queues(attacker).await?;
    vectors(attacker).await
}

async fn virtualization<P: Platform>(attacker: &mut Attacker<'_, P>) -> Result<(), Stuck> {
    type Build = fn(Cid, u16) -> Sqe;
    let queues = |cid, controller| admin::assign_to_secondary(cid, controller, ControllerResource::Queues, RESOURCES);
    let primary = |cid, controller| admin::allocate_to_primary(cid, controller, ControllerResource::Queues, RESOURCES);
    let commands: [(&str, Build); 4] = [
        ("set controllers offline", admin::set_offline),
        ("set controllers online", admin::set_online),
        ("assign queues to controllers", queues),
        ("take the physical function's queues", primary),
    ];
    for (name, build) in commands {
        let mut tally = Tally::default();
        for controller in 0..CONTROLLERS {
            let status = attacker.drive.admin(|cid| build(cid, controller)).await?;
            tally.add(controller.into(), status);
        }
        attacker.report_all(name, tally);
    }
    Ok(())
}

/// Attaches neighbours' namespaces to its own controller.
async fn attach<P: Platform>(attacker: &mut Attacker<'_, P>) -> Result<(), Stuck> {
    let (own, id) = (attacker.drive.nsid, attacker.drive.controller_id);
    let mut attached = Tally::default();
    for nsid in foreign(own) {
        let status = list_and(attacker, Attachment::Attach, nsid, id).await?;
        attached.add(nsid.0, status);
    }
    attacker.report_all("attach a neighbour's namespace to itself", attached);
    Ok(())
}

/// Detaches neighbours' namespaces from every other controller, and attaches them to its own.
async fn detach<P: Platform>(attacker: &mut Attacker<'_, P>) -> Result<(), Stuck> {
    let (own, id) = (attacker.drive.nsid, attacker.drive.controller_id);
    let mut detached = Tally::default();
    for nsid in foreign(own) {
        for controller in (0..CONTROLLERS).filter(|other| *other != id) {
            let status = list_and(attacker, Attachment::Detach, nsid, controller).await?;
            detached.add(nsid.0, status);
        }
    }
    attacker.report_all("detach a neighbour's namespace from its controller", detached);
    attach(attacker).await
}

async fn list_and<P: Platform>(
    attacker: &mut Attacker<'_, P>,
    operation: Attachment,
    nsid: Nsid,
    controller: u16,
) -> Result<nvme_spec::Status, Stuck> {
    let page = attacker.drive.about().clone();
    page.memory.write(page.offset, &ControllerList::of(core::iter::once(controller)))?;
    let data = DataPointer::page(page.iova.bits());
    attacker.drive.admin(|cid| admin::namespace_attachment(cid, operation, nsid, data)).await
}

/// Deletes, creates and formats namespaces.
async fn management<P: Platform>(attacker: &mut Attacker<'_, P>) -> Result<(), Stuck> {
    type Build = fn(Cid, Nsid) -> Sqe;
    let commands: [(&str, Build); 2] = [
        ("delete a neighbour's namespace", admin::delete_namespace),
        ("format a neighbour's namespace", |cid, nsid| admin::format_nvm(cid, nsid, FormatDw10::new())),
    ];
    let own = attacker.drive.nsid;
    for (name, build) in commands {
        let mut tally = Tally::default();
        for nsid in foreign(own) {
            let status = attacker.drive.admin(|cid| build(cid, nsid)).await?;
            tally.add(nsid.0, status);
        }
        attacker.report_all(name, tally);
    }
    let mut tally = Tally::default();
    let status = attacker.drive.admin(|cid| admin::delete_namespace(cid, Nsid::ALL)).await?;
    tally.add(Nsid::ALL.0, status);
    attacker.report_all("delete all namespaces", tally);
    let data = DataPointer::page(attacker.drive.about().iova.bits());
    let mut tally = Tally::default();
    let status = attacker.drive.admin(|cid| admin::create_namespace(cid, data)).await?;
    tally.add(0, status);
    attacker.report_all("create a namespace", tally);
    Ok(())
}

/// Commands that would change the whole device.
async fn unwanted<P: Platform>(attacker: &mut Attacker<'_, P>) -> Result<(), Stuck> {
    for (name, opcode) in [
        ("download firmware", Opcode::FirmwareDownload),
        ("commit firmware", Opcode::FirmwareCommit),
        ("sanitize the device", Opcode::Sanitize),
        ("send to the device's security", Opcode::SecuritySend),
    ] {
        let data = DataPointer::page(attacker.drive.about().iova.bits());
        let status = attacker.drive.admin(|cid| Sqe::new(opcode as u8, cid, Nsid::NONE, data)).await?;
        let mut tally = Tally::default();
        tally.add(0, status);
        attacker.report_all(name, tally);
    }
    Ok(())
}

async fn queues<P: Platform>(attacker: &mut Attacker<'_, P>) -> Result<(), Stuck> {
    let mut tally = Tally::default();
    for queue in (IO_QUEUE.0.saturating_add(1)..=QUEUES).map(QueueId) {
        let sqe = completion_queue(attacker, queue, CqInterrupt::Disabled);
        let status = attacker.drive.admin(|cid| sqe.sqe(cid)).await?;
        tally.add(queue.0.into(), status);
    }
    attacker.report_all("create more queues than it has", tally);
    Ok(())
}

/// Creates the function's completion queue again, with a vector that is not its own.
async fn vectors<P: Platform>(attacker: &mut Attacker<'_, P>) -> Result<(), Stuck> {
    let drive = &mut attacker.drive;
    drive.admin.must(|cid| admin::delete_io_sq(cid, IO_QUEUE)).await?;
    drive.admin.must(|cid| admin::delete_io_cq(cid, IO_QUEUE)).await?;
    let mut tally = Tally::default();
    // A function has a vector for the admin queue and one for the pair.
    for vector in 2..QUEUES {
        let sqe = completion_queue(attacker, IO_QUEUE, CqInterrupt::Vector(vector));
        let status = attacker.drive.admin(|cid| sqe.sqe(cid)).await?;
        tally.add(vector.into(), status);
    }
    attacker.drive.bring_up().await?;
    attacker.report_all("interrupt by a vector that it does not have", tally);
    Ok(())
}

fn completion_queue<P: Platform>(attacker: &Attacker<'_, P>, qid: QueueId, interrupt: CqInterrupt) -> CreateIoCq {
    let memory = QueueMemory::Contiguous(attacker.drive.io.pair.cq.iova.bits());
    CreateIoCq { qid, qsize_z: ENTRIES.saturating_sub(1), interrupt, memory }
}
