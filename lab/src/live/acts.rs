//! Acts of an operator in words, as `ctl` takes them and as the page sends them.

use super::operator::{Operator, blocks, share_change};
use anyhow::{Result, ensure};
use blk_api::extent::{Blocks, Extent};
use clap::Subcommand;
use control_api::{Act, Request};
use serde::Deserialize;

/// All blocks of a tenant, as the scenario gives them, in an order.
const ALL: &str = "all";
/// The outcome of an order that was carried out.
const IN_FORCE: &str = "in force";

/// An order. As JSON, `act` names it: `{"act":"kill","component":"nvme-server"}`.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize, Subcommand)]
#[serde(tag = "act", rename_all = "kebab-case")]
pub(crate) enum Order {
    /// Change a tenant's share: its class, weight, limits or queue pairs
    Set {
        /// The tenant
        tenant: String,
        /// The values: class=high, weight=2, iops=A/B for A a second and B at once, iops=none, bandwidth=A/B, queue-pairs=2, depth=8
        #[arg(required = true, value_name = "KEY=VALUE")]
        values: Vec<String>,
    },
    /// Take a tenant's rights to blocks of its namespace
    Revoke {
        /// The tenant
        tenant: String,
        /// The blocks, as 131200+128, or all
        #[arg(value_name = "FIRST+COUNT")]
        blocks: String,
    },
    /// Give a tenant rights to blocks of its namespace that it numbers
    Grant {
        /// The tenant
        tenant: String,
        /// The blocks, as 131200+128, or all
        #[arg(value_name = "FIRST+COUNT")]
        blocks: String,
        /// Not to write
        #[arg(long)]
        #[serde(default)]
        read_only: bool,
    },
    /// Stop a component as if it had faulted; it is restarted as its scenario says
    Kill {
        /// The component
        component: String,
    },
    /// Suspend a tenant's client
    Pause {
        /// The tenant
        tenant: String,
    },
    /// Let a suspended client go on
    Resume {
        /// The tenant
        tenant: String,
    },
}

impl Order {
    /// Has the order carried out; returns when the component that enforces it has acted, with a phrase about that.
    ///
    /// # Errors
    /// A name or value that the system does not take, an act that it lacks, or nobody who answers.
    pub(crate) fn carry_out(&self, operator: &Operator) -> Result<String> {
        let number = operator.component(self.name())?;
        match self {
            Self::Revoke { blocks, .. } if blocks == ALL => {
                operator.set_all_rights(self.name(), false)?;
                return Ok(IN_FORCE.into());
            }
            Self::Grant { blocks, read_only, .. } if blocks == ALL => {
                ensure!(
                    !read_only,
                    "all blocks are given as the scenario has them: name blocks, or leave --read-only out"
                );
                operator.set_all_rights(self.name(), true)?;
                return Ok(IN_FORCE.into());
            }
            _ => {}
        }
        let (act, request) = match self {
            Self::Set { values, .. } => (Act::Shares, Request::Share { tenant: number, change: share_change(values)? }),
            Self::Revoke { blocks: range, .. } => {
                (Act::Rights, Request::Revoke { tenant: number, blocks: blocks(range)? })
            }
            Self::Grant { blocks: range, read_only, .. } => {
                let Blocks { first, blocks } = blocks(range)?;
                let extent = Extent { first, blocks, writable: !read_only };
                (Act::Rights, Request::Grant { tenant: number, extent })
            }
            Self::Kill { .. } => (Act::Kill, Request::Kill(number)),
            Self::Pause { .. } => (Act::Pause, Request::Pause(number)),
            Self::Resume { .. } => (Act::Pause, Request::Resume(number)),
        };
        let took = operator.act(act, &request)?;
        Ok(format!("{IN_FORCE} after {:.1} us", took.as_nanos() as f64 / 1e3))
    }

    /// The name of the component that it is about.
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Set { tenant: name, .. }
            | Self::Revoke { tenant: name, .. }
            | Self::Grant { tenant: name, .. }
            | Self::Kill { component: name }
            | Self::Pause { tenant: name }
            | Self::Resume { tenant: name } => name,
        }
    }

    /// The order without that name.
    pub(crate) fn words(&self) -> String {
        match self {
            Self::Set { values, .. } => format!("set {}", values.join(" ")),
            Self::Revoke { blocks, .. } => format!("revoke {blocks}"),
            Self::Grant { blocks, read_only: false, .. } => format!("grant {blocks}"),
            Self::Grant { blocks, read_only: true, .. } => format!("grant {blocks} to read"),
            Self::Kill { .. } => "kill".into(),
            Self::Pause { .. } => "pause".into(),
            Self::Resume { .. } => "resume".into(),
        }
    }
}

/// A way to change a running system, for its page.
pub(crate) trait Acts: Send + Sync {
    /// The names of the acts that the scenario offers.
    fn offered(&self) -> Vec<&'static str>;

    /// Has an order carried out, and returns a sentence about that.
    ///
    /// # Errors
    /// The errors of [`Order::carry_out`].
    fn act(&self, order: &Order) -> Result<String>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_are_read_as_the_page_writes_them() {
        let read = |text: &str| serde_json::from_str::<Order>(text);
        let kill = read(r#"{"act":"kill","component":"nvme-server"}"#).unwrap();
        assert_eq!(kill, Order::Kill { component: "nvme-server".into() });
        let set = read(r#"{"act":"set","tenant":"alice","values":["class=high","iops=500/10"]}"#).unwrap();
        assert_eq!(set, Order::Set { tenant: "alice".into(), values: vec!["class=high".into(), "iops=500/10".into()] });
        assert_eq!((kill.name(), kill.words().as_str()), ("nvme-server", "kill"));
        assert_eq!((set.name(), set.words().as_str()), ("alice", "set class=high iops=500/10"));
        for wrong in ["", "{}", r#"{"act":"explode"}"#, r#"{"act":"kill"}"#, r#"{"act":"set","tenant":"a"}"#] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
