//! The control component: carries out what an operator on the build machine asks of a running system, as far as its capabilities go.
//!
//! The component reads requests in its mailbox ([`control_api::mailbox`]), and has the component that enforces each act carry it out: a policy
//! component changes shares and rights, the supervisor stops and suspends components, an NVMe server passes commands to its controller. It writes the answer when that has acted. A
//! scenario decides which acts it has. Those that it lacks are capabilities that it does not hold, or bits that its badges lack.
//!
//! No request wakes it: it looks into the mailbox at each tick, and while requests come, at each of its shortest alarms
//! (`attention`). So a build machine that writes without end costs the system one letter an alarm and no more. Its neighbours are
//! the policy components, the NVMe servers and the supervisor, which answer at once or signal it. It has no memory of others, and no
//! component calls it. Data of commands lie in a window that the build machine and the controller share; the component has no part in
//! them. Left out: the right to an act, which the callee checks by the badge.

#![no_std]
#![forbid(unsafe_code)]
#![warn(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

extern crate alloc;

#[cfg(test)]
extern crate std;

mod attention;
mod inbox;
mod orders;

use alloc::string::String;
use attention::Attention;
use control_api::{Answer, Refusal, Request, names};
use inbox::{Inbox, Received};
use orders::Orders;
use platform::log::error;
use platform::{Environment, Platform, ticks_to_ns};
use report::{Report, clip};

/// Carries out requests for ever; returns only from an environment that lacks the mailbox.
pub async fn run<P: Platform>(platform: P, environment: Environment) {
    if let Err(reason) = serve(&platform, &environment).await {
        error!("no control: {}", reason.as_str());
        platform.report(&Report::Failure { component: clip(&environment.name), reason: clip(&reason) }.encode());
    }
}

async fn serve<P: Platform>(platform: &P, environment: &Environment) -> Result<(), String> {
    let config: control_api::Config = environment.config().ok_or("its configuration does not decode")?;
    let mailbox = environment.region(names::MAILBOX).and_then(|region| platform.memory(region).ok());
    let mut inbox = Inbox::new(mailbox.ok_or("it has no mailbox")?);
    let orders = Orders::new(platform.clone(), environment, config);
    let mut attention = Attention::new(environment);
    loop {
        // A signal of a policy component between two requests is about nothing any more.
        platform.next_event().await;
        match inbox.receive() {
            Ok(received) => {
                let is_new = received.is_some();
                if let Some(Received { number, request }) = received {
                    let answer = answer(platform, &orders, request).await;
                    inbox.answer(number, &answer).map_err(|_| "its mailbox has no room for an answer")?;
                }
                attention.pay(platform, is_new);
            }
            Err(_) => return Err("its mailbox is shorter than two pages".into()),
        }
    }
}

/// Carries out the request, unless it is damaged.
async fn answer<P: Platform>(platform: &P, orders: &Orders<P>, request: Option<Request>) -> Answer {
    let began = platform.ticks();
    let Some(request) = request else { return Answer::Refused(Refusal::Malformed) };
    if let Request::Administer { controller, label, words } = request {
        return orders.administer(controller, label, &words).await.unwrap_or_else(Answer::Refused);
    }
    match orders.carry_out(request).await {
        Ok(()) => {
            let took = platform.ticks().saturating_sub(began);
            Answer::Done { took_ns: ticks_to_ns(took, platform.ticks_per_second()) }
        }
        Err(refusal) => Answer::Refused(refusal),
    }
}
