//! Translations of a range of a component's memory, remembered until a mapping changes, so that the usual access walks no
//! page tables. Left out: the result of an access that is not allowed.

use platform::{PAGE_SIZE, Paddr, Vaddr};
use sim_kernel::{Access, Kernel};
use std::cell::Cell;

/// Physical addresses of the pages of a range, for reading and for writing; valid as long as no mapping changes.
pub(crate) struct Translations {
    pages: Box<[[Cell<Translation>; 2]]>,
}

#[derive(Clone, Copy)]
struct Translation {
    /// The kernel's generation for which the translations hold.
    generation: u64,
    frame: Paddr,
}

impl Translations {
    /// Creates an empty store for a range of `len` bytes from `base` on.
    pub(crate) fn new(base: Vaddr, len: usize) -> Self {
        let pages = base.page_offset().saturating_add(len).div_ceil(PAGE_SIZE);
        let unknown = Translation { generation: u64::MAX, frame: Paddr::new(0) };
        Self { pages: (0..pages).map(|_| [Cell::new(unknown), Cell::new(unknown)]).collect() }
    }

    #[inline]
    pub(crate) fn known(&self, kernel: &Kernel, page: usize, access: Access) -> Option<Paddr> {
        let known = self.pages.get(page)?[usize::from(access == Access::Write)].get();
        (known.generation == kernel.translation_generation()).then_some(known.frame)
    }

    pub(crate) fn learn(&self, kernel: &Kernel, page: usize, access: Access, frame: Paddr) {
        if let Some(known) = self.pages.get(page) {
            let generation = kernel.translation_generation();
            known[usize::from(access == Access::Write)].set(Translation { generation, frame });
        }
    }
}
