//! Capabilities that it does not hold, and misuse of those that it holds.

use crate::attacker::{Attacker, Stuck};
use crate::verdicts::{Verdicts, sentence};
use blk_api::names;
use blk_api::policy;
use blk_api::session;
use blk_client::Refusal;
use platform::{
    AbsoluteCPtr, Badge, Cap, Endpoint, Environment, Error, Event, Kernel, Message, Notification, ObjectType, Platform,
    Rights,
};
use workload::attacks;

/// Maximum number of cptrs tried.
const CPTRS: u64 = 4096;
/// The fault endpoint's cptr: a call there waits for the supervisor, which would take it for a fault and end this
/// component.
const FAULT_ENDPOINT: u64 = 1;
/// Labels of no call of the server.
const LABELS: [u32; 5] = [0, 5, 99, 0xffff, 0xf_ffff];

/// Runs all attacks of this module.
pub(crate) async fn run<P: Platform>(attacker: &mut Attacker<'_, P>, environment: &Environment) -> Result<(), Stuck> {
    attacker.verdicts.begin(&attacks::CAPABILITIES);
    let kernel = attacker.session.platform().kernel().clone();
    empty_cptrs(&mut attacker.verdicts, &kernel, environment);
    own_notification(attacker, environment);
    unknown_calls(attacker).await?;
    policys_calls(attacker).await?;
    foreign_records(attacker, environment).await;
    sent_capabilities(attacker, environment).await
}

/// Whether `cptr` has a capability from the environment, or is there for one from a server.
fn is_given(environment: &Environment, cptr: u64) -> bool {
    let within = |first: u64, count: u64| cptr.checked_sub(first).is_some_and(|index| index < count);
    cptr == FAULT_ENDPOINT
        || environment.free_cptrs.contains(&cptr)
        || environment.receive_cptr.is_some_and(|own| own.bits() == cptr)
        || environment.cnode.is_some_and(|cnode| cnode.bits() == cptr)
        || environment.caps.iter().any(|run| within(run.first.bits(), u64::from(run.count)))
}

/// A way to use the capability at a cptr. The refusal differs between an empty cptr and a capability of another type.
type Way<K> = fn(&K, u64) -> platform::Result<()>;

/// Tries every cptr of the CSpace without a given capability, in every way that would have an effect if there were one.
pub(crate) fn empty_cptrs<P: Platform>(verdicts: &mut Verdicts<'_, P>, kernel: &P::Kernel, environment: &Environment) {
    // Beyond its CSpace a lookup is a fault, and faults belong to the last attack.
    let cptrs = 1u64.checked_shl(u32::from(environment.cnode_bits)).unwrap_or(CPTRS).min(CPTRS);
    let ways: [(&str, Way<P::Kernel>); 7] = [
        ("frames at cptrs it was not given", |k, n| k.frame_get_address(Cap::from_bits(n)).map(drop)),
        ("mappings at cptrs it was not given", |k, n| k.frame_unmap(Cap::from_bits(n))),
        ("interrupts at cptrs it was not given", |k, n| k.irq_handler_ack(Cap::from_bits(n))),
        ("untyped memory at cptrs it was not given", |k, n| {
            let end = n.saturating_add(1);
            k.untyped_retype(Cap::from_bits(n), ObjectType::SmallPage, 0, Cap::from_bits(n), n..end)
        }),
        ("threads at cptrs it was not given", |k, n| k.tcb_suspend(Cap::from_bits(n))),
        ("CNodes at cptrs it was not given", |k, n| {
            let cptr = |index| AbsoluteCPtr { root: Cap::from_bits(n), index, depth: 64 };
            k.cnode_copy(cptr(0), cptr(FAULT_ENDPOINT), Rights::ALL)
        }),
        ("IO page tables at cptrs it was not given", |k, n| k.io_page_table_unmap(Cap::from_bits(n))),
    ];
    for (name, way) in ways {
        let (mut tried, mut held) = (0u64, None);
        for cptr in (0..cptrs).filter(|cptr| !is_given(environment, *cptr)) {
            tried = tried.saturating_add(1);
            if way(kernel, cptr) != Err(Error::InvalidCapability(0)) {
                held.get_or_insert(cptr);
            }
        }
        match held {
            None => verdicts.report(name, true, format_args!("the kernel: invalid capability, {tried} times")),
            Some(cptr) => verdicts.report(name, false, format_args!("nothing: cptr {cptr} holds something")),
        }
    }
}

/// Signals the notification it waits on, which must be refused: otherwise a tenant could wake all that share it.
fn own_notification<P: Platform>(attacker: &mut Attacker<'_, P>, environment: &Environment) {
    let Some(event) = environment.cap::<Notification>(platform::names::EVENT) else { return };
    let platform = attacker.session.platform().clone();
    while platform.poll_event().is_some() {}
    platform.kernel().signal(event);
    let came = platform.poll_event().is_some_and(|event| !is_tick(&event));
    let stopped_by = if came { "nothing: the signal came" } else { "the kernel: no right to write" };
    attacker.report("signal the notification it only waits on", !came, format_args!("{stopped_by}"));
}

/// The supervisor's periodic tick, which may come at any time.
const fn is_tick(event: &Event) -> bool {
    matches!(event, Event::Signal(badge) if badge.has(Badge::TICK))
}

/// Makes calls that the server does not have.
async fn unknown_calls<P: Platform>(attacker: &mut Attacker<'_, P>) -> Result<(), Stuck> {
    let control = attacker.session.control().clone();
    for label in LABELS {
        let answer = control.call(label).await.map(drop);
        judge_call(
            attacker,
            &sentence(format_args!("call the server with label {label}")),
            answer,
            Refusal::BadRequest,
        )?;
    }
    Ok(())
}

/// Makes the privileged calls by which the policy component sets a session's rights.
async fn policys_calls<P: Platform>(attacker: &mut Attacker<'_, P>) -> Result<(), Stuck> {
    let control = attacker.session.control().clone();
    let calls = [
        (policy::INSTALL, "install an extent"),
        (policy::REMOVE, "remove an extent"),
        (policy::CLEAR, "clear a session"),
        (policy::DRAINED, "hear what is in flight"),
        (policy::SET_SHARE, "set its own share"),
    ];
    for (label, name) in calls {
        let answer = control.call(label).await.map(drop);
        judge_call(attacker, &sentence(format_args!("{name} at the server")), answer, Refusal::PolicyAlone)?;
    }
    Ok(())
}

/// Asks for records of blocks outside of its session, and of no blocks.
async fn foreign_records<P: Platform>(attacker: &mut Attacker<'_, P>, environment: &Environment) {
    let Some(endpoint) = environment.cap::<Endpoint>(names::POLICY) else { return };
    let kernel = attacker.session.platform().kernel().clone();
    let has = attacker.session.geometry().blocks;
    for (first, blocks) in [(has, 1), (0, has.saturating_add(1)), (u64::MAX, u64::MAX), (0, 0)] {
        let answer = kernel.call(endpoint, &Message::with(policy::ASK, &policy::Asked { first, blocks })).await;
        let name = sentence(format_args!("ask for records of {blocks} blocks from {first} on"));
        match (answer.label, policy::Refusal::of(&answer)) {
            (policy::DONE, _) => attacker.report(&name, false, format_args!("nothing: it got them")),
            (_, refusal) => attacker.report(&name, true, format_args!("the policy component: {refusal}")),
        }
    }
}

/// Sends every capability it holds along with calls and messages to every endpoint it can call. It has no grant there, so none
/// arrives. seL4 5.0.0 has grant-reply only as grant: a capability arrives if the receiver has an empty cptr for it, and the receiver
/// deletes it. Every call is answered as without a capability. The root task (`report_caps`) and the simulator's kernel show
/// whether a receiver kept one, from the receiver's CSpace.
async fn sent_capabilities<P: Platform>(
    attacker: &mut Attacker<'_, P>,
    environment: &Environment,
) -> Result<(), Stuck> {
    let kernel = attacker.session.platform().kernel().clone();
    let held = || environment.caps.iter().map(|run| run.first);
    let receivers = [
        (names::SERVER, "send capabilities to the server", Message::new(session::PING)),
        (
            names::POLICY,
            "send capabilities to the policy component",
            Message::with(policy::ASK, &policy::Asked { first: 0, blocks: 1 }),
        ),
    ];
    for (receiver, name, message) in receivers {
        let Some(endpoint) = environment.cap::<Endpoint>(receiver) else { continue };
        let (mut sent, mut answered) = (0u32, true);
        for cap in held() {
            let message = message.clone().and_cap(cap);
            answered &= kernel.call(endpoint, &message).await.label == session::DONE;
            kernel.send(endpoint.cptr(), &message);
            kernel.nb_send(endpoint.cptr(), &message);
            sent = sent.saturating_add(1);
        }
        attacker.check_alive()?;
        let stopped_by = if answered {
            "no right to grant, or the receiver, which keeps none"
        } else {
            "no answer that it should get"
        };
        attacker.report(name, answered, format_args!("{stopped_by}: {sent} capabilities, each in three ways"));
    }
    Ok(())
}

/// Opens the session that is open already. The rings must be as new: if the server dies during the call, its successor
/// takes the call and opens a session with them.
pub(crate) async fn open_again<P: Platform>(attacker: &mut Attacker<'_, P>) -> Result<(), Stuck> {
    attacker.verdicts.begin(&attacks::CAPABILITIES);
    let answer = attacker.session.control().open().await.map(drop);
    judge_call(attacker, "open the session again", answer, Refusal::AlreadyOpen)
}

/// Judges a call that must be refused in one way. No verdict if the server died.
pub(crate) fn judge_call<P: Platform>(
    attacker: &mut Attacker<'_, P>,
    name: &str,
    answer: Result<(), Refusal>,
    expected: Refusal,
) -> Result<(), Stuck> {
    attacker.check_alive()?;
    match answer {
        Err(refusal) if refusal == expected => attacker.report(name, true, format_args!("the server: {refusal}")),
        Err(refusal) => attacker.report(name, false, format_args!("another refusal than expected: {refusal}")),
        Ok(()) => attacker.report(name, false, format_args!("nothing: the call was answered")),
    }
    Ok(())
}
