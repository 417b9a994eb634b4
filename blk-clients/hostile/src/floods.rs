//! Quantity: as many requests as the ring takes, many signals, unread completions. All of it is permitted. It must not
//! affect others, and the server must neither lose a request nor answer one twice.

use crate::attacker::{Attacker, Stuck};
use blk_client::{Entry, Status};
use platform::Platform;
use workload::attacks;

/// Times the ring is filled.
const FILLS: u32 = 16;
/// Number of signals without a new entry.
const SIGNALS: u32 = 2000;
/// Times that the server gets to run while completions are unread.
const POLLS: u32 = 64;

/// Runs all attacks of this module.
pub(crate) async fn run<P: Platform>(attacker: &mut Attacker<'_, P>) -> Result<(), Stuck> {
    attacker.verdicts.begin(&attacks::QUANTITY);
    requests(attacker).await?;
    signals(attacker).await;
    unread(attacker).await
}

/// Keeps the ring as full as possible.
async fn requests<P: Platform>(attacker: &mut Attacker<'_, P>) -> Result<(), Stuck> {
    let (mut answered, mut made) = (0u64, 0u64);
    for _ in 0..FILLS {
        made = made.saturating_add(fill(attacker)?);
        attacker.session.ring_doorbell();
        // A server of our own priority gets its turn here; one of higher priority had it already.
        attacker.session.platform().yield_now().await;
        answered = answered.saturating_add(take(attacker)?);
    }
    let outcome = drain(attacker, made, answered).await?;
    judge(attacker, "submit as fast as the ring allows", made, outcome);
    Ok(())
}

/// Signals the doorbell with nothing new on the ring.
async fn signals<P: Platform>(attacker: &mut Attacker<'_, P>) {
    for _ in 0..SIGNALS {
        attacker.session.ring_doorbell();
    }
    let alive = attacker.session.control().ping().await.is_ok();
    let stopped_by = if alive { "signals that only say: look" } else { "nothing: the server does not answer any more" };
    attacker.report("signal the server without end", alive, format_args!("{stopped_by}"));
}

/// Leaves completions unread until the server can take no more requests.
async fn unread<P: Platform>(attacker: &mut Attacker<'_, P>) -> Result<(), Stuck> {
    let mut made = 0u64;
    for _ in 0..POLLS {
        made = made.saturating_add(fill(attacker)?);
        attacker.session.platform().yield_now().await;
    }
    // The completion ring, the submission ring, and requests that the server may hold outside of both.
    let most = u64::from(attacker.session.options().ring_entries).saturating_mul(2);
    let held_back = made <= most;
    if !held_back {
        attacker.report("leave completions unread", false, format_args!("nothing: {made} requests were taken"));
    }
    let outcome = drain(attacker, made, 0).await?;
    if held_back {
        judge(attacker, "leave completions unread", made, outcome);
    }
    Ok(())
}

/// Submits honest reads until the ring is full. Returns their number.
pub(crate) fn fill<P: Platform>(attacker: &mut Attacker<'_, P>) -> Result<u64, Stuck> {
    let mut made = 0u64;
    let entry = Entry { user_data: u64::MAX, ..attacker.honest() };
    while attacker.submit(&entry)? {
        made = made.saturating_add(1);
    }
    attacker.session.publish()?;
    Ok(made)
}

/// Takes the completions on the ring. Returns their number.
fn take<P: Platform>(attacker: &mut Attacker<'_, P>) -> Result<u64, Stuck> {
    let mut taken = 0u64;
    while let Some(completed) = attacker.session.complete()? {
        if completed.user_data != u64::MAX {
            return Err(Stuck::UnknownCompletion);
        }
        if completed.status != Status::Success as u16 {
            return Err(Stuck::Honest(completed.status));
        }
        taken = taken.saturating_add(1);
    }
    attacker.session.publish_taken()?;
    Ok(taken)
}

/// Waits until `made` requests are answered, of which `answered` are already. Returns the final number of answers.
async fn drain<P: Platform>(attacker: &mut Attacker<'_, P>, made: u64, mut answered: u64) -> Result<u64, Stuck> {
    while answered < made {
        attacker.wait().await?;
        answered = answered.saturating_add(take(attacker)?);
    }
    // One more poll, to catch an excess answer.
    attacker.session.platform().yield_now().await;
    Ok(answered.saturating_add(take(attacker)?))
}

fn judge<P: Platform>(attacker: &mut Attacker<'_, P>, name: &str, made: u64, answered: u64) {
    if answered == made {
        attacker.report(name, true, format_args!("the ring's own size: {made} requests, each answered once"));
    } else {
        attacker.report(name, false, format_args!("nothing: {made} requests, {answered} answers"));
    }
}
