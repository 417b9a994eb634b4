//! Changes while the system runs, as scenarios write them.

use super::When;
use super::tenant::Bandwidth;
use crate::scenario::refusal::Refusal;
use blk_api::config::{Class, RateLimit};
use blk_api::extent::{Blocks, Extent};
use core::fmt;
use core::marker::PhantomData;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, Unexpected, Visitor};

/// A change for a tenant.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Change {
    /// Time of the change.
    pub when: When,
    /// The tenant.
    pub tenant: String,
    /// The change.
    pub what: What,
}

/// The kinds of change.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum What {
    /// The tenant loses all rights to these blocks of its namespace.
    Revoke(Vec<Blocks>),
    /// The tenant has these rights to blocks that are among its extents, and no others.
    Grant(Vec<Extent>),
    /// The tenant is entitled to another share of the controller.
    Entitle(Entitlement),
}

/// New values of a share; those that are not named stay.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Entitlement {
    /// The class.
    pub class: Option<Class>,
    /// The weight within it.
    pub weight: Option<u16>,
    /// Commands a second, at most, or without a limit.
    pub iops: Option<Option<RateLimit>>,
    /// Bytes a second, at most, or without a limit.
    pub bandwidth: Option<Option<RateLimit>>,
    /// Hardware queue pairs of its own.
    pub queue_pairs: Option<u16>,
    /// Commands each of them may hold.
    pub depth: Option<u16>,
}

/// A change for a tenant: `revoke`, `grant`, or new values of its share; those that are not named stay.
#[derive(serde::Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "Change"))]
#[serde(deny_unknown_fields)]
pub(super) struct Written {
    /// The moment of the change; the start of the system without it.
    #[serde(default)]
    at: Option<String>,
    /// Milliseconds after that moment.
    #[serde(default)]
    after_ms: u32,
    /// Name of the tenant.
    tenant: String,
    /// Blocks of its namespace to which it loses all rights.
    #[serde(default)]
    revoke: Option<Vec<Blocks>>,
    /// Blocks to which it has these rights from then on, and no others. They are among its extents.
    #[serde(default)]
    grant: Option<Vec<Extent>>,
    /// The class.
    #[serde(default)]
    class: Option<Class>,
    /// The weight within its class, 1 or more.
    #[serde(default)]
    weight: Option<u16>,
    /// Commands a second, at most.
    #[serde(default)]
    iops: Option<OrNone<RateLimit>>,
    /// Bytes a second, at most.
    #[serde(default)]
    bandwidth: Option<OrNone<Bandwidth>>,
    /// Hardware queue pairs of its own.
    #[serde(default)]
    queue_pairs: Option<u16>,
    /// Commands each of them may hold, 1 to 1024.
    #[serde(default)]
    depth: Option<u16>,
}

/// A limit, or `"none"`, which removes it.
pub(super) struct OrNone<T>(Option<T>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for OrNone<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(LimitOrNone(PhantomData)).map(Self)
    }
}

struct LimitOrNone<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for LimitOrNone<T> {
    type Value = Option<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a limit as { per_second = 1000, burst = 10 }, or \"none\"")
    }

    fn visit_str<E: Error>(self, word: &str) -> Result<Self::Value, E> {
        if word == "none" { Ok(None) } else { Err(E::invalid_value(Unexpected::Str(word), &self)) }
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map)).map(Some)
    }
}

impl Written {
    pub(super) fn change(self, line: usize) -> Result<Change, Refusal> {
        let Self { at, after_ms, tenant, revoke, grant, class, weight, iops, bandwidth, queue_pairs, depth } = self;
        let iops = iops.map(|OrNone(limit)| limit);
        let bandwidth = bandwidth.map(|OrNone(limit)| limit.map(RateLimit::from));
        let entitlement = Entitlement { class, weight, iops, bandwidth, queue_pairs, depth };
        let entitle = (entitlement != Entitlement::default()).then_some(What::Entitle(entitlement));
        let mut all = [revoke.map(What::Revoke), grant.map(What::Grant), entitle].into_iter().flatten();
        match (all.next(), all.next()) {
            (Some(what), None) => Ok(Change { when: When { at, after_ms }, tenant, what }),
            (_, more) => {
                let number = if more.is_some() { "two things" } else { "nothing" };
                let message = format!(
                    "a change for tenant `{tenant}` says {number}: write `revoke`, `grant`, or parts of a share as `iops`"
                );
                Err(Refusal { line: Some(line), message })
            }
        }
    }
}
