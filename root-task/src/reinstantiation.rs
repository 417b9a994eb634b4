//! Re-instantiation of a dead component: its capabilities are taken, its memory is reset to its state at the boot, and it
//! receives the specification's capabilities again.
//!
//! Its objects stay the same ones: peers hold capabilities to its endpoint and notification, and map its rings. All
//! capabilities in its CSpace are taken, with all that were derived from them. The kernel derives no second capability from two kinds
//! (see [`crate::cspace`]): interrupt control stays at its cptr, and new IO page tables replace the old ones. Memory that others map as
//! well, rings and logs, stays as it is; its users restart on it. The page that a component keeps stays, too.
//!
//! With the PCI server's capabilities, all that were derived from them are taken: drivers' registers, interrupts, IOSpaces.
//! Their devices reach nothing from then on.
//!
//! A client's window is reset with its memory: its server has taken it from the device before, and holds it for the next
//! session.
//!
//! Left out: the decision to restart a component (`restarts`), and silencing the devices it drove, or ending its session,
//! which is done before.

use crate::BuildError;
use crate::cspace::{is_moved, revokes};
use crate::objects::object;
use crate::state::Build;
use crate::vspace::Part;
use alloc::collections::BTreeSet;
use alloc::rc::Rc;
use capdl_spec::{Component, Object, ObjectId, ObjectKind, Specification};
use platform::{CPtr, Kernel, PAGE_SIZE, Platform, Rights};

impl<P: Platform> Build<P> {
    /// Takes the capabilities of the component `id`, whose thread is suspended, and all that were derived from them.
    pub(crate) fn take_all(&self, id: u16) -> Result<(), BuildError> {
        self.empty_cspace(numbered(&self.specification, id)?)
    }

    /// Restores the component `id`, whose thread is suspended, to its state before its first instruction.
    pub(crate) fn reinstantiate(&mut self, id: u16) -> Result<(), BuildError> {
        let specification = Rc::clone(&self.specification);
        let component = numbered(&specification, id)?;
        self.empty_cspace(component)?;
        self.refill(component)?;
        for run in specification.caps.iter().filter(|run| run.cnode == component.cnode) {
            match object(&specification, run.object)?.kind {
                ObjectKind::IrqControl => continue,
                ObjectKind::IoPageTable => {
                    self.objects.renew_io_tables(self.platform.kernel(), &self.boot, &self.allocator, run.object)?;
                }
                _ => {}
            }
            self.install(run)?;
        }
        if component.root.is_none() {
            self.mint_fault_endpoint(component)?;
        }
        self.write_registers(component)
    }

    /// Deletes the capabilities in the component's CSpace, and before that those derived from them.
    fn empty_cspace(&self, component: &Component) -> Result<(), BuildError> {
        let specification = Rc::clone(&self.specification);
        let refused = || BuildError::refused("take a capability from", &component.name);
        let bits = crate::cspace::cnode_bits(&specification, component.cnode)?;
        let mut cptr = 0u64;
        let end = crate::boot::bytes(bits);
        while cptr < end {
            let run = specification.caps.iter().find(|run| run.cnode == component.cnode && run.cptr == cptr);
            let (count, kind) = match run {
                Some(run) => {
                    let object = object(&specification, run.object)?;
                    (u64::from(object.count), Some(object.kind))
                }
                None => (1, None),
            };
            for cptr in cptr..cptr.saturating_add(count).min(end) {
                if kind.is_some_and(is_moved) {
                    break;
                }
                let place = self.component_cptr(component.cnode, cptr)?;
                if kind.is_none_or(revokes) {
                    self.kernel().cnode_revoke(place).map_err(refused())?;
                }
                self.kernel().cnode_delete(place).map_err(refused())?;
            }
            cptr = cptr.saturating_add(count.max(1));
        }
        Ok(())
    }

    /// Restores the contents at the start of the memory that the component alone can write.
    fn refill(&mut self, component: &Component) -> Result<(), BuildError> {
        let specification = Rc::clone(&self.specification);
        let shared = shared_memory(&specification, component);
        for mapping in &specification.mappings {
            let object = object(&specification, mapping.object)?;
            let own = mapping.vspace == component.vspace && mapping.writable && !shared.contains(&mapping.object);
            if own && object.kind == ObjectKind::SmallFrame {
                self.refill_array(mapping.object, object)?;
            }
        }
        Ok(())
    }

    fn refill_array(&mut self, id: ObjectId, object: &Object) -> Result<(), BuildError> {
        for (cptr, index) in self.objects.cptrs(id)?.zip(0u64..) {
            let mut page = [0; PAGE_SIZE];
            if let Some(part) = object.fill.as_ref().and_then(|fill| Part::of_frame(fill, index)) {
                self.read_part(&part, &mut page, &object.name)?;
            }
            let copy = self.scratch_cptr()?;
            let (dest, src) = (self.boot.absolute(copy), self.boot.absolute(CPtr::new(cptr)));
            let copied = self.kernel().cnode_copy(dest, src, Rights::ALL);
            copied.map_err(BuildError::refused("copy the capability to", &object.name))?;
            let filled = self.write_frame(copy, 0, &page, &object.name);
            let deleted = self.kernel().cnode_delete(dest);
            filled?;
            deleted.map_err(BuildError::refused("give up the capability to", &object.name))?;
        }
        Ok(())
    }

    /// A scratch cptr of the root task.
    fn scratch_cptr(&mut self) -> Result<CPtr, BuildError> {
        if let Some(cptr) = self.scratch_cptr {
            return Ok(cptr);
        }
        let cptr = CPtr::new(self.allocator.cptrs(1)?.start);
        self.scratch_cptr = Some(cptr);
        Ok(cptr)
    }
}

fn numbered(specification: &Specification, id: u16) -> Result<&Component, BuildError> {
    let unknown = || BuildError::specification("", "it has no component of that number");
    specification.components.iter().find(|component| component.id == id).ok_or_else(unknown)
}

/// Objects that another component maps too, or that any capability names, or that the component keeps. Memory that a client
/// maps alone is its own, and so is its window, which its server holds.
fn shared_memory(specification: &Specification, component: &Component) -> BTreeSet<ObjectId> {
    let others = specification.mappings.iter().filter(|mapping| mapping.vspace != component.vspace);
    let is_client = component.teardown_ack.is_some();
    let held = specification.caps.iter().filter(|_| !is_client).map(|run| run.object);
    others.map(|mapping| mapping.object).chain(held).chain(component.keeps).collect()
}
