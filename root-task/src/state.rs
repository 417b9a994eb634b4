//! The state of the build: the input, and what was made of it. Neighbours: `build` and the files of each kind of object work on it.

use crate::allocator::Allocator;
use crate::boot::BootInfo;
use crate::objects::Objects;
use alloc::collections::BTreeMap;
use alloc::rc::Rc;
use alloc::vec::Vec;
use capdl_spec::{ObjectId, Specification};
use platform::{CPtr, Cap, Endpoint, Platform};

/// Input and state of the build. The supervisor keeps it and rebuilds parts from it.
pub(crate) struct Build<P: Platform> {
    pub(crate) platform: P,
    pub(crate) boot: BootInfo,
    pub(crate) specification: Rc<Specification>,
    /// The payload, and the offset in it of the data that frames are filled with.
    pub(crate) payload: P::Memory,
    pub(crate) data: usize,
    pub(crate) allocator: Allocator,
    pub(crate) objects: Objects,
    /// By object: the first capability of each frame is used up by a mapping.
    pub(crate) mapped: Vec<bool>,
    /// By VSpace: pages mapped.
    pub(crate) pages: BTreeMap<ObjectId, u32>,
    /// By CNode: capabilities installed.
    pub(crate) installed: BTreeMap<ObjectId, u32>,
    /// A scratch cptr of the root task, once it was needed.
    pub(crate) scratch_cptr: Option<CPtr>,
}

impl<P: Platform> Build<P> {
    pub(crate) fn kernel(&self) -> &P::Kernel {
        self.platform.kernel()
    }

    /// The endpoint at which the root task waits. It is an object of the specification where a component may call it, so that the right
    /// to do so stands there, too.
    pub(crate) fn own_endpoint(&self) -> CPtr {
        let specified = self.find("root-task.endpoint").and_then(|id| self.objects.cap::<Endpoint>(id).ok());
        specified.map_or(self.objects.own.endpoint, Cap::cptr)
    }

    pub(crate) fn find(&self, name: &str) -> Option<ObjectId> {
        let index = self.specification.objects.iter().position(|object| object.name == name)?;
        ObjectId::try_from(index).ok()
    }
}
