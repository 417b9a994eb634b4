//! Properties that change at an enabling: after a reset, an absence or a loss of power another disk may be in the controller's
//! place, or the same one with less.
//!
//! A change is in force before the driver can read it: from the write of CC.EN on. Left out: the registers, which stay the same.

use crate::namespace::Namespace;
use crate::store::{Store, Zeroes};
use crate::write_log::WriteLog;

/// Properties that a controller has from one of its enablings on, until a later entry changes them again. A property that is `None`
/// stays as it was.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Later {
    /// The enabling, CC.EN from 0 to 1, counted from 1; `None` for the event that namespaces changed
    /// ([`Happening::NamespaceChanged`](sim_fault::Happening)), without a reset.
    pub enabling: Option<u32>,
    /// Serial number, cut to 20 characters.
    pub serial: Option<String>,
    /// MDTS, as [`Config::mdts`](crate::config::Config::mdts).
    pub mdts: Option<u8>,
    /// Most I/O queue pairs that Number of Queues grants, at least 1.
    pub granted: Option<u16>,
    /// The namespace that the following are about; all of them without a number.
    pub nsid: Option<u32>,
    /// NGUID, all zeroes for none.
    pub nguid: Option<[u8; 16]>,
    /// EUI-64, all zeroes for none.
    pub eui64: Option<[u8; 8]>,
    /// Bytes, cut to whole blocks.
    pub bytes: Option<u64>,
    /// Whether the blocks are another disk's: all zeroes, whatever was written.
    pub blank: bool,
}

impl Later {
    pub(crate) fn change(&self, namespace: &mut Namespace) {
        namespace.nguid = self.nguid.unwrap_or(namespace.nguid);
        namespace.eui64 = self.eui64.unwrap_or(namespace.eui64);
        if let Some(bytes) = self.bytes {
            namespace.resize(bytes);
        }
        if self.blank {
            (namespace.store, namespace.log) = (Store::new(Box::new(Zeroes)), WriteLog::default());
        }
    }
}
