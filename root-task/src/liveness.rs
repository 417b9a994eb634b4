//! Liveness pages: one for each component that has peers, mapped for the root task to write. Beside them the pages that
//! servers write and the root task reads: teardown acknowledgements of dead clients' sessions, devices' transactions that the
//! IOMMU blocked, and the presence of devices in hot-plug slots.

use crate::BuildError;
use crate::objects::object;
use crate::state::Build;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use capdl_spec::{ObjectId, TeardownAck};
use iommu_api::blocked::{Blocked, RECORDS, Reader};
use pci_api::presence::Visit;
use platform::{Incarnation, PAGE_SIZE, Platform, Rights};

const PAGE: u64 = PAGE_SIZE as u64;

/// Offset of the pages in the root task's mapping area: behind the one for filling frames, under the same page table.
const LIVENESS: u64 = PAGE;
/// The number of pages that that page table has room for.
const MOST: u64 = 511;

/// The pages.
pub(crate) struct LivenessPages<P: Platform> {
    /// By the number of their component.
    pages: BTreeMap<u16, P::Memory>,
    /// Pages of teardown acknowledgements, by their object.
    acks: BTreeMap<ObjectId, P::Memory>,
    /// Pages of blocked transactions, by the number of the component that records them.
    blocked: BTreeMap<u16, Reader<P::Memory>>,
    /// Pages of presence, by the number of the driver.
    presences: BTreeMap<u16, P::Memory>,
    /// The next free place of the root task's mapping area.
    next: u64,
}

impl<P: Platform> Build<P> {
    /// Maps these pages for the root task itself.
    pub(crate) fn map_liveness(&mut self) -> Result<LivenessPages<P>, BuildError> {
        let components = self.specification.components.iter();
        let pages: Vec<(u16, ObjectId)> =
            components.filter_map(|component| Some((component.id, component.liveness?))).collect();
        let components = self.specification.components.iter();
        let mut acks: Vec<ObjectId> = components.filter_map(|one| Some(one.teardown_ack?.page)).collect();
        acks.sort_unstable();
        acks.dedup();
        let components = self.specification.components.iter();
        let blocked: Vec<(u16, ObjectId)> = components.filter_map(|one| Some((one.id, one.blocked?))).collect();
        let components = self.specification.components.iter();
        let presences: Vec<(u16, ObjectId)> = components.filter_map(|one| Some((one.id, one.presence?))).collect();
        let mut liveness = LivenessPages {
            pages: BTreeMap::new(),
            acks: BTreeMap::new(),
            blocked: BTreeMap::new(),
            presences: BTreeMap::new(),
            next: 0,
        };
        let mut places = 0u64..;
        for ((component, id), place) in pages.into_iter().zip(places.by_ref()) {
            liveness.pages.insert(component, self.map_page(id, place, Rights::READ_WRITE)?);
        }
        for (id, place) in acks.into_iter().zip(places.by_ref()) {
            liveness.acks.insert(id, self.map_page(id, place, Rights::READ)?);
        }
        for ((component, id), place) in blocked.into_iter().zip(places.by_ref()) {
            liveness.blocked.insert(component, Reader::new(self.map_page(id, place, Rights::READ)?));
        }
        for ((component, id), place) in presences.into_iter().zip(places.by_ref()) {
            liveness.presences.insert(component, self.map_page(id, place, Rights::READ)?);
        }
        liveness.next = places.start;
        Ok(liveness)
    }

    /// Maps a page, the first one of its object, at this place.
    pub(crate) fn map_page(&mut self, id: ObjectId, place: u64, rights: Rights) -> Result<P::Memory, BuildError> {
        let specification = alloc::rc::Rc::clone(&self.specification);
        let object = object(&specification, id)?;
        let too_many = || BuildError::specification(&object.name, "has no room in the root task's mapping area");
        let offset = place.checked_mul(PAGE).and_then(|offset| offset.checked_add(LIVENESS)).filter(|_| place < MOST);
        let page = self.boot.mapping_area.part(offset.ok_or_else(too_many)?, PAGE).ok_or_else(too_many)?;
        let frame = self.copy_of_first_frame(id, object)?;
        self.map_frames(self.boot.vspace, frame, page.vaddr.bits(), PAGE, rights, object)?;
        self.platform.memory(&page).map_err(|_| BuildError::OutOfBounds { what: "the root task's mapping area" })
    }
}

impl<P: Platform> LivenessPages<P> {
    /// Whether the server of the dead client has acknowledged the teardown of its session. An acknowledgement of an earlier
    /// death does not count.
    pub(crate) fn is_torn_down(&self, client: u16, teardown_ack: &TeardownAck) -> bool {
        let (Some(word), Some(page)) = (self.pages.get(&client), self.acks.get(&teardown_ack.page)) else {
            return false;
        };
        Incarnation::load(word)
            .and_then(|death| death.is_teardown_acknowledged(page, teardown_ack.session))
            .unwrap_or(false)
    }

    /// The drivers of devices in hot-plug slots.
    pub(crate) fn drivers(&self) -> impl Iterator<Item = u16> {
        self.presences.keys().copied()
    }

    /// The device in a driver's slot, as the PCI server shows it; `None` for another component.
    pub(crate) fn visit(&self, driver: u16) -> Option<Visit> {
        self.presences.get(&driver).and_then(|page| Visit::load(page).ok())
    }

    /// The first place of the root task's mapping area that none of these pages has.
    #[cfg(feature = "fault-injection")]
    pub(crate) const fn next_place(&self) -> u64 {
        self.next
    }

    /// Writes into its liveness page that the component died, or is alive again.
    pub(crate) fn turn(&self, component: u16) {
        let Some(page) = self.pages.get(&component) else { return };
        // The page is one of ours and was mapped to be written.
        if let Ok(word) = Incarnation::load(page) {
            let _ = word.next().store(page);
        }
    }

    /// Transactions that were blocked and recorded since the last call: at most a page of them.
    pub(crate) fn blocked(&mut self) -> Vec<Blocked> {
        let mut all = Vec::new();
        for reader in self.blocked.values_mut() {
            let next = || reader.take().ok().flatten();
            all.extend(core::iter::from_fn(next).take(RECORDS as usize));
        }
        all
    }

    /// Restarts the reader of the component's page, because the component is restarted and begins to record again.
    pub(crate) fn begin_again(&mut self, component: u16) {
        if let Some(reader) = self.blocked.get_mut(&component) {
            reader.begin_again();
        }
    }
}
