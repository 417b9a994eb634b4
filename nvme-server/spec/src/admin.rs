//! Commands for the admin SQ (chapter 5): typed parameters that turn into an [`Sqe`], and back for a controller model.
//!
//! Here: opcodes, Identify, Abort and commands without parameters; in modules of their own, commands about queues,
//! namespaces, virtualization, firmware, self-tests, sanitize and lockdown. Features are in [`crate::feature`], log pages in [`crate::log`], asynchronous events in
//! [`crate::event`], the structures that Identify returns in [`crate::identify`].

mod firmware;
mod lockdown;
mod namespaces;
mod queues;
mod sanitize;
mod self_test;
mod virtualization;

pub use firmware::{CommitAction, CommitDw10, FirmwarePiece, firmware_commit};
pub use lockdown::{Lock, LockdownDw10, LockdownInterface, LockdownScope, lock_command, lock_feature};
pub use namespaces::{
    Attachment, FormatDw10, Management, SecureErase, create_namespace, delete_namespace, format_nvm,
    namespace_attachment,
};
pub use queues::{
    CqInterrupt, CreateIoCq, CreateIoSq, QueueMemory, QueuePriority, delete_io_cq, delete_io_sq, deleted_queue,
};
pub use sanitize::{SanitizeAction, SanitizeDw10, sanitize};
pub use self_test::{SelfTestCode, self_test};
pub use virtualization::{
    ControllerResource, VirtualizationAction, VirtualizationDw10, VirtualizationDw11, allocate_to_primary,
    assign_to_secondary, modified_resources, set_offline, set_online,
};

use bitfield_struct::bitfield;

use crate::{Cid, DataPointer, Nsid, QueueId, Sqe};

/// Admin opcodes (chapter 5, figure 139).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Opcode {
    /// Delete I/O SQ (section 5.6).
    DeleteIoSq = 0x00,
    /// Create I/O SQ (section 5.4).
    CreateIoSq = 0x01,
    /// Get Log Page (section 5.14).
    GetLogPage = 0x02,
    /// Delete I/O CQ (section 5.5).
    DeleteIoCq = 0x04,
    /// Create I/O CQ (section 5.3).
    CreateIoCq = 0x05,
    /// Identify (section 5.15).
    Identify = 0x06,
    /// Abort (section 5.1).
    Abort = 0x08,
    /// Set Features (section 5.21).
    SetFeatures = 0x09,
    /// Get Features (section 5.13).
    GetFeatures = 0x0a,
    /// Asynchronous Event Request (section 5.2).
    AsyncEventRequest = 0x0c,
    /// Namespace Management (section 5.20).
    NamespaceManagement = 0x0d,
    /// Firmware Commit (section 5.11).
    FirmwareCommit = 0x10,
    /// Firmware Image Download (section 5.12).
    FirmwareDownload = 0x11,
    /// Device Self-test (section 5.8).
    DeviceSelfTest = 0x14,
    /// Namespace Attachment (section 5.19).
    NamespaceAttachment = 0x15,
    /// Keep Alive (section 5.16).
    KeepAlive = 0x18,
    /// Directive Send (section 5.10).
    DirectiveSend = 0x19,
    /// Directive Receive (section 5.9).
    DirectiveReceive = 0x1a,
    /// Virtualization Management (section 5.22).
    VirtualizationManagement = 0x1c,
    /// Lockdown (base specification 2.0, section 5.19).
    Lockdown = 0x24,
    /// Doorbell Buffer Config (section 5.7).
    DoorbellBufferConfig = 0x7c,
    /// Format NVM (section 5.23).
    FormatNvm = 0x80,
    /// Security Send.
    SecuritySend = 0x81,
    /// Security Receive.
    SecurityReceive = 0x82,
    /// Sanitize (section 5.24).
    Sanitize = 0x84,
}

impl Opcode {
    /// The opcode of this number, if it is one of those named here.
    #[must_use]
    pub const fn from_raw(raw: u8) -> Option<Self> {
        Some(match raw {
            0x00 => Self::DeleteIoSq,
            0x01 => Self::CreateIoSq,
            0x02 => Self::GetLogPage,
            0x04 => Self::DeleteIoCq,
            0x05 => Self::CreateIoCq,
            0x06 => Self::Identify,
            0x08 => Self::Abort,
            0x09 => Self::SetFeatures,
            0x0a => Self::GetFeatures,
            0x0c => Self::AsyncEventRequest,
            0x0d => Self::NamespaceManagement,
            0x10 => Self::FirmwareCommit,
            0x11 => Self::FirmwareDownload,
            0x14 => Self::DeviceSelfTest,
            0x15 => Self::NamespaceAttachment,
            0x18 => Self::KeepAlive,
            0x19 => Self::DirectiveSend,
            0x1a => Self::DirectiveReceive,
            0x1c => Self::VirtualizationManagement,
            0x24 => Self::Lockdown,
            0x7c => Self::DoorbellBufferConfig,
            0x80 => Self::FormatNvm,
            0x81 => Self::SecuritySend,
            0x82 => Self::SecurityReceive,
            0x84 => Self::Sanitize,
            _ => return None,
        })
    }
}

/// CNS, the structure that Identify returns (section 5.15.1, figure 244). Each has 4096 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Cns {
    /// 00h: [`crate::identify::Namespace`] of the NSID.
    Namespace = 0x00,
    /// 01h: [`crate::identify::Controller`].
    Controller = 0x01,
    /// 02h: [`crate::identify::NamespaceList`] of active namespaces above the NSID.
    ActiveNamespaces = 0x02,
    /// 03h: [`crate::identify::IdDescriptor`]s (EUI-64, NGUID, UUID) of the NSID, one after another.
    NamespaceDescriptors = 0x03,
    /// 06h: what the controller says of one I/O command set, such as [`crate::identify::NvmLimits`]. Since revision 2.0.
    CommandSetController = 0x06,
    /// 10h: [`crate::identify::NamespaceList`] of allocated namespaces above the NSID.
    AllocatedNamespaces = 0x10,
    /// 11h: [`crate::identify::Namespace`] of an allocated NSID.
    AllocatedNamespace = 0x11,
    /// 12h: [`crate::identify::ControllerList`] of controllers that the NSID is attached to, from
    /// [`IdentifyDw10::cntid`].
    AttachedControllers = 0x12,
    /// 13h: [`crate::identify::ControllerList`] of the subsystem's controllers, from [`IdentifyDw10::cntid`].
    Controllers = 0x13,
    /// 14h: [`crate::identify::PrimaryCapabilities`] of the primary controller [`IdentifyDw10::cntid`].
    PrimaryCapabilities = 0x14,
    /// 15h: [`crate::identify::SecondaryList`] of the primary controller's secondary controllers, from
    /// [`IdentifyDw10::cntid`].
    SecondaryControllers = 0x15,
}

impl Cns {
    /// The selector of this number, if it is one of those named here.
    #[must_use]
    pub const fn from_raw(raw: u8) -> Option<Self> {
        Some(match raw {
            0x00 => Self::Namespace,
            0x01 => Self::Controller,
            0x02 => Self::ActiveNamespaces,
            0x03 => Self::NamespaceDescriptors,
            0x06 => Self::CommandSetController,
            0x10 => Self::AllocatedNamespaces,
            0x11 => Self::AllocatedNamespace,
            0x12 => Self::AttachedControllers,
            0x13 => Self::Controllers,
            0x14 => Self::PrimaryCapabilities,
            0x15 => Self::SecondaryControllers,
            _ => return None,
        })
    }
}

/// CDW10 of Identify (section 5.15.1).
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct IdentifyDw10 {
    /// CNS: see [`Cns`].
    pub cns: u8,
    __: u8,
    /// CNTID: the controller a list begins with, or the one whose capabilities are wanted.
    pub cntid: u16,
}

/// Identify, any selector. The selector defines the meaning of `nsid`.
#[must_use]
pub const fn identify(cid: Cid, cns: Cns, nsid: Nsid, data: DataPointer) -> Sqe {
    let mut sqe = Sqe::new(Opcode::Identify as u8, cid, nsid, data);
    sqe.cdw10 = cns as u32;
    sqe
}

/// Identify Controller: returns [`crate::identify::Controller`].
#[must_use]
pub const fn identify_controller(cid: Cid, data: DataPointer) -> Sqe {
    identify(cid, Cns::Controller, Nsid::NONE, data)
}

/// Identify for the limits of the NVM command set (CSI 0): returns [`crate::identify::NvmLimits`]. Since revision 2.0.
#[must_use]
pub const fn identify_nvm_limits(cid: Cid, data: DataPointer) -> Sqe {
    identify(cid, Cns::CommandSetController, Nsid::NONE, data)
}

/// Identify Namespace: returns [`crate::identify::Namespace`].
#[must_use]
pub const fn identify_namespace(cid: Cid, nsid: Nsid, data: DataPointer) -> Sqe {
    identify(cid, Cns::Namespace, nsid, data)
}

/// Namespace Identification Descriptors: returns [`crate::identify::IdList`]. Since revision 1.3.
#[must_use]
pub const fn identify_descriptors(cid: Cid, nsid: Nsid, data: DataPointer) -> Sqe {
    identify(cid, Cns::NamespaceDescriptors, nsid, data)
}

/// The active namespaces with identifiers above `after`: returns [`crate::identify::NamespaceList`].
#[must_use]
pub const fn identify_active_namespaces(cid: Cid, after: Nsid, data: DataPointer) -> Sqe {
    identify(cid, Cns::ActiveNamespaces, after, data)
}

/// Identify for a list of controllers from `first` on: [`Cns::Controllers`], [`Cns::SecondaryControllers`], or
/// [`Cns::AttachedControllers`] of `nsid`. Also for [`Cns::PrimaryCapabilities`] of the controller `first`.
#[must_use]
pub const fn identify_controllers(cid: Cid, cns: Cns, nsid: Nsid, first: u16, data: DataPointer) -> Sqe {
    let mut sqe = identify(cid, cns, nsid, data);
    sqe.cdw10 = IdentifyDw10::new().with_cns(cns as u8).with_cntid(first).into_bits();
    sqe
}

/// Names a command that is outstanding: CIDs repeat across queues.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CommandName {
    /// The SQ it was submitted to.
    pub sq: QueueId,
    /// The command's identifier there.
    pub cid: Cid,
}

/// Abort (section 5.1): best effort. Bit 0 of the completion's DW0 is 1 when the command was *not* aborted.
#[must_use]
pub const fn abort(cid: Cid, victim: CommandName) -> Sqe {
    let mut sqe = Sqe::new(Opcode::Abort as u8, cid, Nsid::NONE, DataPointer::NONE);
    sqe.cdw10 = (victim.sq.0 as u32) | ((victim.cid.0 as u32) << 16);
    sqe
}

/// The command that an Abort names.
#[must_use]
pub const fn aborted_command(sqe: &Sqe) -> CommandName {
    CommandName { sq: QueueId((sqe.cdw10 & 0xffff) as u16), cid: Cid((sqe.cdw10 >> 16) as u16) }
}

/// Whether an Abort that completed with this DW0 took effect.
#[must_use]
pub const fn was_aborted(dw0: u32) -> bool {
    dw0 & 1 == 0
}

/// Asynchronous Event Request (section 5.2): completes when an event happens, with a [`crate::event::AsyncEvent`].
#[must_use]
pub const fn async_event_request(cid: Cid) -> Sqe {
    Sqe::new(Opcode::AsyncEventRequest as u8, cid, Nsid::NONE, DataPointer::NONE)
}

/// Keep Alive (section 5.16): restarts the timer set with [`crate::feature::Feature::KeepAliveTimer`].
#[must_use]
pub const fn keep_alive(cid: Cid) -> Sqe {
    Sqe::new(Opcode::KeepAlive as u8, cid, Nsid::NONE, DataPointer::NONE)
}

/// Doorbell Buffer Config (section 5.7): two pages of doorbells in memory, laid out as the registers are.
///
/// `shadow` takes the values that would be written to doorbells. In `event_index` the controller writes the values of which
/// it wants to be notified.
#[must_use]
pub const fn doorbell_buffer_config(cid: Cid, shadow: u64, event_index: u64) -> Sqe {
    let data = DataPointer { prp1: shadow, prp2: event_index };
    Sqe::new(Opcode::DoorbellBufferConfig as u8, cid, Nsid::NONE, data)
}

#[cfg(test)]
#[path = "admin_tests.rs"]
mod tests;
