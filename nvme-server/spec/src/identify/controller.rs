//! Identify Controller.

use bitfield_struct::bitfield;
use zerocopy::little_endian::{U16, U32, U128};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::PowerState;
use crate::registers::{IOCQES_16, IOSQES_64, Vs};

/// Identify Controller (section 5.15.2.2, figure 247).
#[derive(Clone, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Controller {
    /// VID: PCI vendor.
    pub vid: U16,
    /// SSVID: PCI subsystem vendor.
    pub ssvid: U16,
    /// SN: serial number, ASCII. See [`Controller::serial_number`].
    pub sn: [u8; 20],
    /// MN: model number, ASCII. See [`Controller::model_number`].
    pub mn: [u8; 40],
    /// FR: firmware revision, ASCII. See [`Controller::firmware_revision`].
    pub fr: [u8; 8],
    /// RAB: recommended arbitration burst, 2^RAB commands.
    pub rab: u8,
    /// IEEE: the vendor's OUI, least significant byte first.
    pub ieee: [u8; 3],
    /// CMIC: several ports, several controllers, SR-IOV function. See [`super::Cmic`].
    pub cmic: u8,
    /// MDTS: see [`Controller::max_transfer_bytes`].
    pub mdts: u8,
    /// CNTLID: the controller's identifier in the subsystem.
    pub cntlid: U16,
    /// VER: as register VS. See [`Controller::version`].
    pub ver: U32,
    /// RTD3R: resume latency from D3, microseconds.
    pub rtd3r: U32,
    /// RTD3E: entry latency to D3, microseconds.
    pub rtd3e: U32,
    /// OAES: optional asynchronous events. See [`super::Oaes`].
    pub oaes: U32,
    /// CTRATT: controller attributes. See [`super::Ctratt`].
    pub ctratt: U32,
    /// RRLS: read recovery levels.
    pub rrls: U16,
    reserved_102: [u8; 9],
    /// CNTRLTYPE. See [`Controller::kind`].
    pub cntrltype: u8,
    /// FGUID: FRU's identifier.
    pub fguid: [u8; 16],
    /// CRDT1 to CRDT3: command retry delays, in units of 100 ms.
    pub crdt: [U16; 3],
    reserved_134: [u8; 122],
    /// OACS: optional admin commands. See [`Oacs`].
    pub oacs: U16,
    /// ACL: aborts that may be outstanding, 0's based.
    pub acl_z: u8,
    /// AERL: asynchronous event requests that may be outstanding, 0's based.
    pub aerl_z: u8,
    /// FRMW: firmware slots and updates. See [`super::Frmw`].
    pub frmw: u8,
    /// LPA: log page attributes. See [`super::Lpa`].
    pub lpa: u8,
    /// ELPE: error log entries, 0's based.
    pub elpe_z: u8,
    /// NPSS: power states, 0's based.
    pub npss_z: u8,
    /// AVSCC: format of vendor admin commands.
    pub avscc: u8,
    /// APSTA: bit 0, there are autonomous power state transitions.
    pub apsta: u8,
    /// WCTEMP: warning temperature, kelvin.
    pub wctemp: U16,
    /// CCTEMP: critical temperature, kelvin.
    pub cctemp: U16,
    /// MTFA: longest firmware activation, units of 100 ms.
    pub mtfa: U16,
    /// HMPRE: preferred host memory buffer, units of 4 KiB.
    pub hmpre: U32,
    /// HMMIN: smallest host memory buffer, units of 4 KiB.
    pub hmmin: U32,
    /// TNVMCAP: total capacity, bytes.
    pub tnvmcap: U128,
    /// UNVMCAP: unallocated capacity, bytes.
    pub unvmcap: U128,
    /// RPMBS: replay protected memory.
    pub rpmbs: U32,
    /// EDSTT: extended self-test, minutes.
    pub edstt: U16,
    /// DSTO: self-test options. Bit 0: the subsystem does one test at a time.
    pub dsto: u8,
    /// FWUG: firmware update granularity, units of 4 KiB.
    pub fwug: u8,
    /// KAS: keep alive granularity, units of 100 ms; 0 is no keep alive.
    pub kas: U16,
    /// HCTMA: thermal management by the host.
    pub hctma: U16,
    /// MNTMT: lowest thermal management temperature, kelvin.
    pub mntmt: U16,
    /// MXTMT: highest thermal management temperature, kelvin.
    pub mxtmt: U16,
    /// SANICAP: sanitize capabilities. See [`super::Sanicap`].
    pub sanicap: U32,
    /// HMMINDS: smallest descriptor of the host memory buffer, units of 4 KiB.
    pub hmminds: U32,
    /// HMMAXD: most descriptors of the host memory buffer.
    pub hmmaxd: U16,
    /// NSETIDMAX: largest NVM set.
    pub nsetidmax: U16,
    /// ENDGIDMAX: largest endurance group.
    pub endgidmax: U16,
    /// ANATT: longest ANA transition, seconds.
    pub anatt: u8,
    /// ANACAP: ANA capabilities.
    pub anacap: u8,
    /// ANAGRPMAX: largest ANA group.
    pub anagrpmax: U32,
    /// NANAGRPID: number of ANA groups.
    pub nanagrpid: U32,
    /// PELS: persistent event log, units of 64 KiB.
    pub pels: U32,
    reserved_356: [u8; 156],
    /// SQES: required (3:0) and largest (7:4) SQ entry, powers of two.
    pub sqes: u8,
    /// CQES: required (3:0) and largest (7:4) CQ entry, powers of two.
    pub cqes: u8,
    /// MAXCMD: most commands to have outstanding on a queue; 0 not reported.
    pub maxcmd: U16,
    /// NN: the largest valid namespace identifier.
    pub nn: U32,
    /// ONCS: optional NVM commands. See [`Oncs`].
    pub oncs: U16,
    /// FUSES: bit 0, compare and write may be fused.
    pub fuses: U16,
    /// FNA: the namespaces to which format and erase apply. See [`super::Fna`].
    pub fna: u8,
    /// VWC: bit 0, there is a volatile write cache. See [`Controller::has_volatile_write_cache`].
    pub vwc: u8,
    /// AWUN: atomic write unit, blocks, 0's based.
    pub awun_z: U16,
    /// AWUPF: atomic write unit in a power failure, blocks, 0's based.
    pub awupf_z: U16,
    /// NVSCC: format of vendor NVM commands.
    pub nvscc: u8,
    /// NWPC: namespace write protection.
    pub nwpc: u8,
    /// ACWU: atomic compare and write unit, blocks, 0's based.
    pub acwu_z: U16,
    /// OCFS: copy descriptor formats, a bit for each (added to 1.4 with the Copy command).
    pub ocfs: U16,
    /// SGLS: SGL support; bits 1:0 are 0 for none.
    pub sgls: U32,
    /// MNAN: most namespaces the controller may have.
    pub mnan: U32,
    reserved_544: [u8; 224],
    /// SUBNQN: the subsystem's name, UTF-8, ends with a NUL. See [`Controller::subsystem_name`].
    pub subnqn: [u8; 256],
    reserved_1024: [u8; 768],
    /// Fields of NVMe over Fabrics.
    pub fabrics: [u8; 256],
    /// PSD0 to PSD31: power states; those beyond NPSS are all zeroes.
    pub psd: [PowerState; 32],
    /// The vendor's own.
    pub vendor: [u8; 1024],
}

const _: () = assert!(size_of::<Controller>() == 4096 && align_of::<Controller>() == 1);

/// OACS: optional admin commands (figure 247).
#[bitfield(u16)]
#[derive(PartialEq, Eq)]
pub struct Oacs {
    /// Security Send and Receive.
    pub security: bool,
    /// Format NVM.
    pub format: bool,
    /// Firmware download and commit.
    pub firmware: bool,
    /// Namespace management and attachment.
    pub namespaces: bool,
    /// Device self-test.
    pub self_test: bool,
    /// Directives.
    pub directives: bool,
    /// NVMe-MI Send and Receive.
    pub management: bool,
    /// Virtualization Management.
    pub virtualization: bool,
    /// Doorbell Buffer Config.
    pub doorbell_buffer: bool,
    /// Get LBA Status.
    pub lba_status: bool,
    /// Lockdown. Since revision 2.0.
    pub lockdown: bool,
    #[bits(5)]
    __: u8,
}

/// ONCS: optional NVM commands (figure 247).
#[bitfield(u16)]
#[derive(PartialEq, Eq)]
pub struct Oncs {
    /// Compare.
    pub compare: bool,
    /// Write Uncorrectable.
    pub write_uncorrectable: bool,
    /// Dataset Management.
    pub dataset_management: bool,
    /// Write Zeroes.
    pub write_zeroes: bool,
    /// Save and select in Set and Get Features.
    pub feature_save: bool,
    /// Reservations.
    pub reservations: bool,
    /// Timestamp.
    pub timestamp: bool,
    /// Verify.
    pub verify: bool,
    /// Copy (added to 1.4 with the command).
    pub copy: bool,
    #[bits(7)]
    __: u8,
}

/// CNTRLTYPE: what a controller is for (figure 247).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ControllerType {
    /// 0: not reported, as before revision 1.4.
    NotReported,
    /// 1: I/O.
    Io,
    /// 2: discovery of other controllers.
    Discovery,
    /// 3: administration alone.
    Administrative,
    /// A value that the standard reserves.
    Reserved(u8),
}

impl ControllerType {
    /// Whether the controller has I/O queues and namespaces.
    #[must_use]
    pub const fn does_io(self) -> bool {
        matches!(self, Self::NotReported | Self::Io)
    }

    /// As it is in CNTRLTYPE.
    #[must_use]
    pub const fn to_raw(self) -> u8 {
        match self {
            Self::NotReported => 0,
            Self::Io => 1,
            Self::Discovery => 2,
            Self::Administrative => 3,
            Self::Reserved(other) => other,
        }
    }
}

impl Controller {
    /// CNTRLTYPE as a type.
    #[must_use]
    pub const fn kind(&self) -> ControllerType {
        match self.cntrltype {
            0 => ControllerType::NotReported,
            1 => ControllerType::Io,
            2 => ControllerType::Discovery,
            3 => ControllerType::Administrative,
            other => ControllerType::Reserved(other),
        }
    }

    /// MN without padding.
    #[must_use]
    pub fn model_number(&self) -> &str {
        printable(&self.mn)
    }

    /// SN without padding.
    #[must_use]
    pub fn serial_number(&self) -> &str {
        printable(&self.sn)
    }

    /// FR without padding.
    #[must_use]
    pub fn firmware_revision(&self) -> &str {
        printable(&self.fr)
    }

    /// SUBNQN up to its NUL.
    #[must_use]
    pub fn subsystem_name(&self) -> &str {
        printable(&self.subnqn)
    }

    /// VER as a version.
    #[must_use]
    pub const fn version(&self) -> Vs {
        Vs::from_bits(self.ver.get())
    }

    /// The longest data transfer of one command in bytes, for a controller whose smallest page is `min_page_bytes`
    /// ([`crate::registers::Cap::min_page_bytes`]). `None` is no limit: MDTS 0, or one that 64 bits cannot hold.
    #[must_use]
    pub const fn max_transfer_bytes(&self, min_page_bytes: u32) -> Option<u64> {
        power_of_pages(self.mdts, min_page_bytes)
    }

    /// Whether SQES and CQES allow entries of 64 bytes in SQs and 16 bytes in CQs.
    #[must_use]
    pub const fn supports_standard_entries(&self) -> bool {
        within_nibbles(self.sqes, IOSQES_64) && within_nibbles(self.cqes, IOCQES_16)
    }

    /// OACS as flags.
    #[must_use]
    pub const fn optional_admin(&self) -> Oacs {
        Oacs::from_bits(self.oacs.get())
    }

    /// ONCS as flags.
    #[must_use]
    pub const fn optional_nvm(&self) -> Oncs {
        Oncs::from_bits(self.oncs.get())
    }

    /// Whether completed writes may be lost with power until a flush.
    #[must_use]
    pub const fn has_volatile_write_cache(&self) -> bool {
        self.vwc & 1 != 0
    }
}

/// Bytes of 2^`exponent` pages. `None` is no limit: 0, or one that 64 bits cannot hold.
pub(super) const fn power_of_pages(exponent: u8, page_bytes: u32) -> Option<u64> {
    if exponent == 0 {
        return None;
    }
    match 1u64.checked_shl(exponent as u32) {
        Some(pages) => pages.checked_mul(page_bytes as u64),
        None => None,
    }
}

/// Whether an exponent lies between the low nibble (required) and the high nibble (largest).
const fn within_nibbles(range: u8, exponent: u8) -> bool {
    range & 0xf <= exponent && exponent <= range >> 4
}

/// The text at the start of a field: printable ASCII up to the first other byte, spaces around it trimmed.
///
/// A device may send any bytes; the result is safe to print.
fn printable(field: &[u8]) -> &str {
    let end = field.iter().position(|byte| !matches!(byte, 0x20..=0x7e)).unwrap_or(field.len());
    let ascii = field.get(..end).unwrap_or_default();
    core::str::from_utf8(ascii).unwrap_or_default().trim_matches(' ')
}
