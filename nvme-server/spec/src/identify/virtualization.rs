//! Primary and secondary controllers: their resources and states.

use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Primary Controller Capabilities (section 5.15.2.10).
#[derive(Clone, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct PrimaryCapabilities {
    /// CNTLID: the primary controller's identifier.
    pub cntlid: U16,
    /// PORTID: its port.
    pub portid: U16,
    /// CRT: kinds of resources: bit 0 VQ, bit 1 VI. See [`PrimaryCapabilities::KINDS`].
    pub crt: u8,
    reserved_5: [u8; 27],
    /// VQ resources: VQFRT, VQRFA, VQRFAP, VQPRT, VQFRSM, VQGRAN.
    pub queues: ResourceCounts,
    reserved_48: [u8; 16],
    /// VI resources: VIFRT, VIRFA, VIRFAP, VIPRT, VIFRSM, VIGRAN.
    pub interrupts: ResourceCounts,
    reserved_80: [u8; 4016],
}

const _: () = assert!(size_of::<PrimaryCapabilities>() == 4096 && align_of::<PrimaryCapabilities>() == 1);

impl PrimaryCapabilities {
    /// CRT of a controller with resources of both kinds.
    pub const KINDS: u8 = 0b11;
}

/// The numbers of one kind of resource (section 5.15.2.10). `x` is Q or I.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ResourceCounts {
    /// VxFRT: flexible resources of the primary and all its secondary controllers.
    pub flexible: U32,
    /// VxRFA: flexible resources assigned to secondary controllers.
    pub assigned: U32,
    /// VxRFAP: flexible resources allocated to the primary controller.
    pub primary: U16,
    /// VxPRT: private resources of the primary controller.
    pub private: U16,
    /// VxFRSM: most flexible resources of one secondary controller.
    pub secondary_max: U16,
    /// VxGRAN: preferred granularity of assignments.
    pub granularity: U16,
}

const _: () = assert!(size_of::<ResourceCounts>() == 16 && align_of::<ResourceCounts>() == 1);

impl ResourceCounts {
    /// Flexible resources that no controller has; `None` for impossible numbers.
    #[must_use]
    pub fn free(&self) -> Option<u32> {
        self.flexible.get().checked_sub(self.assigned.get())?.checked_sub(u32::from(self.primary.get()))
    }
}

/// A secondary controller list (section 5.15.2.11): up to 127 entries, ascending by identifier.
#[derive(Clone, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct SecondaryList {
    /// The number of entries.
    pub count: u8,
    reserved_1: [u8; 31],
    /// The entries as they stand.
    pub entries: [SecondaryController; SecondaryList::MAX],
}

const _: () = assert!(size_of::<SecondaryList>() == 4096);

impl SecondaryList {
    /// Entries that a list has room for.
    pub const MAX: usize = 127;

    /// The first 127 of these entries; they must ascend by identifier.
    #[must_use]
    pub fn of(entries: impl Iterator<Item = SecondaryController>) -> Self {
        let mut list =
            Self { count: 0, reserved_1: [0; 31], entries: [SecondaryController::default(); SecondaryList::MAX] };
        for (place, entry) in list.entries.iter_mut().zip(entries) {
            *place = entry;
            list.count = list.count.saturating_add(1);
        }
        list
    }

    /// The entries; `None` when there are more than the list can hold or they do not ascend.
    #[must_use]
    pub fn listed(&self) -> Option<&[SecondaryController]> {
        let entries = self.entries.get(..usize::from(self.count))?;
        entries.is_sorted_by(|a, b| a.scid.get() < b.scid.get()).then_some(entries)
    }
}

/// A secondary controller as its primary reports it (section 5.15.2.11).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct SecondaryController {
    /// SCID: its identifier.
    pub scid: U16,
    /// PCID: the primary controller's identifier.
    pub pcid: U16,
    /// SCS: bit 0, online. See [`SecondaryController::is_online`].
    pub scs: u8,
    reserved_5: [u8; 3],
    /// VFN: number of its virtual function, from 1 on; 0 for a controller that has none.
    pub vfn: U16,
    /// NVQ: flexible VQ resources assigned.
    pub nvq: U16,
    /// NVI: flexible VI resources assigned.
    pub nvi: U16,
    reserved_14: [u8; 18],
}

const _: () = assert!(size_of::<SecondaryController>() == 32 && align_of::<SecondaryController>() == 1);

impl SecondaryController {
    /// SCS of a controller that is online.
    pub const ONLINE: u8 = 1;

    /// Whether the controller can be enabled.
    #[must_use]
    pub const fn is_online(&self) -> bool {
        self.scs & Self::ONLINE != 0
    }
}
