//! The control plane's part in the administration of the controller by another component: it submits commands that passed the door,
//! ends what they take from tenants first, and carries out resets.
//!
//! A command with which a namespace goes, or its data do, is submitted after that namespace's sessions have ended: they take no more
//! entries, their commands in flight complete, and their windows go. When it has completed, the namespaces are read again. A reset waits
//! until nothing is in flight, as far as that takes a second at most; requests wait on their rings meanwhile. Neighbours: `slots` has
//! the commands, and `allow_list` those that may pass.

mod allow_list;
mod slots;

pub(crate) use slots::{Administration, accept, accept_reset, overdue, poll};

use super::ControlPlane;
use crate::control_plane::reconcile::is_refused;
use crate::control_plane::remove::wait_until_idle;
use crate::data_plane::phase::Loss;
use crate::jobs::Job;
use crate::link::Link;
use allow_list::Effect;
use blk_api::administration::{Completion, Ended, Queue, ResetKind};
use nvme_driver::Health;
use nvme_driver::fault::DeviceFault;
use nvme_driver::inquiry;
use nvme_driver::queue_pair::QueuePair;
use nvme_spec::admin::{CqInterrupt, CreateIoCq, CreateIoSq, Opcode, QueueMemory, QueuePriority, delete_io_cq};
use nvme_spec::{DataPointer, Nsid, QueueId};
use platform::Platform;
use platform::log::{info, warn};
use slots::{Checked, ENTRIES, Request, State, Work};

/// FNA of Identify Controller: a format, or an erasure with one, is of all namespaces.
const FORMATS_ALL: u8 = 0b11;

impl<P: Platform> ControlPlane<'_, P> {
    /// Does what the asker's commands need now.
    pub(super) async fn administer(&mut self) {
        let link = self.link;
        let Some(administration) = &link.administration else { return };
        while let Some((place, work)) = administration.next_work() {
            let kernel = link.platform.kernel();
            let not_submitted = |token| Completion::without_status(token, Ended::NotSubmitted);
            match work {
                Work::Begin(Request::Command(checked)) => {
                    if let Err(fault) = self.submit(administration, place, &checked).await {
                        administration.end(kernel, place, not_submitted);
                        if !is_refused(fault) {
                            link.fail(fault);
                        }
                    }
                }
                Work::Begin(Request::Reset(kind)) => {
                    let ended = self.reset(kind).await;
                    administration.end(kernel, place, |token| Completion::without_status(token, ended));
                }
                Work::Conclude(checked, completion) => {
                    self.conclude(&checked, &completion).await;
                    administration.end(kernel, place, |_| completion);
                }
            }
        }
    }

    /// Submits a command, after the sessions of namespaces that go with it have ended.
    async fn submit(
        &mut self,
        administration: &Administration<P>,
        place: usize,
        checked: &Checked,
    ) -> Result<(), DeviceFault> {
        let link = self.link;
        if self.is_of_all(checked).await? {
            administration.set_effect(place, Effect::Replaces(Nsid::ALL));
            self.end_sessions_of(Nsid::ALL).await;
        } else if let Some(nsid) = checked.effect.ended() {
            self.end_sessions_of(nsid).await;
        }
        if checked.queue == Queue::Io && !administration.state.borrow().has_io {
            self.create_io(administration).await?;
        }
        if link.controller.health.get() != Health::Up {
            return Err(DeviceFault::NotReady);
        }
        let mut state = administration.state.borrow_mut();
        let State { lists, io, last, .. } = &mut *state;
        let data = if checked.bytes == 0 {
            DataPointer::NONE
        } else {
            let start = administration.window.iova.checked_add(checked.offset).ok_or(DeviceFault::OwnMemory)?;
            lists.build(place as u16, start, checked.bytes)?
        };
        let mut sqe = checked.sqe;
        (sqe.prp1, sqe.prp2) = (data.prp1, data.prp2);
        let cid = match checked.queue {
            Queue::Admin => link.controller.admin.submit_other(&sqe)?,
            Queue::Io => {
                *last = last.next();
                let pair = io.as_mut().ok_or(DeviceFault::OwnMemory)?;
                pair.submit(&sqe.with_cid(*last));
                pair.ring()?;
                *last
            }
        };
        drop(state);
        administration.submitted(place, cid, slots::deadline(link, checked));
        Ok(())
    }

    /// Whether a command that names a namespace is about all of them.
    ///
    /// # Errors
    /// [`DeviceFault::Refused`] if a virtual function has one of them.
    async fn is_of_all(&self, checked: &Checked) -> Result<bool, DeviceFault> {
        if checked.sqe.opcode() != Opcode::FormatNvm as u8 {
            return Ok(false);
        }
        let about = inquiry::describe(&mut &*self.link.controller).await?;
        let is_of_all = about.fna & FORMATS_ALL != 0;
        if is_of_all && !self.link.config.functions.is_empty() {
            return Err(DeviceFault::Refused(nvme_spec::Status::new(nvme_spec::StatusCode::InvalidNamespaceOrFormat)));
        }
        Ok(is_of_all)
    }

    /// Ends the sessions of a namespace, or all of them, before it goes.
    async fn end_sessions_of(&mut self, nsid: Nsid) {
        let is_of = |of: Nsid| nsid == Nsid::ALL || nsid == of;
        if let Some(identity) = &mut self.identity {
            identity.namespaces.retain(|namespace| !is_of(namespace.nsid));
        }
        self.show_namespaces();
        let taken = self.link.with(|data| {
            let of = data.sessions().filter(|(_, session)| is_of(Nsid(session.config.nsid)));
            of.map(|(index, _)| (index, Loss::Taken)).collect()
        });
        self.end_sessions(taken).await;
    }

    /// Creates the I/O queue pair after those of sessions. It interrupts by the admin queue's vector.
    async fn create_io(&mut self, administration: &Administration<P>) -> Result<(), DeviceFault> {
        let controller = &*self.link.controller;
        let qid = QueueId(self.link.config.queue_pairs().saturating_add(1));
        let (sq, cq) = {
            let mut state = administration.state.borrow_mut();
            if let Some(rings) = state.rings.take() {
                let (registers, doorbells) = (controller.registers.registers(), controller.registers.cap().doorbells());
                state.io = Some(QueuePair::new(qid, ENTRIES, rings, registers, doorbells)?);
            }
            let pair = state.io.as_mut().ok_or(DeviceFault::OwnMemory)?;
            pair.reset()?;
            (pair.sq.iova, pair.cq.iova)
        };
        let qsize_z = ENTRIES.saturating_sub(1);
        let memory = QueueMemory::Contiguous(cq.bits());
        let cq = CreateIoCq { qid, qsize_z, interrupt: CqInterrupt::Vector(0), memory };
        controller.execute(|cid| cq.sqe(cid)).await?;
        let memory = QueueMemory::Contiguous(sq.bits());
        let sq = CreateIoSq { qid, qsize_z, cqid: qid, priority: QueuePriority::Low, memory };
        if let Err(fault) = controller.execute(|cid| sq.sqe(cid)).await {
            if is_refused(fault) {
                controller.execute(|cid| delete_io_cq(cid, qid)).await?;
            }
            return Err(fault);
        }
        administration.state.borrow_mut().has_io = true;
        Ok(())
    }

    /// Looks at the consequences of a command that has completed, if it may have changed namespaces.
    async fn conclude(&mut self, checked: &Checked, completion: &Completion) {
        let is_done = completion.status == 0;
        match checked.effect {
            // A namespace of a new number may be another one than the server had before.
            Effect::Adds if is_done && checked.sqe.opcode() == Opcode::NamespaceManagement as u8 => {
                self.first_seen.forget(Nsid(completion.result as u32));
            }
            Effect::Replaces(nsid) if is_done => self.first_seen.forget(nsid),
            _ => {}
        }
        if self.link.controller.health.get() == Health::Up
            && let Err(fault) = self.look_again().await
        {
            self.link.fail(fault);
        }
    }

    /// Resets the controller, or its subsystem, when nothing is in flight. A controller that does not get there is reset all the same.
    async fn reset(&mut self, kind: ResetKind) -> Ended {
        let link = self.link;
        if link.controller.health.get() != Health::Up {
            return Ended::NotSubmitted;
        }
        info!("the controller is reset on request");
        wait_until_idle(link).await;
        let is_idle = link.controller.health.get() == Health::Up && link.with(|data| data.is_idle());
        link.controller.health.set(Health::Down);
        let reset = match kind {
            ResetKind::Controller => Ok(()),
            ResetKind::Subsystem => link.controller.reset_subsystem().await,
        };
        match reset {
            Ok(()) if is_idle => self.bring_up_again().await,
            Ok(()) => self.recover().await,
            Err(fault) => {
                warn!("the subsystem does not come back by itself");
                link.count(fault);
                self.recover().await;
            }
        }
        link.with(|data| data.go_on());
        if link.controller.health.get() == Health::Up { Ended::Completed } else { Ended::NotSubmitted }
    }

    /// Ends the commands of the asker that the controller had, after its confirmed reset. They may have been executed.
    pub(super) fn end_administration(&mut self) {
        let link = self.link;
        let Some(administration) = &link.administration else { return };
        let effects = administration.end_all(link.platform.kernel());
        for effect in &effects {
            if let Effect::Replaces(nsid) = effect {
                self.first_seen.forget(*nsid);
            }
        }
        if !effects.is_empty() && link.changes.interrupts.get().is_some() {
            // Another interrupt mode waits for them no longer.
            link.jobs.pass(Job::ChangeInterrupts);
        }
    }

    /// Shows the administration which namespaces are served.
    pub(super) fn show_namespaces(&self) {
        if let Some(administration) = &self.link.administration {
            let namespaces = self.identity.as_ref().map(|identity| identity.namespaces.as_slice());
            administration.set_namespaces(namespaces.unwrap_or_default());
        }
    }
}

/// Ends the commands of the asker without a reset, when the controller is given up, and takes the window from it.
pub(super) fn end_without_reset<P: Platform>(link: &Link<P>) {
    if let Some(administration) = &link.administration {
        let window = administration.window;
        link.controller.space.borrow().unmap_pages(&window, 0..window.pages);
        administration.end_all(link.platform.kernel());
    }
}
