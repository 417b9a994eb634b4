//! Results of the bridges' registers: the number of each bus, the reach and the requester ids of requests, and the
//! function that decodes each address. Neighbour: `routing` computes them.

use crate::ids::{BusId, FunctionId};
use core::ops::Range;

/// A bus, as seen from the root.
#[derive(Clone, Debug, Default)]
pub(crate) struct View {
    /// The bus's number, when all bridges above agree on one.
    pub(crate) number: Option<u8>,
    /// Whether requests from here reach the root: everything above is on and bus master.
    pub(crate) up: Up,
    /// The requester id that requests get on their way, if they do not keep their own.
    pub(crate) rename: Option<u16>,
    /// Addresses that are forwarded down to here.
    pub(crate) windows: Vec<Range<u64>>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Up {
    #[default]
    Closed,
    NotMaster,
    Open,
}

/// The bus at which an access to a bus number arrives.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Claim {
    pub(crate) bus: Option<BusId>,
    /// Two bridges forward it.
    pub(crate) ambiguous: bool,
}

/// Addresses that one BAR answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Decoded {
    pub(crate) start: u64,
    /// The last one.
    pub(crate) last: u64,
    /// Where the BAR begins.
    pub(crate) base: u64,
    pub(crate) function: FunctionId,
    pub(crate) bar: u8,
}

/// A pair on one bus that answers the same address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Overlap {
    pub(crate) function: FunctionId,
    pub(crate) other: FunctionId,
    pub(crate) address: u64,
}
