//! Names of functions and buses.

/// A function, for as long as it is in the tree. An id is never reused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct FunctionId(pub(crate) u32);

/// A bus, whatever number software assigns. [`BusId::ROOT`] is always bus 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct BusId(pub(crate) u32);

impl BusId {
    /// The root bus.
    pub const ROOT: Self = Self(0);
}
