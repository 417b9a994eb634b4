//! Paging structures and frames: the mappings of every VSpace, and the contents of frames before they are mapped.
//!
//! A frame's capability carries at most one mapping. The first mapping of a frame uses the first capability; every
//! other one gets a copy, which stays in the root task's CNode, so that deleting it ends that mapping.

use crate::BuildError;
use crate::objects::{LARGE_PAGE, PAGE_TABLES, object};
use crate::state::Build;
use alloc::rc::Rc;
use alloc::vec::Vec;
use capdl_spec::{Fill, Mapping, Object, ObjectId, ObjectKind};
use core::ops::Range;
use platform::{
    CPtr, CacheAttributes, Frame, Kernel, Memory, PAGE_SIZE, Paddr, Platform, Region, Rights, TableLevel, VSpace, Vaddr,
};

/// Bytes under one table of the last level.
const TABLE_SPAN: u64 = 1 << TableLevel::Three.span_bits();

/// Offset in the root task's mapping area at which frames are filled, and that of its log ring. Between them: `liveness`.
const SCRATCH: u64 = 0;
const RING: u64 = TABLE_SPAN;

const PAGE: u64 = PAGE_SIZE as u64;

/// The order in which arrays are mapped: a table before those below it, and frames last.
const fn order(kind: ObjectKind) -> u8 {
    match kind {
        ObjectKind::TranslationTable { level } => level,
        _ => u8::MAX,
    }
}

impl<P: Platform> Build<P> {
    /// Puts paging structures under the root task's areas.
    pub(crate) fn map_own_tables(&self) -> Result<(), BuildError> {
        let (kernel, boot, own) = (self.kernel(), &self.boot, &self.objects.own);
        let refused = || BuildError::refused("map", "the root task's paging structures");
        let (mapping_area, devices) = (boot.mapping_area.vaddr, boot.device_area.vaddr);
        let map = |table: CPtr, level, vaddr| kernel.translation_table_map(table.cast(), level, boot.vspace, vaddr);
        map(own.page_directory, TableLevel::Two, mapping_area).map_err(refused())?;
        let ring = mapping_area.checked_add(RING).ok_or(BuildError::OutOfBounds { what: "the mapping area" })?;
        let tables = own.page_tables.bits()..own.page_tables.bits().saturating_add(PAGE_TABLES);
        for (table, vaddr) in tables.zip([mapping_area, ring, devices]) {
            map(CPtr::new(table), TableLevel::Three, vaddr).map_err(refused())?;
        }
        Ok(())
    }

    /// Maps the frames of `log` for the root task itself.
    pub(crate) fn map_own_ring(&mut self, log: ObjectId) -> Result<Region, BuildError> {
        let specification = Rc::clone(&self.specification);
        let object = object(&specification, log)?;
        let len = PAGE.saturating_mul(u64::from(object.count));
        let too_large = || BuildError::specification(&object.name, "does not fit the root task's mapping area");
        let ring = self.boot.mapping_area.part(RING, len).filter(|_| len <= TABLE_SPAN).ok_or_else(too_large)?;
        let frames = self.frames_to_map(log, object)?;
        self.map_frames(self.boot.vspace, frames, ring.vaddr.bits(), PAGE, Rights::READ_WRITE, object)?;
        Ok(ring)
    }

    /// Maps a page of device registers for the root task itself, as the first of its device area.
    pub(crate) fn map_own_registers(&mut self, paddr: Paddr) -> Result<P::Mmio, BuildError> {
        const NAME: &str = "the root task's device registers";
        let (platform, kernel) = (&self.platform, self.platform.kernel());
        let frame = self.objects.devices.frame(kernel, paddr).map_err(BuildError::refused("make", NAME))?;
        let vaddr = self.boot.device_area.vaddr;
        kernel
            .frame_map(frame, self.boot.vspace, vaddr, Rights::READ_WRITE, CacheAttributes::Uncached)
            .map_err(BuildError::refused("map", NAME))?;
        platform.mmio(vaddr, PAGE_SIZE).map_err(|_| BuildError::OutOfBounds { what: NAME })
    }

    /// Copies the payload's data into the frames that have initial contents.
    pub(crate) fn fill_frames(&self) -> Result<(), BuildError> {
        let specification = Rc::clone(&self.specification);
        for (id, object) in specification.objects.iter().enumerate() {
            let Some(fill) = object.fill else { continue };
            check_fill(object, &fill)?;
            for (index, cptr) in self.objects.cptrs(id as ObjectId)?.enumerate() {
                let Some(part) = Part::of_frame(&fill, index as u64) else { continue };
                let mut page = [0; PAGE_SIZE];
                self.read_part(&part, &mut page, &object.name)?;
                let bytes = page.get(part.range()).unwrap_or_default();
                self.write_frame(CPtr::new(cptr), part.place, bytes, &object.name)?;
            }
        }
        Ok(())
    }

    /// Reads a frame's contents from the payload, to their place in `page`.
    pub(crate) fn read_part(&self, part: &Part, page: &mut [u8; PAGE_SIZE], name: &str) -> Result<(), BuildError> {
        let from = usize::try_from(part.data).ok().and_then(|offset| offset.checked_add(self.data));
        let missing = || BuildError::specification(name, "is filled with data that the payload does not have");
        let bytes = page.get_mut(part.range()).unwrap_or_default();
        self.payload.read_bytes(from.ok_or_else(missing)?, bytes).map_err(|_| missing())
    }

    /// Writes `bytes` into a frame from `place` on. The capability must not be used for a mapping.
    pub(crate) fn write_frame(&self, frame: CPtr, place: usize, bytes: &[u8], name: &str) -> Result<(), BuildError> {
        let unreachable = || BuildError::OutOfBounds { what: "the root task's mapping area" };
        let scratch = self.boot.mapping_area.part(SCRATCH, PAGE).ok_or_else(unreachable)?;
        let frame = frame.cast::<Frame>();
        let (kernel, rights) = (self.kernel(), Rights::READ_WRITE);
        kernel
            .frame_map(frame, self.boot.vspace, scratch.vaddr, rights, CacheAttributes::WriteBack)
            .map_err(BuildError::refused("map for filling", name))?;
        let memory = self.platform.memory(&scratch).map_err(|_| unreachable())?;
        memory.write_bytes(place, bytes).map_err(|_| unreachable())?;
        kernel.frame_unmap(frame).map_err(BuildError::refused("unmap after filling", name))
    }

    /// Makes all mappings of the specification: assigns identifiers first, then maps structures level by level, then frames.
    pub(crate) fn map_all(&mut self) -> Result<(), BuildError> {
        let specification = Rc::clone(&self.specification);
        for (id, object) in specification.objects.iter().enumerate() {
            if object.kind == ObjectKind::VSpace {
                for cptr in self.objects.cptrs(id as ObjectId)? {
                    let assigned = self.kernel().asid_pool_assign(self.boot.asid_pool, CPtr::new(cptr).cast());
                    assigned.map_err(BuildError::refused("assign an ASID to", &object.name))?;
                }
            }
        }
        let mut order = Vec::with_capacity(specification.mappings.len());
        for mapping in &specification.mappings {
            order.push((mapping, object(&specification, mapping.object)?));
        }
        order.sort_by_key(|(_, object)| self::order(object.kind));
        for (mapping, object) in order {
            self.map_array(mapping, object)?;
        }
        Ok(())
    }

    fn map_array(&mut self, mapping: &Mapping, object: &Object) -> Result<(), BuildError> {
        if mapping.writable && mapping.executable {
            return Err(BuildError::specification(&object.name, "is mapped both writable and executable"));
        }
        let vspace = self.objects.cap::<VSpace>(mapping.vspace)?;
        let level = match object.kind {
            ObjectKind::TranslationTable { level } => TableLevel::new(level),
            _ => None,
        };
        let Some(level) = level else { return self.map_frame_array(mapping, object, vspace) };
        let (cptrs, kernel) = (self.objects.cptrs(mapping.object)?, self.platform.kernel());
        each(&object.name, cptrs, mapping.vaddr, 1 << level.span_bits(), |cptr, vaddr| {
            kernel.translation_table_map(cptr.cast(), level, vspace, vaddr)
        })
    }

    fn map_frame_array(
        &mut self,
        mapping: &Mapping,
        object: &Object,
        vspace: platform::Cap<VSpace>,
    ) -> Result<(), BuildError> {
        let rights = if mapping.writable { Rights::READ_WRITE } else { Rights::READ };
        let frames = self.frames_to_map(mapping.object, object)?;
        let stride = frame_bytes(object)?;
        self.map_frames(vspace, frames, mapping.vaddr, stride, rights, object)?;
        let pages = u32::try_from(stride / PAGE).unwrap_or(u32::MAX).saturating_mul(object.count);
        let sum = self.pages.entry(mapping.vspace).or_default();
        *sum = sum.saturating_add(pages);
        Ok(())
    }

    pub(crate) fn map_frames(
        &self,
        vspace: platform::Cap<VSpace>,
        frames: Range<u64>,
        vaddr: u64,
        stride: u64,
        rights: Rights,
        object: &Object,
    ) -> Result<(), BuildError> {
        let attributes = match object.kind {
            ObjectKind::SmallDeviceFrame { .. } | ObjectKind::LargeDeviceFrame { .. } => CacheAttributes::Uncached,
            _ => CacheAttributes::WriteBack,
        };
        let kernel = self.kernel();
        each(&object.name, frames, vaddr, stride, |cptr, vaddr| {
            kernel.frame_map(cptr.cast(), vspace, vaddr, rights, attributes)
        })
    }

    /// Capabilities to the frames of `id` that carry no mapping yet: the first ones once, copies afterwards.
    pub(crate) fn frames_to_map(&mut self, id: ObjectId, object: &Object) -> Result<Range<u64>, BuildError> {
        // The kernel stops at a copy of some of the others.
        frame_bytes(object)?;
        let first = self.objects.cptrs(id)?;
        let Some(mapped) = self.mapped.get_mut(id as usize) else { return Ok(first) };
        if !core::mem::replace(mapped, true) {
            return Ok(first);
        }
        self.copies(first, object)
    }

    /// A capability without a mapping to the first frame of `id`, for a mapping of the root task's own.
    pub(crate) fn copy_of_first_frame(&mut self, id: ObjectId, object: &Object) -> Result<Range<u64>, BuildError> {
        frame_bytes(object)?;
        let Range { start, .. } = self.objects.cptrs(id)?;
        self.copies(start..start.saturating_add(1), object)
    }

    /// Copies of capabilities to frames of `object`.
    fn copies(&mut self, cptrs: Range<u64>, object: &Object) -> Result<Range<u64>, BuildError> {
        let copies = self.allocator.cptrs(cptrs.end.saturating_sub(cptrs.start))?;
        for (to, from) in copies.clone().zip(cptrs) {
            let (dest, src) = (self.boot.absolute(CPtr::new(to)), self.boot.absolute(CPtr::new(from)));
            let copied = self.kernel().cnode_copy(dest, src, Rights::ALL);
            copied.map_err(BuildError::refused("copy the capability to", &object.name))?;
        }
        Ok(copies)
    }
}

/// Bytes of one frame of `object`, which must be frames.
fn frame_bytes(object: &Object) -> Result<u64, BuildError> {
    match object.kind {
        ObjectKind::SmallFrame | ObjectKind::SmallDeviceFrame { .. } => Ok(PAGE),
        ObjectKind::LargeFrame | ObjectKind::LargeDeviceFrame { .. } => Ok(LARGE_PAGE),
        _ => Err(BuildError::specification(&object.name, "is mapped but is of a kind that cannot be")),
    }
}

/// Calls `map` with each of `cptrs` and its address.
fn each(
    name: &str,
    cptrs: Range<u64>,
    start: u64,
    stride: u64,
    map: impl Fn(CPtr, Vaddr) -> platform::Result<()>,
) -> Result<(), BuildError> {
    for (cptr, index) in cptrs.zip(0u64..) {
        let offset = stride.checked_mul(index);
        let vaddr = offset.and_then(|offset| start.checked_add(offset));
        let vaddr = vaddr.ok_or_else(|| BuildError::specification(name, "is mapped beyond the address space"))?;
        map(CPtr::new(cptr), Vaddr::new(vaddr)).map_err(BuildError::refused("map", name))?;
    }
    Ok(())
}

fn check_fill(object: &Object, fill: &Fill) -> Result<(), BuildError> {
    let room = PAGE.saturating_mul(u64::from(object.count));
    let end = u64::from(fill.skip).saturating_add(fill.len);
    if object.kind != ObjectKind::SmallFrame {
        return Err(BuildError::specification(&object.name, "has contents and is no array of small frames"));
    }
    if end > room {
        return Err(BuildError::specification(&object.name, "has contents longer than itself"));
    }
    Ok(())
}

/// Data of one frame of a filled array.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Part {
    /// First byte, from the start of the data.
    data: u64,
    /// The data's place in the frame.
    place: usize,
    len: usize,
}

impl Part {
    /// The data's bytes in the frame.
    const fn range(&self) -> Range<usize> {
        self.place..self.place.saturating_add(self.len)
    }

    /// The part of frame number `index`; `None` when it stays zero.
    pub(crate) fn of_frame(fill: &Fill, index: u64) -> Option<Self> {
        let (skip, frame) = (u64::from(fill.skip), PAGE.checked_mul(index)?);
        let start = frame.max(skip);
        let end = frame.checked_add(PAGE)?.min(skip.checked_add(fill.len)?);
        let len = end.checked_sub(start).filter(|len| *len > 0)?;
        Some(Self {
            data: fill.offset.checked_add(start.checked_sub(skip)?)?,
            place: usize::try_from(start.checked_sub(frame)?).ok()?,
            len: usize::try_from(len).ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_start_and_end_inside_frames() {
        let fill = Fill { offset: 1000, len: 8192, skip: 100 };
        assert_eq!(Part::of_frame(&fill, 0), Some(Part { data: 1000, place: 100, len: 3996 }));
        assert_eq!(Part::of_frame(&fill, 1), Some(Part { data: 4996, place: 0, len: 4096 }));
        assert_eq!(Part::of_frame(&fill, 2), Some(Part { data: 9092, place: 0, len: 100 }));
        assert_eq!(Part::of_frame(&fill, 3), None);
    }

    #[test]
    fn empty_contents_fill_nothing() {
        assert_eq!(Part::of_frame(&Fill { offset: 0, len: 0, skip: 0 }, 0), None);
    }
}
