//! Typed capabilities: a cptr with the kind of object that its capability names.
//!
//! A component names a place of its CSpace by its cptr; the place itself is a slot of a CNode (seL4 manual, chapter 3).

use core::fmt;
use core::hash::{Hash, Hasher};
use core::marker::PhantomData;
use serde::{Deserialize, Serialize};

/// A capability pointer: the path to a slot in the component's CSpace.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct CPtr(u64);

impl CPtr {
    /// The cptr with this number.
    #[must_use]
    pub const fn new(bits: u64) -> Self {
        Self(bits)
    }

    /// The bare number.
    #[must_use]
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// This cptr, declared to hold a `T`. A wrong declaration leads to an `InvalidCapability` at the first invocation.
    #[must_use]
    pub const fn cast<T: CapType>(self) -> Cap<T> {
        Cap { cptr: self, object: PhantomData }
    }
}

/// A capability to a `T`: the cptr of it.
pub struct Cap<T: CapType> {
    cptr: CPtr,
    object: PhantomData<T>,
}

impl<T: CapType> Cap<T> {
    /// The capability at cptr `bits`.
    #[must_use]
    pub const fn from_bits(bits: u64) -> Self {
        CPtr::new(bits).cast()
    }

    /// The bare number of its cptr.
    #[must_use]
    pub const fn bits(self) -> u64 {
        self.cptr.bits()
    }

    /// The cptr.
    #[must_use]
    pub const fn cptr(self) -> CPtr {
        self.cptr
    }
}

impl<T: CapType> Clone for Cap<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T: CapType> Copy for Cap<T> {}
impl<T: CapType> PartialEq for Cap<T> {
    fn eq(&self, other: &Self) -> bool {
        self.cptr == other.cptr
    }
}
impl<T: CapType> Eq for Cap<T> {}
impl<T: CapType> Hash for Cap<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.cptr.hash(state);
    }
}
impl<T: CapType> fmt::Debug for Cap<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}({})", T::NAME, self.cptr.bits())
    }
}

mod sealed {
    pub trait Sealed {}
}

/// The kinds of object a capability can name.
pub trait CapType: sealed::Sealed + 'static {
    /// The kind's name, as in rust-sel4.
    const NAME: &'static str;
}

macro_rules! cap_types {
    ($($(#[$doc:meta])* $name:ident),+ $(,)?) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub enum $name {}
        impl sealed::Sealed for $name {}
        impl CapType for $name {
            const NAME: &'static str = stringify!($name);
        }
    )+};
}

cap_types!(
    /// Memory not yet made into objects.
    Untyped,
    /// A synchronous endpoint.
    Endpoint,
    /// An asynchronous notification word.
    Notification,
    /// A node of capability slots.
    CNode,
    /// A thread.
    Tcb,
    /// An address space: the root of its translation tables.
    VSpace,
    /// A translation table below the root of a VSpace.
    TranslationTable,
    /// A frame of memory or of device registers.
    Frame,
    /// A page table of the IOMMU.
    IoPageTable,
    /// The address space of one PCI requester id.
    IoSpace,
    /// A range of I/O ports, on x86_64.
    IoPort,
    /// The right to make interrupt handlers.
    IrqControl,
    /// An interrupt.
    IrqHandler,
    /// The right to make ASID pools.
    AsidControl,
    /// A pool of address space identifiers.
    AsidPool,
);

/// A cptr from a CNode on, for CNode invocations.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AbsoluteCPtr {
    /// The CNode the path starts from.
    pub root: Cap<CNode>,
    /// The path.
    pub index: u64,
    /// Bits of the path to resolve.
    pub depth: u8,
}

/// Access rights of a capability (seL4 manual, section 3.1.4).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Rights {
    /// Receive, or read.
    pub read: bool,
    /// Send, or write.
    pub write: bool,
    /// Send capabilities, in a message or in the answer to a call that was received; and be answered a call.
    pub grant: bool,
    /// Be answered a call, which then carries no capability. seL4 5.0.0 lacks this right: there it is grant.
    pub grant_reply: bool,
}

impl Rights {
    /// Every right.
    pub const ALL: Self = Self { read: true, write: true, grant: true, grant_reply: true };
    /// Read and write without grant.
    pub const READ_WRITE: Self = Self { read: true, write: true, grant: false, grant_reply: false };
    /// Read alone.
    pub const READ: Self = Self { read: true, write: false, grant: false, grant_reply: false };
    /// Write alone.
    pub const WRITE: Self = Self { read: false, write: true, grant: false, grant_reply: false };
    /// Rights that a caller needs to an endpoint: send, and be answered.
    pub const CALL: Self = Self { read: false, write: true, grant: false, grant_reply: true };
    /// Rights of a caller that sends capabilities along.
    pub const CALL_WITH_CAPS: Self = Self { read: false, write: true, grant: true, grant_reply: false };
}

/// The levels of translation tables below the root, the same on both architectures: addresses of 48 bits, pages of 4 KiB,
/// 512 entries per table (Intel SDM volume 3, section 4.5; Arm ARM DDI 0487, section D8.2).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub enum TableLevel {
    /// Entries are tables of level two: a PDPT, or a page upper directory.
    One,
    /// Entries are tables of level three or large frames: a page directory.
    Two,
    /// Entries are small frames: a page table.
    Three,
}

impl TableLevel {
    /// All levels, from the one below the root on: the order in which they are mapped.
    pub const ALL: [Self; 3] = [Self::One, Self::Two, Self::Three];

    /// The level of this number, 1 to 3.
    #[must_use]
    pub const fn new(number: u8) -> Option<Self> {
        match number {
            1 => Some(Self::One),
            2 => Some(Self::Two),
            3 => Some(Self::Three),
            _ => None,
        }
    }

    /// log2 of the bytes that a table of this level translates.
    #[must_use]
    pub const fn span_bits(self) -> u8 {
        match self {
            Self::One => 39,
            Self::Two => 30,
            Self::Three => 21,
        }
    }

    /// log2 of the bytes that an entry of it translates.
    #[must_use]
    pub const fn entry_bits(self) -> u8 {
        match self {
            Self::One => 30,
            Self::Two => 21,
            Self::Three => 12,
        }
    }

    /// The level whose entries are tables of this one; `None` for the root.
    #[must_use]
    pub const fn above(self) -> Option<Self> {
        match self {
            Self::One => None,
            Self::Two => Some(Self::One),
            Self::Three => Some(Self::Two),
        }
    }
}

/// Object types that an untyped can be retyped to. Sizes that the type does not fix are given to retype in bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum ObjectType {
    /// A smaller untyped; size in bytes.
    Untyped,
    /// See [`Endpoint`].
    Endpoint,
    /// See [`Notification`].
    Notification,
    /// See [`CNode`]; size in slots.
    CNode,
    /// See [`Tcb`].
    Tcb,
    /// See [`VSpace`].
    VSpace,
    /// See [`TranslationTable`].
    TranslationTable(TableLevel),
    /// A frame of 4 KiB.
    SmallPage,
    /// A frame of 2 MiB.
    LargePage,
    /// See [`IoPageTable`].
    IoPageTable,
}
