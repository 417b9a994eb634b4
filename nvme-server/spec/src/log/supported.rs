//! The log pages about log pages and about features (base specification 2.0, sections 5.16.1.1 and 5.16.1.18).

use bitfield_struct::bitfield;
use zerocopy::little_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Supported Log Pages, log page 00h. Each entry is a [`PageSupport`].
#[derive(Clone, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct SupportedPages {
    /// LIDS0 to LIDS255: log pages, by identifier.
    pub pages: [U32; 256],
}

const _: () = assert!(size_of::<SupportedPages>() == 1024 && align_of::<SupportedPages>() == 1);

/// LID Supported and Effects: an entry of [`SupportedPages`].
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct PageSupport {
    /// LSUPP: the page is supported.
    pub supported: bool,
    /// IOS: an offset may be an index.
    pub index_offset: bool,
    #[bits(14)]
    __: u16,
    /// The page defines it.
    pub parameter: u16,
}

/// Feature Identifiers Supported and Effects, log page 12h. Each entry is a [`FeatureEffects`].
#[derive(Clone, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct SupportedFeatures {
    /// FIS0 to FIS255: features, by identifier.
    pub features: [U32; 256],
}

const _: () = assert!(size_of::<SupportedFeatures>() == 1024 && align_of::<SupportedFeatures>() == 1);

/// FID Supported and Effects: an entry of [`SupportedFeatures`].
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct FeatureEffects {
    /// FSUPP: the feature is supported; all else is 0 when it is not.
    pub supported: bool,
    /// UDCC: a new value may change user data.
    pub user_data: bool,
    /// NCC: it may change capabilities of a namespace.
    pub namespace: bool,
    /// NIC: it may change the inventory of namespaces.
    pub inventory: bool,
    /// CCC: it may change capabilities of the controller.
    pub controller: bool,
    #[bits(14)]
    __: u16,
    /// UUID selection is supported.
    pub uuid: bool,
    /// FSP: see [`super::Scope`].
    #[bits(12)]
    pub scope: u16,
}
