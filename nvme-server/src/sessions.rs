//! Sessions: their slots and phases, the calls of clients and of the policy component, opening and teardown.

pub(crate) mod acknowledgements;
pub(crate) mod calls;
pub(crate) mod opening;
pub(crate) mod phase;
pub(crate) mod policy;
pub(crate) mod shares;
pub(crate) mod slot;
pub(crate) mod teardown;
pub(crate) mod watched;
pub(crate) mod windows;
