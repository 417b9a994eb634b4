//! The words that say who lives: a page for each component that has peers, mapped for the root task to write.

use crate::BuildError;
use crate::build::Build;
use crate::objects::object;
use alloc::collections::BTreeMap;
use capdl_spec::ObjectId;
use platform::{Beginning, Life, PAGE_SIZE, Platform, Rights};

const PAGE: u64 = PAGE_SIZE as u64;

/// Where the pages are in the root task's window: behind the one for filling frames, under the same page table.
const LIVES: u64 = PAGE;
/// As many as that page table has room for.
const MOST: u64 = 511;

/// The pages, by the number of their component.
pub(crate) struct Lives<P: Platform> {
    pages: BTreeMap<u16, P::Memory>,
}

impl<P: Platform> Build<P> {
    /// Maps the pages of lives for the root task itself.
    pub(crate) fn map_lives(&mut self) -> Result<Lives<P>, BuildError> {
        let components = self.specification.components.iter();
        let pages: alloc::vec::Vec<(u16, ObjectId)> =
            components.filter_map(|component| Some((component.id, component.life?))).collect();
        let mut lives = Lives { pages: BTreeMap::new() };
        for ((component, id), place) in pages.into_iter().zip(0u64..) {
            lives.pages.insert(component, self.map_life(id, place)?);
        }
        Ok(lives)
    }

    fn map_life(&mut self, id: ObjectId, place: u64) -> Result<P::Memory, BuildError> {
        let specification = alloc::rc::Rc::clone(&self.specification);
        let object = object(&specification, id)?;
        let too_many = || BuildError::specification(&object.name, "has no room in the root task's window");
        let offset = place.checked_mul(PAGE).and_then(|offset| offset.checked_add(LIVES)).filter(|_| place < MOST);
        let page = self.boot.window.part(offset.ok_or_else(too_many)?, PAGE).ok_or_else(too_many)?;
        let frames = self.frames_to_map(id, object)?;
        self.map_frames(self.boot.vspace, frames, page.vaddr.bits(), PAGE, Rights::READ_WRITE, object)?;
        self.platform.memory(&page).map_err(|_| BuildError::OutOfBounds { what: "the root task's window" })
    }
}

impl<P: Platform> Lives<P> {
    /// Says when the system began. Nobody lives yet.
    pub(crate) fn begin(&self, ticks: u64) {
        for page in self.pages.values() {
            // The page is one of ours and was mapped to be written.
            let _ = Beginning(ticks).store(page);
        }
    }

    /// The component died, or lives again: whoever looks sees it.
    pub(crate) fn turn(&self, component: u16) {
        let Some(page) = self.pages.get(&component) else { return };
        // The page is one of ours and was mapped to be written.
        if let Ok(life) = Life::load(page) {
            let _ = life.next().store(page);
        }
    }
}
