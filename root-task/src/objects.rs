//! All objects of the specification, and the cptrs of their capabilities.

use crate::allocator::{Allocator, Demand};
use crate::{BootInfo, BuildError};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use capdl_spec::{Object, ObjectId, ObjectKind, Specification};
use core::ops::Range;
use platform::{
    CPtr, Cap, CapType, DeviceUntyped, DeviceUntypeds, Kernel, ObjectType, PAGE_SIZE, Paddr, TableLevel, Untyped,
};

/// Bytes of a large frame.
pub(crate) const LARGE_PAGE: u64 = 1 << LARGE_PAGE_BITS;
const LARGE_PAGE_BITS: u8 = 21;
/// Cptrs kept for dividing device memory: two a halving, and every frame takes up to 35 halvings at first.
const DEVICE_CPTRS: u64 = 4096;

/// Cptrs of the objects' first capabilities: one range for each entry of the specification.
#[derive(Debug)]
pub(crate) struct Objects {
    cptrs: Vec<Range<u64>>,
    /// The root task's own objects.
    pub(crate) own: Own,
    /// The machine's device memory that is not of the specification.
    pub(crate) devices: DeviceUntypeds,
    /// Kernel objects made for the specification.
    pub(crate) made: u32,
    /// The untypeds of the arrays of IO page tables.
    io_tables: BTreeMap<ObjectId, Cap<Untyped>>,
}

/// Cptrs of the objects that the root task needs itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Own {
    /// The endpoint where faults arrive.
    pub(crate) endpoint: CPtr,
    /// The notification bound to the root task's thread.
    pub(crate) notification: CPtr,
    /// Page directory for the GiB of both areas.
    pub(crate) page_directory: CPtr,
    /// [`PAGE_TABLES`] at consecutive cptrs.
    pub(crate) page_tables: CPtr,
}

/// Page tables of the root task's own: scratch, log ring, device registers.
pub(crate) const PAGE_TABLES: u64 = 3;

const OWN: [Demand; 4] = [
    Demand { object_type: ObjectType::Endpoint, size_bits: 0, count: 1, contiguous: false },
    Demand { object_type: ObjectType::Notification, size_bits: 0, count: 1, contiguous: false },
    Demand { object_type: ObjectType::TranslationTable(TableLevel::Two), size_bits: 0, count: 1, contiguous: false },
    Demand {
        object_type: ObjectType::TranslationTable(TableLevel::Three),
        size_bits: 0,
        count: PAGE_TABLES,
        contiguous: false,
    },
];

impl Objects {
    /// Makes every object of `specification`, and the root task's own. An empty array is refused, because its first capability
    /// would be the next object's.
    pub(crate) fn make<K: Kernel>(
        kernel: &K,
        boot: &BootInfo,
        allocator: &mut Allocator,
        specification: &Specification,
    ) -> Result<Self, BuildError> {
        if let Some(object) = specification.objects.iter().find(|object| object.count == 0) {
            return Err(BuildError::specification(&object.name, "is an array of no objects"));
        }
        let mut demands: Vec<Demand> = OWN.into();
        let is_frames = |one: &Demand| one.object_type == ObjectType::SmallPage;
        let together = |one: Demand| Demand { contiguous: specification.no_iommu && is_frames(&one), ..one };
        demands.extend(specification.objects.iter().filter_map(demand).map(together));
        let mut made = allocator.make_all(kernel, &demands)?.into_iter();
        let mut first = || CPtr::new(made.next().unwrap_or_default().start);
        let own = Own { endpoint: first(), notification: first(), page_directory: first(), page_tables: first() };
        let device_cptrs = allocator.cptrs(DEVICE_CPTRS)?;
        let mut devices = DeviceUntypeds::new(boot.cnode, device_cptrs, device_untypeds(boot));
        let mut cptrs = Vec::with_capacity(specification.objects.len());
        let mut count = 0u32;
        let mut io_tables = BTreeMap::new();
        for (object, id) in specification.objects.iter().zip(0..) {
            let range = match (demand(object), boot_cap(boot, object.kind)) {
                (Some(_), _) if object.kind == ObjectKind::IoPageTable => {
                    let untyped = Cap::from_bits(made.next().unwrap_or_default().start);
                    let cptrs = allocator.cptrs(object.count.into())?;
                    allocator.fill(kernel, untyped, ObjectType::IoPageTable, cptrs.clone())?;
                    io_tables.insert(id, untyped);
                    cptrs
                }
                (Some(_), _) => made.next().unwrap_or_default(),
                (None, Some(cap)) => cap.bits()..cap.bits().saturating_add(1),
                (None, None) => make_devices(kernel, boot, allocator, &mut devices, object)?,
            };
            if boot_cap(boot, object.kind).is_none() {
                count = count.saturating_add(object.count);
            } else if object.count != 1 {
                return Err(BuildError::specification(&object.name, "is there once and cannot be an array"));
            }
            cptrs.push(range);
        }
        Ok(Self { cptrs, own, devices, made: count, io_tables })
    }

    /// Deletes the array `id` of IO page tables, whoever has them, and makes it again: mapped nowhere, and empty. Kernels differ in what
    /// they leave in a table that is unmapped.
    pub(crate) fn renew_io_tables<K: Kernel>(
        &self,
        kernel: &K,
        boot: &BootInfo,
        allocator: &Allocator,
        id: ObjectId,
    ) -> Result<(), BuildError> {
        let missing = || BuildError::specification("", "it names IO page tables that it does not have");
        let untyped = *self.io_tables.get(&id).ok_or_else(missing)?;
        let revoked = kernel.cnode_revoke(boot.absolute(untyped.cptr()));
        revoked.map_err(BuildError::refused("take", "IO page tables"))?;
        allocator.fill(kernel, untyped, ObjectType::IoPageTable, self.cptrs(id)?)
    }

    /// The cptrs of the object `id`.
    pub(crate) fn cptrs(&self, id: ObjectId) -> Result<Range<u64>, BuildError> {
        let missing = BuildError::specification("", "it names an object that it does not have");
        self.cptrs.get(id as usize).cloned().ok_or(missing)
    }

    /// The first capability to `id`, which the specification uses as a `T`; if it is not one, the kernel refuses it later.
    pub(crate) fn cap<T: CapType>(&self, id: ObjectId) -> Result<Cap<T>, BuildError> {
        Ok(Cap::from_bits(self.cptrs(id)?.start))
    }
}

/// The object `id` of `specification`.
pub(crate) fn object(specification: &Specification, id: ObjectId) -> Result<&Object, BuildError> {
    let missing = || BuildError::specification("", "it names an object that it does not have");
    specification.objects.get(id as usize).ok_or_else(missing)
}

/// Refuses an object that is of another kind than its use needs. The kernel checks most of that, but it stops the machine when it
/// is to derive a capability from a second-level table.
pub(crate) fn expect_kind(specification: &Specification, id: ObjectId, kind: ObjectKind) -> Result<(), BuildError> {
    let object = object(specification, id)?;
    if object.kind == kind {
        return Ok(());
    }
    Err(BuildError::specification(&object.name, "is of another kind than its use needs"))
}

fn device_untypeds(boot: &BootInfo) -> Vec<DeviceUntyped> {
    let devices = boot.untypeds.iter().filter(|untyped| untyped.is_device);
    let device = |u: &crate::UntypedInfo| DeviceUntyped { paddr: u.paddr, size_bits: u.size_bits, cptr: u.cptr.cptr() };
    devices.map(device).collect()
}

/// Retype demand from ordinary memory; `None` for device memory and for objects that exist at boot.
fn demand(object: &Object) -> Option<Demand> {
    let (object_type, size_bits) = match object.kind {
        ObjectKind::Untyped { size_bits } => (ObjectType::Untyped, size_bits),
        ObjectKind::Endpoint => (ObjectType::Endpoint, 0),
        ObjectKind::Notification => (ObjectType::Notification, 0),
        ObjectKind::CNode { size_bits } => (ObjectType::CNode, size_bits),
        ObjectKind::Tcb => (ObjectType::Tcb, 0),
        ObjectKind::VSpace => (ObjectType::VSpace, 0),
        ObjectKind::TranslationTable { level } => (ObjectType::TranslationTable(TableLevel::new(level)?), 0),
        ObjectKind::SmallFrame => (ObjectType::SmallPage, 0),
        ObjectKind::LargeFrame => (ObjectType::LargePage, 0),
        // They get an untyped of their own, so that they can be made again.
        ObjectKind::IoPageTable => {
            let size_bits = bits_of(object.count)?;
            return Some(Demand { object_type: ObjectType::Untyped, size_bits, count: 1, contiguous: false });
        }
        ObjectKind::DeviceUntyped { .. }
        | ObjectKind::SmallDeviceFrame { .. }
        | ObjectKind::LargeDeviceFrame { .. }
        | ObjectKind::IoPorts { .. }
        | ObjectKind::IrqControl
        | ObjectKind::IoSpaceMaster => return None,
    };
    Some(Demand { object_type, size_bits, count: u64::from(object.count), contiguous: false })
}

/// log2 of the bytes of an untyped that has room for `count` IO page tables.
fn bits_of(count: u32) -> Option<u8> {
    let pages = count.checked_next_power_of_two()?;
    u8::try_from(pages.trailing_zeros().saturating_add(PAGE_SIZE.ilog2())).ok()
}

/// The capability the kernel gave at boot that stands for `kind`.
fn boot_cap(boot: &BootInfo, kind: ObjectKind) -> Option<CPtr> {
    match kind {
        ObjectKind::IoPorts { .. } => Some(boot.io_ports.cptr()),
        ObjectKind::IrqControl => Some(boot.irq_control.cptr()),
        ObjectKind::IoSpaceMaster => Some(boot.io_space_master.cptr()),
        _ => None,
    }
}

/// Makes an array in device memory. Its capabilities are moved together, because dividing the memory leaves them in any
/// cptrs.
fn make_devices<K: Kernel>(
    kernel: &K,
    boot: &BootInfo,
    allocator: &mut Allocator,
    devices: &mut DeviceUntypeds,
    object: &Object,
) -> Result<Range<u64>, BuildError> {
    let refused = || BuildError::refused("make of device memory", &object.name);
    let (paddr, stride) = match object.kind {
        ObjectKind::DeviceUntyped { paddr, size_bits } => (paddr, crate::boot::bytes(size_bits)),
        ObjectKind::LargeDeviceFrame { paddr } => (paddr, LARGE_PAGE),
        ObjectKind::SmallDeviceFrame { paddr } => (paddr, PAGE_SIZE as u64),
        _ => return Err(BuildError::specification(&object.name, "is of a kind that cannot be made")),
    };
    let cptrs = allocator.cptrs(u64::from(object.count))?;
    for (index, cptr) in cptrs.clone().enumerate() {
        let offset = stride.checked_mul(index as u64);
        let at = offset.and_then(|offset| paddr.checked_add(offset)).map(Paddr::new);
        let at = at.ok_or_else(|| BuildError::specification(&object.name, "leaves the address space"))?;
        match object.kind {
            ObjectKind::DeviceUntyped { size_bits, .. } => {
                let untyped = devices.untyped(kernel, at, size_bits).map_err(refused())?;
                let (to, from) = (boot.absolute(CPtr::new(cptr)), boot.absolute(untyped.cptr()));
                kernel.cnode_move(to, from).map_err(refused())?;
            }
            ObjectKind::LargeDeviceFrame { .. } => {
                let untyped = devices.untyped(kernel, at, LARGE_PAGE_BITS).map_err(refused())?;
                let end = cptr.saturating_add(1);
                kernel.untyped_retype(untyped, ObjectType::LargePage, 0, boot.cnode, cptr..end).map_err(refused())?;
            }
            _ => {
                let untyped = devices.untyped(kernel, at, PAGE_SIZE.ilog2() as u8).map_err(refused())?;
                let end = cptr.saturating_add(1);
                kernel.untyped_retype(untyped, ObjectType::SmallPage, 0, boot.cnode, cptr..end).map_err(refused())?;
            }
        }
    }
    Ok(cptrs)
}
