//! The probe's own memory: frames made from its untypeds, or frames that it was given, and its view of each through its own
//! VSpace.
//!
//! The view is a mapping by a copy of the frame's capability. So the capability itself is free to be mapped for a device,
//! and the view stays when that capability is taken away.

use core::ops::Range;
use nvme_driver::Stuck;
use platform::{
    AbsoluteCPtr, CNode, CPtr, CacheAttributes, Cap, CapType, Environment, Frame, Kernel, Mmio, ObjectType, PAGE_SIZE,
    Paddr, Platform, Region, Rights, Untyped, VSpace, Vaddr,
};
use workload::names;

/// Words of a page, and of the part that every block has: 512 bytes.
const PAGE_WORDS: usize = PAGE_SIZE / 8;
const BLOCK_WORDS: usize = 512 / 8;

/// The content of a page or block: word `n` holds this value plus `n`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Content(pub u64);

impl Content {
    const fn word(self, index: usize) -> u64 {
        self.0.wrapping_add(index as u64)
    }
}

/// A frame and the probe's view of it.
#[derive(Clone, Debug)]
pub(crate) struct Page<R> {
    /// Not mapped for the processor by this capability.
    pub frame: Cap<Frame>,
    /// The page's physical address.
    pub paddr: Paddr,
    /// The address of the probe's view.
    pub vaddr: Vaddr,
    view: R,
}

impl<R: Mmio> Page<R> {
    /// Writes the whole page.
    pub(crate) fn fill(&self, content: Content) -> Result<(), Stuck> {
        for index in 0..PAGE_WORDS {
            self.view.write64(index.wrapping_mul(8), content.word(index))?;
        }
        Ok(())
    }

    /// Whether every word is as [`Page::fill`] left it.
    pub(crate) fn is_untouched(&self, content: Content) -> Result<bool, Stuck> {
        Ok(self.matching(content, PAGE_WORDS)? == PAGE_WORDS)
    }

    /// Whether the page's first 512 bytes, the least size of a block, are this.
    pub(crate) fn has_block(&self, content: Content) -> Result<bool, Stuck> {
        Ok(self.matching(content, BLOCK_WORDS)? == BLOCK_WORDS)
    }

    /// Whether any word of a block is this.
    pub(crate) fn has_part_of(&self, content: Content) -> Result<bool, Stuck> {
        Ok(self.matching(content, BLOCK_WORDS)? > 0)
    }

    /// Reads its first word: a fault when the view is gone.
    pub(crate) fn touch(&self) -> Result<u64, Stuck> {
        Ok(self.view.read64(0)?)
    }

    fn matching(&self, content: Content, words: usize) -> Result<usize, Stuck> {
        let mut matching: usize = 0;
        for index in 0..words {
            if self.view.read64(index.wrapping_mul(8))? == content.word(index) {
                matching = matching.saturating_add(1);
            }
        }
        Ok(matching)
    }
}

/// Makes pages and moves capabilities.
pub(crate) struct Workshop<P: Platform> {
    platform: P,
    environment: Environment,
    cnode: Cap<CNode>,
    vspace: Cap<VSpace>,
    arena: Region,
    next_page: u64,
    next_frame: u32,
    cptrs: Range<u64>,
}

impl<P: Platform> Workshop<P> {
    /// A workshop that fills `cptrs`.
    pub(crate) fn new(platform: &P, environment: &Environment, cptrs: Range<u64>) -> Result<Self, Stuck> {
        Ok(Self {
            platform: platform.clone(),
            environment: environment.clone(),
            cnode: environment.cnode.ok_or(Stuck::Missing("its CNode"))?.cast(),
            vspace: environment.cap(names::OWN_VSPACE).ok_or(Stuck::Missing("capability own-vspace"))?,
            arena: environment.region(names::PAGES).ok_or(Stuck::Missing("region pages"))?.clone(),
            next_page: 0,
            next_frame: 0,
            cptrs,
        })
    }

    /// The untyped number `index`.
    pub(crate) fn untyped(&self, index: u32) -> Result<Cap<Untyped>, Stuck> {
        self.environment.cap_at(names::MEMORY, index).ok_or(Stuck::Missing("run memory"))
    }

    /// Whether the probe has untypeds to make pages of. Where a component drives the IOMMU, the pages are given instead.
    pub(crate) fn makes_pages(&self) -> bool {
        self.environment.cap_count(names::MEMORY) > 0
    }

    /// A page out of untyped number `untyped`, or the next of those given, seen at the next address of the arena.
    pub(crate) fn page(&mut self, untyped: u32) -> Result<Page<P::Mmio>, Stuck> {
        let kernel = self.platform.kernel().clone();
        let frame = if self.makes_pages() {
            let (untyped, cptr) = (self.untyped(untyped)?, self.free_cptr()?);
            kernel.untyped_retype(untyped, ObjectType::SmallPage, 0, self.cnode, cptr..cptr.saturating_add(1))?;
            Cap::from_bits(cptr)
        } else {
            let given = self.next_frame;
            self.next_frame = given.saturating_add(1);
            self.environment.cap_at(names::FRAMES, given).ok_or(Stuck::Missing("more of the run frames"))?
        };
        let seen = self.copy(frame)?;
        let vaddr = self.place()?;
        kernel.frame_map(seen, self.vspace, vaddr, Rights::READ_WRITE, CacheAttributes::WriteBack)?;
        let view = self.platform.mmio(vaddr, PAGE_SIZE)?;
        Ok(Page { frame, paddr: kernel.frame_get_address(frame)?, vaddr, view })
    }

    /// The next address of the arena, where nothing is mapped.
    pub(crate) fn place(&mut self) -> Result<Vaddr, Stuck> {
        let offset = self.next_page.saturating_mul(PAGE_SIZE as u64);
        let place = self.arena.part(offset, PAGE_SIZE as u64).ok_or(Stuck::Missing("more of the region pages"))?;
        self.next_page = self.next_page.saturating_add(1);
        Ok(place.vaddr)
    }

    /// Maps a page of registers at `vaddr`, to be read: by this capability, so that the view goes with it.
    ///
    /// # Errors
    /// The kernel's.
    pub(crate) fn map_registers(&self, frame: Cap<Frame>, vaddr: Vaddr) -> platform::Result<()> {
        let kernel = self.platform.kernel();
        kernel.frame_map(frame, self.vspace, vaddr, Rights::READ, CacheAttributes::Uncached)
    }

    /// Another capability to the same object, mapped nowhere.
    pub(crate) fn copy<T: CapType>(&mut self, cap: Cap<T>) -> Result<Cap<T>, Stuck> {
        let cptr = CPtr::new(self.free_cptr()?);
        self.platform.kernel().cnode_copy(self.absolute(cptr)?, self.absolute(cap.cptr())?, Rights::ALL)?;
        Ok(cptr.cast())
    }

    /// Deletes one capability.
    pub(crate) fn delete<T: CapType>(&self, cap: Cap<T>) -> Result<(), Stuck> {
        Ok(self.platform.kernel().cnode_delete(self.absolute(cap.cptr())?)?)
    }

    /// Revokes everything made from `untyped`.
    pub(crate) fn revoke(&self, untyped: Cap<Untyped>) -> Result<(), Stuck> {
        Ok(self.platform.kernel().cnode_revoke(self.absolute(untyped.cptr())?)?)
    }

    fn free_cptr(&mut self) -> Result<u64, Stuck> {
        self.cptrs.next().ok_or(Stuck::Missing("a free cptr"))
    }

    fn absolute(&self, cptr: CPtr) -> Result<AbsoluteCPtr, Stuck> {
        self.environment.absolute(cptr).ok_or(Stuck::Missing("its CNode"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use platform::fake::Registers;

    const GUARD: Content = Content(0x1000);
    const OTHER: Content = Content(0x7777_0000);

    fn page() -> (Page<Registers>, Registers) {
        let words = Registers::new(PAGE_SIZE);
        let page = Page { frame: Cap::from_bits(1), paddr: Paddr::new(0), vaddr: Vaddr::new(0), view: words.clone() };
        (page, words)
    }

    #[test]
    fn one_changed_word_anywhere_in_the_page_is_noticed() {
        let (page, words) = page();
        page.fill(GUARD).unwrap();
        assert_eq!(page.is_untouched(GUARD), Ok(true));
        words.write64(4088, 0).unwrap();
        assert_eq!(page.is_untouched(GUARD), Ok(false));
        assert_eq!(page.has_block(GUARD), Ok(true), "the block is the first 512 bytes");
    }

    #[test]
    fn one_word_of_a_block_that_arrived_is_noticed() {
        let (page, words) = page();
        page.fill(GUARD).unwrap();
        assert_eq!(page.has_part_of(OTHER), Ok(false));
        words.write64(504, OTHER.word(63)).unwrap();
        assert_eq!(page.has_part_of(OTHER), Ok(true));
        assert_eq!(page.has_block(GUARD), Ok(false));
    }
}
