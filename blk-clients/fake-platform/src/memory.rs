//! A race of a client with its server: an entry that is written twice.

use platform::Memory as _;
use platform::fake::Ram;
use std::cell::RefCell;
use std::rc::Rc;
use zerocopy::FromBytes;

/// The last write that was not of an index, and the bytes it replaced.
#[derive(Debug, Default)]
pub(crate) struct LastWrite {
    offset: usize,
    replaced: Vec<u8>,
    /// Whether the write before went to the same bytes.
    again: bool,
}

impl LastWrite {
    /// A client's view of this memory, and the last write through it.
    pub(crate) fn watch(memory: &Ram) -> (Ram, Rc<RefCell<Self>>) {
        let last = Rc::<RefCell<Self>>::default();
        let (bytes, seen) = (memory.clone(), Rc::clone(&last));
        let view = memory.watched(move |offset, len| {
            let mut replaced = vec![0; len];
            if len == size_of::<u32>() || bytes.read_bytes(offset, &mut replaced).is_err() {
                return;
            }
            let mut last = seen.borrow_mut();
            let again = last.offset == offset && last.replaced.len() == len;
            *last = Self { offset, replaced, again };
        });
        (view, last)
    }

    /// The bytes that the last write replaced, if the write before it went to the same place: the other version that a
    /// reader in a race may see.
    pub(crate) fn flipped<T: FromBytes>(&self) -> Option<T> {
        self.again.then(|| T::read_from_bytes(&self.replaced).ok()).flatten()
    }
}
