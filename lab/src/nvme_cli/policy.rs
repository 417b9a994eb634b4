//! The commands that may pass: an allow list. All else is refused by name.
//!
//! Refused are the commands that belong to the driver of a controller (queues, aborts, event requests, doorbell buffers), those that
//! move what other components hold (resources of virtual functions), and those of vendors, whose effects nobody knows.

use nvme_passthrough::{Command, Queue};
use nvme_spec::admin::Opcode;
use nvme_spec::nvm;

/// Admin commands that may pass and that the specification's crate does not name: NVMe-MI Send and Receive, Capacity Management,
/// Discovery Information Management, Lockdown, Fabrics Commands, Get LBA Status (base specification 2.0, figure 88).
const MORE_ADMIN: [u8; 7] = [0x1d, 0x1e, 0x20, 0x21, 0x24, 0x7f, 0x86];
/// I/O commands alike: Reservation Register, Report, Acquire and Release, I/O Management Receive and Send.
const MORE_IO: [u8; 6] = [0x0d, 0x0e, 0x11, 0x15, 0x12, 0x1d];
/// Features that belong to the driver: Number of Queues, Keep Alive Timer.
const DRIVERS_FEATURES: [(u8, &str); 2] = [(0x07, "Number of Queues"), (0x0f, "Keep Alive Timer")];

/// The name of a command that may not pass, or `None` for one that may.
pub(super) fn refused(command: &Command) -> Option<String> {
    let opcode = command.opcode;
    match command.queue {
        Queue::Io if MORE_IO.contains(&opcode) || nvm::Opcode::from_raw(opcode).is_some() => None,
        Queue::Io => Some(format!("the I/O command {opcode:02x}h")),
        Queue::Admin if MORE_ADMIN.contains(&opcode) => None,
        Queue::Admin => match Opcode::from_raw(opcode) {
            Some(Opcode::SetFeatures) => {
                let [feature, ..] = command.cdw10[0].to_le_bytes();
                let found = DRIVERS_FEATURES.iter().find(|(one, _)| *one == feature);
                found.map(|(_, name)| format!("Set Features of {name}"))
            }
            Some(Opcode::DeleteIoSq) => Some("Delete I/O Submission Queue".into()),
            Some(Opcode::CreateIoSq) => Some("Create I/O Submission Queue".into()),
            Some(Opcode::DeleteIoCq) => Some("Delete I/O Completion Queue".into()),
            Some(Opcode::CreateIoCq) => Some("Create I/O Completion Queue".into()),
            Some(Opcode::Abort) => Some("Abort".into()),
            Some(Opcode::AsyncEventRequest) => Some("Asynchronous Event Request".into()),
            Some(Opcode::KeepAlive) => Some("Keep Alive".into()),
            Some(Opcode::VirtualizationManagement) => Some("Virtualization Management".into()),
            Some(Opcode::DoorbellBufferConfig) => Some("Doorbell Buffer Config".into()),
            Some(_) => None,
            None if opcode >= 0xc0 => Some(format!("the vendor's admin command {opcode:02x}h")),
            None => Some(format!("the admin command {opcode:02x}h")),
        },
    }
}

/// Whether a command only reads, so that the namespaces and their sizes stay.
pub(super) fn only_reads(command: &Command) -> bool {
    let readers = [Opcode::GetLogPage, Opcode::Identify, Opcode::GetFeatures];
    command.queue == Queue::Io || readers.iter().any(|one| *one as u8 == command.opcode)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(queue: Queue, opcode: u8, first: u32) -> Option<String> {
        refused(&Command { queue, opcode, nsid: 0, cdw2: [0; 2], cdw10: [first, 0, 0, 0, 0, 0] })
    }

    #[test]
    fn commands_of_the_driver_and_unknown_ones_are_refused_by_name() {
        assert_eq!(name(Queue::Admin, 0x01, 0).as_deref(), Some("Create I/O Submission Queue"));
        assert_eq!(name(Queue::Admin, 0x09, 0x8000_0007).as_deref(), Some("Set Features of Number of Queues"));
        assert_eq!(name(Queue::Admin, 0x03, 0).as_deref(), Some("the admin command 03h"));
        assert_eq!(name(Queue::Admin, 0xc1, 0).as_deref(), Some("the vendor's admin command c1h"));
        assert_eq!(name(Queue::Io, 0x99, 0).as_deref(), Some("the I/O command 99h"));
    }

    #[test]
    fn of_all_opcodes_those_of_the_list_pass() {
        let passing = |queue| (0..=u8::MAX).filter(|opcode| name(queue, *opcode, 0).is_none()).collect::<Vec<_>>();
        let admin = [
            0x02, 0x06, 0x09, 0x0a, 0x0d, 0x10, 0x11, 0x14, 0x15, 0x19, 0x1a, 0x1d, 0x1e, 0x20, 0x21, 0x24, 0x7f, 0x80,
            0x81, 0x82, 0x84, 0x86,
        ];
        assert_eq!(passing(Queue::Admin), admin);
        let io = [0x00, 0x01, 0x02, 0x04, 0x05, 0x08, 0x09, 0x0c, 0x0d, 0x0e, 0x11, 0x12, 0x15, 0x19, 0x1d];
        assert_eq!(passing(Queue::Io), io);
    }
}
