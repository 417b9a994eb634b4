//! Names of capabilities and regions in the control component's environment.

/// The component's region with its mailbox.
pub const MAILBOX: &str = "mailbox";
/// The run of its calls to the policy components, in the order of the controllers.
pub const POLICIES: &str = "policies";
/// The component's call to the supervisor.
pub const SUPERVISOR: &str = "supervisor";
/// The run of its calls to the NVMe servers whose controllers it may administer, in the order of the controllers.
pub const ADMINISTERED: &str = "administered";
