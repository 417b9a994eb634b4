//! Answers in which QEMU's device differs: each is the standard's, or one that it allows.
//!
//! `lab/linux/differences.toml` has the same labels and statuses, with the section that decides.

use nvme_spec::admin::{self, Attachment, Cns, CommandName, FormatDw10, Opcode};
use nvme_spec::feature::{Feature, InterruptVector, set_feature};
use nvme_spec::identify::{ControllerList, Namespace};
use nvme_spec::log::{LogPage, LogRead};
use nvme_spec::nvm::{self, Blocks, CopyDw12};
use nvme_spec::{Cid, DataPointer, Lba, Nsid, QueueId, Sqe, StatusCode};
use sim_nvme::{Config, NamespaceConfig};

use super::support::{Driver, PAGE, config, zeroed};

const CID: Cid = Cid(0);
const ONE: Nsid = Nsid(1);

/// Label, preparation of the command, status.
type Answer = (&'static str, fn(&mut Driver) -> Sqe, StatusCode);

/// Commands of the admin queue.
const ADMIN: &[Answer] = &[
    ("identify cns=05", |_| identify(0x05), StatusCode::InvalidField),
    ("identify cns=06", |_| identify(0x06), StatusCode::InvalidField),
    ("identify cns=07", |_| identify(0x07), StatusCode::InvalidField),
    ("identify cns=08", |_| identify(0x08), StatusCode::InvalidField),
    ("identify cns=1c", |_| identify(0x1c), StatusCode::InvalidField),
    ("identify cns=00 nsid=ffffffff", |_| admin::identify(CID, Cns::Namespace, Nsid::ALL, PAGE), StatusCode::Success),
    ("get log page lid=02 nsid=1", |_| log(0x02, 0, ONE), StatusCode::InvalidField),
    ("get log page of an unknown lid", |_| log(0xc0, 0, Nsid::ALL), StatusCode::InvalidLogPage),
    ("get log page from offset=length", |_| log(0x02, 512, Nsid::ALL), StatusCode::Success),
    ("set features fid=01", |_| set_feature(CID, Feature::Arbitration, 0), StatusCode::Success),
    ("set features fid=02", |_| set_feature(CID, Feature::PowerManagement, 0), StatusCode::Success),
    ("set features fid=08", |_| set_feature(CID, Feature::InterruptCoalescing, 0), StatusCode::Success),
    ("set features fid=09 for a vector of a queue", |_| coalescing_of(1), StatusCode::Success),
    ("set features fid=09 for a vector without a queue", |_| coalescing_of(2), StatusCode::InvalidField),
    ("namespace management create", create, StatusCode::Success),
    ("namespace attachment detach", detach, StatusCode::Success),
    ("format nvm ses=2", |_| admin::format_nvm(CID, ONE, FormatDw10::new().with_ses(2)), StatusCode::InvalidField),
    ("directive receive", |_| bare(Opcode::DirectiveReceive), StatusCode::InvalidOpcode),
    ("security receive", |_| bare(Opcode::SecurityReceive), StatusCode::InvalidOpcode),
    ("abort of an unknown sq", |_| abort_in(QueueId(7)), StatusCode::Success),
    ("delete io cq that does not exist", |_| admin::delete_io_cq(CID, QueueId(2)), StatusCode::InvalidQueueId),
    ("reserved bits set", |_| Sqe { cdw2: 1, ..identify(0x00) }, StatusCode::InvalidField),
];

/// Commands of an I/O queue.
const IO: &[Answer] = &[
    ("copy format=1", |_| copy_of_format_1(), StatusCode::InvalidField),
    ("verify of 65536 blocks", |_| verify_all(), StatusCode::Success),
    ("dataset management out of range", deallocate_beyond, StatusCode::LbaOutOfRange),
];

fn identify(cns: u32) -> Sqe {
    Sqe { cdw10: cns, ..admin::identify_namespace(CID, ONE, PAGE) }
}

fn log(lid: u8, offset: u64, nsid: Nsid) -> Sqe {
    LogRead { lid, offset, ..LogRead::whole(LogPage::Smart, 4) }.sqe(CID, nsid, PAGE)
}

const fn coalescing_of(vector: u16) -> Sqe {
    set_feature(CID, Feature::InterruptVector, InterruptVector::new().with_vector(vector).into_bits())
}

const fn bare(opcode: Opcode) -> Sqe {
    Sqe::new(opcode as u8, CID, Nsid::NONE, DataPointer::NONE)
}

const fn abort_in(sq: QueueId) -> Sqe {
    admin::abort(CID, CommandName { sq, cid: Cid(1) })
}

fn create(driver: &mut Driver) -> Sqe {
    let mut namespace: Namespace = zeroed();
    namespace.nsze.set(8);
    namespace.ncap.set(8);
    driver.put(&namespace);
    admin::create_namespace(CID, PAGE)
}

fn detach(driver: &mut Driver) -> Sqe {
    driver.put(&ControllerList::of([0].into_iter()));
    admin::namespace_attachment(CID, Attachment::Detach, ONE, PAGE)
}

fn copy_of_format_1() -> Sqe {
    let copy = nvm::copy(CID, ONE, Lba(0), 0, PAGE);
    Sqe { cdw12: CopyDw12::from_bits(copy.cdw12).with_format(1).into_bits(), ..copy }
}

/// More data than one command may move.
fn verify_all() -> Sqe {
    nvm::verify(CID, ONE, Blocks::new(Lba(0), Blocks::MAX).unwrap())
}

fn deallocate_beyond(driver: &mut Driver) -> Sqe {
    driver.put(&nvm::Range::new(Lba(u64::from(Blocks::MAX)), 1).unwrap());
    nvm::deallocate(CID, ONE, 0, PAGE)
}

/// A controller with I/O queue 1, which uses vector 1, and a namespace of the most blocks that a command can name.
fn driver() -> Driver {
    let namespaces = vec![NamespaceConfig::zeroes(u64::from(Blocks::MAX) * 512)];
    let mut driver = Driver::new(Config { namespaces, ..config() });
    driver.make_io_queue();
    driver
}

#[test]
fn answers_that_differ_from_qemu_are_as_listed() {
    for (label, command, expected) in ADMIN {
        let mut driver = driver();
        let sqe = command(&mut driver);
        assert_eq!(driver.admin(sqe).status().code(), *expected, "{label}");
    }
    for (label, command, expected) in IO {
        let mut driver = driver();
        let sqe = command(&mut driver);
        assert_eq!(driver.io(sqe).status().code(), *expected, "{label}");
    }
}
