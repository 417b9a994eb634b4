//! The acts of `top`: a key, and what it does to the chosen tenant.

use super::Live;
use super::tenant::Tenant;
use anyhow::Result;
use blk_api::config::{Class, RateLimit};
use blk_api::orders::{Limit, ShareChange};
use control_api::{Act, Request};

/// The fewest requests a second that a key limits a tenant to.
const FEWEST: u64 = 10;

/// The keys, in a line as short as a terminal of 80 columns.
pub(crate) const KEYS: &str = "c class  - half  + free  r revoke  g grant  p pause  o go on  k kill  K server";

/// The act of a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Key {
    /// Gives the next class.
    Class,
    /// Limits the tenant to half of its rate.
    Half,
    /// Takes the limit of requests away.
    NoLimit,
    /// Takes the rights to all blocks.
    Revoke,
    /// Gives them back.
    Grant,
    /// Suspends the client.
    Pause,
    /// Lets it go on.
    Resume,
    /// Stops the client.
    Kill,
    /// Stops its server.
    KillServer,
}

impl Key {
    /// The act of a key.
    pub(crate) const fn of(key: char) -> Option<Self> {
        Some(match key {
            'c' => Self::Class,
            '-' => Self::Half,
            '+' => Self::NoLimit,
            'r' => Self::Revoke,
            'g' => Self::Grant,
            'p' => Self::Pause,
            'o' => Self::Resume,
            'k' => Self::Kill,
            'K' => Self::KillServer,
            _ => return None,
        })
    }

    /// The act in words.
    const fn words(self) -> &'static str {
        match self {
            Self::Class => "next class",
            Self::Half => "half of its rate",
            Self::NoLimit => "no limit",
            Self::Revoke => "revoke all blocks",
            Self::Grant => "grant all blocks",
            Self::Pause => "pause",
            Self::Resume => "resume",
            Self::Kill | Self::KillServer => "kill",
        }
    }
}

/// Does it to the tenant. Returns a sentence about the outcome.
pub(crate) fn press(live: &Live, key: Key, tenant: &Tenant) -> String {
    let done = act(live, key, tenant);
    let server = key == Key::KillServer;
    let noted = live.note(if server { &tenant.server } else { &tenant.tenant }, key.words(), &done);
    match noted.and(done) {
        Ok(done) => format!("{}: {done}", tenant.tenant),
        Err(error) => format!("{error:#}"),
    }
}

/// Does it, and returns the outcome.
fn act(live: &Live, key: Key, Tenant { tenant, server, class, both, .. }: &Tenant) -> Result<String> {
    let operator = live.operator()?;
    let share = |change: ShareChange, done: String| -> Result<String> {
        let took = operator.act(Act::Shares, &Request::Share { tenant: operator.component(tenant)?, change })?;
        Ok(format!("{done}, in force after {:.1} us", took.as_nanos() as f64 / 1e3))
    };
    let done = |act: Act, request: Request, done: &str| -> Result<String> {
        operator.act(act, &request)?;
        Ok(done.into())
    };
    match key {
        Key::Class => {
            let class = next(class.unwrap_or_default());
            share(ShareChange { class: Some(class), ..ShareChange::default() }, format!("class {}", class.name()))
        }
        Key::Half => {
            // Rates are far below what does not fit.
            let per_second = (both.requests_per_second as u64 / 2).max(FEWEST);
            let iops = Some(Limit::Of(RateLimit { per_second, burst: FEWEST }));
            share(ShareChange { iops, ..ShareChange::default() }, format!("{per_second} requests a second at most"))
        }
        Key::NoLimit => {
            share(ShareChange { iops: Some(Limit::None), ..ShareChange::default() }, "no limit of requests".into())
        }
        Key::Revoke | Key::Grant => {
            operator.set_all_rights(tenant, key == Key::Grant)?;
            Ok(format!("rights {}", if key == Key::Grant { "given back" } else { "taken" }))
        }
        Key::Pause => done(Act::Pause, Request::Pause(operator.component(tenant)?), "suspended"),
        Key::Resume => done(Act::Pause, Request::Resume(operator.component(tenant)?), "goes on"),
        Key::Kill => done(Act::Kill, Request::Kill(operator.component(tenant)?), "its client was stopped"),
        Key::KillServer => done(Act::Kill, Request::Kill(operator.component(server)?), "its server was stopped"),
    }
}

/// The class below the one with this name; the first one after the last.
fn next(class: &str) -> Class {
    match class {
        "urgent" => Class::High,
        "high" => Class::Medium,
        "medium" => Class::Low,
        _ => Class::Urgent,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_of_the_line_does_something() {
        for word in KEYS.split("  ") {
            let key = word.chars().next().unwrap_or_default();
            assert!(Key::of(key).is_some(), "{word}");
        }
        assert!(KEYS.len() <= 80 && Key::of('q').is_none() && Key::of('s').is_none());
    }

    #[test]
    fn classes_follow_each_other() {
        let classes: Vec<_> = ["urgent", "high", "medium", "low", ""].map(|class| next(class).name()).into();
        assert_eq!(classes, ["high", "medium", "low", "urgent", "urgent"]);
    }
}
