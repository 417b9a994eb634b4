//! The PCI server's interface: a driver's requests over its endpoint, and the answers.
//!
//! A driver is known by the badge of its endpoint capability. It claims a function, fetches the function's capabilities, one
//! per message (an seL4 message cannot deliver more), and starts it:
//!
//! 1. [`CLAIM`] by class code or BDF. The server maps the function's BAR pages (never the page of an MSI-X table or PBA)
//!    into the driver's arena and answers with a [`Claimed`]: where they are.
//! 2. [`BAR_FRAME`] for a capability to each page, [`VECTOR`] for each interrupt (the call carries the driver's badged
//!    notification, the answer the capability that binds it), [`IO_SPACE`] for the function's IOSpace.
//! 3. [`START`] turns bus mastering on, last; [`RELEASE`] turns it off, first, and revokes all capabilities of the claim.
//!
//! A driver of the device in a hot-plug slot has a page that shows whether that is there ([`presence`]). It claims what arrives
//! and releases what is to leave or is gone.
//!
//! [`INTERRUPTS`] changes the interrupt mode of a claimed function, while the rest of the claim stays.
//!
//! [`VIRTUAL_FUNCTIONS`] enables virtual functions of the claimed function (SR-IOV). Each of them is claimed as above, by the
//! driver that [`Match::Virtual`] allows it. It then stays with that driver, whatever becomes of the physical function's
//! driver, unless that one withdraws it ([`WITHDRAW`]).
//!
//! The driver needs no VSpace capability: a component that holds frames of client windows must not be able to map them,
//! and the NVMe server holds those (`docs/decisions`).

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod names;
pub mod presence;

use alloc::vec::Vec;
use platform::{Message, Paddr, Vaddr};
use serde::{Deserialize, Serialize};
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// Function number [`Index`] of those found on the bus, answered with a [`Function`]; [`Refusal::NoSuchFunction`] beyond the
/// last. Virtual functions are not among them.
pub const LIST: u32 = 1;
/// Claims a function; carries a [`Claim`], answered with a [`Claimed`].
pub const CLAIM: u32 = 2;
/// The capability to page [`Index`] of the claimed function's mapped BAR pages, counted through [`Claimed::runs`].
pub const BAR_FRAME: u32 = 3;
/// The interrupt of vector [`Index`]; the caller's badged notification goes along. Answered with a [`Bound`] and the
/// capability it names. A vector asked for again is bound to the new notification.
pub const VECTOR: u32 = 4;
/// The capability to the function's IOSpace. It ends with [`RELEASE`], and the device then reaches nothing.
pub const IO_SPACE: u32 = 5;
/// Turns bus mastering on. The driver must have reset the device first.
pub const START: u32 = 6;
/// Turns bus mastering off and takes everything back. A virtual function is reset too, and can be claimed again 100 ms
/// later (PCIe 6.6.2). The virtual functions of a physical one stay, with their drivers.
pub const RELEASE: u32 = 7;
/// Changes the interrupt mode of the claimed function to [`Index`] ([`INTERRUPTS_MSIX`] and the others). Answered with
/// the [`Count`] of vectors that can be asked for. Nothing else of the claim changes. All vectors of the old mode end, so
/// the driver asks for each with [`VECTOR`] again. After a refusal it does so as well, and the function interrupts as
/// before. The driver must have disabled the device.
pub const INTERRUPTS: u32 = 8;
/// Enables [`Index`] virtual functions of the claimed function, or disables them for 0. Answered with the [`Count`] of virtual
/// functions that can be claimed. It is 0 as long as the steps take: the driver repeats the request until it is the number
/// asked for. The answer is that number at once if so many are enabled, whoever asked for them.
///
/// Otherwise the driver must have disabled the device. The server resets the function if it can be reset alone, which takes
/// 100 ms (PCIe 6.6.2) and gives effect to queue resources that were assigned to virtual functions. The driver's other requests
/// are refused with [`Refusal::NotReady`] meanwhile. BARs, bus mastering and bound vectors are afterwards as before. Then
/// virtual functions are enabled, and need 100 ms more (PCIe 9.3.3.3.1). The driver must not access registers before the count
/// is the number asked for.
///
/// Refused with [`Refusal::NoSuchFunction`]: more than there are. [`Refusal::Busy`]: another number is enabled or on its way,
/// or, for 0, one of them is claimed. [`Refusal::Unusable`]: the function has none, or they or it do not work as described, or
/// it interrupts by a line that drivers share.
pub const VIRTUAL_FUNCTIONS: u32 = 9;

/// Withdraws virtual function [`Index`], from 0, of those that the caller enables ([`Match::Virtual`]), whether its driver has
/// claimed it or not. Bus mastering and interrupts are turned off, the function is reset, and its IOSpace ends. The driver's
/// requests are refused with [`Refusal::Withdrawn`] from then on, until [`RESTORE`]. Its register pages stay until [`RELEASE`],
/// because an access to a page that is gone would end the driver.
pub const WITHDRAW: u32 = 10;
/// Lets the driver of virtual function [`Index`] claim it again, after it has released a claim from before.
pub const RESTORE: u32 = 11;

/// The label of an answer to a granted request; others are [`Refusal`]s.
pub const GRANTED: u32 = 0;

/// Reason of a refused request: the label of the answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[repr(u32)]
pub enum Refusal {
    /// The message is not one of this interface.
    BadRequest = Message::ANSWERS,
    /// No such function exists.
    NoSuchFunction,
    /// The specification does not allow this driver that function.
    NotAllowed,
    /// Another driver has it, or the caller has one already.
    Busy,
    /// Nothing is claimed.
    NotClaimed,
    /// Fewer vectors than that.
    NoSuchVector,
    /// The function has registers in pages that cannot be given, or lacks the requested property.
    Unusable,
    /// Cptrs, interrupts, arena or memory are used up.
    Exhausted,
    /// The kernel refused; the log has the invocation.
    Kernel,
    /// Functions' addresses are not translated: a driver gives them the machine's own addresses.
    NoIommu,
    /// The function is being reset. The same request is possible at most 100 ms later.
    NotReady,
    /// The function was withdrawn from this driver. Of a claim from before only [`RELEASE`] is possible.
    Withdrawn,
}

impl Refusal {
    const ALL: [Self; 12] = [
        Self::BadRequest,
        Self::NoSuchFunction,
        Self::NotAllowed,
        Self::Busy,
        Self::NotClaimed,
        Self::NoSuchVector,
        Self::Unusable,
        Self::Exhausted,
        Self::Kernel,
        Self::NoIommu,
        Self::NotReady,
        Self::Withdrawn,
    ];

    /// The refusal with this label; an unknown label counts as [`Refusal::BadRequest`].
    #[must_use]
    pub fn from_label(label: u32) -> Self {
        Self::ALL.into_iter().find(|refusal| *refusal as u32 == label).unwrap_or(Self::BadRequest)
    }
}

impl core::fmt::Display for Refusal {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::BadRequest => "not a request of this interface",
            Self::NoSuchFunction => "no such function",
            Self::NotAllowed => "not allowed by the specification",
            Self::Busy => "already claimed",
            Self::NotClaimed => "nothing is claimed",
            Self::NoSuchVector => "no such vector",
            Self::Unusable => "the function lacks what was asked",
            Self::Exhausted => "cptrs, interrupts, arena or memory are used up",
            Self::Kernel => "the kernel refused",
            Self::NoIommu => "there is no IOMMU",
            Self::NotReady => "the function is being reset",
            Self::Withdrawn => "the function was withdrawn",
        })
    }
}

/// An index.
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct Index(pub u64);

/// A number of things.
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct Count(pub u64);

/// A function on the bus. BDFs are bus << 8 | device << 3 | function.
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct Function {
    /// The function's BDF.
    pub bdf: u16,
    /// The bridge above it, 0xffff on a root bus.
    pub parent: u16,
    /// Vendor id.
    pub vendor: u16,
    /// Device id.
    pub device: u16,
    /// Class code: class << 16 | subclass << 8 | programming interface.
    pub class_code: u32,
    /// MSI-X vectors, 0 without MSI-X.
    pub msix_vectors: u16,
    /// MSI vectors, 0 without MSI that can be used.
    pub msi_vectors: u8,
    /// Interrupt pin, 1..=4, 0 for none.
    pub pin: u8,
}

/// A claim of a function.
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct Claim {
    /// By BDF, or 0xffff to claim by class code.
    pub bdf: u16,
    /// [`INTERRUPTS_MSIX`], [`INTERRUPTS_INTX`] or [`INTERRUPTS_MSI`]; of a virtual function only the first.
    pub interrupts: u16,
    /// By class code (class << 16 | subclass << 8 | programming interface): the first free one the driver is allowed. A virtual
    /// function has that of its physical function.
    pub class_code: u32,
}

/// Deliver interrupts by MSI-X.
pub const INTERRUPTS_MSIX: u16 = 0;
/// Deliver interrupts by the INTx pin: one vector, level triggered.
pub const INTERRUPTS_INTX: u16 = 1;
/// Deliver interrupts by MSI: a power of two of vectors, with consecutive messages.
pub const INTERRUPTS_MSI: u16 = 2;

/// Payload of the answer to [`VECTOR`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct Bound {
    /// [`BY_HANDLER`] or [`BY_SERVER`].
    pub by: u64,
}

/// The IRQHandler: the kernel signals the driver, and the driver acknowledges.
pub const BY_HANDLER: u64 = 0;
/// A notification capability, for a line at which functions of several drivers end and whose handler the server has. When
/// the function interrupts, the server disables its pin and signals the driver. The driver signals this notification
/// instead of an acknowledgement, and the pin is enabled again.
pub const BY_SERVER: u64 = 1;

/// Runs of BAR pages a claim can have.
pub const MAX_RUNS: usize = 8;

/// Answer to a claim.
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct Claimed {
    /// The function.
    pub bdf: u16,
    /// The id its requests carry on the bus.
    pub requester_id: u16,
    /// Vectors that can be asked for.
    pub vectors: u16,
    /// Runs that count in `runs`.
    pub run_count: u16,
    /// Addresses of the BAR pages in the driver's arena.
    pub runs: [BarRun; MAX_RUNS],
}

/// Consecutive pages of one BAR.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct BarRun {
    /// Address at which the first page is mapped in the driver.
    pub vaddr: u64,
    /// The first page's number in the BAR.
    pub first_page: u32,
    /// Pages.
    pub pages: u16,
    /// The BAR.
    pub bar: u16,
}

/// The PCI server's configuration, written by the system's model.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ServerConfig {
    /// Buses whose configuration space is in the device region `ecam`, from 0 on, 1 MiB each.
    pub buses: u16,
    /// The device untypeds of the run `pci-window`, in its order: address and log2 of the size.
    pub pci_windows: Vec<(Paddr, u8)>,
    /// Whether the server numbers the buses and places BARs and bridge windows in `pci_windows`, as on a machine without
    /// firmware. Otherwise they stay as firmware left them.
    pub assign: bool,
    /// Whether there is an IOMMU, of which drivers are given IOSpaces.
    pub iommu: bool,
    /// Routing of the INTx pins of the root bus.
    pub intx_pins: IntxRouting,
    /// First kernel interrupt that may be used, and how many.
    pub irqs: (u8, u8),
    /// The drivers, by badge 1, 2, …
    pub drivers: Vec<DriverConfig>,
}

impl ServerConfig {
    /// The slots that drivers are for, each once.
    #[must_use]
    pub fn slots(&self) -> Vec<u16> {
        let mut slots: Vec<u16> = self.drivers.iter().filter_map(|driver| driver.allowed.slot()).collect();
        slots.sort_unstable();
        slots.dedup();
        slots
    }
}

/// The interrupt line, by the kernel's number, at which each INTx pin of each device on the root bus ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum IntxRouting {
    /// QEMU's q35, whose lines are pins of the I/O APIC: devices 0..=24 go to 20..=23 by (device + pin) mod 4, device 30
    /// to the same by pin, and the other devices from 25 on to 16..=19 by pin.
    Q35,
    /// QEMU's virt for AArch64, whose lines are INTIDs of the GIC: all devices go to 35..=38 (SPIs 3 to 6) by
    /// (device + pin) mod 4.
    Virt,
}

/// A driver and its rights. Its VSpace is capability number `badge - 1` of the run `driver-vspace`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct DriverConfig {
    /// The driver's name, for the log.
    pub name: alloc::string::String,
    /// The functions it may claim.
    pub allowed: Match,
    /// Address at which BAR pages are mapped in its VSpace.
    pub arena: Vaddr,
    /// Bytes of arena.
    pub arena_len: u64,
    /// Pages of BAR 0 that it uses, from the first on: no others are mapped.
    pub pages: u32,
    /// Vectors it may have.
    pub max_vectors: u16,
    /// The IOMMU domain of its function, one per driver.
    pub domain: u16,
}

/// Selection of functions.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Match {
    /// The one at this BDF.
    Bdf(u16),
    /// Number `index`, in the order of the bus walk, of those with this class, subclass and programming interface that are not
    /// in a slot of [`Match::Slot`].
    ClassCode {
        /// Class, subclass, programming interface.
        class_code: [u8; 3],
        /// The function's number among them, from 0.
        index: u16,
    },
    /// The functions of the device in the hot-plug slot with this physical number, whichever device that is. Nothing else
    /// selects them.
    Slot(u16),
    /// A virtual function, which nothing else selects.
    Virtual {
        /// The driver that enables it: its place in [`ServerConfig::drivers`], from 0.
        driver: u16,
        /// The function's number among the virtual functions of that driver's function, from 0.
        index: u16,
    },
}

impl Match {
    /// The slot whose device is selected.
    #[must_use]
    pub const fn slot(&self) -> Option<u16> {
        match self {
            Self::Slot(number) => Some(*number),
            Self::Bdf(_) | Self::ClassCode { .. } | Self::Virtual { .. } => None,
        }
    }

    /// Whether a virtual function is selected: its driver is a client.
    #[must_use]
    pub const fn is_virtual(&self) -> bool {
        matches!(self, Self::Virtual { .. })
    }
}
