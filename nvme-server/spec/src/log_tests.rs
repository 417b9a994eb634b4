use zerocopy::little_endian::U32;
use zerocopy::{FromBytes, IntoBytes};

use super::*;
use crate::admin::{LockdownScope, Opcode, SelfTestCode};
use crate::expected::bytes;
use crate::{QueueId, Status, StatusCode};

const CID: Cid = Cid(0xbeef);

#[test]
fn smart_log_asks_for_512_bytes_of_the_controller() {
    let expected = bytes::<64>(&[
        (0, &[0x02, 0, 0xef, 0xbe]),
        (4, &[0xff; 4]),
        (24, &[0x00, 0x70]),
        (40, &[0x02, 0x00, 0x7f, 0x00]), // LID, NUMDL
    ]);
    assert_eq!(get_smart_log(CID, DataPointer::page(0x7000)).as_bytes(), expected);
}

#[test]
fn length_and_offset_of_a_log_page_are_split_over_words() {
    let read = LogRead { lid: 0x01, offset: 0x0102_0304_0506_0708, dwords_z: 0x0012_3456, event: LogEvent::Retain };
    let sqe = read.sqe(CID, Nsid::ALL, DataPointer::NONE);
    assert_eq!(sqe.opcode(), Opcode::GetLogPage as u8);
    assert_eq!((sqe.cdw10, sqe.cdw11), (0x3456_8001, 0x0000_0012));
    assert_eq!((sqe.cdw12, sqe.cdw13), (0x0506_0708, 0x0102_0304));
    assert_eq!(LogRead::from_sqe(&sqe), read);
    assert_eq!(read.bytes(), 0x0012_3457 * 4);
}

#[test]
fn longest_log_read_has_a_length() {
    let read = LogRead { lid: 1, offset: 0, dwords_z: u32::MAX, event: LogEvent::Clear };
    assert_eq!(read.bytes(), 1 << 34);
    assert_eq!(LogRead::from_sqe(&read.sqe(CID, Nsid::NONE, DataPointer::NONE)), read);
    assert_eq!(LogRead::whole(LogPage::Smart, 0).bytes(), 4);
}

#[test]
fn log_pages_are_recognised() {
    for raw in 0..=0xff {
        assert!(LogPage::from_raw(raw).is_none_or(|page| page as u8 == raw));
    }
    assert_eq!(LogPage::from_raw(5), Some(LogPage::CommandEffects));
}

#[test]
fn error_entry_fields_stand_where_the_standard_puts_them() {
    let entry = ErrorEntry::read_from_bytes(&bytes::<64>(&[
        (0, &[7]),
        (8, &[0x02, 0x01]),
        (10, &[0xef, 0xbe]),
        // Status 281h with DNR, phase tag 1: bits 15:1 are 4281h.
        (12, &[0x03, 0x85]),
        // Byte 40, bit 3.
        (14, &[40, 3]),
        (16, &[8]),
        (24, &[9]),
        (28, &[0xc1]),
        (29, &[1]),
        (32, &[10]),
        (40, &[11]),
    ]))
    .unwrap();
    assert_eq!((entry.count.get(), entry.sqid.get(), entry.cid.get()), (7, 0x0102, 0xbeef));
    assert_eq!(entry.status(), Status::new(StatusCode::UnrecoveredRead).with_do_not_retry());
    let location = ErrorLocation::from_bits(entry.location.get());
    assert_eq!((location.byte(), location.bit()), (40, 3));
    assert_eq!((entry.lba.get(), entry.nsid.get()), (8, 9));
    assert_eq!((entry.vendor_log, entry.transport), (0xc1, 1));
    assert_eq!((entry.command_specific.get(), entry.transport_specific.get()), (10, 11));
}

#[test]
fn error_of_a_command_names_it() {
    let entry = ErrorEntry::of_command(1, QueueId(3), CID, Status::new(StatusCode::LbaOutOfRange));
    let expected = bytes::<64>(&[(0, &[1]), (8, &[3]), (10, &[0xef, 0xbe]), (12, &[0x00, 0x01]), (14, &[0xff, 0xff])]);
    assert_eq!(entry.as_bytes(), expected);
}

#[test]
fn firmware_slots_stand_where_the_standard_puts_them() {
    let log = FirmwareSlots::read_from_bytes(&bytes::<512>(&[
        (0, &[0x21]), // slot 1 runs, slot 2 is next
        (8, b"1.0     "),
        (56, b"7.0     "),
    ]))
    .unwrap();
    let active = ActiveFirmware::from_bits(log.afi);
    assert_eq!((active.active(), active.next()), (1, 2));
    assert_eq!(&log.revisions[0], b"1.0     ");
    assert_eq!(&log.revisions[6], b"7.0     ");
}

#[test]
fn command_effects_stand_where_the_standard_puts_them() {
    let mut log = Effects::read_from_bytes(&bytes::<4096>(&[(0x80 * 4, &[0x03, 0x00, 0x01])])).unwrap();
    let format = CommandEffects::from_bits(log.admin[0x80].get());
    assert!(format.supported() && format.block_contents() && !format.namespace());
    assert_eq!(format.execution(), Execution::AloneInNamespace as u8);
    let all = CommandEffects::new().with_namespace(true).with_inventory(true).with_controller(true).with_uuid(true);
    assert_eq!(all.with_execution(Execution::Alone as u8).into_bits(), 0x000a_001c);
    log.io[1].set(CommandEffects::new().with_supported(true).into_bits());
    assert_eq!(log.as_bytes()[1028..1032], [1, 0, 0, 0]);
}

#[test]
fn smart_fields_stand_where_the_standard_puts_them() {
    let smart = Smart::read_from_bytes(&bytes::<512>(&[
        (0, &[0x04]),
        (1, &[0x43, 0x01]),
        (3, &[100]),
        (4, &[10]),
        (5, &[1]),
        (32, &[0x01, 0x02]),
        (48, &[3]),
        (64, &[4]),
        (80, &[5]),
        (96, &[6]),
        (112, &[7]),
        (128, &[8]),
        (144, &[9]),
        (160, &[10]),
        (176, &[11]),
        (192, &[12]),
        (196, &[13]),
        (200, &[14]),
        (214, &[15]),
        (216, &[16]),
        (220, &[17]),
        (224, &[18]),
        (228, &[19]),
    ]))
    .unwrap();
    assert!(smart.warnings().reliability());
    assert!(!smart.warnings().spare());
    assert_eq!(smart.temperature.get(), 323);
    assert_eq!(smart.celsius(), 50);
    assert_eq!((smart.spare, smart.spare_threshold, smart.used), (100, 10, 1));
    assert_eq!(smart.data_units_read.get(), 0x201);
    assert_eq!(smart.data_units_written.get(), 3);
    assert_eq!((smart.host_reads.get(), smart.host_writes.get()), (4, 5));
    assert_eq!((smart.busy_minutes.get(), smart.power_cycles.get()), (6, 7));
    assert_eq!((smart.power_on_hours.get(), smart.unsafe_shutdowns.get()), (8, 9));
    assert_eq!((smart.media_errors.get(), smart.error_log_entries.get()), (10, 11));
    assert_eq!((smart.warning_minutes.get(), smart.critical_minutes.get()), (12, 13));
    assert_eq!((smart.sensors[0].get(), smart.sensors[7].get()), (14, 15));
    assert_eq!(smart.thermal_transitions.map(U32::get), [16, 17]);
    assert_eq!(smart.thermal_seconds.map(U32::get), [18, 19]);
}

#[test]
fn supported_pages_and_features_stand_where_the_standard_puts_them() {
    let pages = SupportedPages::read_from_bytes(&bytes::<1024>(&[(0x14 * 4, &[0x01, 0, 0x34, 0x12])])).unwrap();
    let lockdown = PageSupport::from_bits(pages.pages[0x14].get());
    assert!(lockdown.supported() && !lockdown.index_offset());
    assert_eq!(lockdown.parameter(), 0x1234);
    let features = SupportedFeatures::read_from_bytes(&bytes::<1024>(&[(5 * 4, &[0x11, 0, 0x18, 0])])).unwrap();
    let recovery = FeatureEffects::from_bits(features.features[5].get());
    assert!(recovery.supported() && recovery.controller() && recovery.uuid());
    assert_eq!(Scope::from_bits(recovery.scope()), Scope::new().with_namespace(true));
    let subsystem = CommandEffects::new().with_scope(Scope::new().with_subsystem(true).into_bits());
    assert_eq!(subsystem.into_bits(), 0x0200_0000);
}

#[test]
fn self_test_results_stand_where_the_standard_puts_them() {
    let log = SelfTestLog::read_from_bytes(&bytes::<564>(&[
        (0, &[0x02]),
        (1, &[50]),
        (4, &[0x17, 4, 0x0f]),
        (8, &[0x34, 0x12]),
        (16, &[7]),
        (20, &[9]),
        (28, &[2, 0x81]),
        (30, &[0xaa, 0xbb]),
        (536, &[0x2f]),
    ]))
    .unwrap();
    assert_eq!((log.current, log.percent), (2, 50));
    let newest = log.results[0];
    assert_eq!((newest.code(), newest.result()), (1, Some(SelfTestResult::FailedSegment)));
    assert_eq!((newest.segment, newest.valid, newest.hours.get(), newest.nsid.get()), (4, 0x0f, 0x1234, 7));
    assert_eq!((newest.lba.get(), newest.sct, newest.sc, newest.vendor.get()), (9, 2, 0x81, 0xbbaa));
    assert_eq!(log.results[19].result(), Some(SelfTestResult::Unused));
    for raw in 0..=0xf {
        assert!(SelfTestResult::from_raw(raw).is_none_or(|result| result as u8 == raw));
    }
    let entry = SelfTestEntry::of(SelfTestCode::Extended, SelfTestResult::AbortedByReset, 3);
    assert_eq!(entry.as_bytes(), bytes::<28>(&[(0, &[0x22]), (4, &[3])]));
}

#[test]
fn sanitize_status_stands_where_the_standard_puts_it() {
    let log = SanitizeLog::read_from_bytes(&bytes::<512>(&[
        (0, &[0x00, 0x80]),
        (2, &[0x1a, 0x01]),
        (4, &[0x33, 0x02]),
        (8, &[1]),
        (12, &[2]),
        (16, &[3]),
        (20, &[4]),
        (24, &[5]),
        (28, &[6]),
    ]))
    .unwrap();
    let status = log.status();
    assert_eq!(SanitizeState::from_raw(status.state()), Some(SanitizeState::Running));
    assert_eq!((log.progress.get(), status.passes(), status.erased()), (0x8000, 3, true));
    let how = crate::admin::SanitizeDw10::from_bits(log.cdw10.get());
    assert_eq!((how.action(), how.passes(), how.keep_allocated()), (3, 3, true));
    let first = [log.overwrite_seconds, log.erase_seconds, log.crypto_seconds];
    let keeping = [log.overwrite_keeping_seconds, log.erase_keeping_seconds, log.crypto_keeping_seconds];
    assert_eq!((first.map(U32::get), keeping.map(U32::get)), ([1, 2, 3], [4, 5, 6]));
}

#[test]
fn lockdown_lists_stand_where_the_standard_puts_them() {
    let selector = LockdownSelector::new().with_scope(2).with_contents(1);
    let log = LockdownLog::of(selector, [0x01, 0x0b].into_iter());
    assert_eq!(log.as_bytes(), bytes::<512>(&[(0, &[0x12]), (3, &[2]), (4, &[0x01, 0x0b])]));
    assert_eq!(log.listed(), [0x01, 0x0b]);
    assert_eq!(LockdownLog::of(selector, (0..=255).chain(0..9)).listed().len(), 255);
    let sqe = get_lockdown_log(CID, LockdownScope::Features, LockdownContents::ByAdminQueue, DataPointer::page(0x7000));
    assert_eq!(sqe.cdw10, 0x007f_1214);
    assert_eq!(LogDw10::from_bits(sqe.cdw10).lsp(), 0x12);
}
