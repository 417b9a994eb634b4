//! Log pages: the command that reads them (section 5.14) and their contents (section 5.14.1).
//!
//! Identifiers, Get Log Page, and one module for each page. Page 04h, the namespaces that changed, is a
//! [`crate::identify::NamespaceList`].

mod effects;
mod error;
mod firmware;
mod lockdown;
mod sanitize;
mod self_test;
mod smart;
mod supported;

pub use effects::{CommandEffects, Effects, Execution, Scope};
pub use error::{ErrorEntry, ErrorLocation};
pub use firmware::{ActiveFirmware, FirmwareSlots};
pub use lockdown::{LockdownContents, LockdownLog, LockdownSelector, get_lockdown_log};
pub use sanitize::{SanitizeLog, SanitizeState, SanitizeStatus};
pub use self_test::{SelfTestEntry, SelfTestLog, SelfTestResult};
pub use smart::{Smart, Warnings};
pub use supported::{FeatureEffects, PageSupport, SupportedFeatures, SupportedPages};

use bitfield_struct::bitfield;

use crate::admin::Opcode;
use crate::{Cid, DataPointer, Nsid, Sqe};

/// Log page identifiers (section 5.14.1, figure 192).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum LogPage {
    /// 00h: [`SupportedPages`]. Since revision 2.0.
    SupportedPages = 0x00,
    /// 01h: [`ErrorEntry`]s, the newest first; Identify Controller's ELPE is their number.
    ErrorInformation = 0x01,
    /// 02h: [`Smart`].
    Smart = 0x02,
    /// 03h: [`FirmwareSlots`].
    FirmwareSlots = 0x03,
    /// 04h: [`crate::identify::NamespaceList`] of namespaces that changed since it was read.
    ChangedNamespaces = 0x04,
    /// 05h: [`Effects`].
    CommandEffects = 0x05,
    /// 06h: [`SelfTestLog`].
    SelfTest = 0x06,
    /// 12h: [`SupportedFeatures`]. Since revision 2.0.
    SupportedFeatures = 0x12,
    /// 13h: commands of the management interface, 4096 bytes. Since revision 2.0.
    ManagementEffects = 0x13,
    /// 14h: [`LockdownLog`]. Since revision 2.0.
    Lockdown = 0x14,
    /// 81h: [`SanitizeLog`].
    Sanitize = 0x81,
}

impl LogPage {
    /// The page of this number, if it is one of those named here.
    #[must_use]
    pub const fn from_raw(raw: u8) -> Option<Self> {
        Some(match raw {
            0x00 => Self::SupportedPages,
            0x01 => Self::ErrorInformation,
            0x02 => Self::Smart,
            0x03 => Self::FirmwareSlots,
            0x04 => Self::ChangedNamespaces,
            0x05 => Self::CommandEffects,
            0x06 => Self::SelfTest,
            0x12 => Self::SupportedFeatures,
            0x13 => Self::ManagementEffects,
            0x14 => Self::Lockdown,
            0x81 => Self::Sanitize,
            _ => return None,
        })
    }
}

/// CDW10 of Get Log Page (section 5.14).
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct LogDw10 {
    /// LID: see [`LogPage`].
    pub lid: u8,
    /// LSP: the page defines it. Bits 14:12 belong to it since revision 2.0.
    #[bits(7)]
    pub lsp: u8,
    /// RAE: reading does not clear the event that pointed at the page.
    pub rae: bool,
    /// NUMDL: lower half of the number of dwords, 0's based.
    pub numdl: u16,
}

/// CDW11 of Get Log Page (section 5.14).
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct LogDw11 {
    /// NUMDU: upper half of the number of dwords.
    pub numdu: u16,
    /// Log specific identifier; the page defines it.
    pub lsi: u16,
}

/// The parameters of a Get Log Page (section 5.14).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LogRead {
    /// LID.
    pub lid: u8,
    /// LPO: byte offset of the first byte read; a multiple of 4.
    pub offset: u64,
    /// NUMD: length in dwords, 0's based.
    pub dwords_z: u32,
    /// RAE.
    pub event: LogEvent,
}

/// RAE: the effect of reading a log page on the event that pointed at it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LogEvent {
    /// The event is cleared, and may be reported again when something happens again.
    Clear,
    /// The event stays as it is: the read is of a part of the page, or no reaction to the event.
    Retain,
}

impl LogRead {
    /// All of a page of `bytes` bytes (rounded up to a dword; at least one), clearing its event.
    #[must_use]
    pub const fn whole(page: LogPage, bytes: u32) -> Self {
        let dwords_z = bytes.div_ceil(4).saturating_sub(1);
        Self { lid: page as u8, offset: 0, dwords_z, event: LogEvent::Clear }
    }

    /// Bytes to transfer: 4 to 16 GiB.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        (self.dwords_z as u64).saturating_add(1).saturating_mul(4)
    }

    /// The command.
    #[must_use]
    pub const fn sqe(&self, cid: Cid, nsid: Nsid, data: DataPointer) -> Sqe {
        let mut sqe = Sqe::new(Opcode::GetLogPage as u8, cid, nsid, data);
        let rae = matches!(self.event, LogEvent::Retain);
        sqe.cdw10 =
            LogDw10::new().with_lid(self.lid).with_rae(rae).with_numdl((self.dwords_z & 0xffff) as u16).into_bits();
        sqe.cdw11 = LogDw11::new().with_numdu((self.dwords_z >> 16) as u16).into_bits();
        sqe.cdw12 = (self.offset & 0xffff_ffff) as u32;
        sqe.cdw13 = (self.offset >> 32) as u32;
        sqe
    }

    /// The parameters of the command. The caller checks the opcode and reserved bits.
    #[must_use]
    pub const fn from_sqe(sqe: &Sqe) -> Self {
        let dw10 = LogDw10::from_bits(sqe.cdw10);
        let dw11 = LogDw11::from_bits(sqe.cdw11);
        Self {
            lid: dw10.lid(),
            offset: (sqe.cdw12 as u64) | ((sqe.cdw13 as u64) << 32),
            dwords_z: (dw10.numdl() as u32) | ((dw11.numdu() as u32) << 16),
            event: if dw10.rae() { LogEvent::Retain } else { LogEvent::Clear },
        }
    }
}

/// Get Log Page for the controller's [`Smart`], 512 bytes, clearing its event.
#[must_use]
pub const fn get_smart_log(cid: Cid, data: DataPointer) -> Sqe {
    LogRead::whole(LogPage::Smart, size_of::<Smart>() as u32).sqe(cid, Nsid::ALL, data)
}

#[cfg(test)]
#[path = "log_tests.rs"]
mod tests;
