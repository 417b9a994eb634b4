//! Attacks that end the attacker, or its session.
//!
//! No report is possible after a fault. The end of the work is reported before it, and the supervisor's report of the fault
//! is the verdict. An attack that returns was not stopped, and is reported so.

use crate::attacker::{Attacker, Stuck};
use crate::capabilities::judge_call;
use crate::{floods, processor};
use blk_api::ring::{CONSUMED, PRODUCED};
use blk_client::Refusal;
use platform::{Abuse, Memory, Platform, Vaddr};
use workload::{LastAttack, attacks};

/// An address that no component has mapped: below every program.
const UNMAPPED: Vaddr = Vaddr::new(0x1000);
/// Polls for a completion that must not come.
const POLLS: u32 = 64;
/// Maximum seconds that a session may stay open after it broke the protocol.
const TIMEOUT_SECONDS: u64 = 3;

/// Whether the attack reports the end of the work before it begins.
pub(crate) const fn reports_end_itself(last: LastAttack) -> bool {
    match last {
        LastAttack::Close
        | LastAttack::TailBeyondRing
        | LastAttack::TailBackwards
        | LastAttack::HeadBeyondRing
        | LastAttack::ForbiddenInstructions => false,
        LastAttack::UnmappedRead
        | LastAttack::ReadOnlyWrite
        | LastAttack::ForeignRegisters
        | LastAttack::KeepFunction
        | LastAttack::FloodServers
        | LastAttack::ClearCspace
        | LastAttack::Panic
        | LastAttack::Silence
        | LastAttack::Flood => true,
    }
}

/// Runs the last attack.
pub(crate) async fn run<P: Abuse>(attacker: &mut Attacker<'_, P>, last: LastAttack) -> Result<(), Stuck> {
    attacker.verdicts.last_round();
    match last {
        LastAttack::Close => attacker.outlive(close).await?,
        LastAttack::TailBeyondRing | LastAttack::TailBackwards | LastAttack::HeadBeyondRing => {
            attacker.outlive(async |attacker| impossible_index(attacker, last).await).await?;
        }
        LastAttack::UnmappedRead => poke(attacker, "read unmapped memory", UNMAPPED, None),
        LastAttack::ReadOnlyWrite => {
            let ring = attacker.server_ring;
            poke(attacker, "write the completion ring", ring, Some(0xff));
        }
        LastAttack::ForeignRegisters
        | LastAttack::KeepFunction
        | LastAttack::FloodServers
        | LastAttack::ClearCspace => {
            return Err(Stuck::NoSuchEnd);
        }
        LastAttack::ForbiddenInstructions => attacker.outlive(processor::forbidden_instructions).await?,
        LastAttack::Panic => {
            attacker.verdicts.report_end();
            end_by_panic();
        }
        LastAttack::Silence => silence(attacker).await?,
        LastAttack::Flood => flood(attacker).await?,
    }
    Ok(())
}

/// Closes the session, and goes on using it.
async fn close<P: Platform>(attacker: &mut Attacker<'_, P>) -> Result<(), Stuck> {
    attacker.verdicts.begin(&attacks::CLOSE);
    let control = attacker.session.control().clone();
    let closed = control.close().await;
    attacker.check_alive()?;
    attacker.report("close while nothing is in flight", closed.is_ok(), format_args!("the session's end"));
    let again = control.close().await;
    judge_call(attacker, "close the session twice", again, Refusal::NotOpen)?;
    let asked = control.statistics().await.map(drop);
    judge_call(attacker, "ask a closed session for its counters", asked, Refusal::NotOpen)?;
    if let Ok(true) = attacker.submit(&attacker.honest()) {
        let published = attacker.session.publish();
        attacker.session.ring_doorbell();
        let answered = published.is_err() || stays_silent(attacker).await.is_err();
        attacker.check_alive()?;
        attacker.report("submit to a closed session", !answered, format_args!("nobody who reads the ring"));
    }
    Ok(())
}

/// Returns whether no successful completion comes.
async fn stays_silent<P: Platform>(attacker: &mut Attacker<'_, P>) -> Result<(), Stuck> {
    for _ in 0..POLLS {
        attacker.session.platform().yield_now().await;
        if let Some(completed) = attacker.session.complete()?
            && completed.status == 0
        {
            return Err(Stuck::UnknownCompletion);
        }
    }
    Ok(())
}

/// Writes an impossible index, with a request behind it so that the server reads it. The server must close the session.
async fn impossible_index<P: Platform>(attacker: &mut Attacker<'_, P>, last: LastAttack) -> Result<(), Stuck> {
    attacker.verdicts.begin(&attacks::RING);
    let (entries, produced) = (attacker.session.options().ring_entries, attacker.produced());
    let (name, place, index) = match last {
        LastAttack::TailBackwards => ("take the tail back", PRODUCED, produced.wrapping_sub(1)),
        // Beyond any number of requests made from here on.
        LastAttack::HeadBeyondRing => ("claim completions that never were", CONSUMED, produced.wrapping_add(1 << 30)),
        _ => ("publish a tail beyond the ring", PRODUCED, produced.wrapping_add(entries).wrapping_add(1)),
    };
    if place == CONSUMED {
        // The server checks how far completions were read when its ring seems full, so fill it.
        floods::fill(attacker)?;
    }
    attacker.ring.store_release_u32(place, index)?;
    attacker.session.ring_doorbell();
    // Requests in flight may have to complete before the server has a reason to check.
    let timeout = attacker.session.platform().ticks_per_second().saturating_mul(TIMEOUT_SECONDS);
    let end = attacker.session.platform().ticks().saturating_add(timeout);
    while attacker.session.platform().ticks() < end {
        if place == CONSUMED {
            // Ignores that the ring is full, or that nothing was read.
            let _ = floods::fill(attacker);
            attacker.ring.store_release_u32(place, index)?;
            attacker.session.ring_doorbell();
        }
        attacker.session.platform().yield_now().await;
        let asked = attacker.session.control().statistics().await;
        attacker.check_alive()?;
        if let Err(refusal @ (Refusal::Expelled | Refusal::NotOpen)) = asked {
            attacker.report(name, true, format_args!("the server closed the session: {refusal}"));
            return Ok(());
        }
    }
    attacker.report(name, false, format_args!("nothing: the session is still open"));
    Ok(())
}

/// Accesses memory without asking the platform.
fn poke<P: Abuse>(attacker: &mut Attacker<'_, P>, name: &str, vaddr: Vaddr, write: Option<u8>) {
    attacker.verdicts.begin(&attacks::MEMORY);
    attacker.verdicts.report_end();
    match attacker.session.platform().poke(vaddr, write) {
        Err(_) => attacker.report(name, true, format_args!("the platform: it does not touch what was not given")),
        Ok(_) => attacker.report(name, false, format_args!("nothing: it came back from {:#x}", vaddr.bits())),
    }
}

#[expect(
    clippy::panic,
    reason = "to panic is what was asked for: the supervisor must name the component and the place"
)]
pub(crate) fn end_by_panic() {
    panic!("the attacker ends itself");
}

/// Leaves requests in flight and never polls again.
async fn silence<P: Platform>(attacker: &mut Attacker<'_, P>) -> Result<(), Stuck> {
    floods::fill(attacker)?;
    attacker.verdicts.report_end();
    loop {
        attacker.session.platform().next_event().await;
    }
}

/// Submits without end. It reads completions only to submit more.
async fn flood<P: Platform>(attacker: &mut Attacker<'_, P>) -> Result<(), Stuck> {
    attacker.verdicts.report_end();
    loop {
        attacker.outlive(flood_once).await?;
    }
}

/// Fills the submission ring, and makes room on the completion ring.
async fn flood_once<P: Platform>(attacker: &mut Attacker<'_, P>) -> Result<(), Stuck> {
    let entry = attacker.honest();
    while attacker.submit(&entry)? {}
    attacker.session.publish()?;
    attacker.session.ring_doorbell();
    while attacker.session.complete()?.is_some() {}
    attacker.session.publish_taken()?;
    attacker.session.platform().yield_now().await;
    Ok(())
}
