//! Changes of a running system that people who watch it ask for.

use anyhow::Result;
use blk_api::config::{Class, RateLimit};
use serde::{Deserialize, Serialize};

/// A change. As JSON, `act` names it: `{"act":"kill","component":"nvme-server"}`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "act", rename_all = "kebab-case")]
pub(crate) enum Act {
    /// Gives the tenant another share; what is left out stays.
    Set { tenant: String, class: Option<Class>, iops: Option<Limit>, bandwidth: Option<Limit> },
    /// Takes all rights to these blocks.
    Revoke { tenant: String, first: u64, blocks: u64 },
    /// Gives rights to these blocks.
    Grant { tenant: String, first: u64, blocks: u64, writable: bool },
    /// Stops the component until it is resumed.
    Pause { component: String },
    /// Lets a paused component go on.
    Resume { component: String },
    /// Ends the component, in the middle of what it does.
    Kill { component: String },
}

/// A limit: requests or bytes a second, and as many at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Limit {
    per_second: u64,
    burst: u64,
}

impl Limit {
    /// The limit of a share.
    pub(crate) const fn rate(self) -> RateLimit {
        RateLimit { per_second: self.per_second, burst: self.burst }
    }
}

/// A way to change a running system.
pub(crate) trait Acts: Send + Sync {
    /// Carries out a change, and returns when the component that enforces it has acted: a sentence about what is in force.
    ///
    /// # Errors
    /// A name or value that the system does not take, or a system that does not answer: a sentence with the mend.
    fn act(&self, act: &Act) -> Result<String>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn acts_are_read_as_the_page_writes_them() {
        let read = |text: &str| serde_json::from_str::<Act>(text);
        let component = || "nvme-server".to_owned();
        assert_eq!(read(r#"{"act":"kill","component":"nvme-server"}"#).unwrap(), Act::Kill { component: component() });
        let set =
            read(r#"{"act":"set","tenant":"alice","class":"high","iops":{"per_second":500,"burst":10}}"#).unwrap();
        let iops = Some(Limit { per_second: 500, burst: 10 });
        assert_eq!(set, Act::Set { tenant: "alice".into(), class: Some(Class::High), iops, bandwidth: None });
        for wrong in
            ["", "{}", r#"{"act":"explode"}"#, r#"{"act":"kill"}"#, r#"{"act":"set","tenant":"a","class":"top"}"#]
        {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
