//! Contents of the namespaces, for users outside: to write an image back, to compare with a model.

use std::ops::Range;

use crate::controller::Controller;

impl Controller {
    /// The namespaces that exist, ascending, with their sizes in bytes.
    pub fn namespaces(&self) -> impl Iterator<Item = (u32, u64)> + '_ {
        self.namespaces.iter().map(|namespace| (namespace.nsid, namespace.bytes()))
    }

    /// Bytes of a block of a namespace.
    #[must_use]
    pub fn block_bytes(&self, nsid: u32) -> Option<u32> {
        self.namespaces.get(nsid).map(|namespace| 1 << namespace.block_bits())
    }

    /// Reads the data that a read command would return now, cached writes included, at any `offset` in bytes. `None`
    /// when there is no such namespace or the bytes are not all in it.
    #[must_use]
    pub fn read_contents(&self, nsid: u32, offset: u64, bytes: &mut [u8]) -> Option<()> {
        let namespace = self.namespaces.get(nsid)?;
        let end = offset.checked_add(bytes.len() as u64)?;
        if end > namespace.bytes() {
            return None;
        }
        namespace.store.read(offset, bytes);
        Some(())
    }

    /// Byte ranges of a namespace that were written or deallocated since the start, ascending, in whole chunks of
    /// 4 KiB: everything else is as the base has it. Empty when there is no such namespace.
    pub fn written(&self, nsid: u32) -> impl Iterator<Item = Range<u64>> + '_ {
        self.namespaces.get(nsid).into_iter().flat_map(|namespace| {
            let end = namespace.bytes();
            namespace.store.written().map(move |range| range.start..range.end.min(end))
        })
    }
}
