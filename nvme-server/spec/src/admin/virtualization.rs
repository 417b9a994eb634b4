//! Virtualization Management (section 5.22): resources of a primary controller and of its secondary controllers.

use bitfield_struct::bitfield;

use super::Opcode;
use crate::{Cid, DataPointer, Nsid, Sqe};

/// ACT of Virtualization Management (section 5.22).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum VirtualizationAction {
    /// 1h: the number of flexible resources that the primary controller has from its next reset on.
    PrimaryAllocation = 0x1,
    /// 7h: takes a secondary controller offline and removes its flexible resources.
    SecondaryOffline = 0x7,
    /// 8h: the number of flexible resources that a secondary controller has.
    SecondaryAssign = 0x8,
    /// 9h: sets a secondary controller online.
    SecondaryOnline = 0x9,
}

impl VirtualizationAction {
    /// The action of this number, if it is one of those named here.
    #[must_use]
    pub const fn from_raw(raw: u8) -> Option<Self> {
        match raw {
            0x1 => Some(Self::PrimaryAllocation),
            0x7 => Some(Self::SecondaryOffline),
            0x8 => Some(Self::SecondaryAssign),
            0x9 => Some(Self::SecondaryOnline),
            _ => None,
        }
    }
}

/// RT of Virtualization Management: the kind of a controller's resource (sections 5.22, 8.5.1 and 8.5.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum ControllerResource {
    /// 0: VQ resources, each an SQ and a CQ. The first is the admin queue pair.
    Queues = 0,
    /// 1: VI resources, each an interrupt vector. The first is vector 0.
    Interrupts = 1,
}

impl ControllerResource {
    /// The kind of this number, if it is one of those named here.
    #[must_use]
    pub const fn from_raw(raw: u8) -> Option<Self> {
        match raw {
            0 => Some(Self::Queues),
            1 => Some(Self::Interrupts),
            _ => None,
        }
    }

    /// Resources without which a secondary controller cannot be set online (sections 8.5.1 and 8.5.2).
    #[must_use]
    pub const fn minimum(self) -> u16 {
        match self {
            Self::Queues => 2,
            Self::Interrupts => 1,
        }
    }
}

/// CDW10 of Virtualization Management (section 5.22).
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct VirtualizationDw10 {
    /// ACT: see [`VirtualizationAction`].
    #[bits(4)]
    pub act: u8,
    #[bits(4)]
    __: u8,
    /// RT: see [`ControllerResource`].
    #[bits(3)]
    pub rt: u8,
    #[bits(5)]
    __: u8,
    /// CNTLID: the controller whose resources or state change.
    pub cntlid: u16,
}

/// CDW11 of Virtualization Management (section 5.22).
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct VirtualizationDw11 {
    /// NR: the number of resources.
    pub nr: u16,
    __: u16,
}

/// Primary Controller Flexible Allocation: `controller`, which executes the command, has `count` flexible resources from
/// its next reset on that is not a controller reset by CC.EN. The completion reports [`modified_resources`].
#[must_use]
pub const fn allocate_to_primary(cid: Cid, controller: u16, resource: ControllerResource, count: u16) -> Sqe {
    manage(cid, VirtualizationAction::PrimaryAllocation, controller, Some((resource, count)))
}

/// Secondary Controller Assign: `controller`, which must be offline, has `count` flexible resources. The completion reports
/// [`modified_resources`].
#[must_use]
pub const fn assign_to_secondary(cid: Cid, controller: u16, resource: ControllerResource, count: u16) -> Sqe {
    manage(cid, VirtualizationAction::SecondaryAssign, controller, Some((resource, count)))
}

/// Secondary Controller Online. It needs [`ControllerResource::minimum`] of both kinds.
#[must_use]
pub const fn set_online(cid: Cid, controller: u16) -> Sqe {
    manage(cid, VirtualizationAction::SecondaryOnline, controller, None)
}

/// Secondary Controller Offline. Its flexible resources are free afterwards.
#[must_use]
pub const fn set_offline(cid: Cid, controller: u16) -> Sqe {
    manage(cid, VirtualizationAction::SecondaryOffline, controller, None)
}

const fn manage(
    cid: Cid,
    action: VirtualizationAction,
    controller: u16,
    resources: Option<(ControllerResource, u16)>,
) -> Sqe {
    let mut sqe = Sqe::new(Opcode::VirtualizationManagement as u8, cid, Nsid::NONE, DataPointer::NONE);
    let mut dw10 = VirtualizationDw10::new().with_act(action as u8).with_cntlid(controller);
    if let Some((resource, count)) = resources {
        dw10 = dw10.with_rt(resource as u8);
        sqe.cdw11 = VirtualizationDw11::new().with_nr(count).into_bits();
    }
    sqe.cdw10 = dw10.into_bits();
    sqe
}

/// NRM: the number of resources that an allocation or assignment set, from DW0 of its completion.
#[must_use]
pub const fn modified_resources(dw0: u32) -> u16 {
    (dw0 & 0xffff) as u16
}
