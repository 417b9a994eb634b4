//! Creating and deleting I/O queues (sections 5.3 to 5.6).

use nvme_spec::admin::{self, CqInterrupt, CreateIoCq, CreateIoSq, Opcode, QueuePriority};
use nvme_spec::registers::{IOCQES_16, IOSQES_64};
use nvme_spec::{Sqe, Status, StatusCode};

use crate::command::{Command, Outcome};
use crate::controller::Controller;
use crate::host::Host;
use crate::queue::{CompletionQueue, QueueMemory, SubmissionQueue};
use crate::violation::ViolationKind;

/// Executes one of the four commands. A refusal is a violation: a driver knows what it may request.
pub(super) fn execute(controller: &mut Controller, command: &Command, host: &mut dyn Host) -> Outcome {
    let sqe = &command.sqe;
    let result = match Opcode::from_raw(sqe.opcode()) {
        Some(Opcode::CreateIoCq) => create_cq(controller, sqe, host),
        Some(Opcode::CreateIoSq) => create_sq(controller, sqe, host),
        Some(Opcode::DeleteIoSq) => delete_sq(controller, sqe, host),
        Some(Opcode::DeleteIoCq) => delete_cq(controller, sqe, host),
        _ => Err(StatusCode::InvalidOpcode),
    };
    let Err(code) = result else { return Outcome::SUCCESS };
    let status = Status::new(code).with_do_not_retry();
    let kind = ViolationKind::QueueCommand { opcode: sqe.opcode(), queue: sqe.cdw10 as u16, status };
    controller.violation(kind);
    Outcome::status(status)
}

fn create_cq(controller: &mut Controller, sqe: &Sqe, host: &mut dyn Host) -> Result<(), StatusCode> {
    let CreateIoCq { qid, qsize_z, interrupt, memory } = CreateIoCq::from_sqe(sqe);
    let granted = controller.settings.queues.map(|granted| granted.cqs());
    check_id(controller, qid.0, granted)?;
    if controller.queues.cq(qid.0).is_some() {
        return Err(StatusCode::InvalidQueueId);
    }
    check_size(controller, qsize_z)?;
    if controller.registers.cc.iocqes() != IOCQES_16 {
        return Err(StatusCode::InvalidQueueSize);
    }
    let vector = match interrupt {
        CqInterrupt::Disabled => None,
        CqInterrupt::Vector(vector) if vector < controller.limits.vectors => Some(vector),
        CqInterrupt::Vector(_) => return Err(StatusCode::InvalidInterruptVector),
    };
    let entries = u32::from(qsize_z) + 1;
    let memory = queue_memory(controller, memory, u64::from(entries) * 16, host)?;
    set(&mut controller.queues.cqs, qid.0, CompletionQueue::new(entries, memory, vector));
    // An I/O SQ needs an I/O CQ, so that a CQ is always the first I/O queue.
    controller.queues.io_created = true;
    Ok(())
}

fn create_sq(controller: &mut Controller, sqe: &Sqe, host: &mut dyn Host) -> Result<(), StatusCode> {
    let CreateIoSq { qid, qsize_z, cqid, priority, memory } = CreateIoSq::from_sqe(sqe);
    let granted = controller.settings.queues.map(|granted| granted.sqs());
    check_id(controller, qid.0, granted)?;
    if controller.queues.sq(qid.0).is_some() {
        return Err(StatusCode::InvalidQueueId);
    }
    check_size(controller, qsize_z)?;
    if controller.registers.cc.iosqes() != IOSQES_64 {
        return Err(StatusCode::InvalidQueueSize);
    }
    if cqid.0 == 0 || cqid.0 > controller.limits.queue_pairs {
        return Err(StatusCode::InvalidQueueId);
    }
    let cq = controller.queues.cq(cqid.0).map(|cq| cq.users).ok_or(StatusCode::CqInvalid)?;
    let entries = u32::from(qsize_z) + 1;
    let memory = queue_memory(controller, memory, u64::from(entries) * 64, host)?;
    set(&mut controller.queues.sqs, qid.0, SubmissionQueue::new(entries, memory, cqid.0, priority));
    if let Some(queue) = controller.queues.cq_mut(cqid.0) {
        queue.users = cq + 1;
    }
    Ok(())
}

/// Deletes an SQ: its commands under way are aborted and completed first, those not fetched are dropped.
fn delete_sq(controller: &mut Controller, sqe: &Sqe, host: &mut dyn Host) -> Result<(), StatusCode> {
    let qid = admin::deleted_queue(sqe).0;
    let cq = match controller.queues.sq(qid) {
        Some(queue) if qid != 0 => queue.cq,
        _ => return Err(StatusCode::InvalidQueueId),
    };
    controller.arbiter.set_idle(qid);
    for slot in controller.commands.find(|command| command.sq == qid) {
        controller.abandon(slot, Status::new(StatusCode::SqDeleted), host);
    }
    clear(&mut controller.queues.sqs, qid);
    if let Some(queue) = controller.queues.cq_mut(cq) {
        queue.users = queue.users.saturating_sub(1);
    }
    Ok(())
}

fn delete_cq(controller: &mut Controller, sqe: &Sqe, host: &mut dyn Host) -> Result<(), StatusCode> {
    let qid = admin::deleted_queue(sqe).0;
    let queue = controller.queues.cq(qid).filter(|_| qid != 0).ok_or(StatusCode::InvalidQueueId)?;
    if queue.users > 0 {
        return Err(StatusCode::InvalidQueueDeletion);
    }
    if let Some(vector) = queue.vector {
        controller.interrupts.consumed(vector, queue.posted(), host);
    }
    clear(&mut controller.queues.cqs, qid);
    Ok(())
}

/// Checks a queue's number: 0 is the admin queue; without a grant the controller's own number is the limit.
fn check_id(controller: &Controller, qid: u16, granted: Option<u32>) -> Result<(), StatusCode> {
    let own = u32::from(controller.limits.queue_pairs);
    let limit = granted.map_or(own, |granted| granted.min(own));
    if qid == 0 || u32::from(qid) > limit { Err(StatusCode::InvalidQueueId) } else { Ok(()) }
}

fn check_size(controller: &Controller, qsize_z: u16) -> Result<(), StatusCode> {
    let fits = (1..=controller.registers.cap.mqes_z()).contains(&qsize_z);
    if fits { Ok(()) } else { Err(StatusCode::InvalidQueueSize) }
}

/// Returns the queue's memory: `bytes` in one piece, or the pages of a list.
fn queue_memory(
    controller: &mut Controller,
    memory: admin::QueueMemory,
    bytes: u64,
    host: &mut dyn Host,
) -> Result<QueueMemory, StatusCode> {
    let page_bits = controller.registers.page_bits();
    let page = 1_u64 << page_bits;
    if !memory.address().is_multiple_of(page) {
        return Err(StatusCode::PrpOffset);
    }
    let list = match memory {
        admin::QueueMemory::Contiguous(address) => return Ok(QueueMemory::Contiguous(address)),
        admin::QueueMemory::Listed(_) if controller.registers.cap.cqr() => return Err(StatusCode::InvalidField),
        admin::QueueMemory::Listed(list) => list,
    };
    let pages = controller.data.list(list, bytes.div_ceil(page), page_bits, host).map_err(|refusal| {
        controller.violation(refusal.kind);
        refusal.status
    })?;
    Ok(QueueMemory::Pages { pages, page_bits })
}

fn set<Queue>(queues: &mut [Option<Queue>], id: u16, queue: Queue) {
    if let Some(place) = queues.get_mut(usize::from(id)) {
        *place = Some(queue);
    }
}

fn clear<Queue>(queues: &mut [Option<Queue>], id: u16) {
    if let Some(place) = queues.get_mut(usize::from(id)) {
        *place = None;
    }
}

impl Controller {
    /// Creates the admin queues from AQA, ASQ and ACQ.
    pub(crate) fn start_admin_queues(&mut self) {
        let aqa = self.registers.aqa;
        let (asq, acq) = (QueueMemory::Contiguous(self.registers.asq), QueueMemory::Contiguous(self.registers.acq));
        let sq = SubmissionQueue::new(u32::from(aqa.asqs_z()) + 1, asq, 0, QueuePriority::Urgent);
        set(&mut self.queues.sqs, 0, sq);
        set(&mut self.queues.cqs, 0, CompletionQueue::new(u32::from(aqa.acqs_z()) + 1, acq, Some(0)));
    }
}
