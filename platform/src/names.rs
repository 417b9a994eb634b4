//! Names of capabilities that components of every kind have in their environments. Others are in the servers' interface
//! crates.

/// The endpoint on which a server is called.
pub const ENDPOINT: &str = "endpoint";
/// The component's own notification.
pub const EVENT: &str = "event";
