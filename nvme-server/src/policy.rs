//! What the policy component calls for: records of extents installed, and removed; shares changed (`shares`).
//!
//! It is the only one with its badge, so it is believed that a session may have what it says. What it says is checked all
//! the same: that the session is there and open, and that the blocks are among those it numbers and those of its
//! namespace. It is answered at once, but where it takes rights away: then when no command of the session is in flight
//! any more that was given before. Left out: whose blocks they are, and why (`blk_api::policy`).

use crate::seat::Seat;
use crate::server::Shared;
use crate::shares;
use blk_api::policy::{CLEAR, DONE, INSTALL, READ, REMOVE, Range, Record, Refusal, SET_SHARE, Share, WRITE};
use extent_table::{InstallError, RecordError, Rights};
use platform::{CPtr, Kernel, Message, OutOfBounds, Platform};

/// What the policy component waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Waits {
    /// Commands that are in flight.
    Removal(Removal),
    /// Queue pairs that are made anew ([`Shared::requeue`]).
    Requeue,
}

/// Rights that were taken away while commands by them were in flight, perhaps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Removal {
    session: usize,
    /// When, in ticks of the clock. What is given afterwards asked the table afterwards.
    since: u64,
}

/// A call of the policy component.
pub(crate) fn on_message<P: Platform>(shared: &Shared<P>, message: &Message) {
    let removed = match message.label {
        INSTALL => {
            let done = message.payload().map_err(short).and_then(|record| install(shared, &record));
            return answer_now(shared, done);
        }
        SET_SHARE => return set_share(shared, message.payload().map_err(short)),
        REMOVE => message.payload().map_err(short).and_then(|range| remove(shared, &range)),
        CLEAR => message.payload().map_err(short).and_then(|session| clear(shared, session)),
        _ => Err(Refusal::BadRequest),
    };
    match removed {
        Ok(session) => wait_for_commands(shared, session),
        Err(refusal) => shared.platform.kernel().reply(&refusal.message()),
    }
}

fn answer_now<P: Platform>(shared: &Shared<P>, done: Result<(), Refusal>) {
    shared.platform.kernel().reply(&done.map_or_else(Refusal::message, |()| Message::new(DONE)));
}

/// A share is set at once, unless queue pairs are made anew for it.
fn set_share<P: Platform>(shared: &Shared<P>, share: Result<Share, Refusal>) {
    match share.and_then(|share| shares::set(shared, &share)) {
        Ok(None) => answer_now(shared, Ok(())),
        Ok(Some(requeue)) if keep_caller(shared) => {
            shared.waits.set(Some(Waits::Requeue));
            requeue.begin(shared);
        }
        Ok(Some(requeue)) => {
            requeue.take_back(shared);
            answer_now(shared, Err(Refusal::BadRequest));
        }
        Err(refusal) => answer_now(shared, Err(refusal)),
    }
}

/// Answers the policy component, if it still waits for this: its successor does not.
pub(crate) fn answer_requeue<P: Platform>(shared: &Shared<P>, done: Result<(), Refusal>) {
    if shared.waits.get() == Some(Waits::Requeue) {
        shared.waits.set(None);
        let answer = done.map_or_else(Refusal::message, |()| Message::new(DONE));
        shared.platform.kernel().nb_send(CPtr::new(shared.policy.index), &answer);
    }
}

const fn short(_: OutOfBounds) -> Refusal {
    Refusal::BadRequest
}

fn install<P: Platform>(shared: &Shared<P>, record: &Record) -> Result<(), Refusal> {
    let Record { session: number, rights, first, lba, blocks } = *record;
    let rights = match rights {
        0 => Rights::NONE,
        READ => Rights::READ,
        WRITE => Rights::WRITE,
        _ if rights == READ | WRITE => Rights::READ_WRITE,
        _ => return Err(Refusal::UnknownRights(rights)),
    };
    let number = u64::from(number);
    let index = index(shared, number)?;
    let seats = shared.seats.borrow();
    let open = seats.get(index).filter(|seat| !seat.closing).and_then(|seat: &Seat<P>| seat.session.as_ref());
    let session = open.ok_or(Refusal::NotOpen(number))?;
    let (has, namespace_has) = (session.limits.blocks, session.namespace_blocks);
    let beyond_session = Refusal::BeyondSession { first, blocks, has };
    let beyond_namespace = Refusal::BeyondNamespace { lba, blocks, has: namespace_has };
    let record = extent_table::Record::new(first, lba, blocks, rights).map_err(|error| match error {
        RecordError::Empty { first } => Refusal::Empty { first },
        RecordError::BeyondNumbers { .. } => beyond_session,
        RecordError::BeyondNamespace { .. } => beyond_namespace,
    })?;
    if record.end() > has {
        return Err(beyond_session);
    }
    if lba.saturating_add(blocks) > namespace_has {
        return Err(beyond_namespace);
    }
    match shared.extents.borrow_mut().install(index, record) {
        Ok(_) => Ok(()),
        Err(InstallError::NoSession(_)) => Err(Refusal::NoSession(number)),
        Err(InstallError::Contradicts(other)) => {
            let (first, lba, blocks) = (other.first(), other.lba(), other.blocks());
            Err(Refusal::Contradicts { first, lba, blocks })
        }
    }
}

fn remove<P: Platform>(shared: &Shared<P>, range: &Range) -> Result<usize, Refusal> {
    let Range { session, first, blocks } = *range;
    let index = index(shared, session)?;
    if blocks == 0 {
        return Err(Refusal::Empty { first });
    }
    shared.extents.borrow_mut().remove(index, first, blocks);
    Ok(index)
}

fn clear<P: Platform>(shared: &Shared<P>, session: u64) -> Result<usize, Refusal> {
    let index = index(shared, session)?;
    shared.extents.borrow_mut().clear(index);
    Ok(index)
}

/// The place of the session of this number.
fn index<P: Platform>(shared: &Shared<P>, session: u64) -> Result<usize, Refusal> {
    let index = usize::try_from(session).ok().filter(|index| *index < shared.config.sessions.len());
    index.ok_or(Refusal::NoSession(session))
}

/// Keeps the caller until [`answer_removal`].
fn wait_for_commands<P: Platform>(shared: &Shared<P>, session: usize) {
    if keep_caller(shared) {
        shared.waits.set(Some(Waits::Removal(Removal { session, since: shared.platform.ticks() })));
    } else {
        shared.platform.kernel().reply(&Refusal::BadRequest.message());
    }
}

/// Keeps the caller; whether it could be kept. One that was kept before is there no more: the policy component has one
/// thread, and it is here again.
fn keep_caller<P: Platform>(shared: &Shared<P>) -> bool {
    let kernel = shared.platform.kernel();
    if shared.waits.take().is_some() {
        // Nothing is there to delete when the caller was stopped while it waited.
        let _ = kernel.cnode_delete(shared.policy);
    }
    kernel.cnode_save_caller(shared.policy).is_ok()
}

/// Answers the policy component that waits, when no command in flight was given before it took the rights.
pub(crate) fn answer_removal<P: Platform>(shared: &Shared<P>) {
    let Some(Waits::Removal(Removal { session, since })) = shared.waits.get() else { return };
    let seats = shared.seats.borrow();
    let open = seats.get(session).and_then(|seat| seat.session.as_ref());
    if open.is_none_or(|session| !session.has_commands_of(&shared.queues.borrow(), since)) {
        shared.waits.set(None);
        shared.platform.kernel().nb_send(CPtr::new(shared.policy.index), &Message::new(DONE));
    }
}
