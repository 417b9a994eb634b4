//! The calls of the component that administers the controller (`blk_api::administration`).
//!
//! Its badge has its rights. A command is checked here and submitted by the control plane, so that a call is answered at once: but
//! for one that is waited for, whose caller is kept. Refusals are counted. Left out: the checks (`control_plane::administration`).

use crate::control_plane::administration::{accept, accept_reset};
use crate::link::Link;
use blk_api::administration::{Call, DONE, Refusal, Registers, Right, Rights};
use platform::log::warn;
use platform::{Message, Mmio, Platform};
use report::clip;

/// The answer to a call of an asker with these rights; `None` if the caller is kept.
pub(crate) fn answer<P: Platform>(link: &Link<P>, rights: Rights, message: &Message) -> Option<Message> {
    let Some(administration) = &link.administration else { return Some(Refusal::BadRequest.message()) };
    let rights = rights.and(administration.rights);
    let done = |()| Some(Message::new(DONE));
    let answer = Call::decode(message).and_then(|call| match call {
        Call::Submit(command) => accept(link, administration, rights, &command, false).map(done),
        Call::Execute(command) => accept(link, administration, rights, &command, true).map(|()| None),
        Call::Reset(reset) => accept_reset(link, administration, rights, &reset).map(done),
        Call::Collect => match administration.collect() {
            Some(completion) => Ok(Some(Message::with(DONE, &completion))),
            None => Err(Refusal::Nothing),
        },
        Call::Registers => registers(link, rights).map(|registers| Some(Message::with(DONE, &registers))),
        Call::Counts => Ok(Some(Message::with(DONE, &administration.counts()))),
    });
    answer.unwrap_or_else(|refusal| {
        if refusal != Refusal::Nothing {
            administration.refuse();
            warn!("administration is refused: {}", clip::<96>(&alloc::format!("{refusal}")).as_str());
        }
        Some(refusal.message())
    })
}

fn registers<P: Platform>(link: &Link<P>, rights: Rights) -> Result<Registers, Refusal> {
    if !rights.has(Right::Inspect) {
        return Err(Refusal::NoRight(Right::Inspect));
    }
    if link.controller.health.get().is_over() {
        return Err(Refusal::Device);
    }
    let (registers, mut values) = (link.controller.registers.registers(), [0; 28]);
    for (offset, value) in (0..).step_by(4).zip(&mut values) {
        *value = registers.read32(offset).map_err(|_| Refusal::Device)?;
    }
    Ok(Registers(values))
}
