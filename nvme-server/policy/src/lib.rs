//! The policy component: decides which blocks of a namespace each session of one NVMe server may touch, and changes the
//! shares of the sessions.
//!
//! It stands beside the server, which enforces its decisions on every command. It knows all extents of all sessions from
//! its configuration, so it checks whether two overlap (`rights_map`). It installs records in the server's table when a
//! client asks for them because a request missed (`record_service`). The table may evict them, and then the client asks
//! again. It changes rights while the system runs, at their configured moments (`changes`, `enforcer`), and likewise the
//! controller's interrupt mode (`interrupts`). In a system with a control component an operator may order changes (`operator`), which
//! outlive the component (`kept`). Clients of virtual functions have these by its word alone (`functions`).
//!
//! Neighbours: the NVMe server, which it calls with a badge of its own (`blk_api::policy`); the clients, which call it and
//! are distinguished by their badges; the supervisor, which ticks it. It holds no device, no window and no memory of others.
//! No component can send it a capability, because it has no cptr to receive one at. Left out: how the server puts the shares
//! and queue pairs that it receives into effect.

#![no_std]
#![forbid(unsafe_code)]
#![warn(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

extern crate alloc;

#[cfg(test)]
extern crate std;

mod budget;
mod changes;
mod enforcer;
mod functions;
mod interrupts;
mod kept;
mod operator;
mod record_service;
mod rights_map;
mod server;

use alloc::format;
use blk_api::names;
use blk_api::policy::{PolicyConfig, Refusal};
use changes::Changes;
use core::fmt;
use enforcer::Enforcer;
use functions::Functions;
use interrupts::Interrupts;
use operator::Operator;
use platform::log::{error, info};
use platform::{Badge, Environment, Event, Kernel, Platform};
use record_service::RecordService;
use report::{Report, clip};
use rights_map::RightsMap;
use server::Server;

/// Answers clients for ever. Without a valid configuration it refuses them all, and reports the reason.
pub async fn run<P: Platform>(platform: P, environment: Environment) {
    let mut service = match start(&platform, &environment) {
        Ok(service) => service,
        Err(reason) => {
            error!("no rights for anybody: {}", reason.as_str());
            platform.report(&Report::Failure { component: clip(&environment.name), reason: clip(&reason) }.encode());
            return refuse_all(&platform).await;
        }
    };
    info!("extents of {} sessions", service.sessions());
    // Changes that an earlier incarnation made are made again before any client is served.
    service.take_over().await;
    loop {
        match platform.next_event().await {
            Event::Signal(badge) if badge.has(Badge::TICK) => service.on_tick().await,
            // The server has finished something that took it time.
            Event::Signal(_) => service.change_what_is_due().await,
            Event::Message(badge, message) => {
                let answer = service.answer(badge, &message).await;
                platform.kernel().reply(&answer);
            }
        }
    }
}

/// Refuses every call, so that no client is left waiting.
async fn refuse_all<P: Platform>(platform: &P) {
    loop {
        if let Event::Message(..) = platform.next_event().await {
            platform.kernel().reply(&Refusal::BadRequest.message());
        }
    }
}

fn start<P: Platform>(platform: &P, environment: &Environment) -> Result<RecordService<P>, alloc::string::String> {
    let config: PolicyConfig = environment.config().ok_or("its configuration does not decode")?;
    let holders = [config.sessions.as_slice(), &config.functions].concat();
    let rights_map = RightsMap::new(&holders).map_err(text)?;
    let functions = Functions::new(config.sessions.len(), &rights_map);
    let changes = Changes::new(config.changes, &rights_map).map_err(text)?;
    let endpoint = environment.cap(names::SERVER).ok_or("it has no server")?;
    let page = environment.region(names::LIVENESS_SERVER).and_then(|region| platform.memory(region).ok());
    let page = page.ok_or("it cannot see whether its server is alive")?;
    let server = Server::new(platform.clone(), endpoint, page);
    let interrupts = Interrupts::new(platform.clone(), environment, config.interrupts);
    let operator = Operator::new(platform.clone(), environment, &config.shares);
    let enforcer = Enforcer::new(platform.clone(), environment, changes, functions, &server);
    Ok(RecordService::new(rights_map, enforcer, interrupts, operator, server))
}

fn text(error: impl fmt::Display) -> alloc::string::String {
    format!("{error}")
}
