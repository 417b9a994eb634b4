//! The log page about commands and features that are prohibited (base specification 2.0, section 5.16.1.20).

use bitfield_struct::bitfield;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::{LogPage, LogRead};
use crate::admin::LockdownScope;
use crate::{Cid, DataPointer, Nsid, Sqe};

/// Command and Feature Lockdown, log page 14h (base specification 2.0, section 5.16.1.20).
#[derive(Clone, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct LockdownLog {
    /// CFILA: scope and contents of the list, as asked for. See [`LockdownSelector`].
    pub attributes: u8,
    reserved_1: [u8; 2],
    /// LNGTH: bytes of the list.
    pub length: u8,
    /// CFIL: opcodes or identifiers, ascending. See [`LockdownLog::listed`].
    pub list: [u8; 508],
}

const _: () = assert!(size_of::<LockdownLog>() == 512 && align_of::<LockdownLog>() == 1);

/// CFILA of [`LockdownLog`], and the log specific field of the Get Log Page that reads it.
#[bitfield(u8)]
#[derive(PartialEq, Eq)]
pub struct LockdownSelector {
    /// Scope: see [`LockdownScope`].
    #[bits(4)]
    pub scope: u8,
    /// Contents: see [`LockdownContents`].
    #[bits(2)]
    pub contents: u8,
    #[bits(2)]
    __: u8,
}

/// The contents of the list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum LockdownContents {
    /// 00b: what can be prohibited.
    Supported = 0,
    /// 01b: what is prohibited when it comes by an admin SQ.
    ByAdminQueue = 1,
    /// 10b: what is prohibited when it comes by a management endpoint.
    ByEndpoint = 2,
}

impl LockdownContents {
    /// The contents of this number, if they are of those named here.
    #[must_use]
    pub const fn from_raw(raw: u8) -> Option<Self> {
        match raw {
            0 => Some(Self::Supported),
            1 => Some(Self::ByAdminQueue),
            2 => Some(Self::ByEndpoint),
            _ => None,
        }
    }
}

impl LockdownLog {
    /// The page of this list, of which 255 entries count.
    #[must_use]
    pub fn of(selector: LockdownSelector, ids: impl Iterator<Item = u8>) -> Self {
        let mut log: Self = zerocopy::FromZeros::new_zeroed();
        log.attributes = selector.into_bits();
        for (place, id) in log.list.iter_mut().zip(ids.take(usize::from(u8::MAX))) {
            *place = id;
            log.length = log.length.saturating_add(1);
        }
        log
    }

    /// The entries of the list.
    #[must_use]
    pub fn listed(&self) -> &[u8] {
        self.list.get(..usize::from(self.length)).unwrap_or_default()
    }
}

/// Get Log Page for a list of [`LockdownLog`], 512 bytes.
#[must_use]
pub const fn get_lockdown_log(cid: Cid, scope: LockdownScope, contents: LockdownContents, data: DataPointer) -> Sqe {
    let page = LogRead::whole(LogPage::Lockdown, size_of::<LockdownLog>() as u32);
    let mut sqe = page.sqe(cid, Nsid::NONE, data);
    let selector = LockdownSelector::new().with_scope(scope as u8).with_contents(contents as u8);
    sqe.cdw10 |= (selector.into_bits() as u32) << 8;
    sqe
}
