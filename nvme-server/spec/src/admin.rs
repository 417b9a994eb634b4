//! Commands for the admin SQ (chapter 5): typed parameters that turn into an [`Sqe`], and back for a controller model.
//!
//! Features' values are in [`crate::feature`]; what Identify and Get Log Page return in [`crate::identify`] and
//! [`crate::log`].

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
    /// Namespace Attachment (section 5.19).
    NamespaceAttachment = 0x15,
    /// Keep Alive (section 5.16).
    KeepAlive = 0x18,
    /// Virtualization Management (section 5.22).
    VirtualizationManagement = 0x1c,
    /// Doorbell Buffer Config (section 5.7).
    DoorbellBufferConfig = 0x7c,
    /// Format NVM (section 5.23).
    FormatNvm = 0x80,
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
            0x15 => Self::NamespaceAttachment,
            0x18 => Self::KeepAlive,
            0x1c => Self::VirtualizationManagement,
            0x7c => Self::DoorbellBufferConfig,
            0x80 => Self::FormatNvm,
            _ => return None,
        })
    }
}

/// CNS, what Identify returns (section 5.15.1, figure 244). Each is a 4096-byte structure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Cns {
    /// 00h: [`crate::identify::Namespace`] of the NSID.
    Namespace = 0x00,
    /// 01h: [`crate::identify::Controller`].
    Controller = 0x01,
    /// 02h: [`crate::identify::NamespaceList`] of active namespaces above the NSID.
    ActiveNamespaces = 0x02,
    /// 03h: descriptors (EUI-64, NGUID, UUID) of the NSID.
    NamespaceDescriptors = 0x03,
    /// 10h: [`crate::identify::NamespaceList`] of allocated namespaces above the NSID.
    AllocatedNamespaces = 0x10,
    /// 11h: [`crate::identify::Namespace`] of an allocated NSID.
    AllocatedNamespace = 0x11,
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
            0x10 => Self::AllocatedNamespaces,
            0x11 => Self::AllocatedNamespace,
            _ => return None,
        })
    }
}

/// Identify, any selector. `nsid` as the selector wants it.
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

/// Identify Namespace: returns [`crate::identify::Namespace`].
#[must_use]
pub const fn identify_namespace(cid: Cid, nsid: Nsid, data: DataPointer) -> Sqe {
    identify(cid, Cns::Namespace, nsid, data)
}

/// The active namespaces with identifiers above `after`: returns [`crate::identify::NamespaceList`].
#[must_use]
pub const fn identify_active_namespaces(cid: Cid, after: Nsid, data: DataPointer) -> Sqe {
    identify(cid, Cns::ActiveNamespaces, after, data)
}

/// Where a queue's entries are (PC and PRP1 of both create commands).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum QueueMemory {
    /// One contiguous piece at this address, aligned to a memory page.
    Contiguous(u64),
    /// Pages named by the PRP list at this address; not for controllers with [`crate::registers::Cap::cqr`].
    Listed(u64),
}

impl QueueMemory {
    /// The address in PRP1.
    #[must_use]
    pub const fn address(self) -> u64 {
        match self {
            Self::Contiguous(address) | Self::Listed(address) => address,
        }
    }

    const fn pc(self) -> bool {
        matches!(self, Self::Contiguous(_))
    }

    const fn from_parts(pc: bool, address: u64) -> Self {
        if pc { Self::Contiguous(address) } else { Self::Listed(address) }
    }
}

/// Whether a CQ interrupts, and on which vector (IEN and IV).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CqInterrupt {
    /// Never: the queue is polled.
    Disabled,
    /// On this MSI-X or MSI vector; 0 with INTx.
    Vector(u16),
}

/// Create I/O CQ (section 5.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CreateIoCq {
    /// QID: 1 up to the number granted by [`crate::feature::NumberOfQueues`].
    pub qid: QueueId,
    /// QSIZE: entries, 0's based; at least 1, at most CAP.MQES.
    pub qsize_z: u16,
    /// IEN and IV.
    pub interrupt: CqInterrupt,
    /// PC and PRP1.
    pub memory: QueueMemory,
}

/// CDW10 of both create commands.
#[bitfield(u32)]
struct CreateDw10 {
    qid: u16,
    qsize_z: u16,
}

/// CDW11 of Create I/O CQ.
#[bitfield(u32)]
struct CreateCqDw11 {
    pc: bool,
    ien: bool,
    #[bits(14)]
    __: u16,
    iv: u16,
}

impl CreateIoCq {
    /// The command.
    #[must_use]
    pub const fn sqe(&self, cid: Cid) -> Sqe {
        let (ien, iv) = match self.interrupt {
            CqInterrupt::Disabled => (false, 0),
            CqInterrupt::Vector(vector) => (true, vector),
        };
        let data = DataPointer::page(self.memory.address());
        let mut sqe = Sqe::new(Opcode::CreateIoCq as u8, cid, Nsid::NONE, data);
        sqe.cdw10 = CreateDw10::new().with_qid(self.qid.0).with_qsize_z(self.qsize_z).into_bits();
        sqe.cdw11 = CreateCqDw11::new().with_pc(self.memory.pc()).with_ien(ien).with_iv(iv).into_bits();
        sqe
    }

    /// What the command asks for. The opcode is the caller's to look at.
    #[must_use]
    pub const fn from_sqe(sqe: &Sqe) -> Self {
        let dw10 = CreateDw10::from_bits(sqe.cdw10);
        let dw11 = CreateCqDw11::from_bits(sqe.cdw11);
        let interrupt = if dw11.ien() { CqInterrupt::Vector(dw11.iv()) } else { CqInterrupt::Disabled };
        Self {
            qid: QueueId(dw10.qid()),
            qsize_z: dw10.qsize_z(),
            interrupt,
            memory: QueueMemory::from_parts(dw11.pc(), sqe.prp1),
        }
    }
}

/// QPRIO, the class of an SQ. Only with weighted round robin does it mean anything (section 4.13).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum QueuePriority {
    /// 00b: before all other classes but the admin queue.
    Urgent = 0,
    /// 01b: by the high weight.
    High = 1,
    /// 10b: by the medium weight.
    Medium = 2,
    /// 11b: by the low weight.
    Low = 3,
}

impl QueuePriority {
    const fn from_bits(bits: u8) -> Self {
        match bits & 3 {
            0 => Self::Urgent,
            1 => Self::High,
            2 => Self::Medium,
            _ => Self::Low,
        }
    }

    const fn into_bits(self) -> u8 {
        self as u8
    }
}

/// Create I/O SQ (section 5.4). Its CQ must exist.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CreateIoSq {
    /// QID: 1 up to the number granted by [`crate::feature::NumberOfQueues`].
    pub qid: QueueId,
    /// QSIZE: entries, 0's based; at least 1, at most CAP.MQES.
    pub qsize_z: u16,
    /// CQID: where completions go.
    pub cqid: QueueId,
    /// QPRIO.
    pub priority: QueuePriority,
    /// PC and PRP1.
    pub memory: QueueMemory,
}

/// CDW11 of Create I/O SQ.
#[bitfield(u32)]
struct CreateSqDw11 {
    pc: bool,
    #[bits(2)]
    qprio: QueuePriority,
    #[bits(13)]
    __: u16,
    cqid: u16,
}

impl CreateIoSq {
    /// The command.
    #[must_use]
    pub const fn sqe(&self, cid: Cid) -> Sqe {
        let data = DataPointer::page(self.memory.address());
        let mut sqe = Sqe::new(Opcode::CreateIoSq as u8, cid, Nsid::NONE, data);
        sqe.cdw10 = CreateDw10::new().with_qid(self.qid.0).with_qsize_z(self.qsize_z).into_bits();
        sqe.cdw11 =
            CreateSqDw11::new().with_pc(self.memory.pc()).with_qprio(self.priority).with_cqid(self.cqid.0).into_bits();
        sqe
    }

    /// What the command asks for. The opcode is the caller's to look at.
    #[must_use]
    pub const fn from_sqe(sqe: &Sqe) -> Self {
        let dw10 = CreateDw10::from_bits(sqe.cdw10);
        let dw11 = CreateSqDw11::from_bits(sqe.cdw11);
        Self {
            qid: QueueId(dw10.qid()),
            qsize_z: dw10.qsize_z(),
            cqid: QueueId(dw11.cqid()),
            priority: dw11.qprio(),
            memory: QueueMemory::from_parts(dw11.pc(), sqe.prp1),
        }
    }
}

/// Delete I/O SQ (section 5.6): its outstanding commands are aborted before the completion comes.
#[must_use]
pub const fn delete_io_sq(cid: Cid, qid: QueueId) -> Sqe {
    let mut sqe = Sqe::new(Opcode::DeleteIoSq as u8, cid, Nsid::NONE, DataPointer::NONE);
    sqe.cdw10 = qid.0 as u32;
    sqe
}

/// Delete I/O CQ (section 5.5). Every SQ that uses it must be deleted first.
#[must_use]
pub const fn delete_io_cq(cid: Cid, qid: QueueId) -> Sqe {
    let mut sqe = Sqe::new(Opcode::DeleteIoCq as u8, cid, Nsid::NONE, DataPointer::NONE);
    sqe.cdw10 = qid.0 as u32;
    sqe
}

/// The queue that a delete command names.
#[must_use]
pub const fn deleted_queue(sqe: &Sqe) -> QueueId {
    QueueId((sqe.cdw10 & 0xffff) as u16)
}

/// Names a command that is outstanding: CIDs repeat across queues.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CommandName {
    /// The SQ it was submitted to.
    pub sq: QueueId,
    /// Its identifier there.
    pub cid: Cid,
}

/// Abort (section 5.1): best effort. Bit 0 of the completion's DW0 is 1 when the command was *not* aborted.
#[must_use]
pub const fn abort(cid: Cid, victim: CommandName) -> Sqe {
    let mut sqe = Sqe::new(Opcode::Abort as u8, cid, Nsid::NONE, DataPointer::NONE);
    sqe.cdw10 = (victim.sq.0 as u32) | ((victim.cid.0 as u32) << 16);
    sqe
}

/// Whether an Abort that completed with this DW0 took effect.
#[must_use]
pub const fn was_aborted(dw0: u32) -> bool {
    dw0 & 1 == 0
}

/// Asynchronous Event Request (section 5.2): completes when something happens, [`AsyncEvent`] says what.
#[must_use]
pub const fn async_event_request(cid: Cid) -> Sqe {
    Sqe::new(Opcode::AsyncEventRequest as u8, cid, Nsid::NONE, DataPointer::NONE)
}

/// DW0 of a completed Asynchronous Event Request (section 5.2.1, figure 146).
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct AsyncEvent {
    /// Event type: 0 error, 1 SMART/health, 2 notice, 6 command set specific, 7 vendor.
    #[bits(3)]
    pub kind: u8,
    #[bits(5)]
    __: u8,
    /// Event information, by type.
    pub info: u8,
    /// The log page to read, which also lets the event be reported again.
    pub log_page: u8,
    __: u8,
}

/// Log page identifiers (section 5.14.1, figure 192).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum LogPage {
    /// 01h: error information.
    ErrorInformation = 0x01,
    /// 02h: [`crate::log::Smart`].
    Smart = 0x02,
    /// 03h: firmware slots.
    FirmwareSlots = 0x03,
    /// 04h: [`crate::identify::NamespaceList`] of namespaces that changed.
    ChangedNamespaces = 0x04,
}

/// Get Log Page from its start (section 5.14).
///
/// `dwords_z` is the length in dwords, 0's based: NUMDL and NUMDU together. Reading clears the events the page stands for.
#[must_use]
pub const fn get_log_page(cid: Cid, page: LogPage, nsid: Nsid, dwords_z: u32, data: DataPointer) -> Sqe {
    let mut sqe = Sqe::new(Opcode::GetLogPage as u8, cid, nsid, data);
    sqe.cdw10 = (page as u32) | ((dwords_z & 0xffff) << 16);
    sqe.cdw11 = dwords_z >> 16;
    sqe
}

/// Get Log Page for the controller's [`crate::log::Smart`], 512 bytes.
#[must_use]
pub const fn get_smart_log(cid: Cid, data: DataPointer) -> Sqe {
    get_log_page(cid, LogPage::Smart, Nsid::ALL, 127, data)
}

#[cfg(test)]
#[path = "admin_tests.rs"]
mod tests;
