//! Creating and deleting I/O queues (sections 5.3 to 5.6).

use bitfield_struct::bitfield;

use super::Opcode;
use crate::{Cid, DataPointer, Nsid, QueueId, Sqe};

/// The memory of a queue's entries (PC and PRP1 of both create commands).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum QueueMemory {
    /// A single contiguous piece at this address, aligned to a memory page.
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

    /// The parameters of the command. The caller checks the opcode.
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

/// QPRIO, the class of an SQ. It has a meaning only with weighted round robin (section 4.13).
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
    /// CQID: the CQ for completions.
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

    /// The parameters of the command. The caller checks the opcode.
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
