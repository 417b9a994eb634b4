//! What changes while the system runs, as scenarios write it.

use super::tenant::bandwidth;
use super::validate::Refusal;
use blk_api::config::{Class, Limit};
use blk_api::extent::{Blocks, Extent};
use serde::Deserialize;

/// Something changes for a tenant.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Change {
    /// Milliseconds after the system began, to the policy component's next tick.
    pub after_ms: u32,
    /// The tenant.
    pub tenant: String,
    /// What changes.
    pub what: What,
}

/// What changes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum What {
    /// It loses all rights to these blocks of its namespace.
    Revoke(Vec<Blocks>),
    /// It has these rights to blocks that are among its extents, and no others.
    Grant(Vec<Extent>),
    /// It is entitled to another share of the controller.
    Entitle(Entitlement),
}

/// What changes of a share; what is not named stays as it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Entitlement {
    /// The class.
    pub class: Option<Class>,
    /// The weight within it.
    pub weight: Option<u16>,
    /// Commands a second, at most.
    pub iops: Option<Limit>,
    /// Bytes a second, at most.
    pub bandwidth: Option<Limit>,
}

/// A change as it is written: one of the keys says what.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Written {
    after_ms: u32,
    tenant: String,
    #[serde(default)]
    revoke: Option<Vec<Blocks>>,
    #[serde(default)]
    grant: Option<Vec<Extent>>,
    #[serde(default)]
    class: Option<Class>,
    #[serde(default)]
    weight: Option<u16>,
    #[serde(default)]
    iops: Option<Limit>,
    #[serde(default, deserialize_with = "bandwidth")]
    bandwidth: Option<Limit>,
}

impl Written {
    pub(super) fn change(self, line: usize) -> Result<Change, Refusal> {
        let Self { after_ms, tenant, revoke, grant, class, weight, iops, bandwidth } = self;
        let entitlement = Entitlement { class, weight, iops, bandwidth };
        let entitle = (entitlement != Entitlement::default()).then_some(What::Entitle(entitlement));
        let mut all = [revoke.map(What::Revoke), grant.map(What::Grant), entitle].into_iter().flatten();
        match (all.next(), all.next()) {
            (Some(what), None) => Ok(Change { after_ms, tenant, what }),
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
