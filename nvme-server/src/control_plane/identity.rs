//! The controller's identity, as far as sessions need it, and the comparison with the one that was there first.
//!
//! Each bring-up reads all of it again. A server serves one disk: after a reset, an absence or a loss of power, another one may be
//! in its place, which must not be taken for it. A namespace is compared on its own, so that one that was exchanged ends only its
//! own sessions. Neighbours: `bring_up` reads the identity, `recover` decides what becomes of sessions.

use crate::data_plane::session::Abilities;
use alloc::vec::Vec;
use nvme_driver::fault::DeviceFault;
use nvme_spec::{Nsid, identify};
use platform::log::warn;

/// The controller's identity, as far as sessions need it.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    /// I/O queue pairs it granted.
    pub queue_pairs: u16,
    /// Bytes one command may move.
    pub max_transfer: u64,
    /// Optional operations that it supports.
    pub abilities: Abilities,
    /// The controller's active namespaces.
    pub namespaces: Vec<Namespace>,
}

/// A namespace that can be served.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Namespace {
    /// The namespace's identifier.
    pub nsid: Nsid,
    /// Number of blocks.
    pub blocks: u64,
    /// log2 of their size.
    pub block_shift: u8,
    /// Number of its media ([`identify::media`]).
    pub media: u64,
}

impl Namespace {
    /// Whether it is `first` after a reset: it has the same media and format, and perhaps more blocks. Without an identifier
    /// of its own, its size is part of the media's number.
    fn continues(&self, first: &Self) -> bool {
        self.media == first.media && self.block_shift == first.block_shift && self.blocks >= first.blocks
    }
}

/// The disk that this server brought up first, and its namespaces as they were found first.
#[derive(Debug, Default)]
pub(crate) struct First {
    disk: Option<Disk>,
    namespaces: Vec<Namespace>,
}

/// Fields by which a disk is known: serial numbers are unique for each vendor (NVM Express base specification 1.4, section 7.9).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Disk {
    vendor: u16,
    serial: [u8; 20],
    model: [u8; 40],
}

impl First {
    /// Checks that the controller is the first one, or keeps its identity as the first.
    ///
    /// # Errors
    /// [`DeviceFault::Exchanged`].
    pub(crate) fn check(&mut self, about: &identify::Controller) -> Result<(), DeviceFault> {
        let disk = Disk { vendor: about.vid.get(), serial: about.sn, model: about.mn };
        if *self.disk.get_or_insert(disk) == disk {
            return Ok(());
        }
        warn!("another disk: {} serial {}", about.model_number(), about.serial_number());
        Err(DeviceFault::Exchanged)
    }

    /// Forgets a namespace, or all of them, because another one may have its number from now on.
    pub(crate) fn forget(&mut self, nsid: Nsid) {
        self.namespaces.retain(|first| nsid != Nsid::ALL && first.nsid != nsid);
    }

    /// Whether a namespace may be served: it is the first one of this number, or continues it.
    pub(crate) fn admits(&mut self, namespace: &Namespace) -> bool {
        let Some(first) = self.namespaces.iter().find(|first| first.nsid == namespace.nsid) else {
            self.namespaces.push(*namespace);
            return true;
        };
        let admitted = namespace.continues(first);
        if !admitted {
            warn!("namespace {} is another than before and is not served", namespace.nsid.0);
        }
        admitted
    }
}
