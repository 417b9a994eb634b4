//! The table of drivers' frames, which the root task writes for the IOMMU server before any component runs.
//!
//! A driver's frames are the small frames in its CSpace, as the specification has them. They stay the same objects when a
//! component is re-instantiated, so the table is written once. The server maps it read-only, so it stays as it is.

use crate::BuildError;
use crate::objects::object;
use crate::state::Build;
use alloc::rc::Rc;
use capdl_spec::{Component, ObjectId, ObjectKind, Specification};
use iommu_api::frames::{Run, Runs};
use platform::{CPtr, Kernel, PAGE_SIZE, Platform};

/// The write right in the specification's runs of capabilities.
const WRITE: u8 = 2;

impl<P: Platform> Build<P> {
    /// Writes the table of each component that reads one. No frame may be mapped yet.
    pub(crate) fn write_frame_tables(&self) -> Result<(), BuildError> {
        let specification = Rc::clone(&self.specification);
        specification.components.iter().filter_map(|component| component.frames).try_for_each(|table| {
            let object = object(&specification, table)?;
            let too_long = || BuildError::specification(&object.name, "has no room for the drivers' frames");
            let bytes = self.drivers_frames(&specification)?.to_bytes(object.count.into()).ok_or_else(too_long)?;
            self.write_array(table, &bytes, &object.name)
        })
    }

    fn drivers_frames(&self, specification: &Specification) -> Result<Runs, BuildError> {
        let mut runs = Runs::default();
        for component in &specification.components {
            let Some(domain) = component.driver.and_then(|driver| u16::from(driver).checked_add(1)) else { continue };
            self.add_frames(specification, component, domain, &mut runs)?;
        }
        Ok(runs)
    }

    fn add_frames(
        &self,
        specification: &Specification,
        component: &Component,
        domain: u16,
        runs: &mut Runs,
    ) -> Result<(), BuildError> {
        for held in specification.caps.iter().filter(|run| run.cnode == component.cnode) {
            let object = object(specification, held.object)?;
            if object.kind != ObjectKind::SmallFrame {
                continue;
            }
            let writable = u16::from(held.rights & WRITE != 0);
            for (frame, cptr) in self.objects.cptrs(held.object)?.zip(held.cptr..) {
                let paddr = self.kernel().frame_get_address(CPtr::new(frame).cast());
                let paddr = paddr.map_err(BuildError::refused("read the address of", &object.name))?.bits();
                runs.add(Run { cptr, paddr, frames: 1, domain, writable });
            }
        }
        Ok(())
    }

    fn write_array(&self, id: ObjectId, bytes: &[u8], name: &str) -> Result<(), BuildError> {
        let frames = self.objects.cptrs(id)?.zip(bytes.chunks(PAGE_SIZE));
        frames.into_iter().try_for_each(|(cptr, page)| self.write_frame(CPtr::new(cptr), 0, page, name))
    }
}
