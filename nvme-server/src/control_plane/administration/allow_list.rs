//! The commands of the administration that may pass, by name: all others are refused, and no byte of them reaches a queue.
//!
//! For each there are its right, the bytes that it moves, and what becomes of namespaces. Not on the list are commands that belong to the
//! driver of a controller (queues, aborts, event requests, doorbell buffers, keep alive), those that move what other components hold
//! (resources of virtual functions), those of vendors, and features on which the server relies. The bytes follow from the command alone.
//! A controller writes that many, whatever length the sender names. Left out: the window (`slots`).

use blk_api::administration::{Queue, Right};
use nvme_spec::admin::{Attachment, FirmwarePiece, Management, Opcode};
use nvme_spec::feature::Feature;
use nvme_spec::log::LogRead;
use nvme_spec::{Nsid, Sqe, nvm};

/// Bytes of structures that Identify returns, and of those that describe namespaces and controllers.
const STRUCTURE: u64 = 4096;
/// The first identifier of log pages and of structures of Identify that are a vendor's own.
const VENDORS_LOGS: u8 = 0xc0;
const VENDORS_STRUCTURES: u8 = 0xe0;
/// CDW12 of Copy: the format of its descriptors. With format 0 they name blocks of the command's own namespace.
const COPY_FORMAT: u32 = 0xf00;
/// Bytes of such a descriptor, and of a range of Dataset Management.
const COPY_RANGE: u64 = 32;
const RANGE: u64 = 16;

/// A command on the list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Allowed {
    pub right: Right,
    /// Bytes that it moves.
    pub bytes: Bytes,
    pub effect: Effect,
}

/// Bytes that a command moves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Bytes {
    Fixed(u64),
    /// That many blocks of its namespace.
    Blocks(u64),
}

/// The effect of a command on namespaces.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Effect {
    /// Namespaces stay as they are.
    None,
    /// There is another one, or an earlier one is there again.
    Adds,
    /// This one goes, or all of them, or their data do.
    Ends(Nsid),
    /// This one goes, or all of them, and another one may have its number afterwards.
    Replaces(Nsid),
}

impl Effect {
    /// The namespaces that go.
    pub(super) const fn ended(self) -> Option<Nsid> {
        match self {
            Self::None | Self::Adds => None,
            Self::Ends(nsid) | Self::Replaces(nsid) => Some(nsid),
        }
    }
}

/// Finds a command on the list.
pub(super) fn find(queue: Queue, sqe: &Sqe) -> Option<Allowed> {
    match queue {
        Queue::Admin => admin(sqe),
        Queue::Io => io(sqe),
    }
}

fn admin(sqe: &Sqe) -> Option<Allowed> {
    let allow = |right, bytes, effect| Some(Allowed { right, bytes: Bytes::Fixed(bytes), effect });
    let [first, ..] = sqe.cdw10.to_le_bytes();
    match Opcode::from_raw(sqe.opcode())? {
        Opcode::Identify if first < VENDORS_STRUCTURES => allow(Right::Inspect, STRUCTURE, Effect::None),
        Opcode::GetLogPage if first < VENDORS_LOGS => {
            allow(Right::Inspect, LogRead::from_sqe(sqe).bytes(), Effect::None)
        }
        Opcode::GetFeatures => allow(Right::Inspect, bytes_of(Feature::from_raw(first)?, sqe), Effect::None),
        Opcode::SetFeatures => {
            let feature = Feature::from_raw(first).filter(|feature| may_be_set(*feature))?;
            allow(Right::Features, bytes_of(feature, sqe), Effect::None)
        }
        Opcode::NamespaceManagement => match Management::from_dw10(sqe.cdw10)? {
            Management::Create => allow(Right::Namespaces, STRUCTURE, Effect::Adds),
            Management::Delete => allow(Right::Namespaces, 0, Effect::Replaces(sqe.nsid())),
        },
        Opcode::NamespaceAttachment => match Attachment::from_dw10(sqe.cdw10)? {
            Attachment::Attach => allow(Right::Namespaces, STRUCTURE, Effect::Adds),
            Attachment::Detach => allow(Right::Namespaces, STRUCTURE, Effect::Ends(sqe.nsid())),
        },
        Opcode::FormatNvm => allow(Right::Namespaces, 0, Effect::Replaces(sqe.nsid())),
        Opcode::FirmwareDownload => allow(Right::Firmware, FirmwarePiece::from_sqe(sqe).bytes(), Effect::None),
        Opcode::FirmwareCommit => allow(Right::Firmware, 0, Effect::None),
        Opcode::DeviceSelfTest => allow(Right::SelfTest, 0, Effect::None),
        Opcode::Sanitize => allow(Right::Sanitize, 0, Effect::Ends(Nsid::ALL)),
        Opcode::Identify
        | Opcode::GetLogPage
        | Opcode::DeleteIoSq
        | Opcode::CreateIoSq
        | Opcode::DeleteIoCq
        | Opcode::CreateIoCq
        | Opcode::Abort
        | Opcode::AsyncEventRequest
        | Opcode::KeepAlive
        | Opcode::DirectiveSend
        | Opcode::DirectiveReceive
        | Opcode::VirtualizationManagement
        | Opcode::Lockdown
        | Opcode::DoorbellBufferConfig
        | Opcode::SecuritySend
        | Opcode::SecurityReceive => None,
    }
}

fn io(sqe: &Sqe) -> Option<Allowed> {
    let allow = |bytes| Some(Allowed { right: Right::Io, bytes, effect: Effect::None });
    match nvm::Opcode::from_raw(sqe.opcode())? {
        nvm::Opcode::Write | nvm::Opcode::Read | nvm::Opcode::Compare => {
            allow(Bytes::Blocks(u64::from(sqe.cdw12 & 0xffff).saturating_add(1)))
        }
        nvm::Opcode::Flush | nvm::Opcode::WriteUncorrectable | nvm::Opcode::WriteZeroes | nvm::Opcode::Verify => {
            allow(Bytes::Fixed(0))
        }
        nvm::Opcode::DatasetManagement => allow(Bytes::Fixed(ranges(sqe.cdw10, RANGE))),
        nvm::Opcode::Copy if sqe.cdw12 & COPY_FORMAT == 0 => allow(Bytes::Fixed(ranges(sqe.cdw12, COPY_RANGE))),
        nvm::Opcode::Copy => None,
    }
}

/// Bytes of a list whose length, less one, is in the lowest byte of a dword.
fn ranges(dword: u32, bytes: u64) -> u64 {
    u64::from(dword & 0xff).saturating_add(1).saturating_mul(bytes)
}

/// Whether the server relies on no value of this feature.
const fn may_be_set(feature: Feature) -> bool {
    match feature {
        Feature::PowerManagement
        | Feature::TemperatureThreshold
        | Feature::VolatileWriteCache
        | Feature::AutonomousPower
        | Feature::Timestamp
        | Feature::HostId => true,
        Feature::Arbitration
        | Feature::LbaRangeType
        | Feature::ErrorRecovery
        | Feature::NumberOfQueues
        | Feature::InterruptCoalescing
        | Feature::InterruptVector
        | Feature::WriteAtomicity
        | Feature::AsyncEvents
        | Feature::HostMemoryBuffer
        | Feature::KeepAliveTimer
        | Feature::HostBehavior => false,
    }
}

/// Bytes of a feature's data buffer (section 5.21.1).
const fn bytes_of(feature: Feature, sqe: &Sqe) -> u64 {
    match feature {
        Feature::LbaRangeType | Feature::HostMemoryBuffer => STRUCTURE,
        Feature::AutonomousPower => 256,
        Feature::Timestamp => 8,
        Feature::HostBehavior => 512,
        // EXHID, bit 0 of CDW11: the identifier has 128 bits.
        Feature::HostId if sqe.cdw11 & 1 != 0 => 16,
        Feature::HostId => 8,
        Feature::Arbitration
        | Feature::PowerManagement
        | Feature::TemperatureThreshold
        | Feature::ErrorRecovery
        | Feature::VolatileWriteCache
        | Feature::NumberOfQueues
        | Feature::InterruptCoalescing
        | Feature::InterruptVector
        | Feature::WriteAtomicity
        | Feature::AsyncEvents
        | Feature::KeepAliveTimer => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use nvme_spec::{Cid, DataPointer};

    fn passing(queue: Queue, cdw10: u32) -> Vec<u8> {
        let sqe = |opcode| Sqe { cdw10, ..Sqe::new(opcode, Cid(0), Nsid(1), DataPointer::NONE) };
        (0..=u8::MAX).filter(|opcode| find(queue, &sqe(*opcode)).is_some()).collect()
    }

    #[test]
    fn of_all_opcodes_those_of_the_list_pass() {
        let admin = [0x02, 0x06, 0x0a, 0x0d, 0x10, 0x11, 0x14, 0x15, 0x80, 0x84];
        assert_eq!(passing(Queue::Admin, 1), admin, "Arbitration is not to be set");
        assert_eq!(passing(Queue::Admin, 6), [0x02, 0x06, 0x09, 0x0a, 0x10, 0x11, 0x14, 0x80, 0x84]);
        assert_eq!(passing(Queue::Admin, 0xff), [0x10, 0x11, 0x14, 0x80, 0x84], "those of vendors");
        assert_eq!(passing(Queue::Io, 0), [0x00, 0x01, 0x02, 0x04, 0x05, 0x08, 0x09, 0x0c, 0x19]);
    }

    #[test]
    fn features_that_may_be_set_are_those_of_no_consequence_to_the_server() {
        let sqe = |fid| Sqe { cdw10: fid, ..Sqe::new(0x09, Cid(0), Nsid(0), DataPointer::NONE) };
        let settable: Vec<u32> = (0..=0xff).filter(|fid| find(Queue::Admin, &sqe(*fid)).is_some()).collect();
        assert_eq!(settable, [0x02, 0x04, 0x06, 0x0c, 0x0e, 0x81]);
    }

    #[test]
    fn bytes_follow_from_the_command() {
        let bytes = |queue, opcode, cdw10, cdw11, cdw12| {
            let sqe = Sqe::new(opcode, Cid(0), Nsid(1), DataPointer::NONE);
            find(queue, &Sqe { cdw10, cdw11, cdw12, ..sqe }).map(|allowed| allowed.bytes)
        };
        let admin = |opcode, cdw10, cdw11| bytes(Queue::Admin, opcode, cdw10, cdw11, 0);
        assert_eq!(admin(0x06, 1, 0), Some(Bytes::Fixed(4096)));
        assert_eq!(admin(0x02, 0x007f_0002, 0), Some(Bytes::Fixed(512)));
        assert_eq!(admin(0x02, 0xffff_0002, 0xffff), Some(Bytes::Fixed(1 << 34)));
        assert_eq!(admin(0x11, u32::MAX, 0), Some(Bytes::Fixed(1 << 34)));
        assert_eq!((admin(0x0a, 0x81, 0), admin(0x0a, 0x81, 1)), (Some(Bytes::Fixed(8)), Some(Bytes::Fixed(16))));
        assert_eq!(bytes(Queue::Io, 0x02, 0, 0, 0xffff_ffff), Some(Bytes::Blocks(65536)));
        assert_eq!(bytes(Queue::Io, 0x09, 255, 0, 0), Some(Bytes::Fixed(4096)));
        assert_eq!(bytes(Queue::Io, 0x19, 0, 0, 3), Some(Bytes::Fixed(128)));
        assert_eq!(bytes(Queue::Io, 0x19, 0, 0, 0x203), None, "blocks of another namespace");
    }
}
