//! Small fields of Identify Controller and Identify Namespace as flags.

use bitfield_struct::bitfield;

/// CMIC of [`super::Controller`]: other ports and controllers of the subsystem (figure 247).
#[bitfield(u8)]
#[derive(PartialEq, Eq)]
pub struct Cmic {
    /// More than one port.
    pub ports: bool,
    /// More than one controller.
    pub controllers: bool,
    /// This controller is of an SR-IOV virtual function.
    pub virtual_function: bool,
    /// Asymmetric namespace access is reported.
    pub access: bool,
    #[bits(4)]
    __: u8,
}

/// OAES of [`super::Controller`]: events that can be switched on and off (figure 247).
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct Oaes {
    __: u8,
    /// Namespace attribute notices.
    pub namespace_changed: bool,
    /// Firmware activation notices.
    pub firmware_activation: bool,
    #[bits(22)]
    __: u32,
}

/// FRMW of [`super::Controller`]: firmware slots (figure 247).
#[bitfield(u8)]
#[derive(PartialEq, Eq)]
pub struct Frmw {
    /// The first slot is read-only.
    pub first_read_only: bool,
    /// Number of slots, 1 to 7.
    #[bits(3)]
    pub slots: u8,
    /// Firmware can be activated without a reset.
    pub activate_without_reset: bool,
    #[bits(3)]
    __: u8,
}

/// LPA of [`super::Controller`]: log pages (figure 247).
#[bitfield(u8)]
#[derive(PartialEq, Eq)]
pub struct Lpa {
    /// Each namespace has a SMART page.
    pub smart_of_namespace: bool,
    /// Commands Supported and Effects is supported.
    pub effects: bool,
    /// Lengths of 32 bits, and offsets.
    pub extended: bool,
    /// Telemetry.
    pub telemetry: bool,
    /// Persistent events.
    pub persistent_events: bool,
    /// The log pages of supported log pages and features, and scopes in that of effects. Since revision 2.0.
    pub supported_pages: bool,
    #[bits(2)]
    __: u8,
}

/// CTRATT of [`super::Controller`]: what else the controller supports (figure 247).
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct Ctratt {
    /// Host identifiers of 128 bits.
    pub long_host_id: bool,
    #[bits(31)]
    __: u32,
}

/// SANICAP of [`super::Controller`]: sanitize operations (figure 247).
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct Sanicap {
    /// CES: crypto erase.
    pub crypto: bool,
    /// BES: block erase.
    pub erase: bool,
    /// OWS: overwrite.
    pub overwrite: bool,
    #[bits(26)]
    __: u32,
    /// NDI: blocks never stay allocated by request.
    pub keep_inhibited: bool,
    /// NODMMAS: 1 when media are not changed after an operation, 2 when they are.
    #[bits(2)]
    pub modifies_after: u8,
}

/// FNA of [`super::Controller`]: Format NVM (figure 247).
#[bitfield(u8)]
#[derive(PartialEq, Eq)]
pub struct Fna {
    /// A format applies to all namespaces.
    pub format_all: bool,
    /// A secure erase applies to all namespaces.
    pub erase_all: bool,
    /// Cryptographic erase is supported.
    pub cryptographic: bool,
    #[bits(5)]
    __: u8,
}

/// FLBAS of [`super::Namespace`]: the format in use (figure 245; NVM command set specification 1.0, figure 97).
#[bitfield(u8)]
#[derive(PartialEq, Eq)]
pub struct Flbas {
    /// Bits 3:0 of the format's index.
    #[bits(4)]
    pub index_low: u8,
    /// Metadata follow each block's data, instead of being in a buffer of their own.
    pub metadata_extended: bool,
    /// Bits 5:4 of the format's index. Reserved in revision 1.4.
    #[bits(2)]
    pub index_high: u8,
    __: bool,
}

impl Flbas {
    /// Index of the format, 0 to 63.
    #[must_use]
    pub const fn index(self) -> u8 {
        self.index_low() | self.index_high() << 4
    }

    /// The format of this index, of which six bits count, with metadata apart.
    #[must_use]
    pub const fn of(index: u8) -> Self {
        Self::new().with_index_low(index & 0xf).with_index_high(index >> 4 & 3)
    }
}

/// NSFEAT of [`super::Namespace`] (figure 245).
#[bitfield(u8)]
#[derive(PartialEq, Eq)]
pub struct Nsfeat {
    /// Thin provisioning: NCAP may be less than NSZE.
    pub thin: bool,
    /// NAWUN, NAWUPF and NACWU hold for this namespace.
    pub atomicity: bool,
    /// Reading deallocated or unwritten blocks can be made an error.
    pub unwritten_error: bool,
    /// NGUID and EUI64 are never used again.
    pub ids_unique: bool,
    /// NPWG, NPWA, NPDG, NPDA and NOWS hold for this namespace.
    pub preferred_sizes: bool,
    #[bits(3)]
    __: u8,
}
