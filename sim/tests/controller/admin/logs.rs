//! Get Log Page: lengths, offsets and identifiers.

use nvme_spec::admin::Opcode;
use nvme_spec::feature::{Feature, get_feature};
use nvme_spec::log::{
    CommandEffects, Effects, ErrorEntry, FeatureEffects, FirmwareSlots, LogEvent, LogPage, LogRead, PageSupport, Scope,
    SupportedFeatures, SupportedPages,
};
use nvme_spec::{Cid, DataPointer, Nsid, Sqe, StatusCode};
use sim_nvme::{AdminConfig, Config};

use super::support::{BUFFER, Driver, NO_COMMANDS, PAGE, config};
use zerocopy::FromBytes;

const CID: Cid = Cid(0);

fn read(page: LogPage, offset: u64, bytes: u32) -> Sqe {
    LogRead { offset, ..LogRead::whole(page, bytes) }.sqe(CID, Nsid::ALL, PAGE)
}

#[test]
fn unknown_pages_are_refused() {
    let mut driver = Driver::new(config());
    for lid in [0x07, 0x0d, 0x15, 0x70, 0x80, 0x82, 0xc0, 0xff] {
        let sqe = LogRead { lid, offset: 0, dwords_z: 0, event: LogEvent::Clear }.sqe(CID, Nsid::ALL, PAGE);
        driver.refuse(sqe, StatusCode::InvalidLogPage);
    }
    driver.assert_clean();
}

#[test]
fn the_one_firmware_slot_runs() {
    let mut driver = Driver::new(config());
    let slots: FirmwareSlots = driver.log(LogPage::FirmwareSlots);
    assert_eq!(slots.afi, 1);
    assert_eq!(&slots.revisions[0], b"1.0     ");
    assert_eq!(slots.revisions[1..], [[0; 8]; 6]);
}

#[test]
fn a_page_can_be_read_in_parts() {
    let mut driver = Driver::new(config());
    driver.succeed(read(LogPage::FirmwareSlots, 8, 8));
    assert_eq!(&driver.data::<[u8; 8]>(), b"1.0     ");
    driver.succeed(read(LogPage::FirmwareSlots, 508, 4));
    driver.succeed(read(LogPage::FirmwareSlots, 512, 4));
    assert_eq!(driver.data::<[u8; 4]>(), [0; 4]);
    driver.refuse(read(LogPage::FirmwareSlots, 516, 4), StatusCode::InvalidField);
    driver.refuse(read(LogPage::FirmwareSlots, u64::MAX - 3, 4), StatusCode::InvalidField);
    driver.assert_clean();
    driver.refuse_field(read(LogPage::FirmwareSlots, 2, 4), 12);
}

#[test]
fn as_much_is_written_as_was_asked_for() {
    let mut driver = Driver::new(config());
    driver.fill(0xee);
    driver.succeed(read(LogPage::FirmwareSlots, 0, 4096));
    let data: [u8; 4100] = driver.data();
    assert!(data[512..4096].iter().all(|&byte| byte == 0));
    assert_eq!(data[4096..], [0xee; 4]);
    driver.fill(0xee);
    driver.succeed(read(LogPage::FirmwareSlots, 0, 16));
    let data: [u8; 20] = driver.data();
    assert_eq!((&data[8..16], &data[16..]), (&b"1.0     "[..], &[0xee; 4][..]));
    driver.assert_clean();
}

#[test]
fn the_error_log_is_as_long_as_identify_says() {
    let admin = AdminConfig { error_entries: 128, ..AdminConfig::default() };
    let mut driver = Driver::new(Config { admin, ..config() });
    driver.fill(0xee);
    let two_pages = DataPointer { prp1: BUFFER, prp2: BUFFER + 4096 };
    driver.succeed(LogRead::whole(LogPage::ErrorInformation, 8192).sqe(CID, Nsid::ALL, two_pages));
    let entries: [ErrorEntry; 128] = driver.data();
    assert!(entries.iter().all(|entry| entry.count.get() == 0));
}

#[test]
fn more_than_one_command_may_move_is_refused() {
    let mut driver = Driver::new(Config { mdts: 1, ..config() });
    let two_pages = DataPointer { prp1: BUFFER, prp2: BUFFER + 4096 };
    driver.succeed(LogRead::whole(LogPage::Smart, 8192).sqe(CID, Nsid::ALL, two_pages));
    driver.refuse_field(LogRead::whole(LogPage::Smart, 8196).sqe(CID, Nsid::ALL, two_pages), 10);
}

#[test]
fn pages_are_the_controllers_and_no_namespaces() {
    let mut driver = Driver::new(config());
    let smart = |nsid| LogRead::whole(LogPage::Smart, 512).sqe(CID, Nsid(nsid), PAGE);
    driver.succeed(smart(0));
    driver.succeed(smart(u32::MAX));
    driver.refuse_field(smart(1), 1);
    driver.refuse(smart(257), StatusCode::InvalidNamespaceOrFormat);
    // Only the SMART log could be a namespace's: the others take no NSID at all.
    let others =
        [LogPage::ErrorInformation, LogPage::FirmwareSlots, LogPage::ChangedNamespaces, LogPage::CommandEffects];
    for page in others {
        let log = |nsid| LogRead::whole(page, 64).sqe(CID, Nsid(nsid), PAGE);
        driver.succeed(log(0));
        for nsid in [1, 256, 257, u32::MAX - 1] {
            driver.refuse_field(log(nsid), 1);
        }
    }
}

#[test]
fn fields_that_these_pages_do_not_have_are_refused() {
    let mut driver = Driver::new(config());
    let smart = read(LogPage::Smart, 0, 512);
    driver.refuse_field(Sqe { cdw10: smart.cdw10 | 0x100, ..smart }, 10);
}

#[test]
fn a_log_specific_identifier_is_ignored_by_pages_without_one() {
    let mut driver = Driver::new(config());
    let smart = read(LogPage::Smart, 0, 512);
    driver.succeed(Sqe { cdw11: 0xffff_0000, ..smart });
    driver.assert_clean();
}

/// Each length in dwords: that much is the start of the page, and memory behind it is untouched.
#[test]
fn every_length_of_the_mandatory_pages_is_kept() {
    let mut driver = Driver::new(config());
    // An entry in the error log.
    driver.refuse(read(LogPage::Smart, 2, 4), StatusCode::InvalidField);
    for (page, bytes) in [(LogPage::ErrorInformation, 4096), (LogPage::Smart, 512), (LogPage::FirmwareSlots, 512)] {
        driver.fill(0xa5);
        driver.succeed(read(page, 0, bytes));
        let whole: [u8; 4100] = driver.data();
        for length in (4..=bytes).step_by(4) {
            driver.fill(0xa5);
            driver.succeed(read(page, 0, length));
            let part: [u8; 4100] = driver.data();
            let length = length as usize;
            // SMART counts the commands, and time goes on.
            assert!(page == LogPage::Smart || part[..length] == whole[..length], "{page:?}: {length}");
            assert!(part[length..].iter().all(|&byte| byte == 0xa5), "{page:?}: {length}");
        }
    }
}

#[test]
fn a_page_may_lie_on_two_pages_of_memory() {
    let mut driver = Driver::new(config());
    driver.fill(0xa5);
    let data = DataPointer { prp1: BUFFER + 0xe00 + 0x100, prp2: BUFFER + 0x2000 };
    driver.succeed(LogRead::whole(LogPage::FirmwareSlots, 512).sqe(CID, Nsid::ALL, data));
    let memory: [u8; 0x2104] = driver.data();
    assert_eq!(&memory[0xf08..0xf10], b"1.0     ");
    assert!(memory[0xf40..0x1000].iter().chain(&memory[0x2000..0x2100]).all(|&byte| byte == 0));
    assert!(memory[0x1000..0x2000].iter().chain(&memory[0x2100..]).all(|&byte| byte == 0xa5));
    driver.assert_clean();
}

fn optional(driver: &mut Driver, page: LogPage, bytes: u32) -> [u8; 4096] {
    driver.fill(0);
    driver.succeed(LogRead::whole(page, bytes).sqe(CID, Nsid::ALL, PAGE));
    driver.data()
}

#[test]
fn every_page_of_the_list_can_be_read_and_no_other() {
    for commands in [AdminConfig::default().commands, NO_COMMANDS] {
        let admin = AdminConfig { commands, ..AdminConfig::default() };
        let mut driver = Driver::new(Config { admin, ..config() });
        let bytes = optional(&mut driver, LogPage::SupportedPages, 1024);
        let listed = SupportedPages::read_from_bytes(&bytes[..1024]).unwrap();
        for lid in 0..=u8::MAX {
            let sqe = LogRead { lid, offset: 0, dwords_z: 0, event: LogEvent::Clear }.sqe(CID, Nsid::ALL, PAGE);
            let is_there = driver.admin(sqe).status().code() != StatusCode::InvalidLogPage;
            let entry = PageSupport::from_bits(listed.pages[usize::from(lid)].get());
            assert_eq!(entry.supported(), is_there, "{lid:#x}");
        }
        driver.assert_clean();
    }
}

#[test]
fn every_feature_of_the_list_can_be_read_and_no_other() {
    let mut driver = Driver::new(config());
    let bytes = optional(&mut driver, LogPage::SupportedFeatures, 1024);
    let listed = SupportedFeatures::read_from_bytes(&bytes[..1024]).unwrap();
    for fid in 0..=u8::MAX {
        let entry = FeatureEffects::from_bits(listed.features[usize::from(fid)].get());
        let scope = Scope::from_bits(entry.scope());
        let get = get_feature(CID, Feature::Arbitration);
        let nsid = if scope.namespace() { 1 } else { 0 };
        let data = if matches!(fid, 0x0c | 0x0e | 0x16 | 0x81) { PAGE } else { DataPointer::NONE };
        let sqe = Sqe { cdw10: fid.into(), nsid, prp1: data.prp1, ..get };
        let status = driver.admin(sqe).status();
        assert_eq!(entry.supported(), status.is_success(), "{fid:#x}: {status:?}");
        assert_eq!(entry.supported(), scope.namespace() || scope.controller(), "{fid:#x}");
    }
    assert_eq!(optional(&mut driver, LogPage::ManagementEffects, 4096), [0; 4096]);
    driver.assert_clean();
}

#[test]
fn effects_have_scopes() {
    let mut driver = Driver::new(config());
    let log: Effects = driver.log(LogPage::CommandEffects);
    let scope = |entry: zerocopy::little_endian::U32| Scope::from_bits(CommandEffects::from_bits(entry.get()).scope());
    let of = |opcode: Opcode| scope(log.admin[opcode as usize]);
    let [namespace, controller, subsystem] =
        [Scope::new().with_namespace(true), Scope::new().with_controller(true), Scope::new().with_subsystem(true)];
    assert_eq!(of(Opcode::FormatNvm), namespace);
    assert_eq!((of(Opcode::Identify), of(Opcode::DeviceSelfTest)), (controller, controller));
    for opcode in [Opcode::Sanitize, Opcode::FirmwareCommit, Opcode::NamespaceAttachment, Opcode::Lockdown] {
        assert_eq!(of(opcode), subsystem, "{opcode:?}");
    }
    assert_eq!(of(Opcode::SecuritySend), Scope::new());
    // Linux calls a scope of an I/O command unusual.
    assert_eq!(scope(log.io[1]), Scope::new());
}

#[test]
fn a_length_of_more_than_65536_dwords_uses_both_halves() {
    // The upper half alone would be the length 4.
    let mut driver = Driver::new(Config { mdts: 0, ..config() });
    let read = LogRead { lid: LogPage::Smart as u8, offset: 0, dwords_z: 0x1_0000, event: LogEvent::Clear };
    assert_eq!(read.bytes(), 262_148);
    let (_, data) = driver.buffer(262_148);
    let end = data.prp1 + 262_144;
    driver.bytes_mut(end, 8).fill(0xa5);
    driver.succeed(read.sqe(CID, Nsid::ALL, data));
    assert_eq!(driver.bytes(end, 8), [0, 0, 0, 0, 0xa5, 0xa5, 0xa5, 0xa5]);
    driver.assert_clean();
}
