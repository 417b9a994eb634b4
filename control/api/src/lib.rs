//! The control channel: acts that the build machine asks of the control component, and the answers.
//!
//! A scenario with `[control]` has a control component. The build machine writes a [`Request`] into its [`mailbox`], which lies in
//! the machine's memory, and the component writes the [`Answer`]. An act that changes something is answered when the component that
//! enforces it has acted. [`supervisor`] has the control component's calls to the root task; those to policy components are in
//! [`blk_api::orders`], and those to NVMe servers in [`blk_api::administration`].
//!
//! Left out: the right to an act. Each is a capability of the control component's, or a bit in a badge, and the callee checks it.

#![no_std]
#![forbid(unsafe_code)]
#![warn(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod mailbox;
pub mod names;
pub mod supervisor;

use alloc::vec::Vec;
use blk_api::administration;
use blk_api::extent::{Blocks, Extent};
use blk_api::orders::ShareChange;
use serde::{Deserialize, Serialize};

/// An act that is asked for. Components and tenants are named by their numbers in the specification.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Request {
    /// Nothing: the answer shows that the component works.
    Nothing,
    /// Changes the named parts of a tenant's share.
    Share {
        /// The tenant.
        tenant: u16,
        /// The parts.
        change: ShareChange,
    },
    /// Takes the rights to blocks, by their numbers on the namespace.
    Revoke {
        /// The tenant.
        tenant: u16,
        /// The blocks.
        blocks: Blocks,
    },
    /// Gives rights to blocks that the tenant numbers.
    Grant {
        /// The tenant.
        tenant: u16,
        /// The blocks, and whether the tenant may write them.
        extent: Extent,
    },
    /// Stops a component as if it had faulted: it is restarted as far as its restart policy goes.
    Kill(u16),
    /// Suspends a client.
    Pause(u16),
    /// Lets a suspended client go on.
    Resume(u16),
    /// A call to administer a controller ([`blk_api::administration`]), but for the one that waits for its command's end.
    Administer {
        /// The controller's number on the root bus.
        controller: u16,
        /// The label.
        label: u32,
        /// The words.
        words: [u64; CALL_WORDS],
    },
}

/// Words of the longest call to administer a controller, and of its longest answer.
pub const CALL_WORDS: usize = size_of::<administration::Command>() / 8;
/// See [`CALL_WORDS`].
pub const ANSWER_WORDS: usize = size_of::<administration::Registers>() / 8;

/// The answer to a [`Request`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Answer {
    /// The act is in force.
    Done {
        /// Nanoseconds from the moment at which the component read the request until then.
        took_ns: u64,
    },
    /// The act is refused, and changed nothing.
    Refused(Refusal),
    /// The NVMe server's answer to a call to administer its controller.
    Administration {
        /// The label: [`administration::DONE`], or that of a refusal.
        label: u32,
        /// The words.
        words: [u64; ANSWER_WORDS],
    },
}

/// The reason of a refusal.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Refusal {
    /// The message is damaged, of another version, or no request.
    Malformed,
    /// The scenario does not give the control component this act.
    NotAllowed,
    /// There is no tenant with this number.
    NoTenant(u16),
    /// There is no controller with this number.
    NoController(u16),
    /// The change is not in force after some seconds. The policy component goes on, and takes no other order until then.
    Late,
    /// The policy component refuses: the label and the values of its answer ([`blk_api::policy::Refusal::of`]).
    Policy {
        /// The label.
        label: u32,
        /// The values.
        values: [u64; 3],
    },
    /// The supervisor refuses.
    Supervisor(supervisor::Refusal),
}

/// The acts that a control component may be given. Each is a capability, or a bit of a badge.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Act {
    /// Change tenants' shares.
    Shares,
    /// Take and give rights to blocks.
    Rights,
    /// Stop components.
    Kill,
    /// Suspend clients, and let them go on.
    Pause,
}

impl Act {
    /// All acts.
    pub const ALL: [Self; 4] = [Self::Shares, Self::Rights, Self::Kill, Self::Pause];

    /// The act's name in scenarios.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Shares => "shares",
            Self::Rights => "rights",
            Self::Kill => "kill",
            Self::Pause => "pause",
        }
    }
}

/// The control component's configuration, written by the system's model.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Config {
    /// The tenants, by the numbers of their components.
    pub tenants: Vec<Tenant>,
}

/// A tenant as the control component names it to others.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Tenant {
    /// The number of its component.
    pub component: u16,
    /// The policy component that knows it: its place in the run [`names::POLICIES`].
    pub policy: u16,
    /// The tenant's number there.
    pub session: u32,
}
