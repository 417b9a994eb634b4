//! The meaning of a namespace identifier (section 6.1).

use nvme_spec::{Nsid, Status, StatusCode};

use crate::command::refused;
use crate::controller::Controller;

/// Kinds of valid identifiers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Named {
    /// 0: no namespace.
    Nothing,
    /// All ones: every namespace.
    All,
    /// A namespace that is attached to this controller.
    Active,
    /// A namespace that exists and is not attached.
    Inactive,
    /// An identifier that no namespace has.
    Unallocated,
}

/// Returns the kind of an identifier; `None` when it is beyond NN.
pub(crate) fn named(controller: &Controller, nsid: Nsid) -> Option<Named> {
    match nsid {
        Nsid::NONE => Some(Named::Nothing),
        Nsid::ALL => Some(Named::All),
        Nsid(number) if number > largest(controller) => None,
        Nsid(number) => Some(match controller.namespaces.get(number) {
            Some(namespace) if controller.namespaces.is_attached(namespace) => Named::Active,
            Some(_) => Named::Inactive,
            None => Named::Unallocated,
        }),
    }
}

/// NN: the largest identifier a namespace can have.
pub(crate) fn largest(controller: &Controller) -> u32 {
    let there = controller.namespaces.iter().map(|namespace| namespace.nsid).max();
    controller.config.admin.max_namespaces.max(there.unwrap_or(0))
}

/// Checks that an I/O command can name this namespace now.
///
/// # Errors
/// Format in Progress; Invalid Field in Command for a namespace that is not active but could be, and for the broadcast
/// value; Invalid Namespace or Format for one that cannot be (section 4.2).
pub(crate) fn check_active(controller: &mut Controller, nsid: Nsid) -> Result<(), Status> {
    match controller.namespaces.active(nsid) {
        Ok(namespace) if namespace.formatted_ns > controller.clock_ns => Err(Status::new(StatusCode::FormatInProgress)),
        Ok(_) => Ok(()),
        Err(_) => match named(controller, nsid) {
            Some(Named::Inactive | Named::Unallocated | Named::All) => Err(refused(StatusCode::InvalidField)),
            Some(Named::Nothing | Named::Active) | None => Err(refused(StatusCode::InvalidNamespaceOrFormat)),
        },
    }
}

/// Checks that none of these namespaces is being formatted.
///
/// # Errors
/// Format in Progress.
pub(crate) fn check_formatted(controller: &Controller, nsids: &[u32]) -> Result<(), Status> {
    let is_busy = |nsid: &u32| {
        controller.namespaces.get(*nsid).is_some_and(|namespace| namespace.formatted_ns > controller.clock_ns)
    };
    if nsids.iter().any(is_busy) { Err(Status::new(StatusCode::FormatInProgress)) } else { Ok(()) }
}
