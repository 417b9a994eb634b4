//! Contents of the namespaces, for users outside: to write an image back, to compare with a model.

use std::ops::Range;

use crate::controller::Controller;
use crate::namespace::Namespace;

impl Controller {
    /// The namespaces that exist, ascending, with their sizes in bytes.
    pub fn namespaces(&self) -> impl Iterator<Item = (u32, u64)> + '_ {
        let about = |namespace: &Namespace| (namespace.nsid, namespace.bytes());
        self.with_namespaces(|namespaces| namespaces.iter().map(about).collect::<Vec<_>>()).into_iter()
    }

    /// Bytes of a block of a namespace.
    #[must_use]
    pub fn block_bytes(&self, nsid: u32) -> Option<u32> {
        self.with_namespace(nsid, |namespace| 1 << namespace.block_bits())
    }

    /// Reads the data that a read command would return now, cached writes included, at any `offset` in bytes. `None`
    /// when there is no such namespace or the bytes are not all in it.
    #[must_use]
    pub fn read_contents(&self, nsid: u32, offset: u64, bytes: &mut [u8]) -> Option<()> {
        let end = offset.checked_add(bytes.len() as u64)?;
        self.with_namespace(nsid, |namespace| {
            let is_within = end <= namespace.bytes();
            is_within.then(|| namespace.store.read(offset, bytes))
        })?
    }

    /// Byte ranges of a namespace that were written or deallocated since the start, ascending, in whole chunks of
    /// 4 KiB: everything else is as the base has it. Empty when there is no such namespace.
    pub fn written(&self, nsid: u32) -> impl Iterator<Item = Range<u64>> + '_ {
        let written = self.with_namespace(nsid, |namespace| {
            let end = namespace.bytes();
            namespace.store.written().map(|range| range.start..range.end.min(end)).collect::<Vec<_>>()
        });
        written.unwrap_or_default().into_iter()
    }

    fn with_namespace<R>(&self, nsid: u32, look: impl FnOnce(&Namespace) -> R) -> Option<R> {
        self.with_namespaces(|namespaces| {
            let index = namespaces.binary_search_by_key(&nsid, |namespace| namespace.nsid).ok()?;
            namespaces.get(index).map(look)
        })
    }
}
