//! The thread's IPC buffer: the page through which long messages and capabilities pass to and from the kernel.

use crate::bindings::{constant, layout::seL4_IPCBuffer as layout};
use core::ptr::NonNull;
use platform::{AbsoluteCPtr, Vaddr};

const WORD_BYTES: usize = size_of::<u64>();

/// Words the kernel carries in one message.
const MAX_WORDS: usize = constant::seL4_MsgMaxLength as usize;
/// Capabilities it carries.
const MAX_CAPS: usize = constant::seL4_MsgMaxExtraCaps as usize;

/// The buffer's address. Copies name the same buffer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IpcBuffer(NonNull<u64>);

impl IpcBuffer {
    /// The buffer at `vaddr`; `None` for an impossible address.
    ///
    /// # Safety
    /// The calling thread's IPC buffer frame is mapped there read-write for as long as the program runs, and nothing
    /// else of the program lies in it.
    pub(crate) unsafe fn new(vaddr: Vaddr) -> Option<Self> {
        let aligned = (vaddr.bits() as usize).is_multiple_of(layout::SIZE);
        NonNull::new(vaddr.bits() as *mut u64).filter(|_| aligned).map(Self)
    }

    /// Word `index` of the message; 0 beyond the longest message.
    #[inline]
    pub(crate) fn word(self, index: usize) -> u64 {
        if index < MAX_WORDS { self.load(layout::msg / WORD_BYTES + index) } else { 0 }
    }

    /// Sets word `index` of the message; without effect beyond the longest message.
    #[inline]
    pub(crate) fn set_word(self, index: usize, word: u64) {
        if index < MAX_WORDS {
            self.store(layout::msg / WORD_BYTES + index, word);
        }
    }

    /// Sets the capability number `index` to send along; without effect beyond the most the kernel carries.
    #[inline]
    pub(crate) fn set_cap(self, index: usize, cptr: u64) {
        if index < MAX_CAPS {
            self.store(layout::caps_or_badges / WORD_BYTES + index, cptr);
        }
    }

    /// Names the empty cptr that a received capability arrives at.
    pub(crate) fn set_receive_cptr(self, cptr: AbsoluteCPtr) {
        self.store(layout::receiveCNode / WORD_BYTES, cptr.root.bits());
        self.store(layout::receiveIndex / WORD_BYTES, cptr.index);
        self.store(layout::receiveDepth / WORD_BYTES, u64::from(cptr.depth));
    }

    #[inline]
    fn load(self, index: usize) -> u64 {
        // SAFETY: `new`'s caller vouches for the mapping of the whole buffer; every index in this file is below its
        // size. The kernel writes it only while this thread is in a system call, so the access does not race.
        unsafe { self.0.add(index).read_volatile() }
    }

    #[inline]
    fn store(self, index: usize, word: u64) {
        // SAFETY: as in `load`.
        unsafe { self.0.add(index).write_volatile(word) }
    }
}
