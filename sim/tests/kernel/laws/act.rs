//! Execution of each step.

use super::step::{KINDS, Step, rights};
use super::world::{BUFFER, GUARD, World};
use crate::machine::CNODE_BITS;
use platform::*;
use sim_kernel::{Capability, Fault, Level, ThreadId};

impl World {
    /// Does a step, and checks its law.
    pub(super) fn act(&mut self, actor: ThreadId, step: &Step) -> Result<()> {
        match *step {
            Step::Retype { from, kind, bits, to, count } => self.retype(actor, from, (KINDS[kind], bits), (to, count)),
            Step::Copy { to, from, rights: mask } => self.copy(actor, (to, from), rights(mask), None),
            Step::Mint { to, from, rights: mask, data } => self.mint(actor, (to, from), rights(mask), data),
            Step::Revoke(slot) => self.revoke(actor, slot),
            Step::Unmap(slot) => self.unmap(actor, slot),
            Step::Delete(slot) => self.delete(actor, slot),
            Step::Move { .. } | Step::SaveCaller(_) | Step::MakePool { .. } | Step::Handler { .. } => {
                self.fill_slot(actor, step)
            }
            Step::Configure { .. }
            | Step::Registers { .. }
            | Step::Resume(_)
            | Step::Suspend(_)
            | Step::Bind { .. } => self.control(actor, step),
            Step::Assign { .. } | Step::Install { .. } | Step::Map { .. } => self.map(actor, step),
            Step::InstallIo { .. } | Step::UninstallIo(_) | Step::MapIo { .. } => self.map_io(actor, step),
            Step::Ack(_) | Step::Notify { .. } | Step::Clear(_) => self.handle(actor, step),
            _ => {
                self.communicate(actor, step);
                Ok(())
            }
        }
    }

    fn fill_slot(&mut self, actor: ThreadId, step: &Step) -> Result<()> {
        let (control, irq_control) = (self.machine.root.asid_control, self.machine.root.irq_control);
        let dest = |to| self.machine.at(self.empty(to));
        match *step {
            Step::Move { to, from } => {
                let (to, from) = (dest(to), self.machine.at(self.taken(from)));
                self.machine.kernel.cnode_move(actor, to, from)
            }
            Step::SaveCaller(to) => {
                let to = dest(to);
                self.machine.kernel.cnode_save_caller(actor, to)
            }
            Step::MakePool { untyped, to } => {
                let page = |cap: &Capability| matches!(cap, Capability::Untyped { size_bits: 12, .. });
                let (to, untyped) = (dest(to), self.pick(untyped, page).cast());
                self.machine.kernel.asid_control_make_pool(actor, control, untyped, to)
            }
            Step::Handler { to, irq, pin: Some(pin) } => {
                let to = dest(to);
                let kernel = &mut self.machine.kernel;
                kernel.irq_control_get(
                    actor,
                    irq_control,
                    to,
                    IrqSource::Line { line: pin, trigger: Trigger::LevelLow },
                    irq,
                )
            }
            Step::Handler { to, irq, pin: None } => {
                let to = dest(to);
                self.machine.kernel.irq_control_get(
                    actor,
                    irq_control,
                    to,
                    IrqSource::Message { requester_id: 0x10 },
                    irq,
                )
            }
            _ => Ok(()),
        }
    }

    fn control(&mut self, actor: ThreadId, step: &Step) -> Result<()> {
        let (Step::Configure { tcb, .. }
        | Step::Registers { tcb, .. }
        | Step::Resume(tcb)
        | Step::Suspend(tcb)
        | Step::Bind { tcb, .. }) = *step
        else {
            return Ok(());
        };
        let target = self.thread(tcb);
        if self.is_trap(actor, target) {
            return Err(Error::InvalidCapability(0));
        }
        let tcb = target.cast();
        match *step {
            Step::Configure { priority, cnode, vspace, frame, .. } => {
                let is_cnode = |cap: &Capability| matches!(cap, Capability::CNode { radix: CNODE_BITS, .. });
                let (cnode, vspace) = (self.pick(cnode, is_cnode).cast(), self.vspace(vspace).cast());
                let (frame, faults) = (self.frame(frame, false).cast(), self.endpoint(priority));
                let kernel = &mut self.machine.kernel;
                kernel.tcb_configure(actor, tcb, faults, priority, cnode, GUARD, vspace, BUFFER, frame)
            }
            Step::Registers { resume, .. } => {
                let resume = if resume { Resume::Now } else { Resume::Later };
                self.machine.kernel.tcb_write_registers(actor, tcb, resume, &UserContext::default())
            }
            Step::Resume(_) => self.machine.kernel.tcb_resume(actor, tcb),
            Step::Suspend(_) => self.machine.kernel.tcb_suspend(actor, tcb),
            Step::Bind { notification, .. } => {
                let notification = self.notification(notification).cast();
                self.machine.kernel.tcb_bind_notification(actor, tcb, notification)
            }
            _ => Ok(()),
        }
    }

    fn map(&mut self, actor: ThreadId, step: &Step) -> Result<()> {
        let target = match *step {
            Step::Assign { pool, .. } => self.pick(pool, |cap| matches!(cap, Capability::AsidPool { .. })),
            Step::Install { level, table, .. } => self.table(table, level),
            Step::Map { frame, .. } => self.frame(frame, false),
            _ => return Ok(()),
        };
        if self.is_trap(actor, target) {
            return Err(Error::InvalidCapability(0));
        }
        match *step {
            Step::Assign { vspace, .. } => {
                let vspace = self.pick(vspace, |cap| matches!(cap, Capability::VSpace { asid: 0, .. })).cast();
                self.machine.kernel.asid_pool_assign(actor, target.cast(), vspace)
            }
            Step::Install { level, vspace, page, .. } => {
                let (vspace, vaddr) = (self.vspace(vspace).cast(), Vaddr::new(address(page)));
                let level = TableLevel::ALL[usize::from(level)];
                self.machine.kernel.translation_table_map(actor, target.cast(), level, vspace, vaddr)
            }
            Step::Map { vspace, page, rights: mask, .. } => {
                let (vspace, vaddr) = (self.vspace(vspace).cast(), Vaddr::new(address(page)));
                let (attributes, kernel) = (CacheAttributes::WriteBack, &mut self.machine.kernel);
                kernel.frame_map(actor, target.cast(), vspace, vaddr, rights(mask), attributes)
            }
            _ => Ok(()),
        }
    }

    fn map_io(&mut self, actor: ThreadId, step: &Step) -> Result<()> {
        let is_table = |placed: bool| {
            move |cap: &Capability| match cap {
                Capability::IoTable { place, .. } => place.is_some() == placed,
                _ => false,
            }
        };
        let target = match *step {
            Step::InstallIo { table, .. } => self.pick(table, is_table(false)),
            Step::UninstallIo(table) => self.pick(table, is_table(true)),
            Step::MapIo { frame, .. } => self.frame(frame, false),
            _ => return Ok(()),
        };
        if self.is_trap(actor, target) {
            return Err(Error::InvalidCapability(0));
        }
        match *step {
            Step::InstallIo { space, page, .. } => {
                let (space, iova) = (self.io_space(space).cast(), Iova::new(address(page)));
                self.machine.kernel.io_page_table_map(actor, target.cast(), space, iova)
            }
            Step::MapIo { space, page, rights: mask, .. } => {
                let (space, iova) = (self.io_space(space).cast(), Iova::new(address(page)));
                self.machine.kernel.frame_map_io(actor, target.cast(), space, rights(mask), iova)
            }
            _ => self.machine.kernel.io_page_table_unmap(actor, target.cast()),
        }
    }

    fn handle(&mut self, actor: ThreadId, step: &Step) -> Result<()> {
        let (Step::Ack(handler) | Step::Notify { handler, .. } | Step::Clear(handler)) = *step else { return Ok(()) };
        let target = self.handler(handler);
        if self.is_trap(actor, target) {
            return Err(Error::InvalidCapability(0));
        }
        match *step {
            Step::Notify { notification, .. } => {
                let notification = self.notification(notification).cast();
                self.machine.kernel.irq_handler_set_notification(actor, target.cast(), notification)
            }
            Step::Ack(_) => self.machine.kernel.irq_handler_ack(actor, target.cast()),
            _ => self.machine.kernel.irq_handler_clear(actor, target.cast()),
        }
    }

    /// The root task never waits: it must let the others run.
    fn communicate(&mut self, actor: ThreadId, step: &Step) {
        let may_wait = actor != self.machine.me;
        let message = |cap: Option<u8>| {
            let mut message = Message::from_words(1, &[1, 2, 3, 4, 5]);
            message.cap = cap.map(|cap| self.taken(cap));
            message
        };
        let to = |choice: u8| if choice.is_multiple_of(4) { self.taken(choice) } else { self.endpoint(choice) };
        let from =
            |choice: u8| if choice.is_multiple_of(3) { self.notification(choice) } else { self.endpoint(choice) };
        match *step {
            Step::Signal(slot) => {
                let notification = self.notification(slot);
                if !self.is_trap(actor, notification) {
                    self.machine.kernel.signal(actor, notification.cast());
                }
            }
            Step::Send { to: choice, cap, waits } => {
                let (to, message) = (to(choice), message(cap));
                match waits && may_wait {
                    true => self.machine.kernel.send(actor, to, &message),
                    false => self.machine.kernel.nb_send(actor, to, &message),
                }
            }
            Step::Call { to: choice, cap } if may_wait => {
                let (to, message) = (to(choice), message(cap));
                self.machine.kernel.call(actor, to, &message);
            }
            Step::Reply { cap } => {
                let message = message(cap);
                self.machine.kernel.reply(actor, &message);
            }
            Step::Receive { from: choice, waits } => self.receive(actor, from(choice), waits && may_wait),
            Step::ReplyReceive { from: choice } if may_wait => {
                let (from, message) = (from(choice), message(None));
                self.machine.kernel.reply_receive(actor, &message, from);
            }
            Step::ReceiveSlot(slot) => {
                let slot = self.machine.at(self.empty(slot));
                self.machine.kernel.set_receive_cptr(actor, Some(slot));
            }
            Step::Fault(number) if may_wait => self.machine.kernel.fault(actor, Fault::Exception(number.into())),
            _ => self.advance(actor, step),
        }
    }

    fn receive(&mut self, actor: ThreadId, from: CPtr, waits: bool) {
        // Receiving from another kind of capability is a fault, which stops the root task.
        let is_safe = match self.held(from) {
            Some(Capability::Endpoint { rights, .. }) => rights.read,
            _ => false,
        };
        match waits {
            true => self.machine.kernel.receive(actor, from),
            false if is_safe || actor != self.machine.me => self.machine.kernel.nb_receive(actor, from),
            false => {}
        }
    }

    /// Time and devices.
    fn advance(&mut self, actor: ThreadId, step: &Step) {
        let kernel = &mut self.machine.kernel;
        match *step {
            Step::Rotate => kernel.rotate(actor),
            Step::Tick => kernel.timer_tick(),
            Step::Message(irq) => {
                let (address, data) = kernel.msi_message(irq);
                kernel.message_interrupt(address, data);
            }
            Step::Pin { pin, level: true } => kernel.line_interrupt(pin, Level::Asserted),
            Step::Pin { pin, level: false } => kernel.line_interrupt(pin, Level::Deasserted),
            _ => {}
        }
    }
}

/// An address of a few in two neighbouring page tables.
fn address(page: u8) -> u64 {
    u64::from(page % 8) << 12 | u64::from(page >> 7) << 21
}
