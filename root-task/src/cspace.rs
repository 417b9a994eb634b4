//! The contents of every component's CNode.
//!
//! A component's capabilities are its own, derived from the root task's. Two kinds cannot be derived and are moved: after
//! that the component alone has them. Second-level tables are refused, because the kernel that this was written against
//! stops the machine when one of them is copied.

use crate::BuildError;
use crate::boot::PATH_BITS;
use crate::objects::object;
use crate::state::Build;
use alloc::rc::Rc;
use capdl_spec::{CapRun, Component, Object, ObjectKind, ROOT_BITS, Specification};
use platform::{AbsoluteCPtr, Badge, CNode, CPtr, CapData, Kernel, Platform, Rights};
use report::{Installed, Report, clip};

/// Rights, as the specification has them, of a capability to call: write and grant-reply.
const CALL: u8 = 2 | 8;
/// Name in reports of the root task's own endpoint, which is no object of the specification.
const FAULT_ENDPOINT: &str = "root-task.fault-endpoint";

/// The way of a capability from the root task's CNode to the component's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Way {
    Copy,
    Mint(CapData),
    Move,
}

/// Guard of the component's CSpace root. One above its CNode has none: the CNode's own fills the paths.
pub(crate) fn root_guard_bits(specification: &Specification, component: &Component) -> Result<u8, BuildError> {
    Ok(if component.root.is_some() { 0 } else { guard_bits(cnode_bits(specification, component.cnode)?) })
}

/// Guard of a CNode with 2^`size_bits` slots, so that it resolves whole paths.
pub(crate) fn guard_bits(size_bits: u8) -> u8 {
    PATH_BITS.saturating_sub(size_bits)
}

/// log2 of the slots of the CNode `id`.
pub(crate) fn cnode_bits(specification: &Specification, id: u32) -> Result<u8, BuildError> {
    let object = object(specification, id)?;
    match object.kind {
        ObjectKind::CNode { size_bits } => Ok(size_bits),
        _ => Err(BuildError::specification(&object.name, "is used as a CNode and is none")),
    }
}

/// Whether the component alone has the capability to an object of this kind, because none can be derived from it.
pub(crate) const fn is_moved(kind: ObjectKind) -> bool {
    matches!(kind, ObjectKind::IrqControl | ObjectKind::IoPageTable)
}

/// Whether a copy of a capability to an object of this kind has descendants that revoking finds.
pub(crate) const fn revokes(kind: ObjectKind) -> bool {
    matches!(kind, ObjectKind::Untyped { .. } | ObjectKind::DeviceUntyped { .. } | ObjectKind::IoSpaceMaster)
}

const fn rights(bits: u8) -> Rights {
    Rights { read: bits & 1 != 0, write: bits & 2 != 0, grant: bits & 4 != 0, grant_reply: bits & 8 != 0 }
}

fn way(run: &CapRun, object: &Object) -> Result<Way, BuildError> {
    Ok(match object.kind {
        ObjectKind::Endpoint | ObjectKind::Notification if run.badge != 0 => {
            Way::Mint(CapData::Badge(Badge(run.badge)))
        }
        ObjectKind::CNode { size_bits } => Way::Mint(CapData::Guard { size: guard_bits(size_bits), value: 0 }),
        ObjectKind::IoPorts { first, last } => Way::Mint(CapData::IoPorts(first, last)),
        kind if is_moved(kind) => Way::Move,
        ObjectKind::TranslationTable { level: 1 } => {
            return Err(BuildError::specification(&object.name, "is a table the kernel cannot copy"));
        }
        _ => Way::Copy,
    })
}

impl<P: Platform> Build<P> {
    /// Installs every run of the specification, and reports them if it asks for that.
    pub(crate) fn install_all(&mut self) -> Result<(), BuildError> {
        let specification = Rc::clone(&self.specification);
        for run in &specification.caps {
            self.install(run)?;
            let object = object(&specification, run.object)?;
            self.count_installed(run.cnode, object.count);
            if specification.report_caps {
                self.report_installed(run, object);
            }
        }
        Ok(())
    }

    pub(crate) fn count_installed(&mut self, cnode: u32, count: u32) {
        let sum = self.installed.entry(cnode).or_default();
        *sum = sum.saturating_add(count);
    }

    /// `cptr` of the component with the CNode `cnode`, in the form for CNode invocations.
    pub(crate) fn component_cptr(&self, cnode: u32, cptr: u64) -> Result<AbsoluteCPtr, BuildError> {
        let depth = cnode_bits(&self.specification, cnode)?;
        Ok(AbsoluteCPtr { root: self.objects.cap::<CNode>(cnode)?, index: cptr, depth })
    }

    /// Installs one run: its cptrs are empty.
    pub(crate) fn install(&self, run: &CapRun) -> Result<(), BuildError> {
        let object = object(&self.specification, run.object)?;
        let way = way(run, object)?;
        for (from, offset) in self.objects.cptrs(run.object)?.zip(0u64..) {
            let cptr = run.cptr.checked_add(offset);
            let cptr = cptr.ok_or_else(|| BuildError::specification(&object.name, "is installed beyond all cptrs"))?;
            let dest = self.component_cptr(run.cnode, cptr)?;
            let src = self.boot.absolute(CPtr::new(from));
            let installed = match way {
                Way::Copy => self.kernel().cnode_copy(dest, src, rights(run.rights)),
                Way::Mint(data) => self.kernel().cnode_mint(dest, src, rights(run.rights), data),
                Way::Move => self.kernel().cnode_move(dest, src),
            };
            installed.map_err(BuildError::refused("install", &object.name))?;
        }
        Ok(())
    }

    fn report_installed(&self, run: &CapRun, object: &Object) {
        let mut holders = self.specification.components.iter().filter(|component| component.cnode == run.cnode);
        // A CNode without a thread belongs to no component that could be named.
        let Some(Component { id, .. }) = holders.next() else { return };
        let CapRun { cnode: _, cptr, object: _, badge, rights } = *run;
        let count = object.count;
        let installed = Installed { component: *id, cptr, count, object: clip(&object.name), badge, rights };
        self.platform.report(&Report::Installed(installed).encode());
    }

    /// Puts the component's CNode into the CNode above it, if there is one. Its guard leaves the path's first bits to that.
    pub(crate) fn install_root(&self, component: &Component) -> Result<(), BuildError> {
        let Some(root) = component.root else { return Ok(()) };
        let guard_bits = guard_bits(cnode_bits(&self.specification, component.cnode)?);
        let guard = CapData::Guard { size: guard_bits.saturating_sub(ROOT_BITS), value: 0 };
        let (dest, src) =
            (self.component_cptr(root, 0)?, self.boot.absolute(self.objects.cap::<CNode>(component.cnode)?.cptr()));
        let minted = self.kernel().cnode_mint(dest, src, Rights::ALL, guard);
        minted.map_err(BuildError::refused("install the CNode of", &component.name))
    }

    /// Installs the capability by which the component's faults arrive, and reports it if the specification asks for that.
    pub(crate) fn install_fault_endpoint(&mut self, component: &Component) -> Result<(), BuildError> {
        self.mint_fault_endpoint(component)?;
        let Component { id, cnode, fault_slot, .. } = *component;
        self.count_installed(cnode, 1);
        if self.specification.report_caps {
            let (object, badge) = (clip(FAULT_ENDPOINT), u64::from(id));
            let installed = Installed { component: id, cptr: fault_slot, count: 1, object, badge, rights: CALL };
            self.platform.report(&Report::Installed(installed).encode());
        }
        Ok(())
    }

    /// Mints the capability through which the kernel sends the thread's faults. It lies in the thread's own CSpace and must allow
    /// an answer.
    pub(crate) fn mint_fault_endpoint(&self, component: &Component) -> Result<(), BuildError> {
        let Component { id, name, fault_slot, .. } = component;
        let dest = self.component_cptr(component.cspace(), *fault_slot)?;
        let src = self.boot.absolute(self.own_endpoint());
        let minted = self.kernel().cnode_mint(dest, src, rights(CALL), CapData::Badge(Badge(u64::from(*id))));
        minted.map_err(BuildError::refused("install the fault endpoint of", name))
    }
}
