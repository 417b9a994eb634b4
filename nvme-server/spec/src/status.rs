//! The status field of a completion: the outcome of a command (section 4.6.1).
//!
//! A code has no meaning without its type, so [`StatusCode`] always holds both.

use core::fmt;

const SCT_SC_MASK: u16 = 0x07ff;
const CRD_SHIFT: u32 = 11;
const MORE: u16 = 1 << 13;
const DNR: u16 = 1 << 14;
const MASK: u16 = 0x7fff;

/// The whole status field: 15 bits, without the phase tag that shares its half word.
///
/// SC in bits 7:0, SCT in 10:8, CRD in 12:11, M in 13, DNR in 14.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Status(u16);

impl Status {
    /// The command succeeded.
    pub const SUCCESS: Self = Self(0);

    /// From the 15 bits of the field; bit 15 is ignored.
    #[must_use]
    pub const fn from_raw(raw: u16) -> Self {
        Self(raw & MASK)
    }

    /// The 15 bits of the field.
    #[must_use]
    pub const fn to_raw(self) -> u16 {
        self.0
    }

    /// A status with this code and no flags.
    #[must_use]
    pub const fn new(code: StatusCode) -> Self {
        Self(code.to_bits())
    }

    /// Type and code together.
    #[must_use]
    pub const fn code(self) -> StatusCode {
        StatusCode::from_bits(self.0 & SCT_SC_MASK)
    }

    /// SCT: the status code type, 0..=7.
    #[must_use]
    pub const fn sct(self) -> u8 {
        ((self.0 >> 8) & 7) as u8
    }

    /// SC: the status code within its type.
    #[must_use]
    pub const fn sc(self) -> u8 {
        (self.0 & 0xff) as u8
    }

    /// Whether the command succeeded. Flags do not matter.
    #[must_use]
    pub const fn is_success(self) -> bool {
        self.0 & SCT_SC_MASK == 0
    }

    /// CRD: the one of Identify Controller's three delays to keep before a retry; 0 is none.
    #[must_use]
    pub const fn retry_delay_index(self) -> u8 {
        ((self.0 >> CRD_SHIFT) & 3) as u8
    }

    /// M: the error log holds more about this.
    #[must_use]
    pub const fn more(self) -> bool {
        self.0 & MORE != 0
    }

    /// DNR: the same command would fail again.
    #[must_use]
    pub const fn do_not_retry(self) -> bool {
        self.0 & DNR != 0
    }

    /// Whether the controller asks for the same command again later: the status is one of a state that passes, or comes with a
    /// delay, and DNR is not set (base specification 2.0, sections 3.3.3.2.1 and 3.3.3.2.1.1).
    #[must_use]
    pub const fn asks_for_retry(self) -> bool {
        use StatusCode::{AdminMediaNotReady, CommandInterrupted, NamespaceNotReady, TransientTransport};
        let passes =
            matches!(self.code(), CommandInterrupted | TransientTransport | AdminMediaNotReady | NamespaceNotReady);
        (passes || self.retry_delay_index() != 0) && !self.is_success() && !self.do_not_retry()
    }

    /// This status with another CRD, of which 2 bits count.
    #[must_use]
    pub const fn with_retry_delay_index(self, index: u8) -> Self {
        Self(self.0 & !(3 << CRD_SHIFT) | ((index & 3) as u16) << CRD_SHIFT)
    }

    /// This status with M set.
    #[must_use]
    pub const fn with_more(self) -> Self {
        Self(self.0 | MORE)
    }

    /// This status without M, for those who do not read the error log.
    #[must_use]
    pub const fn without_more(self) -> Self {
        Self(self.0 & !MORE)
    }

    /// This status with DNR set.
    #[must_use]
    pub const fn with_do_not_retry(self) -> Self {
        Self(self.0 | DNR)
    }
}

impl From<StatusCode> for Status {
    fn from(code: StatusCode) -> Self {
        Self::new(code)
    }
}

impl fmt::Debug for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Status({:#06x}: {:?}", self.0, self.code())?;
        if self.more() {
            f.write_str(", more")?;
        }
        if self.do_not_retry() {
            f.write_str(", do not retry")?;
        }
        f.write_str(")")
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.code().fmt(f)?;
        if self.do_not_retry() {
            f.write_str(" (do not retry)")?;
        }
        Ok(())
    }
}

/// Writes the enumeration, both conversions and the words from one table, so that they cannot disagree.
macro_rules! status_codes {
    ($($name:ident = $bits:literal $words:literal;)*) => {
        /// A status code with its type, by name where the standard has one (figures 126 to 130).
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        #[non_exhaustive]
        pub enum StatusCode {
            $(#[doc = concat!("Type and code ", stringify!($bits), ": ", $words, ".")] $name,)*
            /// A code without a name in this crate: reserved, newer than revision 1.4, or the vendor's.
            Other {
                /// SCT, 0..=7.
                sct: u8,
                /// SC.
                sc: u8,
            },
        }

        impl StatusCode {
            /// From SC in bits 7:0 and SCT in bits 10:8; higher bits are ignored.
            #[must_use]
            pub const fn from_bits(bits: u16) -> Self {
                match bits & SCT_SC_MASK {
                    $($bits => Self::$name,)*
                    other => Self::Other { sct: (other >> 8) as u8, sc: (other & 0xff) as u8 },
                }
            }

            /// SC in bits 7:0 and SCT in bits 10:8.
            #[must_use]
            pub const fn to_bits(self) -> u16 {
                match self {
                    $(Self::$name => $bits,)*
                    Self::Other { sct, sc } => (((sct & 7) as u16) << 8) | sc as u16,
                }
            }
        }

        impl fmt::Display for StatusCode {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match *self {
                    $(Self::$name => f.write_str($words),)*
                    Self::Other { sct, sc } => write!(f, "unnamed status, type {sct:#x} code {sc:#04x}"),
                }
            }
        }

        #[cfg(test)]
        const NAMED: &[(StatusCode, u16)] = &[$((StatusCode::$name, $bits)),*];
    };
}

status_codes! {
    // Generic command status, SCT 0 (section 4.6.1.2.1).
    Success = 0x000 "success";
    InvalidOpcode = 0x001 "the controller does not know this command";
    InvalidField = 0x002 "a field of the command has an invalid value";
    CidConflict = 0x003 "the command identifier is already in use";
    DataTransferError = 0x004 "data or metadata could not be transferred";
    PowerLossAborted = 0x005 "aborted because power is being lost";
    InternalError = 0x006 "internal error of the controller";
    AbortRequested = 0x007 "aborted on request";
    SqDeleted = 0x008 "aborted because its submission queue was deleted";
    FailedFused = 0x009 "aborted because the other command of the fused pair failed";
    MissingFused = 0x00a "aborted because the other command of the fused pair is missing";
    InvalidNamespaceOrFormat = 0x00b "the namespace does not exist or its format is wrong for this";
    CommandSequence = 0x00c "commands came in an order that is not allowed";
    InvalidSglSegment = 0x00d "an SGL segment descriptor is invalid";
    InvalidSglCount = 0x00e "the number of SGL descriptors is invalid";
    DataSglLength = 0x00f "the length of the data SGL is invalid";
    MetadataSglLength = 0x010 "the length of the metadata SGL is invalid";
    SglDescriptorType = 0x011 "the type of an SGL descriptor is invalid";
    InvalidCmbUse = 0x012 "the controller memory buffer may not be used like this";
    PrpOffset = 0x013 "the offset of a PRP entry is invalid";
    AtomicWriteUnit = 0x014 "longer than the atomic write unit";
    OperationDenied = 0x015 "denied for lack of access rights";
    SglOffset = 0x016 "the offset of an SGL descriptor is invalid";
    HostIdInconsistent = 0x018 "the host identifier's format is inconsistent";
    KeepAliveExpired = 0x019 "the keep alive time has run out";
    KeepAliveInvalid = 0x01a "the keep alive time is invalid";
    PreemptAborted = 0x01b "aborted by a reservation that was pre-empted";
    SanitizeFailed = 0x01c "the last sanitize failed and is not fixed yet";
    SanitizeInProgress = 0x01d "a sanitize is going on";
    SglBlockGranularity = 0x01e "the SGL's granularity is invalid";
    CommandNotSupportedInCmb = 0x01f "a queue in the controller memory buffer cannot hold this command";
    NamespaceWriteProtected = 0x020 "the namespace is write protected";
    CommandInterrupted = 0x021 "interrupted by the controller; to be tried again";
    TransientTransport = 0x022 "a transient transport error";
    CommandProhibited = 0x023 "prohibited by a lockdown of commands and features";
    AdminMediaNotReady = 0x024 "the medium that the administrative command needs is not ready";
    LbaOutOfRange = 0x080 "blocks beyond the end of the namespace";
    CapacityExceeded = 0x081 "the namespace's capacity is exceeded";
    NamespaceNotReady = 0x082 "the namespace is not ready";
    ReservationConflict = 0x083 "conflicts with a reservation";
    FormatInProgress = 0x084 "the namespace is being formatted";

    // Command specific status, SCT 1 (section 4.6.1.2.2).
    CqInvalid = 0x100 "the completion queue does not exist";
    InvalidQueueId = 0x101 "the queue identifier is invalid";
    InvalidQueueSize = 0x102 "the queue size is invalid";
    AbortLimit = 0x103 "too many aborts are outstanding";
    AerLimit = 0x105 "too many asynchronous event requests are outstanding";
    InvalidFirmwareSlot = 0x106 "the firmware slot is invalid";
    InvalidFirmwareImage = 0x107 "the firmware image is invalid";
    InvalidInterruptVector = 0x108 "the interrupt vector is invalid";
    InvalidLogPage = 0x109 "the log page does not exist";
    InvalidFormat = 0x10a "the LBA format is invalid";
    FirmwareNeedsReset = 0x10b "the new firmware needs a conventional reset";
    InvalidQueueDeletion = 0x10c "the queue may not be deleted, since others still use it";
    FeatureNotSaveable = 0x10d "the feature's value cannot be saved";
    FeatureNotChangeable = 0x10e "the feature's value cannot be changed";
    FeatureNotNamespace = 0x10f "the feature does not belong to a namespace";
    FirmwareNeedsSubsystemReset = 0x110 "the new firmware needs a subsystem reset";
    FirmwareNeedsControllerReset = 0x111 "the new firmware needs a controller reset";
    FirmwareNeedsTime = 0x112 "activating the firmware takes longer than allowed";
    FirmwareProhibited = 0x113 "activating this firmware is prohibited";
    OverlappingRange = 0x114 "ranges overlap";
    NamespaceInsufficientCapacity = 0x115 "not enough capacity for the namespace";
    NamespaceIdUnavailable = 0x116 "no namespace identifier is free";
    NamespaceAttached = 0x118 "the namespace is already attached";
    NamespacePrivate = 0x119 "the namespace is private to another controller";
    NamespaceNotAttached = 0x11a "the namespace is not attached";
    ThinProvisioningUnsupported = 0x11b "thin provisioning is not supported";
    ControllerListInvalid = 0x11c "the controller list is invalid";
    SelfTestInProgress = 0x11d "a self-test is going on";
    BootPartitionWriteProhibited = 0x11e "the boot partition may not be written";
    InvalidControllerId = 0x11f "the controller identifier is invalid";
    InvalidSecondaryState = 0x120 "the secondary controller's state does not allow this";
    InvalidResourceCount = 0x121 "the number of controller resources is invalid";
    InvalidResourceId = 0x122 "the resource identifier is invalid";
    SanitizeProhibitedByPmr = 0x123 "no sanitize while the persistent memory region is enabled";
    AnaGroupInvalid = 0x124 "the ANA group identifier is invalid";
    AnaAttachFailed = 0x125 "the namespace's ANA group cannot be attached";
    ProhibitionNotSupported = 0x128 "the command or feature cannot be prohibited";
    ConflictingAttributes = 0x180 "attributes conflict";
    InvalidProtectionInfo = 0x181 "protection information settings are invalid";
    WriteToReadOnlyRange = 0x182 "the range is read-only";
    CommandSizeLimit = 0x183 "more blocks or ranges than the command may have";

    // Media and data integrity errors, SCT 2 (section 4.6.1.2.3).
    WriteFault = 0x280 "the medium could not be written";
    UnrecoveredRead = 0x281 "the medium could not be read";
    GuardCheck = 0x282 "the guard tag does not match";
    ApplicationTagCheck = 0x283 "the application tag does not match";
    ReferenceTagCheck = 0x284 "the reference tag does not match";
    CompareFailure = 0x285 "the data compared differ";
    AccessDenied = 0x286 "access denied";
    UnwrittenBlock = 0x287 "the block is deallocated or was never written";

    // Path related status, SCT 3 (section 4.6.1.2.4).
    InternalPath = 0x300 "internal error of the path";
    AnaPersistentLoss = 0x301 "the path lost the namespace for good";
    AnaInaccessible = 0x302 "the namespace cannot be reached by this path";
    AnaTransition = 0x303 "the path is changing state";
    ControllerPath = 0x360 "the path to the controller failed";
    HostPath = 0x370 "the host's path failed";
    AbortedByHost = 0x371 "aborted by the host's path";
}

#[cfg(test)]
#[path = "status_tests.rs"]
mod tests;
