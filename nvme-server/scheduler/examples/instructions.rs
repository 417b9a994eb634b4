//! Decides for so many commands of so many sessions under a policy, for a counter of instructions around it:
//!
//! `instructions POLICY SESSIONS COMMANDS [EACH]`, the policy one of `round-robin`, `dedicated`, `weighted`, `paced`,
//! `device-direct`, and `guarded`, which is paced with every second session of a class below the others'. A session submits
//! one command in its turn, or up to `EACH` as far as the policy lets it.
//!
//! Two runs that differ in their commands alone give the instructions a command; see docs/benchmarks.md.

#![forbid(unsafe_code)]

use scheduler::{
    Class, ClassWeights, Commands, Decision, Dedicated, DeviceDirect, Kind, Paced, Policy, RoundRobin, SessionId,
    Share, Tenant, Weighted,
};
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [policy, sessions, commands, each @ ..] = arguments.as_slice() else {
        return Err("POLICY SESSIONS COMMANDS [EACH]".into());
    };
    let (sessions, commands): (u8, u64) = (sessions.parse()?, commands.parse()?);
    let each: u16 = each.first().map_or(Ok(1), |each| each.parse())?;
    let class = |session: u8| match policy.as_str() {
        "guarded" if session % 2 == 1 => Class::Low,
        _ => Class::Medium,
    };
    let tenant = |session| Tenant { share: Share::of(class(session)), highest: Class::Medium };
    let tenants: Vec<Tenant> = (0..sessions).map(tenant).collect();
    match policy.as_str() {
        "round-robin" => decide(RoundRobin::new(&tenants)?, sessions, commands, each),
        "dedicated" => decide(Dedicated::new(&tenants)?, sessions, commands, each),
        "weighted" => decide(Weighted::new(&tenants, ClassWeights::default())?, sessions, commands, each),
        "paced" | "guarded" => decide(Paced::new(&tenants)?, sessions, commands, each),
        "device-direct" => decide(DeviceDirect::new(&tenants)?, sessions, commands, each),
        _ => return Err("no such policy".into()),
    }
    Ok(())
}

fn decide(mut policy: impl Policy, sessions: u8, commands: u64, each: u16) {
    (0..sessions).for_each(|session| policy.ready(SessionId(session), 0));
    let (mut now, mut served) = (0, 0u64);
    while served < commands {
        now += 20_000;
        let Decision::Serve { session, quantum } = policy.next(now) else { continue };
        let count = quantum.commands.min(each);
        let turn = Commands { session, kind: Kind::Read, bytes: quantum.bytes.min(4096), count };
        policy.submitted(turn, now);
        policy.completed(turn, now, now + 10_000);
        served += u64::from(count);
    }
    println!("{served} commands, {now} ns");
}
