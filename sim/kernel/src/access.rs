//! Kinds of memory access.

/// The kind of a memory access.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Access {
    /// A load.
    Read,
    /// A store.
    Write,
    /// An instruction fetch. On x86_64 all readable memory can be executed: the kernel does not use no-execute.
    Execute,
}
