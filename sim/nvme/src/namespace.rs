//! Namespaces: size, formats, identifiers, contents.

use nvme_spec::identify::{CommandSetId, FORMATS};
use nvme_spec::{Nsid, Status, StatusCode};

use crate::attachment::{Attachments, Place};
use crate::store::{Base, Store, Zeroes};
use crate::write_log::WriteLog;

/// The largest namespace in bytes: larger than any real one, and no sum of two offsets overflows.
const MAX_BYTES: u64 = 1 << 60;

/// Configuration of a namespace. Metadata and protection information are only claimed: no command transfers any.
pub struct NamespaceConfig {
    /// Size in bytes, at most 2^60; cut to whole blocks of the format in use.
    pub bytes: u64,
    /// Formats by index: log2 of the bytes of a block, 9 to 16 each; at most 64, and 512 bytes when there is none.
    pub formats: Vec<u8>,
    /// Index of the format in use.
    pub format: u8,
    /// NGUID, all zeroes for none.
    pub nguid: [u8; 16],
    /// EUI-64, all zeroes for none.
    pub eui64: [u8; 8],
    /// The namespace's I/O command set, which namespaces of another command set than the NVM one only claim to have.
    pub command_set: CommandSetId,
    /// Bytes of metadata of each block, in every format (LBAF.MS).
    pub metadata: u16,
    /// DPS.
    pub protection: u8,
    /// The controller that it is attached to at the start, if any: 0 for the primary or only one, or the number of a virtual
    /// function, from 1 on.
    pub attached: Option<u8>,
    /// Contents before the first write.
    pub base: Box<dyn Base>,
}

impl NamespaceConfig {
    /// Returns a namespace of zeroes with blocks of 512 bytes that can be formatted to 4096.
    #[must_use]
    pub fn zeroes(bytes: u64) -> Self {
        let (formats, nguid, eui64, base) = (vec![9, 12], [0; 16], [0; 8], Box::new(Zeroes));
        let (command_set, metadata, protection) = (CommandSetId::Nvm, 0, 0);
        Self { bytes, formats, format: 0, nguid, eui64, command_set, metadata, protection, attached: Some(0), base }
    }
}

/// Returns the formats with each impossible one replaced by the nearest possible one, one at least.
pub(crate) fn sane_formats(mut formats: Vec<u8>) -> Vec<u8> {
    formats.truncate(FORMATS);
    formats.iter_mut().for_each(|bits| *bits = (*bits).clamp(9, 16));
    if formats.is_empty() {
        formats.push(9);
    }
    formats
}

/// A namespace.
pub(crate) struct Namespace {
    pub(crate) nsid: u32,
    /// Blocks of the format in use.
    pub(crate) blocks: u64,
    /// Log2 of the bytes of a block, by format index.
    pub(crate) formats: Vec<u8>,
    /// Index of the format in use.
    pub(crate) format: u8,
    pub(crate) nguid: [u8; 16],
    pub(crate) eui64: [u8; 8],
    pub(crate) command_set: CommandSetId,
    /// Bytes of metadata of a block.
    pub(crate) metadata: u16,
    pub(crate) protection: u8,
    /// Bytes of media that belong to it, whatever the format.
    pub(crate) allocated_bytes: u64,
    /// May be attached to several controllers (NMIC).
    pub(crate) shared: bool,
    /// The controllers that it is attached to: only their I/O commands can name it.
    pub(crate) attachments: Attachments,
    /// Time until which a format blocks its use.
    pub(crate) formatted_ns: u64,
    pub(crate) store: Store,
    /// Writes that a power loss may take away.
    pub(crate) log: WriteLog,
}

impl Namespace {
    pub(crate) fn new(nsid: u32, config: NamespaceConfig) -> Self {
        let NamespaceConfig { bytes, formats, format, nguid, eui64, command_set, metadata, protection, attached, base } =
            config;
        let bytes = bytes.min(MAX_BYTES);
        let formats = sane_formats(formats);
        let format = if usize::from(format) < formats.len() { format } else { 0 };
        let (store, log) = (Store::new(base), WriteLog::default());
        let mut namespace = Self {
            nsid,
            blocks: 0,
            formats,
            format,
            nguid,
            eui64,
            command_set,
            metadata,
            protection,
            allocated_bytes: bytes,
            shared: false,
            attachments: attached.and_then(Place::numbered).map(Attachments::only).unwrap_or_default(),
            formatted_ns: 0,
            store,
            log,
        };
        namespace.blocks = bytes >> namespace.block_bits();
        namespace
    }

    /// Gives it another size, at most 2^60 bytes; contents within it stay.
    pub(crate) fn resize(&mut self, bytes: u64) {
        self.allocated_bytes = bytes.min(MAX_BYTES);
        self.blocks = self.allocated_bytes >> self.block_bits();
    }

    /// Log2 of the bytes of a block.
    pub(crate) fn block_bits(&self) -> u32 {
        u32::from(self.formats.get(usize::from(self.format)).copied().unwrap_or(9))
    }

    /// Size in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.blocks << self.block_bits()
    }

    /// Returns the byte range of `count` blocks from `start`.
    ///
    /// # Errors
    /// LBA Out of Range with Do Not Retry when they are not all in the namespace.
    pub(crate) fn range(&self, start: u64, count: u64) -> Result<std::ops::Range<u64>, Status> {
        let end = start.checked_add(count).filter(|&end| end <= self.blocks);
        let end = end.ok_or(Status::new(StatusCode::LbaOutOfRange).with_do_not_retry())?;
        Ok(start << self.block_bits()..end << self.block_bits())
    }
}

/// The namespaces of the subsystem, as one of its controllers sees them.
pub(crate) struct Namespaces {
    viewer: Place,
    /// Whether I/O commands may name namespaces that are not attached.
    ignores_attachments: bool,
    /// Ascending by NSID.
    all: Vec<Namespace>,
}

impl Namespaces {
    /// Creates the namespaces of the primary or only controller.
    pub(crate) fn new(configs: Vec<NamespaceConfig>) -> Self {
        let all = (1..).zip(configs).map(|(nsid, config)| Namespace::new(nsid, config)).collect();
        Self { viewer: Place::PRIMARY, ignores_attachments: false, all }
    }

    /// Makes these the namespaces of another controller of the subsystem.
    pub(crate) const fn set_viewer(&mut self, viewer: Place) {
        self.viewer = viewer;
    }

    /// Has I/O commands name any namespace from now on.
    pub(crate) const fn ignore_attachments(&mut self) {
        self.ignores_attachments = true;
    }

    /// Exchanges the namespaces with those that the subsystem's controllers share.
    pub(crate) const fn exchange(&mut self, shared: &mut Vec<Namespace>) {
        std::mem::swap(&mut self.all, shared);
    }

    pub(crate) fn all(&self) -> &[Namespace] {
        &self.all
    }

    /// Whether a namespace is attached to the controller.
    pub(crate) const fn is_attached(&self, namespace: &Namespace) -> bool {
        namespace.attachments.contains(self.viewer)
    }

    /// Returns a namespace that exists, attached or not.
    pub(crate) fn get(&self, nsid: u32) -> Option<&Namespace> {
        let index = self.all.binary_search_by_key(&nsid, |namespace| namespace.nsid).ok()?;
        self.all.get(index)
    }

    /// Returns a namespace that exists, attached or not.
    pub(crate) fn get_mut(&mut self, nsid: u32) -> Option<&mut Namespace> {
        let index = self.all.binary_search_by_key(&nsid, |namespace| namespace.nsid).ok()?;
        self.all.get_mut(index)
    }

    /// Returns the namespace that an I/O command names.
    ///
    /// # Errors
    /// Invalid Namespace or Format with Do Not Retry when it does not exist, is the broadcast value, or is not
    /// attached.
    pub(crate) fn active(&mut self, nsid: Nsid) -> Result<&mut Namespace, Status> {
        let refused = Status::new(StatusCode::InvalidNamespaceOrFormat).with_do_not_retry();
        let (viewer, ignores) = (self.viewer, self.ignores_attachments);
        self.get_mut(nsid.0).filter(|namespace| ignores || namespace.attachments.contains(viewer)).ok_or(refused)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Namespace> {
        self.all.iter()
    }

    /// Returns those that are attached to the controller.
    pub(crate) fn attached(&self) -> impl Iterator<Item = &Namespace> {
        self.iter().filter(|namespace| self.is_attached(namespace))
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Namespace> {
        self.all.iter_mut()
    }

    /// Adds a namespace; an existing one of the same NSID is replaced.
    pub(crate) fn insert(&mut self, namespace: Namespace) {
        match self.all.binary_search_by_key(&namespace.nsid, |other| other.nsid) {
            Ok(index) => self.all[index] = namespace,
            Err(index) => self.all.insert(index, namespace),
        }
    }

    /// Removes a namespace.
    pub(crate) fn remove(&mut self, nsid: u32) -> Option<Namespace> {
        let index = self.all.binary_search_by_key(&nsid, |namespace| namespace.nsid).ok()?;
        Some(self.all.remove(index))
    }
}
