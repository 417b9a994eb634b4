//! The policy component's calls: they install and remove records of extents, change shares (`shares`) and the interrupt mode
//! (`interrupts_change`), and grant virtual functions (`functions`).
//!
//! No other component has its badge, so the server accepts its decisions on rights. It checks the form all the same: the
//! session is there and open, and the blocks are among those that the session numbers and those of its namespace. The policy
//! component is answered at once, because others wait for it meanwhile. If a change has to wait for commands submitted
//! before, the policy component is signalled at its end, and retries. Left out: the owners of the blocks (`blk_api::policy`).

use crate::control_path::{functions, interrupts_change};
use crate::sessions::shares;
use crate::shared::Shared;
use blk_api::policy::{
    CLEAR, DONE, DRAINED, FunctionRight, INSTALL, READ, REMOVE, Range, Record, Refusal, Removal, SET_FUNCTION,
    SET_INTERRUPTS, SET_SHARE, Share, WRITE,
};
use extent_table::{InstallError, RecordError, Rights};
use nvme_driver::controller::Health;
use platform::{Kernel, Message, OutOfBounds, Platform};

/// Handles a call of the policy component.
pub(crate) fn on_message<P: Platform>(shared: &Shared<P>, message: &Message) {
    let removed = |removal: Removal| Message::with(DONE, &removal);
    let answer = match message.label {
        INSTALL => message.payload().map_err(short).and_then(|record| install(shared, &record)).map(done),
        REMOVE => message.payload().map_err(short).and_then(|range| remove(shared, &range)).map(removed),
        CLEAR => message.payload().map_err(short).and_then(|session| clear(shared, session)).map(removed),
        DRAINED => message.payload().map_err(short).and_then(|removal| drained(shared, removal)).map(done),
        SET_SHARE => message.payload().map_err(short).and_then(|share| set_share(shared, &share)).map(done),
        SET_INTERRUPTS => {
            message.payload().map_err(short).and_then(|number| interrupts_change::set(shared, number)).map(done)
        }
        SET_FUNCTION => message.payload().map_err(short).and_then(|right| functions::set(shared, &right)).map(done),
        _ => Err(Refusal::BadRequest),
    };
    shared.platform.kernel().reply(&answer.unwrap_or_else(Refusal::message));
}

/// The answer of a server that was started without a controller. No session has a record or a command in flight, so a change that
/// takes rights is in force. Other changes wait for an incarnation with the controller, if this one `is_gone`; otherwise they are
/// refused.
pub(crate) fn without_controller(message: &Message, now: u64, is_gone: bool) -> Message {
    let removed = |session: u64| Message::with(DONE, &Removal { session, since: now });
    let refused = |session: u32| if is_gone { Refusal::Busy } else { Refusal::Device(session) };
    let answer = match message.label {
        INSTALL => message.payload::<Record>().map(|record| Refusal::NotOpen(record.session.into()).message()),
        REMOVE => message.payload::<Range>().map(|range| removed(range.session)),
        CLEAR => message.payload().map(removed),
        DRAINED => message.payload::<Removal>().map(|_| Message::new(DONE)),
        SET_SHARE => message.payload::<Share>().map(|share| refused(share.session).message()),
        SET_FUNCTION => message.payload().map(|right: FunctionRight| match right.granted {
            0 if is_gone => Message::new(DONE),
            _ => refused(right.function).message(),
        }),
        SET_INTERRUPTS => Ok(refused(0).message()),
        _ => Ok(Refusal::BadRequest.message()),
    };
    answer.unwrap_or_else(|error| short(error).message())
}

const fn done((): ()) -> Message {
    Message::new(DONE)
}

const fn short(_: OutOfBounds) -> Refusal {
    Refusal::BadRequest
}

/// Sets a share at once, unless queue pairs are reconfigured for it. Without a controller that was removed, it waits for an
/// incarnation that has it.
fn set_share<P: Platform>(shared: &Shared<P>, share: &Share) -> Result<(), Refusal> {
    if shared.controller.health.get() == Health::Gone {
        return Err(Refusal::Busy);
    }
    if let Some((_, why)) = shared.changes.reconfiguration_refused.take().filter(|(refused, _)| refused == share) {
        return Err(why);
    }
    let Some(reconfiguration) = shares::set(shared, share)? else { return Ok(()) };
    reconfiguration.begin(shared);
    Err(Refusal::Busy)
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
    let mut slots = shared.slots.borrow_mut();
    let slot = slots.get_mut(index).ok_or(Refusal::NotOpen(number))?;
    let session = slot.phase.serving_mut().ok_or(Refusal::NotOpen(number))?;
    let (has, namespace_has) = (session.bounds.blocks, session.namespace_blocks);
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
        Ok(_) => {
            if session.refill_refusals() {
                slot.poll_too();
            }
            Ok(())
        }
        Err(InstallError::NoSession(_)) => Err(Refusal::NoSession(number)),
        Err(InstallError::Contradicts(other)) => {
            let (first, lba, blocks) = (other.first(), other.lba(), other.blocks());
            Err(Refusal::Contradicts { first, lba, blocks })
        }
    }
}

fn remove<P: Platform>(shared: &Shared<P>, range: &Range) -> Result<Removal, Refusal> {
    let Range { session, first, blocks } = *range;
    let index = index(shared, session)?;
    if blocks == 0 {
        return Err(Refusal::Empty { first });
    }
    shared.extents.borrow_mut().remove(index, first, blocks);
    Ok(Removal { session, since: shared.platform.ticks() })
}

fn clear<P: Platform>(shared: &Shared<P>, session: u64) -> Result<Removal, Refusal> {
    let index = index(shared, session)?;
    shared.extents.borrow_mut().clear(index);
    Ok(Removal { session, since: shared.platform.ticks() })
}

/// The place of the session of this number.
fn index<P: Platform>(shared: &Shared<P>, session: u64) -> Result<usize, Refusal> {
    let index = usize::try_from(session).ok().filter(|index| *index < shared.config.sessions.len());
    index.ok_or(Refusal::NoSession(session))
}

/// Whether a removal's blocks are out of reach; otherwise the policy component is notified when they are.
fn drained<P: Platform>(shared: &Shared<P>, removal: Removal) -> Result<(), Refusal> {
    if is_drained(shared, &removal)? {
        return Ok(());
    }
    let mut awaited = shared.changes.removals.borrow_mut();
    // One per session is enough, because the policy component retries all of its calls.
    awaited.retain(|other| other.session != removal.session);
    awaited.push(removal);
    Err(Refusal::Busy)
}

/// Whether no command of the session is in flight that was submitted before the removal.
fn is_drained<P: Platform>(shared: &Shared<P>, &Removal { session, since }: &Removal) -> Result<bool, Refusal> {
    let (index, slots) = (index(shared, session)?, shared.slots.borrow());
    let open = slots.get(index).and_then(|slot| slot.phase.session());
    Ok(open.is_none_or(|session| !session.has_commands_of(&shared.queues.borrow(), since)))
}

/// Notifies the policy component if a removal that it asked for is drained.
#[inline]
pub(crate) fn notify_drained<P: Platform>(shared: &Shared<P>) {
    if !shared.changes.removals.borrow().is_empty() {
        notify_if_drained(shared);
    }
}

#[cold]
fn notify_if_drained<P: Platform>(shared: &Shared<P>) {
    let mut awaited = shared.changes.removals.borrow_mut();
    let before = awaited.len();
    awaited.retain(|removal| is_drained(shared, removal) == Ok(false));
    if awaited.len() < before {
        shared.notify_policy();
    }
}
