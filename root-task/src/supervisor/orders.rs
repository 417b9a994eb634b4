//! Orders of the control component: stops a component as if it had faulted, suspends a client, lets it go on.
//!
//! The badge says which orders the scenario allows. A suspended client is alive: its session goes on without it, and its death would
//! end that as ever. Left out: servers and policy components are never suspended, because their callers would wait for them.

use super::Supervisor;
use crate::Services;
use crate::boot::Fault;
use capdl_spec::Role;
use control_api::supervisor::{DONE, KILL, MAY_KILL, MAY_PAUSE, PAUSE, RESUME, Refusal};
use platform::log::info;
use platform::{Badge, Kernel, Message, Platform};
use report::FaultKind;

impl<P: Platform, S: Services<P>> Supervisor<P, S> {
    /// The answer to a call with this badge.
    pub(super) fn ordered(&mut self, badge: Badge, message: &Message) -> Message {
        let components = &self.build.specification.components;
        self.orders = components.iter().find(|one| one.role == Role::Control).map(|one| one.id);
        let carried_out = self.carry_out(badge, message);
        self.orders = None;
        Message::new(carried_out.map_or_else(|refusal| refusal as u32, |()| DONE))
    }

    fn carry_out(&mut self, badge: Badge, message: &Message) -> Result<(), Refusal> {
        let right = if message.label == KILL { MAY_KILL } else { MAY_PAUSE };
        if !matches!(message.label, KILL | PAUSE | RESUME) {
            return Err(Refusal::BadRequest);
        }
        if !badge.has(right) {
            return Err(Refusal::NotAllowed);
        }
        let number: u64 = message.payload().map_err(|_| Refusal::BadRequest)?;
        let index = self.threads.iter().position(|thread| u64::from(thread.id) == number);
        let index = index.ok_or(Refusal::NoComponent)?;
        let thread = self.threads.get(index).ok_or(Refusal::NoComponent)?;
        if !thread.is_alive() {
            return Err(Refusal::Dead);
        }
        let (id, tcb, name) = (thread.id, thread.tcb, thread.name.clone());
        if message.label == KILL {
            self.end(index, &Fault { kind: FaultKind::Killed, address: 0, instruction: 0 });
            return Ok(());
        }
        let is_client = |one: &capdl_spec::Component| one.id == id && one.role == Role::Client;
        if !self.build.specification.components.iter().any(is_client) {
            return Err(Refusal::NoClient);
        }
        let kernel = self.build.platform.kernel();
        let done = if message.label == PAUSE { kernel.tcb_suspend(tcb) } else { kernel.tcb_resume(tcb) };
        info!("{} is {} by order", name.as_str(), if message.label == PAUSE { "suspended" } else { "resumed" });
        done.map_err(|_| Refusal::Kernel)
    }
}
