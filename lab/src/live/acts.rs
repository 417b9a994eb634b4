//! Acts of an operator in words, as `ctl` takes them and as the page sends them.

use super::operator::{Operator, blocks, share_change};
use anyhow::Result;
use blk_api::extent::{Blocks, Extent};
use clap::Subcommand;
use control_api::{Act, Request};
use serde::Deserialize;

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
        /// The blocks, as 131200+128
        #[arg(value_name = "FIRST+COUNT")]
        blocks: String,
    },
    /// Give a tenant rights to blocks of its namespace that it numbers
    Grant {
        /// The tenant
        tenant: String,
        /// The blocks, as 131200+128
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
    /// Has the order carried out; returns when the component that enforces it has acted, with a sentence about that.
    ///
    /// # Errors
    /// A name or value that the system does not take, an act that it lacks, or nobody who answers.
    pub(crate) fn carry_out(&self, operator: &Operator) -> Result<String> {
        let (act, request, name) = match self {
            Self::Set { tenant: name, values } => {
                let change = share_change(values)?;
                (Act::Shares, Request::Share { tenant: operator.component(name)?, change }, name)
            }
            Self::Revoke { tenant: name, blocks: range } => {
                (Act::Rights, Request::Revoke { tenant: operator.component(name)?, blocks: blocks(range)? }, name)
            }
            Self::Grant { tenant: name, blocks: range, read_only } => {
                let Blocks { first, blocks } = blocks(range)?;
                let extent = Extent { first, blocks, writable: !read_only };
                (Act::Rights, Request::Grant { tenant: operator.component(name)?, extent }, name)
            }
            Self::Kill { component } => (Act::Kill, Request::Kill(operator.component(component)?), component),
            Self::Pause { tenant: name } => (Act::Pause, Request::Pause(operator.component(name)?), name),
            Self::Resume { tenant: name } => (Act::Pause, Request::Resume(operator.component(name)?), name),
        };
        let took = operator.act(act, &request)?;
        Ok(format!("{name}: in force after {:.1} us", took.as_nanos() as f64 / 1e3))
    }
}

/// A way to change a running system, for its page.
pub(crate) trait Acts: Send + Sync {
    /// The names of the acts that the scenario offers.
    fn offered(&self) -> Vec<&'static str>;

    /// Has an order carried out, as [`Order::carry_out`].
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
        for wrong in ["", "{}", r#"{"act":"explode"}"#, r#"{"act":"kill"}"#, r#"{"act":"set","tenant":"a"}"#] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
