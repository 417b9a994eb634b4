//! The policy component's calls: they install and remove records of extents (`data_plane::rights`), change shares
//! (`control_plane::shares`) and the interrupt mode (`control_plane::interrupts`), and grant virtual functions
//! (`control_plane::functions`).
//!
//! No other component has its badge, so the server accepts its decisions on rights. It checks the form all the same: the
//! session is there and open, and the blocks are among those that the session numbers and those of its namespace. The policy
//! component is answered at once, because others wait for it meanwhile. If a change has to wait for commands submitted
//! before, the policy component is signalled at its end, and retries. Left out: the owners of the blocks (`blk_api::policy`).

use crate::control_plane::{functions, interrupts, shares};
use crate::link::Link;
use blk_api::policy::{Call, DONE, FunctionRight, Range, Record, Refusal, Removal, Share};
use platform::{Message, Platform};

/// The answer to a call of the policy component.
pub(crate) fn answer<P: Platform>(link: &Link<P>, message: &Message) -> Message {
    Call::decode(message).and_then(|call| carry_out(link, &call)).unwrap_or_else(Refusal::message)
}

fn carry_out<P: Platform>(link: &Link<P>, call: &Call) -> Result<Message, Refusal> {
    let removed = |removal: Removal| Message::with(DONE, &removal);
    let done = |(): ()| Message::new(DONE);
    match call {
        Call::Install(record) => link.with(|data| data.install_record(record)).map(done),
        Call::Remove(range) => link.with(|data| data.remove_records(range)).map(removed),
        Call::Clear(session) => link.with(|data| data.clear_records(*session)).map(removed),
        Call::Drained(removal) => link.with(|data| data.await_removal(removal)).map(done),
        Call::SetShare(share) => shares::set(link, share).map(done),
        Call::SetInterrupts(number) => interrupts::set(link, *number).map(done),
        Call::SetFunction(right) => functions::set(link, right).map(done),
    }
}

/// The answer of a server that was started without a controller. No session has a record or a command in flight, so a change that
/// takes rights is in force. Other changes wait for an incarnation with the controller, if this one `is_gone`; otherwise they are
/// refused.
pub(crate) fn without_controller(message: &Message, now: u64, is_gone: bool) -> Message {
    let removed = |session: u64| Message::with(DONE, &Removal { session, since: now });
    let refused = |session: u32| if is_gone { Refusal::Busy } else { Refusal::Device(session) }.message();
    match Call::decode(message) {
        Ok(Call::Install(Record { session, .. })) => Refusal::NotOpen(session.into()).message(),
        Ok(Call::Remove(Range { session, .. }) | Call::Clear(session)) => removed(session),
        Ok(Call::Drained(_)) => Message::new(DONE),
        Ok(Call::SetShare(Share { session, .. })) => refused(session),
        Ok(Call::SetFunction(FunctionRight { granted: 0, .. })) if is_gone => Message::new(DONE),
        Ok(Call::SetFunction(FunctionRight { function, .. })) => refused(function),
        Ok(Call::SetInterrupts(_)) => refused(0),
        Err(refusal) => refusal.message(),
    }
}
